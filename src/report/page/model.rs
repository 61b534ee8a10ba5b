//! The page of a run as data, the same for every format: cleaned, masked, and cut to size.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::foreign::{Foreign, Room};
use super::history::{Close, Detail, GateDetail, History};
use super::timeline::{Timeline, tone};
use crate::config::Finish;
use crate::cost::Cost;
use crate::git::{Comparison, Patch};
use crate::process::Exit;
use crate::report::status::{next_commands, phase_word, story_word};
use crate::report::words::{count, end_words_by, head_words, span, tokens_words};
use crate::report::{AttemptView, Kept};
use crate::run::{Phase, RunState, Usage, abnormal};
use crate::shell_word::{git_ralph, quoted};
use crate::story::{Story, StoryId};

/// In a run with more attempts than this, the timeline shows less about each.
const LONG_RUN: usize = 1000;

/// What is known in addition to the journal.
#[derive(Debug, Default)]
pub struct Findings {
    /// Whether a process is working on the run.
    pub is_running: bool,
    /// The changes in checkpoints and in saved attempts.
    pub patches: BTreeMap<Comparison, Patch>,
    /// The commits of saved attempts, by ref name.
    pub rescued: BTreeMap<String, Comparison>,
    /// The saved work under refs.
    pub kept: Vec<Kept>,
    /// The transcripts of agents, by story and index among its attempts.
    pub transcripts: BTreeMap<(StoryId, usize), Vec<String>>,
}

/// Everything that a page shows.
#[derive(Debug, Serialize)]
pub struct Page {
    pub(super) change: String,
    pub(super) title: String,
    pub(super) run: u32,
    pub(super) state: &'static str,
    pub(super) tone: &'static str,
    pub(super) headline: String,
    pub(super) next: Vec<String>,
    pub(super) started: String,
    pub(super) last: String,
    pub(super) started_iso: String,
    pub(super) clock: String,
    pub(super) original: String,
    pub(super) branch: String,
    pub(super) figures: Vec<Figure>,
    pub(super) models: Vec<ModelRow>,
    pub(super) timeline: Timeline,
    pub(super) stories: Vec<StoryPart>,
    pub(super) saved: Vec<Saved>,
    pub(super) warnings: Vec<String>,
    pub(super) settings: Vec<SettingRow>,
    pub(super) defaults: Vec<SettingRow>,
    pub(super) versions: Vec<(String, String)>,
    pub(super) has_transcripts: bool,
    pub(super) done: usize,
    /// How many stories have failed or need the user.
    pub(super) troubles: usize,
    pub(super) attempts: usize,
    pub(super) wall_milliseconds: u64,
    /// How many secrets were masked.
    pub masked: usize,
}

/// A figure.
#[derive(Debug, Serialize)]
pub(super) struct Figure {
    pub label: &'static str,
    pub value: String,
    pub note: String,
}

/// The usage of one model.
#[derive(Debug, Default, Serialize)]
pub(super) struct ModelRow {
    pub name: String,
    pub attempts: usize,
    pub time: String,
    pub input: String,
    pub cached: String,
    pub output: String,
    pub cost: String,
}

/// A story.
#[derive(Debug, Serialize)]
pub(super) struct StoryPart {
    pub id: String,
    pub anchor: String,
    pub title: String,
    pub state: &'static str,
    pub tone: &'static str,
    /// Why the story needs the user, if it does.
    pub trouble: Option<String>,
    pub tasks: Vec<String>,
    pub criteria: Vec<String>,
    pub after: Vec<String>,
    pub attempts: Vec<AttemptPart>,
    pub time: String,
    pub milliseconds: u64,
    pub used: String,
    pub warned: bool,
}

/// An attempt.
#[derive(Debug, Serialize)]
pub(super) struct AttemptPart {
    pub number: u32,
    pub anchor: String,
    pub tone: &'static str,
    pub outcome: String,
    pub agent: String,
    pub started: String,
    pub time: String,
    pub milliseconds: u64,
    pub used: String,
    pub tools: Vec<(String, u32)>,
    pub gates: Vec<GatePart>,
    pub checkpoint: Option<String>,
    pub stat: Option<Stat>,
    pub saved: Vec<String>,
    pub warnings: Vec<String>,
    pub notices: Vec<String>,
    pub undone: Option<String>,
    pub transcript: Vec<String>,
    pub log: String,
}

/// A gate.
#[derive(Debug, Serialize)]
pub(super) struct GatePart {
    pub command: String,
    pub passed: bool,
    pub result: String,
    pub time: String,
    pub output: String,
    pub on_merge: bool,
}

/// The changes of a commit.
#[derive(Debug, Serialize)]
pub(super) struct Stat {
    pub words: String,
    pub files: Vec<FileRow>,
    pub more_files: usize,
    /// The diff, grouped into runs of lines of one kind.
    pub diff: Vec<DiffRun>,
    pub omitted: usize,
    /// The command that shows the whole diff.
    pub command: String,
}

/// A file that a commit changed.
#[derive(Debug, Serialize)]
pub(super) struct FileRow {
    pub path: String,
    pub added: Option<usize>,
    pub removed: Option<usize>,
}

/// Consecutive lines of a diff that are of one kind.
#[derive(Debug, Serialize)]
pub(super) struct DiffRun {
    /// `add`, `del`, `hunk`, `file` or `same`.
    pub kind: &'static str,
    pub text: String,
}

/// Saved work.
#[derive(Debug, Serialize)]
pub(super) struct Saved {
    pub name: String,
    pub what: String,
    pub look: String,
    pub back: Option<String>,
    pub unnamed: usize,
}

/// A setting.
#[derive(Debug, Serialize)]
pub(super) struct SettingRow {
    pub key: String,
    pub values: Vec<String>,
    pub origin: String,
}

/// The commits whose changes a page shows: for each attempt its checkpoint, or the work that a rollback saved. `true` marks
/// checkpoints.
#[must_use]
pub fn comparisons(history: &History, rescued: &BTreeMap<String, Comparison>) -> Vec<(Comparison, bool)> {
    let mut found = BTreeSet::new();
    for story in history.stories() {
        for (view, detail) in history.attempts(&story.id) {
            found.extend(comparison(view, detail, rescued).map(|it| (it, detail.checkpoint.is_some())));
        }
    }
    found.into_iter().collect()
}

fn comparison(view: &AttemptView, detail: &Detail, rescued: &BTreeMap<String, Comparison>) -> Option<Comparison> {
    detail.checkpoint.clone().or_else(|| view.rescues.iter().find_map(|name| rescued.get(name)).cloned())
}

impl Page {
    /// Builds a page.
    #[must_use]
    pub fn new(history: &History, findings: &Findings) -> Self {
        let (state, stories) = (history.state(), history.stories());
        let opening = state.opening.as_ref();
        let change = opening.map_or_else(String::new, |opening| opening.change.to_string());
        let attempts = history.all_details().count();
        let gates = history.all_details().map(|(_, detail)| detail.gates.len()).sum();
        let mut foreign = Foreign::new(Room::for_run(stories.len(), attempts, gates));
        let parts = Assembly { history, findings, state, change: &change }.stories(&stories, &mut foreign);
        let title = history.conditions.as_ref().and_then(|conditions| conditions.title.as_deref()).unwrap_or(&change);
        let timeline = named(Timeline::of(history), &stories, &parts);
        let (settings, defaults) = settings(history, &mut foreign);
        let done = stories.iter().filter(|story| state.is_done(story)).count();
        let time = |form: &str, at: Option<jiff::Timestamp>| at.map(|at| history.clock.format(at, form)).unwrap_or_default();
        let started = history.sessions.first().map(|session| session.from);
        Page {
            title: foreign.line(title),
            run: opening.map_or(0, |opening| opening.run),
            state: phase_word(&state.phase),
            tone: verdict_tone(state, findings.is_running),
            headline: foreign.line(&headline(history, findings.is_running)),
            next: next(state, &change, findings.is_running),
            started: time("%a %Y-%m-%d %H:%M:%S", started),
            last: time("%a %Y-%m-%d %H:%M:%S", history.last()),
            started_iso: time("%Y-%m-%dT%H:%M:%S", started),
            clock: history.clock.name(),
            original: foreign.line(&opening.map_or_else(String::new, |opening| head_words(&opening.original))),
            branch: format!("ralph/{change}"),
            figures: figures(history, done, stories.len(), attempts),
            models: models(history, &mut foreign),
            timeline,
            saved: saved(&findings.kept, &mut foreign),
            warnings: warnings(history, &stories, &mut foreign),
            settings,
            defaults,
            versions: versions(history, &mut foreign),
            has_transcripts: !findings.transcripts.is_empty(),
            done,
            troubles: parts.iter().filter(|part| part.trouble.is_some()).count(),
            attempts,
            wall_milliseconds: history.chronicle().milliseconds(),
            stories: parts,
            change,
            masked: foreign.masked(),
        }
    }
}

/// Adds the page's labels and tips to the attempts in the timeline.
fn named(mut timeline: Timeline, stories: &[Story], parts: &[StoryPart]) -> Timeline {
    let numbers: BTreeMap<&StoryId, usize> = stories.iter().enumerate().map(|(number, story)| (&story.id, number)).collect();
    let is_long = timeline.groups > LONG_RUN;
    for group in timeline.lanes.iter_mut().flat_map(|lane| &mut lane.groups) {
        let Some(part) = numbers.get(&group.story).and_then(|number| parts.get(*number)) else { continue };
        let Some(attempt) = part.attempts.get(group.index) else { continue };
        group.label.clone_from(&part.id);
        group.anchor.clone_from(&attempt.anchor);
        let used = if attempt.used.is_empty() { String::new() } else { format!(", {}", attempt.used) };
        group.tip = format!("attempt {} {}", attempt.number, attempt.outcome);
        if !is_long {
            group.tip.push_str(&format!("; began {}, {}{used}", attempt.started, attempt.time));
        }
    }
    timeline
}

fn verdict_tone(state: &RunState, is_running: bool) -> &'static str {
    match (&state.phase, &state.end) {
        _ if is_running => "busy",
        (Phase::Aborted | Phase::Aborting, _) => "off",
        (_, Some(crate::run::End::AllDone | crate::run::End::SelectionDone | crate::run::End::LimitReached)) => "good",
        (Phase::Finished(_), None) => "good",
        (_, Some(_)) => "bad",
        (_, None) => "off",
    }
}

/// The possible next commands; for a finished run those that look at its result.
fn next(state: &RunState, change: &str, is_running: bool) -> Vec<String> {
    let original = state.opening.as_ref().and_then(|opening| opening.original.branch());
    match (&state.phase, original) {
        (Phase::Finished(Finish::Cleanup), _) => vec!["git status".to_owned(), git_ralph("start", &[change])],
        (Phase::Finished(Finish::Keep | Finish::Ask), Some(original)) => {
            let original = original.strip_prefix("refs/heads/").unwrap_or(original);
            vec![format!("git switch {} && git merge ralph/{change}", quoted(original)), git_ralph("start", &[change])]
        }
        _ => next_commands(state, change, is_running),
    }
}

/// The state of the run in one sentence.
fn headline(history: &History, is_running: bool) -> String {
    let state = history.state();
    let text = match (&state.phase, &state.end) {
        _ if is_running => "the loop is running".to_owned(),
        (Phase::Aborted | Phase::Aborting, _) => "the run was aborted".to_owned(),
        (_, Some(end)) => end_words_by(end, state, &history.clock),
        (Phase::Finished(_) | Phase::Finishing(_), None) => "the run is finished".to_owned(),
        (Phase::Starting, None) => "the run was interrupted at its start".to_owned(),
        (Phase::Open, None) => "the loop was interrupted".to_owned(),
    };
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn figures(history: &History, done: usize, total: usize, attempts: usize) -> Vec<Figure> {
    let details = || history.all_details().map(|(_, detail)| detail);
    let failed = details().filter(|detail| matches!(detail.close, Close::Failed | Close::Blocked | Close::Beaten)).count();
    let agent = details().fold(0_u64, |sum, detail| sum.saturating_add(detail.agent_milliseconds.unwrap_or(0)));
    let gates = details().flat_map(|detail| &detail.gates).fold(0_u64, |sum, gate| sum.saturating_add(gate.milliseconds));
    let gate_count = details().map(|detail| detail.gates.len()).sum();
    let waited = history.pauses.iter().fold(0_u64, |sum, (pause, _)| sum.saturating_add(pause.milliseconds()));
    let usage = history.state().usage();
    let loops = if history.sessions.len() > 1 { format!("in {}", count(history.sessions.len(), "loop")) } else { String::new() };
    let failed = if failed == 0 { "none failed".to_owned() } else { format!("{failed} failed") };
    let figure = |label, value: String, note: String| Figure { label, value, note };
    let mut figures = vec![
        figure("stories done", format!("{done} of {total}"), String::new()),
        figure("attempts", attempts.to_string(), failed),
        figure("wall time", span(history.chronicle().milliseconds()), loops),
        figure("agents", span(agent), String::new()),
        figure("gates", span(gates), count(gate_count, "run")),
        match history.pauses.len() {
            0 => figure("waiting", "none".to_owned(), String::new()),
            waits => figure("waiting", span(waited), count(waits, "wait")),
        },
    ];
    if let Some(cost) = usage.cost {
        figures.push(figure("cost", cost.to_string(), String::new()));
    }
    if usage.tokens() > 0 {
        figures.push(figure("tokens", tokens_words(usage.tokens()), format!("{} written", tokens_words(usage.output))));
    }
    figures
}

fn models(history: &History, foreign: &mut Foreign) -> Vec<ModelRow> {
    let mut sums: BTreeMap<String, (usize, u64, Usage)> = BTreeMap::new();
    for story in history.stories() {
        for (view, detail) in history.attempts(&story.id).filter(|(view, _)| !view.agent.is_empty()) {
            let (attempts, time, usage) = sums.entry(agent_name(&view.agent, detail.model.as_deref())).or_default();
            *attempts += 1;
            *time = time.saturating_add(detail.agent_milliseconds.unwrap_or(0));
            *usage = usage.plus(&detail.usage);
        }
    }
    let row = |(name, (attempts, time, usage)): (String, (usize, u64, Usage))| ModelRow {
        name: foreign.line(&name),
        attempts,
        time: span(time),
        input: tokens_words(usage.input),
        cached: tokens_words(usage.cached),
        output: tokens_words(usage.output),
        cost: usage.cost.map_or_else(|| "not reported".to_owned(), |cost: Cost| cost.to_string()),
    };
    sums.into_iter().map(row).collect()
}

fn agent_name(agent: &str, model: Option<&str>) -> String {
    model.map_or_else(|| agent.to_owned(), |model| format!("{agent} ({model})"))
}

fn saved(kept: &[Kept], foreign: &mut Foreign) -> Vec<Saved> {
    let entry = |kept: &Kept| Saved {
        name: foreign.line(&kept.name),
        what: foreign.line(&kept.what),
        look: kept.look.clone(),
        back: kept.back.clone(),
        unnamed: kept.unnamed,
    };
    kept.iter().map(entry).collect()
}

/// The warnings for the user: about attempts, then about the run.
fn warnings(history: &History, stories: &[Story], foreign: &mut Foreign) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for story in stories {
        for (view, _) in history.attempts(&story.id) {
            all.extend(view.doubts.iter().map(|doubt| format!("{}, attempt {}: {doubt}", story.id, view.number)));
        }
    }
    all.extend(history.warnings.iter().cloned());
    all.iter().map(|text| foreign.line(text)).collect()
}

fn settings(history: &History, foreign: &mut Foreign) -> (Vec<SettingRow>, Vec<SettingRow>) {
    let (mut set, mut defaults) = (Vec::new(), Vec::new());
    for used in history.conditions.iter().flat_map(|conditions| &conditions.settings) {
        // A value is masked together with its key, which may say that it is a secret.
        let values = used.values.iter().map(|value| foreign.value(&used.key, value)).collect();
        let row =
            SettingRow { key: foreign.line(&used.key), values, origin: foreign.line(used.origin.as_deref().unwrap_or("built-in default")) };
        if used.origin.is_some() { set.push(row) } else { defaults.push(row) }
    }
    (set, defaults)
}

fn versions(history: &History, foreign: &mut Foreign) -> Vec<(String, String)> {
    let mut rows = vec![("git-ralph".to_owned(), foreign.line(&history.versions.join(", ")))];
    if let Some(conditions) = &history.conditions {
        rows.push(("git".to_owned(), foreign.line(&conditions.git)));
        rows.push(("agent".to_owned(), foreign.line(&agent_name(&conditions.agent, conditions.model.as_deref()))));
    }
    rows.retain(|(_, version)| !version.is_empty());
    rows
}

/// The input for the parts about stories.
struct Assembly<'a> {
    history: &'a History,
    findings: &'a Findings,
    state: &'a RunState,
    change: &'a str,
}

impl Assembly<'_> {
    fn stories(&self, stories: &[Story], foreign: &mut Foreign) -> Vec<StoryPart> {
        let left_out = self.state.left_out(stories);
        let mut parts = Vec::new();
        for (number, story) in stories.iter().enumerate() {
            let state = story_word(self.state, story, &left_out);
            let state = if matches!(state, "working" | "unsettled") && !self.findings.is_running { "interrupted" } else { state };
            parts.push(self.story(number + 1, story, state, foreign));
        }
        parts
    }

    fn story(&self, number: usize, story: &Story, state: &'static str, foreign: &mut Foreign) -> StoryPart {
        let progress = self.state.stories.get(&story.id).cloned().unwrap_or_default();
        let attempts: Vec<AttemptPart> =
            (0..).zip(self.history.attempts(&story.id)).map(|(index, it)| self.attempt(number, story, index, it, foreign)).collect();
        let has_trouble = matches!(state, "failed" | "blocked" | "interrupted");
        let trouble = attempts.last().filter(|_| has_trouble).map(|attempt| attempt.outcome.clone());
        StoryPart {
            id: foreign.line(story.id.as_str()),
            anchor: format!("s{number}"),
            title: foreign.line(&story.title),
            state,
            tone: state_tone(state),
            trouble: trouble.or_else(|| has_trouble.then(|| state.to_owned())),
            tasks: foreign.list(&story.tasks),
            criteria: foreign.list(&story.acceptance),
            after: story.after.iter().map(|after| foreign.line(after.as_str())).collect(),
            warned: attempts.iter().any(|attempt| !attempt.warnings.is_empty()),
            attempts,
            time: span(progress.with_gates()),
            milliseconds: progress.with_gates(),
            used: used_words(&progress.usage),
        }
    }

    fn attempt(
        &self,
        story_number: usize,
        story: &Story,
        index: usize,
        (view, detail): (&AttemptView, &Detail),
        foreign: &mut Foreign,
    ) -> AttemptPart {
        let unsettled = if self.findings.is_running { "is under way" } else { "was interrupted" };
        let outcome = view.outcome.as_deref().unwrap_or(unsettled);
        let by_hand = if view.by_hand { " by hand" } else { "" };
        let gates: Vec<GatePart> = detail.gates.iter().map(|gate| gate_part(gate, foreign)).collect();
        let gate_milliseconds = detail.gates.iter().fold(0_u64, |sum, gate| sum.saturating_add(gate.milliseconds));
        let milliseconds = detail.agent_milliseconds.unwrap_or(0).saturating_add(gate_milliseconds);
        let transcript = self.findings.transcripts.get(&(story.id.clone(), index));
        AttemptPart {
            number: view.number,
            anchor: format!("s{story_number}a{}", index + 1),
            tone: tone(detail.close),
            outcome: foreign.line(&format!("{outcome}{by_hand}")),
            agent: foreign.line(&agent_name(&view.agent, detail.model.as_deref())),
            started: self.history.clock.format(detail.started, "%H:%M:%S"),
            time: span(milliseconds),
            milliseconds,
            used: used_words(&detail.usage),
            tools: detail.tools.iter().map(|(name, count)| (foreign.line(name), *count)).collect(),
            gates,
            checkpoint: view.checkpoint.clone(),
            stat: comparison(view, detail, &self.findings.rescued).and_then(|it| self.stat(&it, foreign)),
            saved: view.rescues.iter().map(|name| foreign.line(name)).collect(),
            warnings: view.doubts.iter().map(|doubt| foreign.line(doubt)).collect(),
            notices: view.notices.iter().map(|notice| foreign.line(notice)).collect(),
            undone: view.undone.as_ref().map(|kept| foreign.line(kept)),
            transcript: transcript.map(|lines| foreign.transcript(lines)).unwrap_or_default(),
            log: git_ralph(&format!("log --run {} --attempt {}", self.run(), view.number), &[self.change, story.id.as_str()]),
        }
    }

    fn run(&self) -> u32 {
        self.state.opening.as_ref().map_or(1, |opening| opening.run)
    }

    fn stat(&self, comparison: &Comparison, foreign: &mut Foreign) -> Option<Stat> {
        let patch = self.findings.patches.get(comparison)?;
        let most = foreign.room.files;
        let row = |file: &crate::git::FileChange| FileRow {
            path: foreign.line(&file.path),
            added: file.lines.map(|(added, _)| added),
            removed: file.lines.map(|(_, removed)| removed),
        };
        let files: Vec<FileRow> = patch.files.iter().take(most).map(row).collect();
        let words = match patch.file_count {
            0 => "nothing changed".to_owned(),
            files => format!("{}, +{} −{}", count(files, "file"), patch.added, patch.removed),
        };
        Some(Stat {
            words,
            more_files: patch.file_count - files.len(),
            files,
            diff: diff_runs(&patch.lines, foreign),
            omitted: patch.omitted,
            command: format!("git diff {} {}", quoted(comparison.before.short()), quoted(comparison.commit.short())),
        })
    }
}

fn state_tone(state: &str) -> &'static str {
    match state {
        "done" => "good",
        "failed" | "blocked" | "interrupted" => "bad",
        "working" | "queued" | "unsettled" => "busy",
        _ => "off",
    }
}

/// `$0.02, 11.2k tokens`, as far as they are known.
fn used_words(usage: &Usage) -> String {
    crate::report::words::usage_words(usage).trim_start_matches(", ").to_owned()
}

fn gate_part(gate: &GateDetail, foreign: &mut Foreign) -> GatePart {
    let passed = gate.exit == Exit::Success;
    let result = match &gate.exit {
        Exit::Success => "passed".to_owned(),
        Exit::Code { code } => format!("failed with exit status {code}"),
        Exit::TimedOut { seconds } => format!("did not end within {seconds} s"),
        other => abnormal(other),
    };
    GatePart {
        command: foreign.line(&gate.command),
        passed,
        result: foreign.line(&result),
        time: span(gate.milliseconds),
        output: foreign.output(&gate.output),
        on_merge: gate.on_merge,
    }
}

/// The lines of a patch, grouped by kind.
fn diff_runs(lines: &[String], foreign: &mut Foreign) -> Vec<DiffRun> {
    let mut runs: Vec<DiffRun> = Vec::new();
    let mut in_hunk = false;
    for line in foreign.lines(lines) {
        if line.starts_with("diff --git ") {
            in_hunk = false;
        } else if line.starts_with("@@") {
            in_hunk = true;
        }
        let kind = match line.as_bytes().first() {
            _ if line.starts_with("@@") => "hunk",
            _ if !in_hunk => "file",
            Some(b'+') => "add",
            Some(b'-') => "del",
            _ => "same",
        };
        match runs.last_mut().filter(|run| run.kind == kind) {
            Some(run) => {
                run.text.push_str(&line);
                run.text.push('\n');
            }
            None => runs.push(DiffRun { kind, text: format!("{line}\n") }),
        }
    }
    runs
}
