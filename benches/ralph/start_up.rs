//! Measures the start-up time of commands that users type often or that a shell calls at every key press, against the smallest git
//! commands.

use std::process::Command;

use anyhow::Result;

use crate::Size;
use crate::gauge::{median, time};
use crate::table::{Row, Table};
use crate::world::{World, borrowed};

const NAMES: [&str; 3] = ["start-up: --version", "start-up: status", "start-up: completion of a change"];
/// The number of measurements for each side.
const TIMES: usize = 60;

pub fn measure(_: &Size, table: &mut Table) -> Result<()> {
    if !NAMES.iter().any(|name| table.wants(name)) {
        return Ok(());
    }
    let world = World::new(200)?;
    world.stories(12)?;
    let words = world.with_agent(&["start", "x", "--limit", "3"], "edit")?;
    world.ralph_ends(&borrowed(&words), &[0])?;
    let version = || world.command("git", &["--version"]);
    compare(NAMES[0], || world.ralph(&["--version"]), version, 2.0, table)?;
    compare(NAMES[1], || world.ralph(&["status"]), || world.command("git", &["status"]), 3.0, table)?;
    let complete = || {
        let mut command = world.ralph(&["--", "git-ralph", "resume", ""]);
        command.env("GIT_RALPH_COMPLETE", "2");
        command
    };
    let answers = complete().stdout(std::process::Stdio::piped()).output()?;
    if answers.status.success() && String::from_utf8_lossy(&answers.stdout).split_whitespace().any(|word| word == "x") {
        compare(NAMES[2], complete, version, 3.0, table)?;
    }
    Ok(())
}

fn compare(name: &str, ours: impl Fn() -> Command, bare: impl Fn() -> Command, most: f64, table: &mut Table) -> Result<()> {
    if !table.wants(name) {
        return Ok(());
    }
    let (mut mine, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        mine.push(time(&mut ours())?);
        theirs.push(time(&mut bare())?);
    }
    table.push(Row::ratio(name, median(mine)?, median(theirs)?, most));
    Ok(())
}
