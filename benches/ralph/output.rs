//! Measures how fast git-ralph reads an agent's output, against `cat >file`, and how much memory that takes.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::Size;
use crate::gauge::{median, weigh};
use crate::table::{Row, Table};
use crate::world::World;

/// The agent's role, the format in which its output is read, and the name of the row.
const KINDS: [(&str, &str, &str); 4] = [
    ("json", "claude", "stream-json"),
    ("text", "text", "plain text"),
    ("one-json-line", "claude", "stream-json, one line"),
    ("one-line", "text", "plain text, one line"),
];

pub fn measure(size: &Size, table: &mut Table) -> Result<()> {
    for (part, format, what) in KINDS {
        let name = format!("output: {what}");
        if !table.wants(&name) {
            continue;
        }
        let world = World::new(20)?;
        world.stories(size.rounds)?;
        let command = world.pours(part, format, size.output)?;
        let (mut mine, mut theirs, mut peak) = (Vec::new(), Vec::new(), 0.0_f64);
        for round in 0..size.rounds {
            let verb = if round == 0 { "start" } else { "resume" };
            let weight = weigh(&mut world.ralph(&[verb, "x", "--agent", "pour", "--limit", "1"]))?;
            peak = peak.max(weight.peak);
            mine.extend(world.take_stamps()?.spans());
            let printed = world.repo().join(format!(".git/ralph/runs/x/1/attempts/{}/1/stdout", round + 1));
            ensure!(printed.metadata().context("no transcript")?.len() >= size.output, "the transcript is not whole");
            fs::remove_file(printed)?;
            let file = world.outside("file");
            let script = format!("{command} | cat >'{}'", file.display());
            ensure!(world.shell(&script)?.status()?.success(), "cat failed");
            theirs.extend(world.take_stamps()?.spans());
            fs::remove_file(file)?;
        }
        // At least half the throughput means at most twice the time.
        table.push(Row::ratio(name.clone(), median(mine)?, median(theirs)?, 2.0));
        table.push(Row::most(format!("{name}, peak memory"), peak, "MiB", 16.0));
    }
    Ok(())
}
