//! Measures story overhead, from the end of one agent to the start of the next, against `git add -A && git commit` in a shell loop.

use anyhow::{Result, ensure};

use crate::Size;
use crate::gauge::median;
use crate::table::{Row, Table};
use crate::world::{World, borrowed, subcommand};

/// The number of stories per turn.
const TURN: usize = 8;
/// The git commands that look at every file.
const WALKS: [&str; 7] = ["add", "status", "ls-files", "diff-files", "commit", "stash", "update-index"];

pub fn measure(size: &Size, table: &mut Table) -> Result<()> {
    for &files in size.story {
        let name = format!("story: {files} files");
        if table.wants(&name) {
            overhead(&name, files, size, table)?;
        }
    }
    if table.wants("story: git processes") {
        processes(size.story[0], table)?;
    }
    Ok(())
}

fn overhead(name: &str, files: usize, size: &Size, table: &mut Table) -> Result<()> {
    let (ours, bare) = (World::new(files)?, World::new(files)?);
    ours.stories(size.rounds * TURN)?;
    let limit = TURN.to_string();
    let (mut mine, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..size.rounds {
        let command = if round == 0 { ["start", "x"] } else { ["resume", "x"] };
        let words = ours.with_agent(&[command[0], command[1], "--limit", &limit], "edit")?;
        ours.ralph_ends(&borrowed(&words), &[0])?;
        mine.extend(ours.take_stamps()?.gaps());
        let script = format!(
            "set -e; i=0; while [ $i -lt {TURN} ]; do $player edit $stamps; git add -A; git commit -qm \"story $i\"; i=$((i+1)); done"
        );
        ensure!(bare.shell(&script)?.status()?.success(), "the bare loop failed");
        theirs.extend(bare.take_stamps()?.gaps());
    }
    let most = if files < 1000 { 2.0 } else { 1.0 };
    table.push(Row::ratio(name, median(mine)?, median(theirs)?, most));
    Ok(())
}

fn processes(files: usize, table: &mut Table) -> Result<()> {
    let world = World::new(files)?;
    world.stories(TURN)?;
    let words = world.with_agent(&["start", "x"], "edit")?;
    ensure!(world.counting(world.ralph(&borrowed(&words)))?.status()?.success(), "the counted run failed");
    let gaps = world.take_stamps()?.commands();
    let most = gaps.iter().map(Vec::len).max().unwrap_or(usize::MAX);
    let walk = |line: &&String| WALKS.contains(&subcommand(line));
    let walks = gaps.iter().map(|gap| gap.iter().filter(walk).count()).max().unwrap_or(usize::MAX);
    table.push(Row::most("story: git processes", number(most), "", 6.0));
    table.push(Row::most("story: walks of the tree", number(walks), "", 1.0));
    Ok(())
}

fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}
