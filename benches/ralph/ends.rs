//! Both ends of a run: `start` up to the first agent, and `finish --cleanup`, against the commands that they stand for.

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
    let (ours, bare) = (World::new(size.ends)?, World::new(size.ends)?);
    ours.stories(1)?;
    let name = format!("ends: start, {} files", size.ends);
    if table.wants(&name) {
        start(&name, &ours, &bare, size, table)?;
    }
    for (moved, what, most) in [(false, "cleanup", 0.1), (true, "cleanup, original moved", 0.5)] {
        let name = format!("ends: {what}, {} files", size.ends);
        if table.wants(&name) {
            finish(&name, &ours, &bare, moved, most, size, table)?;
        }
    }
    Ok(())
}

fn start(name: &str, ours: &World, bare: &World, size: &Size, table: &mut Table) -> Result<()> {
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
    table.push(Row::ratio(name, median(mine)?, median(theirs)?, 1.2));
    Ok(())
}

fn finish(name: &str, ours: &World, bare: &World, moved: bool, most: f64, size: &Size, table: &mut Table) -> Result<()> {
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
    table.push(Row::ratio(name, median(mine)?, median(theirs)?, most));
    Ok(())
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
