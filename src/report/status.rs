//! The state of a run, as text and as JSON, for `git ralph status`.

use std::collections::HashSet;
use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Serialize;

use super::words::{
    count, doubt_words, end_words, head_words, outcome_words, source_edited_commands, source_edited_words, time_words, usage_words,
};
use super::{Chronicle, Summary, clean, effort_text, go_on_commands, saved_text};
use crate::cost::Cost;
use crate::git::Head;
use crate::names::Names;
use crate::run::{Pause, Phase, Progress, RunState, Stage};
use crate::shell_word::{git_ralph, quoted};
use crate::story::{Story, StoryId};

/// Everything that `git ralph status` shows.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct StatusView {
    schema: u32,
    change: String,
    run: u32,
    state: &'static str,
    running: bool,
    /// The process that waits for the user's answer.
    asking: Option<u32>,
    branch: String,
    /// Where HEAD is, if it is not on the branch of a run that works in the checkout.
    head: Option<String>,
    original: String,
    checkpoint: Option<String>,
    done: usize,
    total: usize,
    stories: Vec<StoryView>,
    workspaces: Option<String>,
    slots: Vec<SlotView>,
    queue: Vec<QueuedView>,
    source_edits: Vec<String>,
    end: Option<String>,
    waiting_until: Option<Timestamp>,
    tokens: u64,
    cost_usd: Option<f64>,
    #[serde(skip)]
    used: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<Summary>,
    next: Vec<String>,
}

/// A private clone with an attempt in it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct SlotView {
    slot: u32,
    story: String,
    attempt: u32,
    since: Option<Timestamp>,
}

/// An attempt that waits in the landing queue.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct QueuedView {
    story: String,
    attempt: u32,
}

/// One story of the run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct StoryView {
    id: String,
    title: String,
    state: &'static str,
    #[serde(skip)]
    shown: &'static str,
    attempts: u32,
    failures: u32,
    checkpoint: Option<String>,
    rescues: Vec<String>,
    outcome: Option<String>,
    doubts: Vec<String>,
    seconds: u64,
    tokens: u64,
    cost_usd: Option<f64>,
    #[serde(skip)]
    used: String,
}

impl StatusView {
    /// The view of a run; `owner` is the process that works on it, if there is one.
    #[must_use]
    pub fn new(state: &RunState, stories: &[Story], owner: Option<u32>) -> Self {
        let opening = state.opening.as_ref();
        let (usage, left_out) = (state.usage(), state.left_out(stories));
        let change = opening.map_or_else(String::new, |opening| opening.change.to_string());
        let views: Vec<StoryView> = stories.iter().map(|story| story_view(state, story, &left_out, owner.is_some())).collect();
        StatusView {
            schema: 1,
            run: opening.map_or(0, |opening| opening.run),
            state: phase_word(&state.phase),
            running: owner.is_some(),
            asking: None,
            head: None,
            branch: opening.map_or_else(String::new, |opening| Names::new(&opening.change).short_branch()),
            original: opening.map_or_else(String::new, |opening| head_words(&opening.original)),
            checkpoint: state.base.as_ref().map(|base| base.checkpoint.to_string()),
            done: views.iter().filter(|view| view.state == "done").count(),
            total: views.len(),
            stories: views,
            workspaces: opening.and_then(|opening| opening.workspaces.as_ref()).map(|dir| dir.display().to_string()),
            slots: slot_views(state),
            queue: state.queue().into_iter().map(|(story, it)| QueuedView { story: story.to_string(), attempt: it.attempts }).collect(),
            source_edits: Vec::new(),
            end: state.end.as_ref().map(|end| end_words(end, state)),
            waiting_until: match &state.pause {
                Some(Pause::Until { until, .. }) => Some(*until),
                _ => None,
            },
            tokens: usage.tokens(),
            cost_usd: usage.cost.map(Cost::as_dollars),
            used: usage_words(&usage),
            summary: None,
            next: next_commands(state, &change, owner.is_some()),
            change,
        }
    }

    /// Adds the process that waits for the user's answer, if there is one.
    #[must_use]
    pub fn asked_by(mut self, asking: Option<u32>) -> Self {
        self.asking = asking;
        self
    }

    /// Adds HEAD, if the user has moved it off the branch of a run in the checkout. The next command is then the switch back.
    #[must_use]
    pub fn with_head(mut self, head: &Head) -> Self {
        self.head = Some(head_words(head));
        let back = format!("git switch {}", quoted(&self.branch));
        let resume = format!("git ralph resume {}", self.change);
        self.next = if self.next.contains(&resume) { vec![format!("{back} && {resume}"), back] } else { vec![back] };
        self
    }

    /// Adds the summary of the run.
    #[must_use]
    pub fn with_summary(mut self, summary: Summary) -> Self {
        self.summary = Some(summary);
        self
    }

    /// Adds the start times of the attempts in progress.
    #[must_use]
    pub fn since(mut self, chronicle: &Chronicle) -> Self {
        for slot in &mut self.slots {
            slot.since = slot.story.parse().ok().and_then(|story| chronicle.started(&story));
        }
        self
    }

    /// Adds the source files that the user has edited in the checkout, which the run does not see.
    #[must_use]
    pub fn with_source_edits(mut self, paths: Vec<String>) -> Self {
        self.source_edits = paths;
        self
    }
}

/// The attempts of an isolated run that occupy a private clone.
fn slot_views(state: &RunState) -> Vec<SlotView> {
    let busy = state.stories.iter().filter(|(_, it)| state.is_isolated() && it.is_busy() && !it.is_queued());
    let view = |(story, it): (&StoryId, &Progress)| SlotView { slot: it.slot, story: story.to_string(), attempt: it.attempts, since: None };
    let mut slots: Vec<SlotView> = busy.map(view).collect();
    slots.sort_by_key(|slot| slot.slot);
    slots
}

pub(super) fn phase_word(phase: &Phase) -> &'static str {
    match phase {
        Phase::Starting => "starting",
        Phase::Open => "open",
        Phase::Finishing(_) => "finishing",
        Phase::Aborting => "aborting",
        Phase::Finished(_) => "finished",
        Phase::Aborted => "aborted",
    }
}

/// The state of a story in one word.
pub(super) fn story_word(state: &RunState, story: &Story, left_out: &HashSet<&StoryId>) -> &'static str {
    if state.is_done(story) {
        return "done";
    }
    if left_out.contains(&story.id) && !state.stories.get(&story.id).is_some_and(Progress::is_busy) {
        return "skipped";
    }
    let Some(progress) = state.stories.get(&story.id) else { return "open" };
    match &progress.stage {
        Stage::Idle if progress.blocked.is_some() => "blocked",
        Stage::Idle if state.is_given_up(&story.id) => "failed",
        Stage::Idle => "open",
        Stage::Working => "working",
        Stage::Queued(_) => "queued",
        Stage::Ended { .. } | Stage::Accepted | Stage::Rejected => "unsettled",
        Stage::Landed(_) => "done",
    }
}

/// The state for people: what is left to do for an attempt, and whether its agent is really working.
fn shown_word(word: &'static str, stage: &Stage, running: bool) -> &'static str {
    match (word, stage) {
        ("working", _) if !running => "interrupted",
        ("unsettled", Stage::Ended { .. }) => "to be judged",
        ("unsettled", Stage::Accepted) => "to be landed",
        ("unsettled", Stage::Rejected) => "to roll back",
        (word, _) => word,
    }
}

fn story_view(state: &RunState, story: &Story, left_out: &HashSet<&StoryId>, running: bool) -> StoryView {
    let progress = state.stories.get(&story.id).cloned().unwrap_or_default();
    let word = story_word(state, story, left_out);
    let seconds = progress.with_gates() / 1000;
    StoryView {
        id: story.id.to_string(),
        title: story.title.clone(),
        state: word,
        shown: shown_word(word, &progress.stage, running),
        attempts: progress.attempts,
        failures: progress.failures,
        checkpoint: if let Stage::Landed(oid) = &progress.stage { Some(oid.to_string()) } else { None },
        rescues: progress.rescues,
        outcome: progress.outcome.as_ref().map(outcome_words),
        doubts: progress.doubts.iter().map(doubt_words).collect(),
        seconds,
        tokens: progress.usage.tokens(),
        cost_usd: progress.usage.cost.map(Cost::as_dollars),
        used: usage_words(&progress.usage),
    }
}

/// The possible next commands, the likeliest first.
pub(super) fn next_commands(state: &RunState, change: &str, running: bool) -> Vec<String> {
    let command = |words: &str| git_ralph(words, &[change]);
    match state.phase {
        _ if running => vec![command("stop")],
        Phase::Finished(_) | Phase::Aborted => vec![command("start")],
        Phase::Finishing(_) | Phase::Aborting => vec![command("resume")],
        Phase::Starting => vec![command("resume"), command("abort")],
        Phase::Open => {
            let finish = ["finish --cleanup", "finish --keep"].map(command);
            let mut commands: Vec<String> = go_on_commands(state, change).into_iter().map(|(command, _)| command).collect();
            commands.extend(finish);
            commands.push(command("abort"));
            commands
        }
    }
}

/// The status for people.
#[must_use]
pub fn status_text(view: &StatusView) -> String {
    let mut text = String::new();
    let running = match view.asking {
        _ if view.running => ", running",
        Some(_) => ", waiting for your answer",
        None => "",
    };
    let _ = writeln!(text, "{}: {}{running}, {} of {} done{}", view.change, view.state, view.done, count(view.total, "story"), view.used);
    match &view.head {
        Some(head) => {
            let place =
                head.strip_prefix("detached HEAD at ").map_or_else(|| format!("on {head}"), |commit| format!("detached at {commit}"));
            let _ = writeln!(text, "HEAD is {}, not on {}; started from {}", clean(&place), view.branch, view.original);
        }
        None => {
            let _ = writeln!(text, "on {}, started from {}", view.branch, view.original);
        }
    }
    write_workspaces(&mut text, view);
    if let Some(until) = view.waiting_until {
        let _ = writeln!(text, "waiting until {}", time_words(until));
    }
    if let Some(end) = &view.end {
        let _ = writeln!(text, "{end}");
    }
    let width = view.stories.iter().map(|story| story.id.chars().count()).max().unwrap_or(0);
    let column = view.stories.iter().map(|story| story.shown.len()).max().unwrap_or(0).max(9);
    for story in &view.stories {
        let attempts = if story.attempts > 1 { format!(" ({})", count(story.attempts as usize, "attempt")) } else { String::new() };
        let outcome = match &story.outcome {
            Some(outcome) if story.state != "done" => format!("; the last attempt {outcome}"),
            _ => String::new(),
        };
        let _ = writeln!(
            text,
            "  {:<column$} {:<width$}  {}{attempts}{outcome}{}",
            state_styled(story.shown),
            story.id,
            clean(&story.title),
            story.used
        );
        for doubt in &story.doubts {
            let _ = writeln!(text, "            {} {doubt}", console::style("warning:").yellow());
        }
    }
    if let Some(summary) = &view.summary {
        text.push_str(&effort_text(summary));
        text.push_str(&saved_text(summary));
    }
    for (at, command) in view.next.iter().enumerate() {
        let _ = writeln!(text, "{} {command}", if at == 0 { "next:" } else { "  or:" });
    }
    text
}

/// The attempts in the private clones, and those that wait to land.
fn write_workspaces(text: &mut String, view: &StatusView) {
    let Some(dir) = &view.workspaces else { return };
    if view.state != "finished" && view.state != "aborted" {
        let _ = writeln!(text, "workspaces in {}", clean(dir));
    }
    for SlotView { slot, story, attempt, since } in view.slots.iter().filter(|_| view.running) {
        let since = since.map(|since| format!(", since {}", time_words(since))).unwrap_or_default();
        let _ = writeln!(text, "  {}: {story}, attempt {attempt}{since}", slot + 1);
    }
    if !view.queue.is_empty() {
        let stories: Vec<&str> = view.queue.iter().map(|queued| queued.story.as_str()).collect();
        let _ = writeln!(text, "landing queue: {}", stories.join(", "));
    }
    if !view.source_edits.is_empty() {
        let words = source_edited_words(&view.source_edits, &view.branch);
        let _ = writeln!(text, "{} {words}", console::style("warning:").yellow());
        for command in source_edited_commands(&view.branch) {
            let _ = writeln!(text, "  {command}");
        }
    }
}

/// The word for a state, coloured by how good it is.
pub fn state_styled(state: &str) -> console::StyledObject<&str> {
    let word = console::style(state);
    match state {
        "done" | "finished" => word.green(),
        "failed" | "blocked" | "interrupted" | "to be judged" | "to be landed" | "to roll back" | "broken" => word.red(),
        "working" | "queued" | "open" | "starting" | "partial" => word.yellow(),
        _ => word,
    }
}

/// The status for programs.
#[must_use]
pub fn status_json(view: &StatusView) -> String {
    super::output::json(view)
}
