//! Measures a rollback with its rescue, from the end of the failed agent to the next start, against `git reset --hard && git clean -fd`.

use anyhow::{Result, ensure};

use crate::Size;
use crate::gauge::median;
use crate::table::{Row, Table};
use crate::world::{World, borrowed};

/// The number of attempts per turn.
const TURN: usize = 8;

pub fn measure(size: &Size, table: &mut Table) -> Result<()> {
    for &files in size.rollback {
        let name = format!("rollback: {files} files");
        if !table.wants(&name) {
            continue;
        }
        let (ours, bare) = (World::new(files)?, World::new(files)?);
        ours.stories(1)?;
        let (mut mine, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..size.rounds {
            let command = if round == 0 { "start" } else { "resume" };
            let retries = ((round + 1) * TURN - 1).to_string();
            let words = ours.with_agent(&[command, "x", "--max-retries", &retries], "fail")?;
            ours.ralph_ends(&borrowed(&words), &[1])?;
            mine.extend(ours.take_stamps()?.gaps());
            let script = format!(
                "set -e; i=0; while [ $i -lt {TURN} ]; do $player fail $stamps; git reset -q --hard; git clean -qfd; i=$((i+1)); done"
            );
            ensure!(bare.shell(&script)?.status()?.success(), "the bare loop failed");
            theirs.extend(bare.take_stamps()?.gaps());
        }
        let most = if files < 1000 { 4.0 } else { 1.5 };
        table.push(Row::ratio(name, median(mine)?, median(theirs)?, most));
    }
    Ok(())
}
