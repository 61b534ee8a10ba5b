//! Tests random runs, with random actions of users and agents and random kills: nothing may be lost.
//!
//! `cargo test` plays a few plans. `RALPH_STRESS=200` plays that many, and `RALPH_STRESS_SEED=n` starts with plan `n`. If a plan fails,
//! the test prints its seed, which is enough to play it again; `RALPH_STRESS_KEEP=directory` keeps its repository there.
//! `RALPH_STRESS_FAVOUR=nested,submodule` draws every second deed from those with one of these words in their names.

mod deeds;
mod oracle;
mod plan;
mod play;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use oracle::Finding;
use plan::Plan;
use play::Stage;

use crate::kill_matrix::ending::Ending;

/// The results of all plans.
#[derive(Default)]
struct Figures {
    runs: usize,
    kills: usize,
    bytes: usize,
    lost: usize,
    failures: Vec<String>,
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |value| value.parse().unwrap_or_else(|_| panic!("{variable}={value} is no number")))
}

/// Plays one plan; returns the number of kills and the findings.
fn play(plan: &Plan) -> (usize, Finding, String) {
    let mut stage = Stage::new(plan);
    let before = Ending::of_the_users(&stage.world);
    let played = stage.play();
    let mut finding = oracle::look(&stage, &before);
    finding.wrong.extend(played.err());
    if let Some(to) = std::env::var_os("RALPH_STRESS_KEEP") {
        stage.keep(Path::new(&to));
    }
    (stage.kills, finding, stage.told)
}

impl Figures {
    fn add(&mut self, plan: &Plan, (kills, finding, told): (usize, Finding, String)) {
        self.runs += 1;
        self.kills += kills;
        self.bytes += finding.bytes;
        self.lost += finding.lost.len();
        if !finding.lost.is_empty() || !finding.wrong.is_empty() {
            let Finding { lost, wrong, .. } = finding;
            let favour = std::env::var("RALPH_STRESS_FAVOUR").map_or(String::new(), |words| format!("RALPH_STRESS_FAVOUR='{words}' "));
            self.failures.push(format!(
                "=== {favour}RALPH_STRESS_SEED={} RALPH_STRESS=1 cargo test --test suite stress\nlost: {lost:#?}\nwrong: {wrong:#?}\n--- plan\n{plan}--- told\n{told}\n",
                plan.seed
            ));
        }
    }
}

/// Plays the remaining plans, one after the other.
fn worker(next: &AtomicU64, end: u64, figures: &Mutex<Figures>) {
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return;
        }
        let plan = Plan::from_seed(seed);
        let shown = play(&plan);
        figures.lock().unwrap().add(&plan, shown);
    }
}

#[test]
fn nothing_is_lost_whatever_users_agents_and_kills_do() {
    let (first, count) = (number("RALPH_STRESS_SEED", 1), number("RALPH_STRESS", 10));
    let (next, figures) = (AtomicU64::new(first), Mutex::new(Figures::default()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from).min(4) {
            scope.spawn(|| worker(&next, first + count, &figures));
        }
    });
    let Figures { runs, kills, bytes, lost, failures } = figures.into_inner().unwrap();
    println!("stress: runs {runs}, kills {kills}, bytes checked {bytes}, lost {lost}");
    assert!(failures.is_empty(), "{} of {runs} plans fail\n{}", failures.len(), failures.concat());
}
