//! Measures scale: the last of many stories against one of the first, and the cost of a long journal.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use git_ralph::run::Chain;
use git_ralph::vault::{Vault, of_repository};
use serde_json::Value;

use crate::Size;
use crate::gauge::{Weight, median, weigh};
use crate::table::{Row, Table, shown};
use crate::world::{World, borrowed};

/// The number of stories per turn.
const TURN: usize = 10;
/// The number of events per story in the long journal.
const EVENTS_A_STORY: usize = 100;

pub fn measure(size: &Size, table: &mut Table) -> Result<()> {
    if table.wants("scale: last story") {
        stories(size, table)?;
    }
    if table.wants("scale: journal") {
        journal(size, table)?;
    }
    if table.wants("scale: git processes") {
        processes(table)?;
    }
    Ok(())
}

/// The same change twice: one run is near its end, the other near its beginning.
fn stories(size: &Size, table: &mut Table) -> Result<()> {
    let (late, early) = (World::new(20)?, World::new(20)?);
    let before = size.stories - size.rounds * TURN;
    for (world, limit) in [(&late, before), (&early, 1)] {
        world.stories(size.stories)?;
        let words = world.with_agent(&["start", "x", "--limit", &limit.to_string()], "rest")?;
        world.ralph_ends(&borrowed(&words), &[0])?;
        world.take_stamps()?;
    }
    let (mut last, mut first) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        for (world, gaps) in [(&late, &mut last), (&early, &mut first)] {
            world.ralph_ends(&["resume", "x", "--limit", &TURN.to_string()], &[0])?;
            gaps.extend(world.take_stamps()?.gaps());
        }
    }
    let name = format!("scale: last story of {} against one of the first", size.stories);
    table.push(Row::ratio(name, median(last)?, median(first)?, 1.2));
    Ok(())
}

fn journal(size: &Size, table: &mut Table) -> Result<()> {
    let world = World::new(20)?;
    let (short, long) = (replayed(&world, size.events / 10)?, replayed(&world, size.events)?);
    // The target for a million events, in proportion.
    let share = f64::from(u32::try_from(size.events)?) / 1e6;
    let name = format!("scale: journal of {} events", size.events);
    let most = 2.0 * share;
    let seconds = long.cpu.as_secs_f64();
    table.push(Row {
        ours: shown(long.cpu),
        value: format!("{seconds:.2} s CPU"),
        target: format!("≤ {most} s"),
        ..Row::most(format!("{name}, status"), seconds, "s", most)
    });
    table.push(Row::most(format!("{name}, peak memory"), long.peak, "MiB", 64.0));
    let linear = Row::ratio("scale: journal ten times as long", long.cpu, short.cpu.max(Duration::from_millis(10)), 12.0);
    table.push(linear);
    Ok(())
}

/// The resources that `status` uses with a journal of that many events.
fn replayed(world: &World, events: usize) -> Result<Weight> {
    grown(world, events)?;
    weigh(&mut world.ralph(&["status", "x"]))
}

/// Makes a journal of that many events by repeating events of a real run.
pub fn grown(world: &World, events: usize) -> Result<()> {
    let _ = fs::remove_dir_all(world.repo().join(".git/ralph"));
    let _ = fs::remove_dir_all(world.repo().join(".git/ralph-spare"));
    world.git(&["checkout", "-q", "-f", "main"])?;
    let stories = events / EVENTS_A_STORY;
    world.stories(stories)?;
    let words = world.with_agent(&["start", "x", "--max-retries", "1", "--only", "1"], "fail")?;
    world.ralph_ends(&borrowed(&words), &[1])?;
    let words = world.with_agent(&["resume", "x", "--max-retries", "3", "--only", "1"], "edit")?;
    world.ralph_ends(&borrowed(&words), &[0])?;
    let path = world.repo().join(".git/ralph/runs/x/1/journal.jsonl");
    let text = fs::read_to_string(&path)?;
    let lines: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let vaults = of_repository(&world.outside("home/.local/state"), &world.repo().join(".git"));
    let key = Vault::new(&vaults, "x", 1).key().context("the run has no key")?;
    Ok(fs::write(&path, long_journal(&lines, stories, Chain::new(key))?)?)
}

fn long_journal(lines: &[Value], stories: usize, mut chain: Chain) -> Result<Vec<u8>> {
    let is = |line: &Value, name: &str| line["event"] == name;
    let at = |name: &str| lines.iter().position(|line| is(line, name)).with_context(|| format!("no {name} in the journal"));
    let (failed, landed) = (at("attempt-started")?, at("checkpoint-landed")?);
    let failed = &lines[failed..=at("attempt-rolled-back")?];
    let begun = lines[..=landed].iter().rposition(|line| is(line, "attempt-started")).context("no attempt has landed")?;
    let landed = &lines[begun..=landed];
    let mut text = Vec::new();
    let mut seq = 0;
    let mut write = |line: &Value, story: Option<usize>, attempt: usize| {
        let mut line = line.clone();
        line.as_object_mut().context("no event")?.remove("mac");
        seq += 1;
        line["seq"] = seq.into();
        if let Some(story) = story {
            line["story"] = story.to_string().into();
            line["attempt"] = attempt.into();
        }
        text.extend(chain.line(line.to_string().into_bytes()));
        anyhow::Ok(())
    };
    for line in &lines[..at("attempt-started")?] {
        write(line, None, 0)?;
    }
    for story in 1..=stories {
        let failures = (EVENTS_A_STORY - landed.len()) / failed.len();
        for attempt in 1..=failures {
            failed.iter().try_for_each(|line| write(line, Some(story), attempt))?;
        }
        landed.iter().try_for_each(|line| write(line, Some(story), failures + 1))?;
    }
    Ok(text)
}

fn processes(table: &mut Table) -> Result<()> {
    let world = World::new(20)?;
    world.stories(3)?;
    let words = world.with_agent(&["start", "x", "--limit", "1"], "edit")?;
    world.ralph_ends(&borrowed(&words), &[0])?;
    for args in [&["status"][..], &["list"], &["resume", "x", "--limit", "1"]] {
        let _ = world.take_stamps();
        ensure!(world.counting(world.ralph(args))?.status()?.success(), "git ralph {args:?} failed");
        let commands = world.take_stamps()?;
        // The cost of the resumed story itself is in another row.
        let count = commands.before_the_first_agent().unwrap_or(commands.all_commands().len());
        let name = format!("scale: git processes of {}", args[0]);
        table.push(Row::most(name, f64::from(u32::try_from(count)?), "", 2.0));
    }
    Ok(())
}
