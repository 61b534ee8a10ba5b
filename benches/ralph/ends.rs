//! Both ends of a run: `start` up to the first agent, and `finish --cleanup`, against the commands that they stand for.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::Size;
use crate::gauge::{median, now, since, time};
use crate::table::{Row, Table};
use crate::world::{World, borrowed};

/// What `start` stands for.
const START: &str = "set -e; git checkout -q -B ralph/x; git add -A; git commit -q --allow-empty -m 'initial state'; $player rest $stamps";
/// What `finish --cleanup` stands for.
const FINISH: &str = "set -e; git checkout -q main; git merge -q --squash ralph/x; git reset -q HEAD; git branch -q -D ralph/x";

pub fn measure(size: &Size, table: &mut Table) -> Result<()> {
    let name = |what: &str| format!("ends: {what}, {} files", size.ends);
    let rows = [("start", None, 1.2), ("cleanup", Some(false), 0.1), ("cleanup, original moved", Some(true), 0.5)];
    if !rows.iter().any(|(what, ..)| table.wants(&name(what))) {
        return Ok(());
    }
    let (ours, bare) = (World::new(size.ends)?, World::new(size.ends)?);
    ours.stories(1)?;
    for (what, moved, most) in rows {
        let name = name(what);
        if !table.wants(&name) {
            continue;
        }
        let (mine, theirs) = match moved {
            None => start(&ours, &bare, size)?,
            Some(moved) => finish(&ours, &bare, moved, size)?,
        };
        let row = Row::ratio(name, median(mine)?, median(theirs)?, most);
        table.push(if size.ends < 1000 { row.without_target("with 50,000 files") } else { row });
    }
    Ok(())
}

fn start(ours: &World, bare: &World, size: &Size) -> Result<(Vec<Duration>, Vec<Duration>)> {
    let (mut mine, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        let words = ours.with_agent(&["start", "x"], "rest")?;
        let begun = now();
        ours.ralph_ends(&borrowed(&words), &[0])?;
        mine.push(since(begun, ours.take_stamps()?.first()?));
        ours.ralph_ends(&["abort", "x"], &[0])?;
        let mut command = bare.shell(START)?;
        let begun = now();
        ensure!(command.status()?.success(), "the bare start failed");
        theirs.push(since(begun, bare.take_stamps()?.first()?));
        bare.git(&["checkout", "-q", "main"])?;
        bare.git(&["branch", "-q", "-D", "ralph/x"])?;
    }
    Ok((mine, theirs))
}

fn finish(ours: &World, bare: &World, moved: bool, size: &Size) -> Result<(Vec<Duration>, Vec<Duration>)> {
    let (mut mine, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        let words = ours.with_agent(&["start", "x"], "edit")?;
        ours.ralph_ends(&borrowed(&words), &[0])?;
        let script = "set -e; git checkout -q -b ralph/x; $player edit $stamps; git add -A; git commit -qm work";
        ensure!(bare.shell(script)?.status()?.success(), "the bare run failed");
        let homes = [home(ours, moved)?, home(bare, moved)?];
        mine.push(time(&mut ours.ralph(&["finish", "x", "--cleanup"]))?);
        theirs.push(time(&mut bare.shell(FINISH)?)?);
        for (world, home) in [ours, bare].into_iter().zip(homes) {
            world.git(&["reset", "-q", "--hard", &home])?;
            world.git(&["clean", "-qfd"])?;
        }
    }
    Ok((mine, theirs))
}

/// Where the original branch is; moves it on by a commit that changes another file, if it shall have moved.
fn home(world: &World, moved: bool) -> Result<String> {
    let home = world.git(&["rev-parse", "main"])?;
    if moved {
        let index = world.outside("other-index").display().to_string();
        let script = format!(
            "set -e; export GIT_INDEX_FILE='{index}'; git read-tree main; blob=$(echo moved | git hash-object -w --stdin); \
             git update-index --add --cacheinfo 100644,$blob,d0/s1/f1; \
             git update-ref refs/heads/main $(echo moved | git commit-tree $(git write-tree) -p main)"
        );
        ensure!(world.shell(&script)?.status()?.success(), "the original could not be moved");
    }
    Ok(home)
}
