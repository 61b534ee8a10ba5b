//! Draws the timeline of a run with characters, for a terminal.

use std::fmt::Write as _;

use super::timeline::{Band, Group, Lane, Timeline};
use crate::report::cells::{shorten, width};
use crate::report::words::span;

/// The character for each kind of part, with its name in the legend.
const KEYS: [(&str, char, &str); 6] = [
    ("agent", '█', "agent"),
    ("gate", '▓', "gate"),
    ("failed", '✗', "failed"),
    ("land", '▄', "landing"),
    ("back", '░', "rollback"),
    ("wait", '·', "waiting"),
];

/// The minimum width of a lane, in columns.
const NARROWEST: usize = 20;

/// Draws the timeline in the given number of columns, one line per lane.
#[must_use]
pub fn timeline_text(timeline: &Timeline, columns: usize) -> String {
    let label = timeline.lanes.iter().map(|lane| width(&lane.label)).max().unwrap_or(0).min(12);
    let room = columns.saturating_sub(label + 4).max(NARROWEST);
    let mut text = String::new();
    if timeline.lanes.is_empty() {
        return "  no attempt was started\n".to_owned();
    }
    for lane in &timeline.lanes {
        let cells = cells(lane, timeline, room);
        let _ = writeln!(text, "  {:<label$}  {}", shorten(&lane.label, label), coloured(&cells));
    }
    let _ = writeln!(text, "  {:<label$}  {}", "", times(timeline, room));
    let used: Vec<String> = KEYS
        .iter()
        .filter(|(kind, ..)| is_drawn(timeline, kind))
        .map(|(kind, sign, words)| format!("{} {words}", painted(kind, *sign)))
        .collect();
    let _ = writeln!(text, "  {:<label$}  {}   {} in all", "", used.join("  "), span(timeline.length));
    text
}

/// The kind of part in each cell of a lane.
fn cells(lane: &Lane, timeline: &Timeline, room: usize) -> Vec<&'static str> {
    let mut cells = vec![""; room];
    let mut fill = |left: f64, width: f64, kind: &'static str| {
        let (from, to) = (cell(left, room), cell(left + width, room));
        cells[from..to.max(from + 1).min(room)].fill(kind);
    };
    let band = |band: &Band| (band.left.0, band.width.0);
    timeline.waits.iter().map(band).for_each(|(left, width)| fill(left, width, "wait"));
    for Group { left, width, parts, tone, .. } in &lane.groups {
        for part in parts {
            fill(left.0 + part.left.0 * width.0, part.width.0 * width.0, part.kind);
        }
        // A failed attempt is visible however short it was.
        if *tone == "bad" {
            let last = cell(left.0 + width.0, room).saturating_sub(1).max(cell(left.0, room));
            cells_at(&mut fill, last, room);
        }
    }
    timeline.breaks.iter().map(band).for_each(|(left, width)| fill(left, width, ""));
    cells
}

fn cells_at(fill: &mut impl FnMut(f64, f64, &'static str), at: usize, room: usize) {
    #[expect(clippy::cast_precision_loss, reason = "a terminal is not that wide")]
    let left = (at as f64 + 0.5) / room as f64;
    fill(left, 0.0, "failed");
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a few hundred columns"
)]
fn cell(share: f64, room: usize) -> usize {
    ((share.clamp(0.0, 1.0) * room as f64) as usize).min(room - 1)
}

fn is_drawn(timeline: &Timeline, kind: &str) -> bool {
    let groups = || timeline.lanes.iter().flat_map(|lane| &lane.groups);
    match kind {
        "wait" => !timeline.waits.is_empty(),
        "failed" => groups().any(|group| group.tone == "bad"),
        _ => groups().any(|group| group.parts.iter().any(|part| part.kind == kind)),
    }
}

fn painted(kind: &str, sign: char) -> String {
    let sign = console::style(sign.to_string());
    match kind {
        "agent" => sign.blue(),
        "gate" => sign.cyan(),
        "failed" => sign.red(),
        "land" => sign.green(),
        "wait" => sign.yellow(),
        _ => sign.dim(),
    }
    .to_string()
}

fn coloured(cells: &[&'static str]) -> String {
    let sign = |kind: &str| KEYS.iter().find(|(known, ..)| *known == kind).map_or(' ', |(_, sign, _)| *sign);
    cells.iter().map(|kind| if kind.is_empty() { " ".to_owned() } else { painted(kind, sign(kind)) }).collect()
}

/// The times below the lanes, as many as fit.
fn times(timeline: &Timeline, room: usize) -> String {
    let mut line = String::new();
    for tick in &timeline.ticks {
        let at = cell(tick.left.0, room);
        let used = width(&line);
        if (used == 0 || at > used) && at + width(&tick.label) <= room {
            line.push_str(&" ".repeat(at - used));
            line.push_str(&tick.label);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::page::timeline::{Part, Share};

    fn group(left: f64, width: f64, tone: &'static str) -> Group {
        let parts = vec![Part { kind: "agent", left: Share(0.0), width: Share(1.0) }];
        let (label, anchor, tip) = (String::new(), String::new(), String::new());
        Group {
            story: "a".parse().unwrap(),
            index: 0,
            label,
            anchor,
            tip,
            left: Share(left),
            width: Share(width),
            from: 0,
            length: 0,
            tone,
            parts,
        }
    }

    #[test]
    fn attempts_are_where_their_shares_are_and_failed_ones_can_be_seen() {
        let lane = Lane { label: "checkout".to_owned(), groups: vec![group(0.0, 0.5, "good"), group(0.5, 0.001, "bad")] };
        let timeline = Timeline { lanes: vec![lane], ..Timeline::default() };
        let cells = cells(&timeline.lanes[0], &timeline, 20);
        assert_eq!((cells[0], cells[9], cells[10], cells[11]), ("agent", "agent", "failed", ""));
        let text = timeline_text(&timeline, 40);
        assert!(text.lines().all(|line| width(&console::strip_ansi_codes(line)) <= 60), "{text}");
        assert!(text.contains("failed") && !text.contains("waiting"), "{text}");
    }

    #[test]
    fn a_run_without_attempts_says_so() {
        assert!(timeline_text(&Timeline::default(), 80).contains("no attempt"));
    }
}
