//! Simulates how many stories can run at once: the real machine on a virtual clock, with more slots than one computer has. Only on
//! request.

use std::time::Instant;

use anyhow::Result;

use crate::Size;
use crate::table::Table;
use crate::virtual_run::{Outcome, Scene, play};

const SLOTS: [usize; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 250, 500];
const AGENT_SECONDS: f64 = 600.0;
const GATES: [(&str, f64); 2] = [("30 s", 30.0), ("10 min", AGENT_SECONDS)];
const OVERLAPS: [(&str, f64); 3] = [("none", 0.0), ("5 %", 0.05), ("20 %", 0.2)];
const HEAD: &str = "| gates | overlap | slots | landings an hour | speed-up | batch: mean, largest | failed gate runs | beaten attempts | longest wait | longest story | µs a decision |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|";

/// Prints a table of its own, because nothing in it is compared with bare commands.
pub fn measure(size: &Size, table: &mut Table) -> Result<()> {
    if !table.names("simulation") {
        return Ok(());
    }
    println!("{} stories, agents of 10 min on average\n\n{HEAD}", size.stories);
    for (gate, gate_seconds) in GATES {
        for (overlap, share) in OVERLAPS {
            let mut alone = None;
            for slots in SLOTS {
                let scene = Scene { stories: size.stories, slots, agent_seconds: AGENT_SECONDS, gate_seconds, overlap: share, seed: 1 };
                let started = Instant::now();
                let outcome = play(scene);
                let cost = started.elapsed().as_secs_f64() * 1e6 / outcome.decisions as f64;
                let speed = outcome.landed as f64 / outcome.time * 3600.0;
                let speed_up = speed / *alone.get_or_insert(speed);
                println!("| {gate} | {overlap} | {slots} | {speed:.1} | {speed_up:.1} | {} | {cost:.0} |", shown(&outcome));
            }
        }
    }
    Ok(())
}

fn shown(outcome: &Outcome) -> String {
    let mean = outcome.landed as f64 / outcome.landings.max(1) as f64;
    format!(
        "{mean:.1}, {} | {} of {} | {} of {} | {} | {}",
        outcome.largest_batch,
        outcome.failed_gates,
        outcome.gate_runs,
        outcome.beaten,
        outcome.attempts,
        hours(outcome.longest_wait),
        hours(outcome.longest_story)
    )
}

fn hours(seconds: f64) -> String {
    let minutes = seconds / 60.0;
    if minutes < 120.0 { format!("{minutes:.0} min") } else { format!("{:.1} h", minutes / 60.0) }
}
