//! The two standard streams, in the style that was asked for. A reader that has gone away is no error.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Line, Tone};
use crate::config::{Advice, Environment, OutputStyle, Wanted};

static STYLE: OnceLock<OutputStyle> = OnceLock::new();

/// Sets how all further output looks; only the first call counts.
pub fn set_style(style: OutputStyle) {
    let style = STYLE.get_or_init(|| style);
    console::set_colors_enabled(style.colour);
    console::set_colors_enabled_stderr(style.colour_errors);
}

/// The same where no configuration could be read.
pub fn set_usual_style(environment: Option<&Environment>) {
    set_style(environment.map(OutputStyle::usual).unwrap_or_default());
}

/// Why standard output could not be written, other than that nobody reads it any more.
static TROUBLE: OnceLock<String> = OnceLock::new();

/// Writes data to standard output.
pub fn data(text: &str) {
    let _ = try_data(text);
}

/// Copies a file to standard output, byte for byte.
pub fn copy(file: &mut impl io::Read) {
    let mut stdout = io::stdout().lock();
    let _ = note(io::copy(file, &mut stdout).and_then(|_| stdout.flush()));
}

/// What has kept data from standard output that somebody wanted to have.
#[must_use]
pub fn trouble() -> Option<&'static str> {
    TROUBLE.get().map(String::as_str)
}

fn note(written: io::Result<()>) -> bool {
    if let Err(error) = &written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        TROUBLE.get_or_init(|| error.to_string());
    }
    written.is_ok()
}

/// A document for programs, as it is printed.
#[must_use]
pub fn json(document: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(document).unwrap_or_default() + "\n"
}

/// Whether anybody still reads standard output: somebody who follows a run has to know.
#[must_use]
pub fn try_data(text: &str) -> bool {
    let mut stdout = io::stdout().lock();
    note(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// Writes a message to standard error, in git's manner.
pub fn message(line: &Line) {
    let _ = writeln!(io::stderr().lock(), "{}", prefixed(line));
}

/// An error with its hints, as a command ends with it.
pub fn failure(label: &str, text: &str, hints: &[String]) {
    message(&Line::new(Tone::Plain, format!("{} {text}", console::style(format!("{label}:")).red().for_stderr())));
    advise(Advice::Problem, hints);
}

/// Hints of a kind.
pub fn advise(advice: Advice, hints: &[String]) {
    hint_lines(advice, hints).iter().for_each(message);
}

/// Whether this process has said how to switch hints off.
static TOLD_HOW: AtomicBool = AtomicBool::new(false);

/// The same as lines; none if the user does not want hints of this kind.
///
/// Advice that comes with every run says once how to switch it off. What to type about an error belongs to the error.
pub(super) fn hint_lines(advice: Advice, hints: &[String]) -> Vec<Line> {
    let wanted = STYLE.get().copied().unwrap_or_default().wants(advice);
    if hints.is_empty() || wanted == Wanted::No {
        return Vec::new();
    }
    let tells_how = advice == Advice::NextStep && wanted == Wanted::Unasked && !TOLD_HOW.swap(true, Ordering::Relaxed);
    let disable = tells_how.then(|| format!("Disable this message with \"git config {} false\"", advice.key()));
    hints.iter().cloned().chain(disable).map(|hint| Line::new(Tone::Hint, hint)).collect()
}

pub(super) fn prefixed(line: &Line) -> String {
    let label = |word: &str| console::style(word.to_owned()).for_stderr();
    match line.tone {
        Tone::Plain => line.text.clone(),
        Tone::Success => label(&line.text).green().to_string(),
        Tone::Failure => label(&line.text).red().to_string(),
        Tone::Warning => format!("{} {}", label("warning:").yellow(), line.text),
        Tone::Error => format!("{} {}", label("error:").red(), line.text),
        Tone::Hint => format!("{}", label(&format!("hint: {}", line.text)).yellow()),
    }
}
