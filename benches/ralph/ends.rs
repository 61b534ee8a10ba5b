//! Measures both ends of a run, `start` up to the first agent and `finish --cleanup`, against the equivalent git commands.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;

use crate::Size;
use crate::gauge::{median, now, since, time};
use crate::table::{Row, Table};
use crate::world::{World, borrowed};

/// The git commands equivalent to `start`.
const START: &str = "set -e; git checkout -q -B ralph/x; git add -A; git commit -q --allow-empty -m 'initial state'; $player rest $stamps";
/// The git commands equivalent to `finish --cleanup`.
const FINISH: &str = "set -e; git checkout -q main; git merge -q --squash ralph/x; git reset -q HEAD; git branch -q -D ralph/x";

/// The part of a run that is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// `start` up to the first agent.
    Start,
    /// The cleanup of a run that was started with `--finish cleanup`. `true`: the original branch moved during the run.
    Behind(bool),
    /// `finish --cleanup` as a separate command. `true`: the original branch moved during the run.
    Later(bool),
}

pub fn measure(size: &Size, table: &mut Table) -> Result<()> {
    let name = |what: &str| format!("ends: {what}, {} files", size.ends);
    let rows = [
        ("start", Part::Start, 1.2),
        ("cleanup behind the last story", Part::Behind(false), 0.1),
        ("cleanup behind the last story, original moved", Part::Behind(true), 0.5),
        ("cleanup later", Part::Later(false), 0.1),
        ("cleanup later, original moved", Part::Later(true), 0.5),
    ];
    if !rows.iter().any(|(what, ..)| table.wants(&name(what))) {
        return Ok(());
    }
    let (ours, bare) = (World::new(size.ends)?, World::new(size.ends)?);
    ours.stories(1)?;
    for (what, part, most) in rows {
        let name = name(what);
        if !table.wants(&name) {
            continue;
        }
        let (mine, theirs) = if part == Part::Start { start(&ours, &bare, size)? } else { finish(&ours, &bare, part, size)? };
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

fn finish(ours: &World, bare: &World, part: Part, size: &Size) -> Result<(Vec<Duration>, Vec<Duration>)> {
    let (mut mine, mut theirs) = (Vec::new(), Vec::new());
    let moved = matches!(part, Part::Behind(true) | Part::Later(true));
    for _ in 0..size.rounds {
        let script = "set -e; git checkout -q -b ralph/x; $player edit $stamps; git add -A; git commit -qm work";
        ensure!(bare.shell(script)?.status()?.success(), "the bare run failed");
        let homes = [home(ours)?, home(bare)?];
        if matches!(part, Part::Later(_)) {
            let words = ours.with_agent(&["start", "x", "--restart"], "edit")?;
            ours.ralph_ends(&borrowed(&words), &[0])?;
            if moved {
                move_on(ours)?;
            }
            mine.push(time(&mut ours.ralph(&["finish", "x", "--cleanup"]))?);
        } else {
            mine.push(behind(ours, moved)?);
        }
        if moved {
            move_on(bare)?;
        }
        theirs.push(time(&mut bare.shell(FINISH)?)?);
        for (world, home) in [ours, bare].into_iter().zip(homes) {
            world.git(&["reset", "-q", "--hard", &home])?;
            world.git(&["clean", "-qfd"])?;
        }
    }
    Ok((mine, theirs))
}

/// The time from the last checkpoint to the end of a run that was started with `--finish cleanup`, read from its journal.
fn behind(world: &World, moved: bool) -> Result<Duration> {
    fs::write(world.outside("move-on"), world.moving_on())?;
    let words = world.with_agent(&["start", "x", "--restart", "--finish", "cleanup"], if moved { "edit-and-move" } else { "edit" })?;
    world.ralph_ends(&borrowed(&words), &[0])?;
    let runs = fs::read_dir(world.repo().join(".git/ralph/runs/x"))?.flatten();
    let number = runs.filter_map(|run| run.file_name().to_str()?.parse::<u32>().ok()).max().context("there is no run")?;
    let journal = fs::read_to_string(world.repo().join(format!(".git/ralph/runs/x/{number}/journal.jsonl")))?;
    let at = |name: &str| -> Result<Timestamp> {
        let lines = journal.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let found = lines.into_iter().find(|line| line["event"] == name).with_context(|| format!("no {name} in the journal"))?;
        Ok(found["at"].as_str().context("no time")?.parse()?)
    };
    Ok(at("finished")?.duration_since(at("checkpoint-landed")?).unsigned_abs())
}

/// The commit of the original branch.
fn home(world: &World) -> Result<String> {
    world.git(&["rev-parse", "main"])
}

/// Adds a commit that changes another file to the original branch.
fn move_on(world: &World) -> Result<()> {
    ensure!(world.shell(&world.moving_on())?.status()?.success(), "the original could not be moved");
    Ok(())
}
