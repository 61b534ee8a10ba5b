//! Measures `report`, the page of a run, against reading its journal and its diffs.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::Size;
use crate::gauge::{median, time};
use crate::table::{Row, Table};
use crate::world::{World, borrowed};

pub fn measure(size: &Size, table: &mut Table) -> Result<()> {
    let stories = size.stories.min(1000);
    let name = format!("report: the page of {stories} stories, against reading journal and diffs");
    if !table.wants(&name) {
        return Ok(());
    }
    let world = World::new(size.story[0])?;
    world.stories(stories)?;
    let words = world.with_agent(&["start", "x", "--finish", "keep"], "edit")?;
    world.ralph_ends(&borrowed(&words), &[0])?;
    let page = world.outside("page.html").display().to_string();
    let (mut made, mut read) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        made.push(time(&mut world.ralph(&["report", "x", "-o", &page]))?);
        read.push(reading(&world)?);
    }
    ensure!(std::fs::metadata(&page)?.len() > 0, "the page is empty");
    table.push(Row::ratio(name, median(made)?, median(read)?, 2.0));
    Ok(())
}

/// The time to read the events of the run and the diffs of its checkpoints, without using them.
fn reading(world: &World) -> Result<Duration> {
    let mut events = world.ralph(&["log", "x", "--json"]);
    let mut diffs = world.command("git", &["log", "-p", "--first-parent", "main..ralph/x"]);
    Ok(time(events.stdout(Stdio::null()))? + time(diffs.stdout(Stdio::null()))?)
}
