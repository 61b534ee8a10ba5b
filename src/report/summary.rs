//! The summary of a run: how many stories are done, the effort, the changes, and where saved work is.

use std::fmt::Write as _;

use serde::Serialize;

use super::clean;
use super::status::story_word;
use super::words::{count, some, span, usage_words};
use crate::cost::Cost;
use crate::git::DiffStat;
use crate::names::Names;
use crate::run::{Budget, End, Phase, RunState};
use crate::story::{ChangeName, Story};

/// The summary of a run.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Summary {
    #[serde(skip)]
    change: String,
    /// The number of stories.
    pub total: usize,
    /// The stories by state: done first, then those that the user should look at.
    stories: Vec<Group>,
    attempts: u32,
    agent_seconds: u64,
    /// How long loops were working; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    wall_seconds: Option<u64>,
    tokens: u64,
    cost_usd: Option<f64>,
    #[serde(skip)]
    agent_milliseconds: u64,
    #[serde(skip)]
    wall_milliseconds: Option<u64>,
    #[serde(skip)]
    used: String,
    changes: Option<DiffStat>,
    /// The refs with saved work.
    saved: Vec<String>,
}

/// The stories in one state.
#[derive(Clone, Debug, Serialize)]
struct Group {
    state: &'static str,
    ids: Vec<String>,
    /// The ids in the form that is shown to people.
    #[serde(skip)]
    shown: Vec<String>,
}

/// The order in which the states of stories are listed; other states come last.
const ORDER: [&str; 5] = ["done", "failed", "blocked", "skipped", "open"];

impl Summary {
    /// Creates a summary from the state of a run.
    #[must_use]
    pub fn new(change: &ChangeName, state: &RunState, stories: &[Story]) -> Self {
        let usage = state.usage();
        let agent_milliseconds = state.stories.values().fold(0_u64, |sum, progress| sum.saturating_add(progress.milliseconds));
        Summary {
            change: change.to_string(),
            total: stories.len(),
            stories: groups(state, stories),
            attempts: state.stories.values().fold(0, |sum, progress| sum.saturating_add(progress.attempts)),
            agent_seconds: agent_milliseconds / 1000,
            wall_seconds: None,
            tokens: usage.tokens(),
            cost_usd: usage.cost.map(Cost::as_dollars),
            agent_milliseconds,
            wall_milliseconds: None,
            used: usage_words(&usage),
            changes: None,
            saved: state.stories.values().flat_map(|progress| progress.rescues.clone()).chain(state.kept.clone()).collect(),
        }
    }

    /// Adds the time that loops were working.
    #[must_use]
    pub fn within(mut self, milliseconds: u64) -> Self {
        self.wall_milliseconds = Some(milliseconds);
        self.wall_seconds = Some(milliseconds / 1000);
        self
    }

    /// Adds what the run has changed.
    #[must_use]
    pub fn with_changes(mut self, changes: Option<DiffStat>) -> Self {
        self.changes = changes;
        self
    }

    /// Adds all refs with saved work among the given ones. The state knows only those of attempts and of the end of the run.
    #[must_use]
    pub fn with_saved<'a>(mut self, names: &Names, refs: impl Iterator<Item = &'a str>) -> Self {
        let keeps = |name: &&str| names.kind(name).is_some_and(|own| own.run.is_none() && own.kind.keeps_work());
        self.saved = refs.filter(keeps).map(str::to_owned).collect();
        self
    }

    /// How many stories are done.
    #[must_use]
    pub fn done(&self) -> usize {
        self.count("done")
    }

    /// How many stories the user has skipped.
    fn skipped(&self) -> usize {
        self.count("skipped")
    }

    fn count(&self, state: &str) -> usize {
        self.stories.iter().find(|group| group.state == state).map_or(0, |group| group.ids.len())
    }
}

fn groups(state: &RunState, stories: &[Story]) -> Vec<Group> {
    let left_out = state.left_out(stories);
    let mut groups: Vec<Group> = Vec::new();
    for story in stories {
        let (word, id) = (story_word(state, story, &left_out), story.id.to_string());
        let has_failed = word == "open" && state.stories.get(&story.id).is_some_and(|progress| progress.failures > 0);
        let shown = if has_failed { format!("{id} after a failed attempt") } else { id.clone() };
        match groups.iter_mut().find(|group| group.state == word) {
            Some(group) => {
                group.ids.push(id);
                group.shown.push(shown);
            }
            None => groups.push(Group { state: word, ids: vec![id], shown: vec![shown] }),
        }
    }
    groups.sort_by_key(|group| ORDER.iter().position(|known| *known == group.state).unwrap_or(ORDER.len()));
    groups
}

/// The summary for people, one fact per line.
#[must_use]
pub fn summary_text(summary: &Summary) -> String {
    let mut text = String::new();
    let mut stories = format!("{} of {} done", summary.done(), summary.total);
    for group in summary.stories.iter().filter(|group| group.state != "done") {
        let _ = write!(stories, "; {} {} ({})", group.ids.len(), group.state, some(&group.shown));
    }
    let _ = writeln!(text, "  stories   {stories}");
    text + &effort_text(summary)
}

/// The line with the refs of saved work, for output other than the log.
#[must_use]
pub fn saved_text(summary: &Summary) -> String {
    if summary.saved.is_empty() {
        return String::new();
    }
    format!("  saved     {}; git ralph log {} lists all\n", clean(&some(&summary.saved)), summary.change)
}

/// The line with the path of the run's page.
#[must_use]
pub fn page_text(path: &str) -> String {
    format!("  report    {}\n", clean(path))
}

/// The lines about effort and changes.
#[must_use]
pub fn effort_text(summary: &Summary) -> String {
    let mut text = String::new();
    let wall = summary.wall_milliseconds.map(|wall| format!(" in {}", span(wall))).unwrap_or_default();
    let agents = span(summary.agent_milliseconds);
    let attempts = count(summary.attempts as usize, "attempt");
    let _ = writeln!(text, "  effort    {attempts}{wall}; agents worked for {agents}{}", summary.used);
    if let Some(changes) = &summary.changes {
        let _ = writeln!(text, "  changes   {}", changes_words(changes));
    }
    text
}

fn changes_words(changes: &DiffStat) -> String {
    if changes.files == 0 {
        return "none".to_owned();
    }
    let lines = |number: usize, what: &str| if number == 0 { String::new() } else { format!(", {} {what}", count(number, "line")) };
    let (added, removed) = (lines(changes.insertions, "added"), lines(changes.deletions, "removed"));
    format!("{}{added}{removed}", count(changes.files, "file"))
}

/// The question at the end of a loop: what has happened, and what to do now.
#[must_use]
pub fn question_words(end: Option<&End>, summary: &Summary) -> String {
    let what = match end {
        Some(End::AllDone) if summary.skipped() > 0 => {
            return "Every story is done or skipped. How should the run be completed?".to_owned();
        }
        Some(End::AllDone) => return "Every story is done. How should the run be completed?".to_owned(),
        Some(End::SelectionDone) => "The selected stories are done".to_owned(),
        Some(End::LimitReached) => "The --limit is reached".to_owned(),
        Some(End::RetriesSpent { story }) => format!("Story '{story}' has no retries left"),
        Some(End::BudgetSpent { spent: Budget::Cost { .. } | Budget::Tokens { .. } }) => "The budget is exceeded".to_owned(),
        Some(End::Misconfigured { .. }) => "The agent cannot work".to_owned(),
        Some(End::UsageLimit { .. } | End::StillLimited { .. }) => "The agent's usage limit is reached".to_owned(),
        Some(End::RunnerFailed { .. }) => "The runner failed too often".to_owned(),
        Some(End::NeedsUser { story, .. }) => format!("Story '{story}' needs you"),
        Some(End::Blocked { story }) => format!("Story '{story}' comes after stories that are not selected"),
        Some(End::Stopped | End::Interrupted { .. }) | None => "The run is paused".to_owned(),
    };
    format!("{what}, {} of {} done. What now?", summary.done(), count(summary.total, "story"))
}

/// The state of a change's last run in one word: a run that was finished before every story was done or skipped is `partial`.
#[must_use]
pub fn run_word(phase: &Phase, summary: &Summary) -> &'static str {
    match phase {
        Phase::Finished(_) if summary.done() + summary.skipped() < summary.total => "partial",
        Phase::Finished(_) => "finished",
        Phase::Aborted => "aborted",
        Phase::Starting | Phase::Open | Phase::Finishing(_) | Phase::Aborting => "open",
    }
}
