//! The page of a run as one HTML file that needs nothing else: no script, no other file, no network.

use anyhow::{Context, Result};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Value, context};

use super::{MARK, Page};
use crate::report::secrets::masked_words;

const TEMPLATE: &str = include_str!("page.html.jinja");
const STYLE: &str = include_str!("page.css");

/// The page as HTML.
///
/// # Errors
/// If the template cannot be rendered, which a test rules out.
pub fn page_html(page: &Page) -> Result<String> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.add_template("page", TEMPLATE).context("the template of the page is broken")?;
    let masked = if page.masked == 0 { String::new() } else { masked_words(page.masked) };
    let data =
        context! { page => Value::from(Serde(page)), style => Value::from_safe_string(STYLE.to_owned()), masked => masked, mark => MARK };
    environment.get_template("page").and_then(|template| template.render(data)).context("the page cannot be rendered")
}
