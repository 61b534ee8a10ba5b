//! The table: what was measured, what it was compared with, what was asked for; printed, and written into the document.

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
    /// Group and subject, as the filter knows them.
    pub name: String,
    /// What git-ralph needed.
    pub ours: String,
    /// What it is compared with.
    pub bare: String,
    /// What counts: a ratio, a number of processes, an amount of memory.
    pub value: String,
    /// What was asked for.
    pub target: String,
    /// Whether that is met.
    pub met: bool,
}

impl Row {
    /// Two times and the most that their ratio may be.
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

    /// Two times and the least that the second may be of the first: how much faster ours is.
    pub fn speed_up(name: impl Into<String>, ours: Duration, bare: Duration, least: f64) -> Self {
        let ratio = bare.as_secs_f64() / ours.as_secs_f64();
        let (ours, bare, value, target) = (shown(ours), shown(bare), format!("{ratio:.2}"), format!("≥ {least}"));
        Row { name: name.into(), ours, bare, value, target, met: ratio >= least }
    }

    /// A figure of its own, with the most that it may be.
    pub fn most(name: impl Into<String>, figure: f64, unit: &str, most: f64) -> Self {
        let value = if unit.is_empty() { format!("{figure}") } else { format!("{figure:.1} {unit}") };
        let target = format!("≤ {most} {unit}").trim_end().to_owned();
        Row { name: name.into(), ours: value.clone(), bare: String::new(), value, target, met: figure <= most }
    }

    /// A figure for which nothing was asked.
    pub fn plain(name: impl Into<String>, ours: &str, bare: &str, value: &str) -> Self {
        let [ours, bare, value] = [ours, bare, value].map(str::to_owned);
        Row { name: name.into(), ours, bare, value, target: String::new(), met: true }
    }

    /// The same where nothing was asked for; says where it was.
    pub fn without_target(self, elsewhere: &str) -> Self {
        Row { target: format!("only {elsewhere}"), met: true, ..self }
    }

    /// The row as the table has it.
    pub fn line(&self) -> String {
        let met = match (self.target.is_empty(), self.met) {
            (true, _) => "",
            (false, true) => "met",
            (false, false) => "**missed**",
        };
        format!("| {} | {} | {} | {} | {} | {met} |", self.name, self.ours, self.bare, self.value, self.target)
    }
}

/// All rows so far.
pub struct Table {
    wanted: Vec<String>,
    rows: Vec<Row>,
    tell: fn(&Row),
}

impl Table {
    /// For the rows whose names have one of these words in them; for all, if there is none.
    pub fn new(wanted: Vec<&str>, tell: fn(&Row)) -> Self {
        Table { wanted: wanted.into_iter().map(str::to_owned).collect(), rows: Vec::new(), tell }
    }

    /// Whether a row of that name is asked for.
    pub fn wants(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|word| name.contains(word.as_str()))
    }

    /// Whether a row of that name is asked for by a word, and not because everything is.
    pub fn names(&self, name: &str) -> bool {
        !self.wanted.is_empty() && self.wants(name)
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Takes a row in.
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

    /// Puts the rows into the document's table: in the place of those of the same name, or below all.
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

/// A time as a person reads it.
pub fn shown(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1000.0;
    if milliseconds >= 10_000.0 { format!("{:.1} s", milliseconds / 1000.0) } else { format!("{milliseconds:.1} ms") }
}
