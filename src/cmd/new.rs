//! `git ralph new`: writes a commented change file.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};

use anyhow::{Context as _, Result, bail};

use super::context::Context;
use crate::cli::New;
use crate::config::{Environment, change_file_template};
use crate::error::{Ending, Problem};
use crate::report::{Line, Tone, output};

/// Writes the file of a new change.
pub async fn run(args: &New, environment: Environment) -> Result<Ending> {
    let name = Context::name(&args.change)?;
    let context = Context::open(environment).await?;
    let path = context.store.change_file(&name);
    fs::create_dir_all(context.store.root()).with_context(|| format!("cannot create {}", context.store.root().display()))?;
    let mut file = match OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            bail!(Problem::refused(format!("{} exists already", path.display())).hint(format!("git ralph start {name}")))
        }
        Err(error) => return Err(error).with_context(|| format!("cannot create {}", path.display())),
    };
    file.write_all(change_file_template(name.as_str()).as_bytes())?;
    output::data(&format!("{}\n", path.display()));
    output::message(&Line::new(Tone::Hint, format!("fill it in, then: git ralph start {name}")));
    Ok(Ending::Done)
}
