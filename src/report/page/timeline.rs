//! The timeline of a run as data: one lane per slot, one group per attempt with its parts, waits, breaks between loops, and ticks.
//! Positions are shares of the whole width, so that a page and a terminal can draw the same timeline.

use jiff::Timestamp;
use serde::Serialize;

use super::history::{Close, Detail, History, PartKind, Stretch};
use crate::report::words::span;
use crate::run::Why;
use crate::story::StoryId;

/// The share of the width for a break between two loops, and for all breaks together.
const BREAK: f64 = 0.015;
const ALL_BREAKS: f64 = 0.2;
/// The approximate number of times below the lanes.
const TICKS: u64 = 7;
/// The possible steps between them, in seconds.
const STEPS: [u64; 17] = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400];

/// Everything that is drawn.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Timeline {
    /// One per slot, and one for the landing queue of an isolated run.
    pub lanes: Vec<Lane>,
    /// Waits, across all lanes.
    pub waits: Vec<Band>,
    /// Times at which no loop was working.
    pub breaks: Vec<Band>,
    /// The times below the lanes.
    pub ticks: Vec<Tick>,
    /// How long the loops were working, in milliseconds.
    pub length: u64,
    /// The number of attempts: a long run gets a wider drawing.
    pub groups: usize,
}

/// What happened in one slot.
#[derive(Clone, Debug, Serialize)]
pub struct Lane {
    /// Its name.
    pub label: String,
    /// The attempts, in their order.
    pub groups: Vec<Group>,
}

/// An attempt in a lane.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    #[serde(skip)]
    pub story: StoryId,
    /// The index among the attempts at its story, from 0.
    #[serde(skip)]
    pub index: usize,
    /// The label.
    pub label: String,
    /// The anchor of the attempt on the page.
    pub anchor: String,
    /// The tooltip.
    pub tip: String,
    /// The position of its beginning.
    pub left: Share,
    /// The width.
    pub width: Share,
    /// When it began, in milliseconds of working time.
    pub from: u64,
    /// How long it took, in milliseconds.
    pub length: u64,
    /// `good`, `bad`, `off` or `busy`.
    pub tone: &'static str,
    /// The parts of the attempt; positions are shares of the group.
    pub parts: Vec<Part>,
}

/// A part of an attempt.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// `agent`, `gate`, `failed`, `land` or `back`.
    pub kind: &'static str,
    /// The position of its beginning.
    pub left: Share,
    /// The width.
    pub width: Share,
}

/// A period across all lanes.
#[derive(Clone, Debug, Serialize)]
pub struct Band {
    /// The position of its beginning.
    pub left: Share,
    /// The width.
    pub width: Share,
    /// A description.
    pub label: String,
}

/// A time below the lanes.
#[derive(Clone, Debug, Serialize)]
pub struct Tick {
    /// The position.
    pub left: Share,
    /// The time.
    pub label: String,
    /// Whether it may be left out on a narrow screen.
    pub is_minor: bool,
}

/// A share of a width, from 0 to 1; serialized as a percentage.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Share(pub f64);

impl Serialize for Share {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = format!("{:.3}", self.0 * 100.0);
        serializer.serialize_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Maps times to positions.
struct Scale<'a> {
    sessions: &'a [Stretch],
    total: f64,
    gap: f64,
}

impl<'a> Scale<'a> {
    fn new(sessions: &'a [Stretch]) -> Self {
        let total = sessions.iter().fold(0_u64, |sum, session| sum.saturating_add(session.milliseconds())).max(1);
        let breaks = sessions.len().saturating_sub(1).max(1);
        #[expect(clippy::cast_precision_loss, reason = "a drawing is not that precise")]
        let (total, gap) = (total as f64, BREAK.min(ALL_BREAKS / breaks as f64));
        Scale { sessions, total, gap }
    }

    /// The share of the width that all sessions together take.
    #[expect(clippy::cast_precision_loss, reason = "a drawing is not that precise")]
    fn drawn(&self) -> f64 {
        1.0 - self.gap * self.sessions.len().saturating_sub(1) as f64
    }

    /// The working time before the given time in milliseconds, and the number of breaks.
    fn worked(&self, time: Timestamp) -> (u64, usize) {
        let mut worked = 0_u64;
        for (number, session) in self.sessions.iter().enumerate() {
            let is_last = number + 1 == self.sessions.len();
            if time <= session.to || is_last {
                let inside = Stretch { from: session.from, to: time.clamp(session.from, session.to) };
                return (worked.saturating_add(inside.milliseconds()), number);
            }
            worked = worked.saturating_add(session.milliseconds());
        }
        (worked, 0)
    }

    #[expect(clippy::cast_precision_loss, reason = "a drawing is not that precise")]
    fn place(&self, time: Timestamp) -> f64 {
        let (worked, breaks) = self.worked(time);
        worked as f64 / self.total * self.drawn() + self.gap * breaks as f64
    }

    fn band(&self, stretch: Stretch, label: String) -> Band {
        let left = self.place(stretch.from);
        Band { left: Share(left), width: Share((self.place(stretch.to) - left).max(0.0)), label }
    }
}

impl Timeline {
    /// The timeline of a run.
    #[must_use]
    pub fn of(history: &History) -> Self {
        let scale = Scale::new(&history.sessions);
        let is_isolated = history.state().is_isolated();
        let end = history.last().unwrap_or_default();
        let mut lanes: Vec<Lane> = Vec::new();
        let mut landing = Lane { label: "landing".to_owned(), groups: Vec::new() };
        let mut seen: (Option<&StoryId>, usize) = (None, 0);
        for (story, detail) in history.all_details() {
            seen = if seen.0 == Some(story) { (seen.0, seen.1 + 1) } else { (Some(story), 0) };
            let slot = detail.slot as usize;
            while lanes.len() <= slot && lanes.len() < MOST_LANES {
                let label = if is_isolated { format!("slot {}", lanes.len() + 1) } else { "checkout".to_owned() };
                lanes.push(Lane { label, groups: Vec::new() });
            }
            let in_slot = Stretch { from: detail.started, to: detail.left.unwrap_or_else(|| last_of(detail).max(busy_until(detail, end))) };
            if let Some(lane) = lanes.get_mut(slot.min(MOST_LANES - 1)) {
                lane.groups.push(group(&scale, story, seen.1, detail, in_slot, &detail.parts));
            }
            if let Some(stretch) = detail.landing {
                landing.groups.push(group(&scale, story, seen.1, detail, stretch, &[(PartKind::Landing, stretch)]));
            }
        }
        lanes.extend((!landing.groups.is_empty()).then_some(landing));
        lanes.iter_mut().for_each(|lane| lane.groups.sort_by_key(|group| group.from));
        let groups = lanes.iter().map(|lane| lane.groups.len()).sum();
        let length = history.sessions.iter().fold(0_u64, |sum, session| sum.saturating_add(session.milliseconds()));
        let waits = history.pauses.iter().map(|(stretch, why)| scale.band(*stretch, wait_words(*stretch, *why))).collect();
        Timeline { lanes, waits, breaks: breaks(history, &scale), ticks: ticks(history, &scale, length), length, groups }
    }
}

/// A group narrower than this is drawn in one colour.
const THINNEST: f64 = 0.0006;

/// Slots beyond this number share the last lane.
const MOST_LANES: usize = 64;

/// The last known time of an attempt.
fn last_of(detail: &Detail) -> Timestamp {
    detail.parts.last().map_or(detail.started, |(_, stretch)| stretch.to)
}

/// The end of an attempt in progress is that of the run's last record.
fn busy_until(detail: &Detail, end: Timestamp) -> Timestamp {
    if detail.close == Close::Open { end } else { detail.started }
}

fn wait_words(stretch: Stretch, why: Why) -> String {
    let what = match why {
        Why::Limit => "the usage limit",
        Why::Unavailable => "the model",
        Why::Runner => "the runner",
    };
    format!("waited {} for {what}", span(stretch.milliseconds()))
}

pub(super) fn tone(close: Close) -> &'static str {
    match close {
        Close::Landed => "good",
        Close::Failed | Close::Blocked | Close::Beaten => "bad",
        Close::Stopped => "off",
        Close::Open => "busy",
    }
}

fn part_word(kind: PartKind) -> &'static str {
    match kind {
        PartKind::Agent => "agent",
        PartKind::Gate => "gate",
        PartKind::FailedGate => "failed",
        PartKind::Landing => "land",
        PartKind::Rollback => "back",
    }
}

fn group(scale: &Scale<'_>, story: &StoryId, index: usize, detail: &Detail, stretch: Stretch, parts: &[(PartKind, Stretch)]) -> Group {
    let left = scale.place(stretch.from);
    let width = (scale.place(stretch.to) - left).max(0.0);
    let inside = |time: Timestamp| if width > 0.0 { ((scale.place(time) - left) / width).clamp(0.0, 1.0) } else { 0.0 };
    let part = |(kind, stretch): &(PartKind, Stretch)| {
        let left = inside(stretch.from);
        Part { kind: part_word(*kind), left: Share(left), width: Share((inside(stretch.to) - left).max(0.0)) }
    };
    // Parts too small to be visible are left out.
    let is_visible = |part: &Part| part.width.0 > 0.002 && width > THINNEST;
    let mut parts: Vec<Part> = parts.iter().map(part).filter(is_visible).collect();
    if detail.close == Close::Open {
        let from = parts.last().map_or(0.0, |part| part.left.0 + part.width.0);
        parts.push(Part { kind: "agent", left: Share(from), width: Share(1.0 - from) });
    }
    let from = scale.worked(stretch.from).0;
    let length = scale.worked(stretch.to).0.saturating_sub(from);
    let (label, anchor, tip) = (String::new(), String::new(), String::new());
    Group {
        story: story.clone(),
        index,
        label,
        anchor,
        tip,
        left: Share(left),
        width: Share(width),
        from,
        length,
        tone: tone(detail.close),
        parts,
    }
}

fn breaks(history: &History, scale: &Scale<'_>) -> Vec<Band> {
    let pairs = history.sessions.windows(2);
    pairs
        .map(|pair| {
            let pause = Stretch { from: pair[0].to, to: pair[1].from };
            let left = scale.place(pause.from);
            Band { left: Share(left), width: Share(scale.gap), label: format!("no loop for {}", span(pause.milliseconds())) }
        })
        .collect()
}

/// Round times, and the beginning of each loop.
fn ticks(history: &History, scale: &Scale<'_>, length: u64) -> Vec<Tick> {
    let step = STEPS.into_iter().find(|step| step * 1000 * TICKS >= length).unwrap_or(length / 1000 / TICKS).max(1);
    let form = if step < 60 { "%H:%M:%S" } else { "%H:%M" };
    let mut ticks: Vec<Tick> = Vec::new();
    let mut add = |time: Timestamp| {
        let left = scale.place(time);
        let room = ticks.last().is_none_or(|last| left - last.left.0 > 0.09);
        if room && left < 0.96 {
            let is_minor = ticks.len() % 2 == 1;
            ticks.push(Tick { left: Share(left), label: history.clock.format(time, form), is_minor });
        }
    };
    for session in &history.sessions {
        add(session.from);
        let step = i64::try_from(step).unwrap_or(1);
        let mut time = session.from.as_second() / step * step + step;
        while time < session.to.as_second() {
            let Ok(at) = Timestamp::from_second(time) else { break };
            add(at);
            time = time.saturating_add(step);
        }
    }
    ticks
}

/// A time that is later by the given number of milliseconds.
#[cfg(test)]
pub(super) fn later(time: Timestamp, milliseconds: i64) -> Timestamp {
    time.checked_add(jiff::SignedDuration::from_millis(milliseconds)).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(from: i64, to: i64) -> Stretch {
        Stretch { from: later(Timestamp::UNIX_EPOCH, from), to: later(Timestamp::UNIX_EPOCH, to) }
    }

    #[test]
    fn times_between_loops_take_a_little_room_and_times_in_loops_take_the_rest() {
        let sessions = [stretch(0, 1000), stretch(100_000, 103_000)];
        let scale = Scale::new(&sessions);
        let place = |at: i64| scale.place(later(Timestamp::UNIX_EPOCH, at));
        let drawn = 1.0 - BREAK;
        assert!((place(0)).abs() < 1e-9 && (place(1000) - drawn / 4.0).abs() < 1e-9);
        assert!((place(100_000) - drawn / 4.0 - BREAK).abs() < 1e-9 && (place(103_000) - 1.0).abs() < 1e-9);
        assert!((place(50_000) - drawn / 4.0 - BREAK).abs() < 1e-9, "what is between two loops is at the beginning of the second");
        assert_eq!(scale.worked(later(Timestamp::UNIX_EPOCH, 101_000)), (2000, 1));
    }

    #[test]
    fn a_run_without_any_time_has_a_scale() {
        let sessions = [stretch(5, 5)];
        assert!(Scale::new(&sessions).place(later(Timestamp::UNIX_EPOCH, 5)).abs() < 1e-9);
        assert!(Scale::new(&[]).place(Timestamp::UNIX_EPOCH).abs() < 1e-9);
    }
}
