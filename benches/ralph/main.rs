//! The benchmark: measures git-ralph and the equivalent bare commands alternately, in one run.
//!
//! `cargo bench -- [--quick] [--write] [<part of a row's name>...]`; docs/performance.md says how and why.
#![allow(clippy::disallowed_methods, reason = "it starts git-ralph and git itself")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is for people to read")]

mod ends;
mod gauge;
mod instructions;
mod output;
mod player;
mod report;
mod rollback;
mod sandbox;
mod scale;
mod simulation;
mod start_up;
mod story;
mod table;
mod virtual_run;
mod workspaces;
mod world;

use std::process::ExitCode;

use anyhow::Result;

use table::{Row, Table};

/// How large and how often each thing is measured.
pub struct Size {
    /// Numbers of files in the repositories used for story overhead, smallest first.
    pub story: &'static [usize],
    /// Numbers of files in the repositories used for rollbacks, smallest first.
    pub rollback: &'static [usize],
    /// Number of bytes that an agent prints.
    pub output: u64,
    /// Number of stories in one change.
    pub stories: usize,
    /// Number of events in one journal.
    pub events: usize,
    /// Number of files in the repository used for starts and finishes.
    pub ends: usize,
    /// How often git-ralph and the bare commands alternate.
    pub rounds: usize,
}

const SMALL: usize = 200;
const QUICK: Size = Size { story: &[SMALL], rollback: &[SMALL], output: 64 << 20, stories: 300, events: 100_000, ends: SMALL, rounds: 3 };
const FULL: Size = Size {
    story: &[SMALL, 50_000, 200_000],
    rollback: &[SMALL, 50_000],
    output: 1 << 30,
    stories: 10_000,
    events: 1_000_000,
    ends: 50_000,
    rounds: 5,
};

/// The functions that measure, one per group of rows.
const GROUPS: [fn(&Size, &mut Table) -> Result<()>; 11] = [
    story::measure,
    rollback::measure,
    output::measure,
    scale::measure,
    start_up::measure,
    ends::measure,
    workspaces::measure,
    sandbox::measure,
    report::measure,
    instructions::measure,
    simulation::measure,
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|word| word == player::WORD) {
        return player::play(&args[1..]);
    }
    if !args.iter().any(|arg| arg == "--bench") {
        // `cargo test --all-targets` only checks that the benchmark builds.
        return ExitCode::SUCCESS;
    }
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let size = if has("--quick") { &QUICK } else { &FULL };
    let wanted: Vec<&str> = args.iter().map(String::as_str).filter(|arg| !arg.starts_with("--")).collect();
    let mut table = Table::new(wanted, |row: &Row| eprintln!("{}", row.line()));
    for measure in GROUPS {
        measure(size, &mut table)?;
    }
    if !table.is_empty() {
        println!("{}", table.markdown());
    }
    if has("--write") {
        table.write()?;
    }
    Ok(())
}
