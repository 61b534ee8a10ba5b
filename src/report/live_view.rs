//! The live view as data: what is happening, as lines for a terminal of any size. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use console::Style;
use jiff::Timestamp;

use super::block::Size;
use super::clean;
use super::fitted::{Part, line};
use super::words::{time_words, tokens_words};
use crate::run::{Activity, Event, RunState, StopKind, Usage, Why};
use crate::story::StoryId;

const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// After this time without output, the view says how long the agent has been silent; earlier if the limit is short.
const QUIET: Duration = Duration::from_secs(30);
/// From this width on there is room for titles and long key names.
const WIDE: usize = 60;
/// From this width on the progress bar is long.
const VERY_WIDE: usize = 120;

/// What is happening in the loop.
#[derive(Debug)]
pub(super) struct LiveView {
    began: Instant,
    agent: String,
    idle: Option<Duration>,
    done: usize,
    total: usize,
    landed: u32,
    /// How long the run has waited for limits and unavailable models.
    waited: Duration,
    /// The usage of attempts that have ended.
    used: Usage,
    /// The usage so far of attempts in progress.
    in_flight: BTreeMap<StoryId, Usage>,
    rows: BTreeMap<Row, Running>,
    stop: Option<StopKind>,
    /// Whether git-ralph reads keys, so that they are worth a line.
    pub hears_keys: bool,
}

/// What a row is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    /// A story in progress, or the one whose last attempt made the run wait.
    Story(StoryId),
    /// The landing whose gates are running.
    Landing,
    /// A private clone that is being set up.
    Workspace(String),
}

#[derive(Debug)]
struct Running {
    name: String,
    title: String,
    since: Instant,
    doing: String,
    /// When the agent last printed something; `None` if no agent is working.
    heard: Option<Instant>,
    /// When a wait ends.
    until: Option<Timestamp>,
}

impl Running {
    fn new(name: String, now: Instant) -> Self {
        Running { name, title: String::new(), since: now, doing: String::new(), heard: None, until: None }
    }
}

impl LiveView {
    pub fn new(now: Instant) -> Self {
        LiveView {
            began: now,
            agent: String::new(),
            idle: None,
            done: 0,
            total: 0,
            landed: 0,
            waited: Duration::ZERO,
            used: Usage::default(),
            in_flight: BTreeMap::new(),
            rows: BTreeMap::new(),
            stop: None,
            hears_keys: false,
        }
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Updates the view with an event.
    #[expect(clippy::too_many_lines, reason = "one arm per event, and nothing else")]
    pub fn event(&mut self, event: &Event, state: &RunState, now: Instant) {
        match event {
            Event::AttemptStarted { story, attempt, title, slot, .. } => {
                let slot = if state.is_isolated() { format!("{}: ", slot + 1) } else { String::new() };
                let title = if title == story.as_str() { String::new() } else { clean(title) };
                let running = Running::new(format!("{slot}{story} (attempt {attempt})"), now);
                self.rows.insert(Row::Story(story.clone()), Running { title, heard: Some(now), ..running });
            }
            Event::AgentEnded { story, .. } => {
                self.in_flight.remove(story);
                self.used = state.usage();
                if let Some(running) = self.rows.get_mut(&Row::Story(story.clone())) {
                    running.heard = None;
                }
            }
            Event::CheckpointLanded { story, .. } => {
                self.rows.remove(&Row::Story(story.clone()));
                self.rows.remove(&Row::Landing);
                self.done += 1;
                self.landed += 1;
            }
            Event::PauseStarted { story, until, why } => {
                let what = match why {
                    Why::Limit => "waits for the usage limit",
                    Why::Unavailable => "waits for the model",
                    Why::Runner => "waits before it tries the runner again",
                };
                let running = Running::new(format!("{story} {what}"), now);
                self.rows.insert(Row::Story(story.clone()), Running { until: Some(*until), ..running });
            }
            Event::PauseEnded { story } => {
                let row = self.rows.remove(&Row::Story(story.clone()));
                self.waited += row.map_or(Duration::ZERO, |row| now.duration_since(row.since));
            }
            Event::AttemptQueued { story, .. } | Event::AttemptRolledBack { story, .. } => {
                self.rows.remove(&Row::Story(story.clone()));
            }
            Event::AttemptBeaten { .. } | Event::BatchFailed { .. } | Event::CommitsAdopted { .. } => {
                self.rows.remove(&Row::Landing);
            }
            Event::WorkspaceReady { slot, .. } => {
                self.rows.remove(&Row::Workspace((slot + 1).to_string()));
            }
            Event::RunStarted { .. } | Event::RunResumed {} | Event::UsageFound { .. } => self.used = state.usage(),
            Event::StopRequested { how } => self.stop = Some(*how),
            Event::LoopEnded { .. }
            | Event::LoopStarted { .. }
            | Event::RunStarting { .. }
            | Event::LeftoverKept { .. }
            | Event::EditsAdopted { .. }
            | Event::IdentityMissing {}
            | Event::SourceUnreadable { .. }
            | Event::SourceRead { .. }
            | Event::SourcePutBack { .. }
            | Event::StoriesChanged { .. }
            | Event::StrayMarks { .. }
            | Event::MarksNotSet { .. }
            | Event::GateEnded { .. }
            | Event::AttemptAccepted { .. }
            | Event::AttemptRejected { .. }
            | Event::UndoStarted { .. }
            | Event::Undone { .. }
            | Event::Noticed { .. }
            | Event::StoryFailed { .. }
            | Event::HintGiven { .. }
            | Event::StorySkipped { .. }
            | Event::StoryRetried { .. }
            | Event::DoneByHand { .. }
            | Event::ChangeEdited { .. }
            | Event::RequestRefused { .. }
            | Event::FinishStarted { .. }
            | Event::Finished { .. }
            | Event::AbortStarted {}
            | Event::Aborted { .. } => {}
        }
    }

    /// Updates the view with an activity.
    pub fn activity(&mut self, activity: &Activity<'_>, now: Instant) {
        match activity {
            Activity::Working { agent, model, idle } => {
                let model = model.map(|model| format!(" ({model})")).unwrap_or_default();
                (self.agent, self.idle) = (clean(&format!("{agent}{model}")), *idle);
            }
            Activity::Planned { done, total } => (self.done, self.total) = (*done, *total),
            Activity::Heard { story, usage } => {
                self.in_flight.insert((*story).clone(), (*usage).clone());
                if let Some(running) = self.rows.get_mut(&Row::Story((*story).clone())) {
                    running.heard = Some(now);
                }
            }
            Activity::WaitingForRunner { story, runner } => {
                let row = Row::Story((*story).clone());
                self.show(&row, format!("waits for {}", clean(runner)));
                if let Some(running) = self.rows.get_mut(&row) {
                    // Waiting for a runner does not count as silence.
                    running.heard = None;
                }
            }
            Activity::Begun { story } => {
                if let Some(running) = self.rows.get_mut(&Row::Story((*story).clone())) {
                    (running.since, running.heard, running.doing) = (now, Some(now), String::new());
                }
            }
            Activity::Said { story, line } => self.show(&Row::Story((*story).clone()), clean(line)),
            Activity::Did { story, tool, target } => self.show(&Row::Story((*story).clone()), clean(&format!("{tool} {target}"))),
            Activity::GateStarted { story, command } => {
                let row = Row::Story((*story).clone());
                // The gates of a landing run after the attempt has left its workspace, so the story has no row any more.
                let row = if self.rows.contains_key(&row) { row } else { Row::Landing };
                self.show(&row, format!("gate: {}", clean(command)));
            }
            Activity::Landing { stories } => {
                self.rows.remove(&Row::Workspace("landing".to_owned()));
                let stories: Vec<&str> = stories.iter().map(StoryId::as_str).collect();
                self.rows.insert(Row::Landing, Running::new(format!("landing {}", stories.join(", ")), now));
            }
            Activity::SettingUp { workspace, command } => {
                let row = Row::Workspace((*workspace).to_owned());
                self.rows.entry(row.clone()).or_insert_with(|| Running::new(format!("workspace {workspace}"), now));
                self.show(&row, format!("setup: {}", clean(command)));
            }
            Activity::Waiting { story, until } => {
                if let Some(running) = self.rows.get_mut(&Row::Story((*story).clone())) {
                    running.until = Some(*until);
                }
            }
            Activity::CallbackFailed { .. }
            | Activity::SourceNotCarried { .. }
            | Activity::NotCopied { .. }
            | Activity::SourceEdited { .. } => {}
        }
    }

    fn show(&mut self, row: &Row, doing: String) {
        if let Some(running) = self.rows.get_mut(row).filter(|_| !doing.trim().is_empty()) {
            running.doing = doing;
        }
    }

    /// The lines for a terminal of the given size.
    pub fn lines(&self, size: Size, now: Instant, time: Timestamp) -> Vec<String> {
        let cells = size.usable();
        let beat = usize::try_from(now.duration_since(self.began).as_millis() / 100).unwrap_or_default();
        let spinner = SPINNER[beat % SPINNER.len()];
        // One row is for the summary and one for the keys. The cursor does not need its own row.
        let shown = size.rows.saturating_sub(3).max(1);
        let mut lines: Vec<String> = self.rows.values().take(shown).map(|row| self.row(row, spinner, size, now, time)).collect();
        lines.push(line(self.summary(size, now), cells));
        lines.push(line(self.keys(size), cells));
        lines
    }

    fn row(&self, row: &Running, spinner: &str, size: Size, now: Instant, time: Timestamp) -> String {
        let plain = Style::new;
        let title = if size.columns >= WIDE { row.title.as_str() } else { "" };
        let mut parts = vec![
            Part::flexible(0, format!("{spinner} {}", row.name), plain().cyan()),
            Part::flexible(5, title, plain().bold()),
            Part::new(1, clock(now.duration_since(row.since)), plain()),
        ];
        if let Some(until) = row.until {
            let left = Duration::try_from(until.duration_since(time)).unwrap_or_default();
            parts.push(Part::new(2, format!("{} left", clock(left)), plain().yellow()));
            parts.push(Part::new(3, format!("until {}", time_words(until)), plain()));
        }
        parts.push(Part::new(2, self.quiet(row, now), plain().yellow()));
        parts.push(Part::flexible(4, row.doing.trim(), plain().dim()));
        line(parts, size.usable())
    }

    /// How long an agent has been silent, and its limit.
    fn quiet(&self, row: &Running, now: Instant) -> String {
        let silent = row.heard.map_or(Duration::ZERO, |heard| now.duration_since(heard));
        match self.idle {
            Some(idle) if silent >= QUIET.min(idle / 4) => format!("quiet for {} of {}", short(silent), short(idle)),
            None if silent >= QUIET => format!("quiet for {}", short(silent)),
            _ => String::new(),
        }
    }

    fn summary(&self, size: Size, now: Instant) -> Vec<Part> {
        let plain = Style::new;
        let length = if size.columns >= VERY_WIDE { 30 } else { 10 };
        let full = (length * self.done.min(self.total)).checked_div(self.total).unwrap_or_default();
        let used = self.in_flight.values().fold(self.used.clone(), |sum, usage| sum.plus(usage));
        let cost = used.cost.map(|cost| cost.to_string()).unwrap_or_default();
        let tokens = if used.tokens() == 0 { String::new() } else { format!("{} tokens", tokens_words(used.tokens())) };
        let noun = if self.total == 1 { "story" } else { "stories" };
        let bar = format!("{}{}", "━".repeat(full), "╌".repeat(length - full));
        vec![
            Part::new(6, bar, plain().green()),
            Part::new(0, format!("{}/{} {noun}", self.done, self.total), plain()),
            Part::new(1, clock(now.duration_since(self.began)), plain()),
            Part::new(4, self.left(now), plain()),
            Part::new(2, cost, plain()),
            Part::new(3, tokens, plain()),
        ]
    }

    /// How many stories are left, and an estimate of the time, based on the stories that this loop has landed.
    fn left(&self, now: Instant) -> String {
        let left = self.total.saturating_sub(self.done);
        let worked = now.duration_since(self.began).saturating_sub(self.waited);
        match (left, self.landed) {
            (0, _) => String::new(),
            (left, 0) => format!("{left} left"),
            (left, landed) => {
                let rest = (worked / landed).saturating_mul(u32::try_from(left).unwrap_or(u32::MAX));
                format!("{left} left, about {}", short(rest))
            }
        }
    }

    fn keys(&self, size: Size) -> Vec<Part> {
        let wide = size.columns >= WIDE;
        let (q, ctrl_c) = match (self.stop, wide) {
            (None, true) => ("q stop after this attempt", "Ctrl-C stop now"),
            (None, false) => ("q stop", "^C stop now"),
            (Some(StopKind::AfterAttempt), true) => ("stopping after this attempt", "Ctrl-C stop now"),
            (Some(StopKind::AfterAttempt), false) => ("stopping", "^C now"),
            (Some(StopKind::Now | StopKind::Interrupt | StopKind::Terminate), true) => ("stopping", "Ctrl-C again to quit at once"),
            (Some(StopKind::Now | StopKind::Interrupt | StopKind::Terminate), false) => ("stopping", "^C quit"),
        };
        let dim = || Style::new().dim();
        let q = if self.hears_keys || self.stop.is_some() { q } else { "" };
        let q = Part::new(0, q, if self.stop.is_some() { Style::new().yellow() } else { dim() });
        vec![q, Part::new(1, ctrl_c, dim()), Part::flexible(2, self.agent.as_str(), dim())]
    }
}

/// `1:05`, `1:02:03`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours == 0 { format!("{minutes}:{seconds:02}") } else { format!("{hours}:{minutes:02}:{seconds:02}") }
}

/// `40s`, `4m`, `2h 5m`.
fn short(time: Duration) -> String {
    match time.as_secs() {
        s if s < 60 => format!("{s}s"),
        s if s < 3600 => format!("{}m", s / 60),
        s if s % 3600 < 60 => format!("{}h", s / 3600),
        s => format!("{}h {}m", s / 3600, s / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::super::cells::width;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn story(id: &str) -> StoryId {
        id.parse().unwrap_or_else(|_| panic!("{id} is no story id"))
    }

    /// A view of the second of three stories, with an attempt that began a minute ago and has printed nothing since.
    fn at_work(now: Instant, title: &str) -> LiveView {
        let began = now - 60 * SECOND;
        let mut view = LiveView::new(began);
        let state = RunState::default();
        view.activity(&Activity::Working { agent: "claude", model: Some("opus"), idle: Some(900 * SECOND) }, began);
        view.activity(&Activity::Planned { done: 0, total: 3 }, began);
        let landed: Event = serde_json::from_str(&format!(
            r#"{{"event":"checkpoint-landed","story":"a","attempt":1,"commit":"{}","files":1}}"#,
            "a".repeat(40)
        ))
        .unwrap_or_else(|error| panic!("{error}"));
        view.event(&landed, &state, now - 30 * SECOND);
        let started: Event = serde_json::from_value(serde_json::json!({
            "event": "attempt-started", "story": "b", "attempt": 1, "title": title, "agent": "claude", "gates": null
        }))
        .unwrap_or_else(|error| panic!("{error}"));
        view.event(&started, &state, now - 30 * SECOND);
        view.activity(&Activity::Did { story: &story("b"), tool: "Edit", target: "src/main.rs" }, now - 30 * SECOND);
        view
    }

    fn text(view: &LiveView, columns: usize, now: Instant, time: Timestamp) -> String {
        let lines = view.lines(Size { columns, rows: 30 }, now, time);
        console::strip_ansi_codes(&lines.join("\n")).into_owned()
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_whatever_titles_hold() {
        let now = Instant::now();
        for title in [
            "A title that goes on for longer than any terminal is wide, or so it seems",
            "漢字".repeat(40).as_str(),
            "👩\u{200d}👩\u{200d}👧 family",
        ] {
            let view = at_work(now, title);
            for columns in 20..200 {
                for line in text(&view, columns, now, Timestamp::UNIX_EPOCH).lines() {
                    assert!(width(line) < columns, "{} cells in {columns} columns: {line}", width(line));
                }
            }
        }
    }

    #[test]
    fn silence_is_shown_with_its_limit_and_the_remaining_time_is_estimated_from_done_stories() {
        let now = Instant::now();
        let mut view = at_work(now, "Second");
        let shown = |view: &LiveView, now| text(view, 100, now, Timestamp::UNIX_EPOCH);
        assert!(shown(&view, now + 210 * SECOND).contains("quiet for 4m of 15m"), "{}", shown(&view, now + 210 * SECOND));
        assert!(shown(&view, now).contains("1/3 stories  1:00  2 left, about 2m"), "{}", shown(&view, now));
        view.activity(&Activity::Heard { story: &story("b"), usage: &Usage::default() }, now + 210 * SECOND);
        assert!(!shown(&view, now + 210 * SECOND).contains("quiet"), "{}", shown(&view, now + 210 * SECOND));
    }

    #[test]
    fn an_agent_that_its_runner_has_not_started_waits_and_is_not_quiet() {
        let now = Instant::now();
        let mut view = at_work(now, "Second");
        let shown = |view: &LiveView, now| text(view, 100, now, Timestamp::UNIX_EPOCH);
        view.activity(&Activity::WaitingForRunner { story: &story("b"), runner: "srun" }, now);
        let later = now + 3600 * SECOND;
        assert!(shown(&view, later).contains("waits for srun") && !shown(&view, later).contains("quiet"), "{}", shown(&view, later));
        view.activity(&Activity::Begun { story: &story("b") }, later);
        assert!(!shown(&view, later).contains("waits"), "{}", shown(&view, later));
        let silent = later + 240 * SECOND;
        assert!(shown(&view, silent).contains("4:00") && shown(&view, silent).contains("quiet for 4m of 15m"), "{}", shown(&view, silent));
    }

    #[test]
    fn a_wait_shows_the_time_that_remains() {
        let (now, time) = (Instant::now(), Timestamp::UNIX_EPOCH);
        let mut view = at_work(now, "Second");
        let until = time + Duration::from_secs(2 * 3600 + 65);
        view.event(&Event::PauseStarted { story: story("b"), until, why: Why::Limit }, &RunState::default(), now);
        let at = |seconds: u32| text(&view, 100, now + seconds * SECOND, time + seconds * SECOND);
        assert!(at(0).contains("b waits for the usage limit  0:00  2:01:05 left"), "{}", at(0));
        assert!(at(61).contains("1:01  2:00:04 left"), "{}", at(61));
    }
}
