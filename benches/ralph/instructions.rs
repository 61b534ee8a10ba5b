//! Counts the instructions of git-ralph's own process with callgrind; unlike times, they do not depend on the load of the machine.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use crate::Size;
use crate::scale::grown;
use crate::table::{Row, Table};
use crate::world::{World, borrowed};

const GROUP: &str = "instructions:";
/// Two sizes of the same work: the difference between them excludes the fixed cost.
const EVENTS: [usize; 2] = [10_000, 20_000];
const STORIES: [usize; 2] = [1, 11];
const BYTES: [usize; 2] = [1 << 20, 5 << 20];

pub fn measure(_: &Size, table: &mut Table) -> Result<()> {
    if !table.wants(GROUP) {
        return Ok(());
    }
    let world = World::new(200)?;
    if !world.command("valgrind", &["--version"]).status().is_ok_and(|status| status.success()) {
        table.push(Row::plain(format!("{GROUP} valgrind is not installed"), "", "", "not measured"));
        return Ok(());
    }
    commands(&world, table)?;
    table.push(each(format!("{GROUP} a story"), stories()?, STORIES));
    table.push(each(format!("{GROUP} an event of the journal"), events()?, EVENTS));
    for (part, format, what) in [("json", "claude", "stream-json"), ("text", "text", "plain text")] {
        table.push(each(format!("{GROUP} a byte of {what}"), output(part, format)?, BYTES));
    }
    Ok(())
}

/// Commands that users type, against git itself.
fn commands(world: &World, table: &mut Table) -> Result<()> {
    world.stories(12)?;
    let words = world.with_agent(&["start", "x", "--limit", "3"], "edit")?;
    world.ralph_ends(&borrowed(&words), &[0])?;
    for (ours, bare) in [("--version", "--version"), ("status", "status")] {
        let (mine, theirs) = (of_ralph(world, &[ours])?, count(world, "git", &[bare])?);
        table.push(Row::plain(format!("{GROUP} {ours}"), &thousands(mine), &thousands(theirs), &ratio(mine, theirs)));
    }
    Ok(())
}

fn stories() -> Result<[u64; 2]> {
    both(STORIES, |limit| {
        let world = World::new(20)?;
        world.stories(20)?;
        let words = world.with_agent(&["start", "x", "-q", "--limit", &limit.to_string()], "edit")?;
        of_ralph(&world, &borrowed(&words))
    })
}

fn events() -> Result<[u64; 2]> {
    both(EVENTS, |events| {
        let world = World::new(20)?;
        grown(&world, events)?;
        of_ralph(&world, &["status", "x"])
    })
}

fn output(part: &str, format: &str) -> Result<[u64; 2]> {
    both(BYTES, |bytes| {
        let world = World::new(20)?;
        world.stories(1)?;
        world.pours(part, format, bytes as u64)?;
        of_ralph(&world, &["start", "x", "-q", "--agent", "pour"])
    })
}

fn both(sizes: [usize; 2], measured: impl Fn(usize) -> Result<u64>) -> Result<[u64; 2]> {
    Ok([measured(sizes[0])?, measured(sizes[1])?])
}

/// The cost of one more item, from two sizes.
fn each(name: String, [less, more]: [u64; 2], [few, many]: [usize; 2]) -> Row {
    let one = (more.saturating_sub(less) + ((many - few) / 2) as u64) / (many - few) as u64;
    let shown = if one >= 100_000 { thousands(one) } else { one.to_string() };
    Row::plain(name, &shown, "", &shown)
}

fn of_ralph(world: &World, args: &[&str]) -> Result<u64> {
    count(world, env!("CARGO_BIN_EXE_git-ralph"), args)
}

/// The instructions of a program, without those of its children.
fn count(world: &World, program: &str, args: &[&str]) -> Result<u64> {
    let words = ["--tool=callgrind", "--callgrind-out-file=/dev/null", "--", program];
    let words: Vec<&str> = words.iter().chain(args).copied().collect();
    let output = world.command("valgrind", &words).stderr(Stdio::piped()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {args:?} ended with {} under valgrind: {said}", output.status);
    // Children report their count too, until they call exec.
    let counts = said.lines().filter_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    counts.max().with_context(|| format!("valgrind has counted nothing: {said}"))
}

fn thousands(count: u64) -> String {
    format!("{} k", (count + 500) / 1000)
}

fn ratio(ours: u64, bare: u64) -> String {
    format!("{:.2}", ours as f64 / bare.max(1) as f64)
}
