//! Renders the page of a run as a self-contained HTML file: no scripts, no other files, no network.

use std::fmt;

use anyhow::{Context, Result};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Value, context, escape_formatter};

use super::{MARK, Page};
use crate::report::secrets::masked_words;

const TEMPLATE: &str = include_str!("page.html.jinja");
const STYLE: &str = include_str!("page.css");

/// Text with the characters escaped that HTML would take for markup.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(['&', '<', '>', '"', '\'']) {
            f.write_str(&rest[..at])?;
            f.write_str(match rest.as_bytes()[at] {
                b'&' => "&amp;",
                b'<' => "&lt;",
                b'>' => "&gt;",
                b'"' => "&quot;",
                _ => "&#39;",
            })?;
            rest = &rest[at + 1..];
        }
        f.write_str(rest)
    }
}

/// Renders the page as HTML.
///
/// # Errors
/// If the template cannot be rendered, which a test rules out.
pub fn page_html(page: &Page) -> Result<String> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_formatter(|out, state, value| match value.as_str() {
        // The built-in function also escapes other characters, which would make paths long and hard to search for.
        Some(text) if !value.is_safe() => Ok(write!(out, "{}", Escaped(text))?),
        _ => escape_formatter(out, state, value),
    });
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.add_template("page", TEMPLATE).context("the template of the page is broken")?;
    let masked = if page.masked == 0 { String::new() } else { masked_words(page.masked) };
    let data =
        context! { page => Value::from(Serde(page)), style => Value::from_safe_string(STYLE.to_owned()), masked => masked, mark => MARK };
    environment.get_template("page").and_then(|template| template.render(data)).context("the page cannot be rendered")
}

#[cfg(test)]
mod tests {
    use super::Escaped;

    #[test]
    fn markup_is_escaped_and_paths_stay_as_they_are() {
        assert_eq!(Escaped("a/b <i class=\"x\" title='y'>&ä").to_string(), "a/b &lt;i class=&quot;x&quot; title=&#39;y&#39;&gt;&amp;ä");
    }
}
