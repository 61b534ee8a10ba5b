//! Measures what a sandbox adds between the end of one agent and the start of the next, against no sandbox plus a bare bubblewrap.

use std::fs;

use anyhow::{Result, ensure};

use crate::Size;
use crate::gauge::{median, time};
use crate::table::{Row, Table};
use crate::world::{World, borrowed};

/// The number of stories per turn.
const TURN: usize = 8;
/// The command line of a minimal sandbox.
const BARE: [&str; 13] = [
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--proc",
    "/proc",
    "--unshare-user",
    "--unshare-pid",
    "--die-with-parent",
    "--new-session",
    "--",
    "true",
];

pub fn measure(size: &Size, table: &mut Table) -> Result<()> {
    let name = format!("sandbox: a story, {} files, against one without plus the start of bwrap", size.story[0]);
    if !table.wants(&name) {
        return Ok(());
    }
    let (fenced, free) = (World::new(size.story[0])?, World::new(size.story[0])?);
    for world in [&fenced, &free] {
        world.stories(size.rounds * TURN)?;
    }
    // The agent writes its stamps outside of its workspace.
    fenced.git(&["config", "ralph.sandboxWrite", &fenced.stamps().display().to_string()])?;
    let (mut mine, mut theirs, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..size.rounds {
        mine.extend(turn(&fenced, round, "bwrap")?);
        theirs.extend(turn(&free, round, "off")?);
        for _ in 0..TURN {
            let mut bare = free.command("bwrap", &BARE);
            ensure!(bare.status()?.success(), "bubblewrap does not work here: git ralph doctor says why");
            starts.push(time(&mut bare)?);
        }
    }
    table.push(Row::ratio(name, median(mine)?, median(theirs)? + median(starts)?, 1.5));
    Ok(())
}

fn turn(world: &World, round: usize, mode: &str) -> Result<Vec<std::time::Duration>> {
    let command = if round == 0 { "start" } else { "resume" };
    fs::write(world.stamps(), "")?;
    let (limit, sandbox) = (TURN.to_string(), format!("--sandbox={mode}"));
    let words = world.with_agent(&[command, "x", "--limit", &limit, &sandbox], "edit")?;
    world.ralph_ends(&borrowed(&words), &[0])?;
    Ok(world.take_stamps()?.gaps())
}
