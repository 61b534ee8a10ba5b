//! The table of results: each figure, what it is compared with, and its target; printed, and written into docs/performance.md.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

const BEGIN: &str = "<!-- the table: cargo bench -- --write -->\n";
const HEAD: &str = "| row | git-ralph | bare | figure | target | |\n|---|--:|--:|--:|--:|---|\n";
const END: &str = "<!-- end of the table -->\n";

/// One figure.
pub struct Row {
    /// Group and subject, which the filter matches.
    pub name: String,
    /// The figure of git-ralph.
    pub ours: String,
    /// The figure of the bare commands.
    pub bare: String,
    /// The figure that has a target: a ratio, a number of processes, an amount of memory.
    pub value: String,
    /// The target.
    pub target: String,
    /// Whether the target is met.
    pub met: bool,
}

impl Row {
    /// A row with two times and the largest allowed ratio.
    pub fn ratio(name: impl Into<String>, ours: Duration, bare: Duration, most: f64) -> Self {
        let ratio = ours.as_secs_f64() / bare.as_secs_f64();
        Row {
            name: name.into(),
            ours: shown(ours),
            bare: shown(bare),
            value: format!("{ratio:.2}"),
            target: format!("≤ {most}"),
            met: ratio <= most,
        }
    }

    /// A row with two times and the least allowed speed-up of ours over the other.
    pub fn speed_up(name: impl Into<String>, ours: Duration, bare: Duration, least: f64) -> Self {
        let ratio = bare.as_secs_f64() / ours.as_secs_f64();
        let (ours, bare, value, target) = (shown(ours), shown(bare), format!("{ratio:.2}"), format!("≥ {least}"));
        Row { name: name.into(), ours, bare, value, target, met: ratio >= least }
    }

    /// A row with a single figure and its upper limit.
    pub fn most(name: impl Into<String>, figure: f64, unit: &str, most: f64) -> Self {
        let value = if unit.is_empty() { format!("{figure}") } else { format!("{figure:.1} {unit}") };
        let target = format!("≤ {most} {unit}").trim_end().to_owned();
        Row { name: name.into(), ours: value.clone(), bare: String::new(), value, target, met: figure <= most }
    }

    /// A row without a target.
    pub fn plain(name: impl Into<String>, ours: &str, bare: &str, value: &str) -> Self {
        let [ours, bare, value] = [ours, bare, value].map(str::to_owned);
        Row { name: name.into(), ours, bare, value, target: String::new(), met: true }
    }

    /// Removes the target, and says where it applies instead.
    pub fn without_target(self, elsewhere: &str) -> Self {
        Row { target: format!("only {elsewhere}"), met: true, ..self }
    }

    /// The row as a line of the table.
    pub fn line(&self) -> String {
        let met = match (self.target.is_empty(), self.met) {
            (true, _) => "",
            (false, true) => "met",
            (false, false) => "**missed**",
        };
        format!("| {} | {} | {} | {} | {} | {met} |", self.name, self.ours, self.bare, self.value, self.target)
    }
}

/// All rows so far, and which rows are wanted.
pub struct Table {
    wanted: Vec<String>,
    rows: Vec<Row>,
    tell: fn(&Row),
}

impl Table {
    /// A table of the rows whose names contain one of these words, or of all rows if there are none.
    pub fn new(wanted: Vec<&str>, tell: fn(&Row)) -> Self {
        Table { wanted: wanted.into_iter().map(str::to_owned).collect(), rows: Vec::new(), tell }
    }

    /// Whether a row of that name was requested.
    pub fn wants(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|word| name.contains(word.as_str()))
    }

    /// Whether a row was requested by name, and not because all rows are.
    pub fn names(&self, name: &str) -> bool {
        !self.wanted.is_empty() && self.wants(name)
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a row.
    pub fn push(&mut self, row: Row) {
        (self.tell)(&row);
        self.rows.push(row);
    }

    /// The table as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = HEAD.to_owned();
        for row in &self.rows {
            let _ = writeln!(text, "{}", row.line());
        }
        text
    }

    /// Writes the rows into the table of the document: each replaces the row of the same name, or is added at the end.
    pub fn write(&self) -> Result<()> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/performance.md");
        let text = fs::read_to_string(&path).context("docs/performance.md")?;
        let (before, rest) = text.split_once(BEGIN).context("docs/performance.md has no place for the table")?;
        let (old, after) = rest.split_once(END).context("docs/performance.md has no end of the table")?;
        let is_of = |line: &str, row: &Row| line.starts_with(&format!("| {} |", row.name));
        let mut lines: Vec<String> =
            old.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| row |")).map(str::to_owned).collect();
        for row in &self.rows {
            match lines.iter_mut().find(|line| is_of(line, row)) {
                Some(line) => *line = row.line(),
                None => lines.push(row.line()),
            }
        }
        Ok(fs::write(&path, format!("{before}{BEGIN}\n{HEAD}{}\n\n{END}{after}", lines.join("\n")))?)
    }
}

/// A time with a readable unit.
pub fn shown(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1000.0;
    if milliseconds >= 10_000.0 { format!("{:.1} s", milliseconds / 1000.0) } else { format!("{milliseconds:.1} ms") }
}
