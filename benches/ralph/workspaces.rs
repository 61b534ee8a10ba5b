//! Measures private clones against `git worktree add`, and runs with several jobs against runs with one.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;

use crate::Size;
use crate::gauge::{median, since, time, weigh};
use crate::table::{Row, Table};
use crate::world::{World, borrowed};

/// The number of stories in the changes that several jobs work on.
const STORIES: usize = 16;

pub fn measure(size: &Size, table: &mut Table) -> Result<()> {
    first_agent(size, table)?;
    between_stories(size, table)?;
    landings(size, table)?;
    several_jobs(size, table)
}

/// Measures the clone of the first slot, from the initial state to the start of its agent.
fn first_agent(size: &Size, table: &mut Table) -> Result<()> {
    let name = format!("workspaces: ready for the first agent, {} files", size.ends);
    if !table.wants(&name) {
        return Ok(());
    }
    let world = World::new(size.ends)?;
    world.stories(1)?;
    let (mut mine, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        let words = world.with_agent(&["start", "x", "--isolate"], "rest")?;
        world.ralph_ends(&borrowed(&words), &[0])?;
        let started = Journal::last(&world)?.at("run-started")?;
        mine.push(since(u128::try_from(started.as_nanosecond())?, world.take_stamps()?.first()?));
        world.ralph_ends(&["abort", "x"], &[0])?;
        theirs.push(time(&mut world.command("git", &["worktree", "add", "-q", "--detach", "../other"]))?);
        world.git(&["worktree", "remove", "--force", "../other"])?;
    }
    let row = Row::ratio(name, median(mine)?, median(theirs)?, 1.1);
    table.push(if size.ends < 1000 { row.without_target("with 50,000 files") } else { row });
    Ok(())
}

/// Measures from the end of one agent to the start of the next in the same clone, against a rollback in place.
fn between_stories(size: &Size, table: &mut Table) -> Result<()> {
    let name = format!("workspaces: from story to story, {} files, against a rollback in place", size.ends);
    if !table.wants(&name) {
        return Ok(());
    }
    let (ours, bare) = (World::new(size.ends)?, World::new(size.ends)?);
    ours.stories(2 * size.rounds)?;
    bare.stories(1)?;
    let words = ours.with_agent(&["start", "x", "--isolate"], "edit")?;
    ours.ralph_ends(&borrowed(&words), &[0])?;
    let retries = (2 * size.rounds).to_string();
    let words = bare.with_agent(&["start", "x", "--max-retries", &retries], "fail")?;
    bare.ralph_ends(&borrowed(&words), &[1])?;
    let row = Row::ratio(name, median(ours.take_stamps()?.gaps())?, median(bare.take_stamps()?.gaps())?, 1.0);
    table.push(if size.ends < 1000 { row.without_target("with 50,000 files") } else { row });
    Ok(())
}

/// Measures a landing on a tip that has moved, against one on a tip that has not; without gates.
fn landings(size: &Size, table: &mut Table) -> Result<()> {
    let name = format!("workspaces: a landing on a moved tip, {} files", size.ends);
    if !table.wants(&name) {
        return Ok(());
    }
    let world = World::new(size.ends)?;
    let (mut moved, mut unmoved) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        // Two stories end together: the first lands on the tip that it began from, the second on a moved tip.
        change(&world, 2, "")?;
        run(
            &world,
            2,
            "echo $RALPH_STORY >s$RALPH_STORY; mkdir -p ../../meet; touch ../../meet/$RALPH_STORY; while test $(ls ../../meet | wc -l) -lt 2; do sleep 0.01; done",
        )?;
        let journal = Journal::last(&world)?;
        let landed = journal.times("checkpoint-landed");
        let queued = journal.times("attempt-queued");
        ensure!(landed.len() == 2 && queued.len() == 2, "two stories land");
        unmoved.push(landed[0].duration_since(queued[0]).unsigned_abs());
        moved.push(landed[1].duration_since(queued[1].max(landed[0])).unsigned_abs());
        world.ralph_ends(&["abort", "x"], &[0])?;
    }
    let row = Row::ratio(name, median(moved)?, median(unmoved)?, 2.0);
    table.push(if size.ends < 1000 { row.without_target("with 50,000 files") } else { row });
    Ok(())
}

/// The work of the stories of a change.
struct Load {
    name: &'static str,
    /// Seconds that an agent and a gate take.
    agent: f64,
    gate: f64,
    /// How many of ten stories insert a line at the same place.
    overlapping: usize,
    /// Numbers of jobs, each with the least speed-up over one job.
    jobs: &'static [(u32, f64)],
}

const LOADS: [Load; 3] = [
    Load { name: "agent 2 s, gate 0.3 s", agent: 2.0, gate: 0.3, overlapping: 0, jobs: &[(2, 1.9), (4, 3.6), (8, 6.0)] },
    Load { name: "agent 2 s, gate 2 s", agent: 2.0, gate: 2.0, overlapping: 0, jobs: &[(4, 3.0)] },
    Load { name: "agent 2 s, gate 0.3 s, 40 % overlap", agent: 2.0, gate: 0.3, overlapping: 4, jobs: &[(4, 1.5)] },
];

fn several_jobs(size: &Size, table: &mut Table) -> Result<()> {
    let quick = size.ends < 1000;
    let name = |load: &Load, jobs: u32| format!("jobs: {STORIES} stories, {}, {jobs} jobs", load.name);
    for load in LOADS.iter().take(if quick { 1 } else { LOADS.len() }) {
        if !load.jobs.iter().any(|(jobs, _)| table.wants(&name(load, *jobs))) {
            continue;
        }
        let one = one_run(load, 1, quick)?;
        for (jobs, least) in load.jobs {
            let several = one_run(load, *jobs, quick)?;
            let row = Row::speed_up(name(load, *jobs), several, one, *least);
            table.push(if quick { row.without_target("with agents of 2 s") } else { row });
        }
    }
    let memory = "jobs: memory with 8 jobs";
    if table.wants(memory) {
        let world = World::new(200)?;
        change(&world, STORIES, "")?;
        let weight = weigh(&mut command(&world, 8, "sleep 0.3; echo $RALPH_STORY >s$RALPH_STORY")?)?;
        table.push(Row::most(memory, weight.peak, "MiB", 24.0));
    }
    Ok(())
}

/// The duration of a run of 16 stories.
fn one_run(load: &Load, jobs: u32, quick: bool) -> Result<Duration> {
    let world = World::new(200)?;
    let scale = if quick { 0.1 } else { 1.0 };
    change(&world, STORIES, &format!("verify = [\"sleep {}\"]\n", load.gate * scale))?;
    let insert = "if test $((RALPH_STORY % 10)) -lt $overlapping; then sed -i \"1i $RALPH_STORY\" d0/s0/f0; else echo x >s$RALPH_STORY; fi";
    let script = format!("overlapping={}; sleep {}; {insert}", load.overlapping, load.agent * scale);
    let taken = time(&mut command(&world, jobs, &script)?)?;
    let landed = Journal::last(&world)?.times("checkpoint-landed").len();
    ensure!(landed == STORIES, "{landed} of {STORIES} stories landed");
    Ok(taken)
}

/// Writes a change whose stories do not depend on each other.
fn change(world: &World, stories: usize, head: &str) -> Result<()> {
    world.stories(stories)?;
    let file = world.repo().join(".git/ralph/x.toml");
    let text = fs::read_to_string(&file)?;
    Ok(fs::write(file, format!("order = \"any\"\n{head}{text}"))?)
}

fn command(world: &World, jobs: u32, script: &str) -> Result<std::process::Command> {
    let script = format!("cat >/dev/null; {script}; echo '<promise>COMPLETE</promise>'");
    Ok(world.ralph(&["start", "x", "--jobs", &jobs.to_string(), "--", "sh", "-c", &script]))
}

fn run(world: &World, jobs: u32, script: &str) -> Result<()> {
    let _ = fs::remove_dir_all(world.outside("repo.ralph"));
    let status = command(world, jobs, script)?.status()?;
    ensure!(status.success(), "the run ended with {status}");
    Ok(())
}

/// The journal of the last run.
struct Journal(Vec<serde_json::Value>);

impl Journal {
    fn last(world: &World) -> Result<Self> {
        let runs = fs::read_dir(world.repo().join(".git/ralph/runs/x"))?.flatten();
        let number = runs.filter_map(|run| run.file_name().to_str()?.parse::<u32>().ok()).max().context("there is no run")?;
        let text = fs::read_to_string(world.repo().join(format!(".git/ralph/runs/x/{number}/journal.jsonl")))?;
        Ok(Journal(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()))
    }

    fn times(&self, event: &str) -> Vec<Timestamp> {
        self.0.iter().filter(|line| line["event"] == event).filter_map(|line| line["at"].as_str()?.parse().ok()).collect()
    }

    fn at(&self, event: &str) -> Result<Timestamp> {
        self.times(event).first().copied().with_context(|| format!("no {event} in the journal"))
    }
}
