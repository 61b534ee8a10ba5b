//! Writes to standard output and standard error in the configured style. A closed pipe is not an error.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Line, Tone};
use crate::config::{Advice, Environment, OutputStyle, Wanted};

static STYLE: OnceLock<OutputStyle> = OnceLock::new();

/// Sets the style of all further output; only the first call counts.
pub fn set_style(style: OutputStyle) {
    let style = STYLE.get_or_init(|| style);
    console::set_colors_enabled(style.colour);
    console::set_colors_enabled_stderr(style.colour_errors);
}

/// Sets the style to use if git's configuration could not be read.
pub fn set_usual_style(environment: Option<&Environment>) {
    set_style(environment.map(OutputStyle::usual).unwrap_or_default());
}

/// Why standard output could not be written, other than a closed pipe.
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

/// The error that kept data from being written to standard output, other than a closed pipe.
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

/// A document for programs, formatted for output.
#[must_use]
pub fn json(document: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(document).unwrap_or_default() + "\n"
}

/// Writes data to standard output. Returns whether that succeeded, so that `log --follow` can stop when its reader has gone.
#[must_use]
pub fn try_data(text: &str) -> bool {
    let mut stdout = io::stdout().lock();
    note(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// Writes a message to standard error, in git's style.
pub fn message(line: &Line) {
    let _ = writeln!(io::stderr().lock(), "{}", prefixed(line));
}

/// Prints an error with its hints, at the end of a command.
pub fn failure(label: &str, text: &str, hints: &[String]) {
    message(&Line::new(Tone::Plain, format!("{} {text}", console::style(format!("{label}:")).red().for_stderr())));
    advise(Advice::Problem, hints);
}

/// Prints hints of the given kind.
pub fn advise(advice: Advice, hints: &[String]) {
    hint_lines(advice, hints).iter().for_each(message);
}

/// Whether this process has already explained how to switch hints off.
static TOLD_HOW: AtomicBool = AtomicBool::new(false);

/// Hints of the given kind as lines; empty if the user has switched them off.
///
/// Hints about the next step explain once how to switch them off. Hints about an error do not, because they belong to the error.
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
