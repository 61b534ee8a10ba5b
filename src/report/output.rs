//! The two standard streams. A reader that has gone away is no error.

use std::io::{self, Write};

use super::{Line, Tone};

/// Writes data to standard output.
pub fn data(text: &str) {
    let _ = io::stdout().lock().write_all(text.as_bytes());
}

/// Writes a message to standard error, in git's manner.
pub fn message(line: &Line) {
    let _ = writeln!(io::stderr().lock(), "{}", prefixed(line));
}

/// An error with its hints, as a command ends with it.
pub fn failure(label: &str, text: &str, hints: &[String]) {
    let mut stderr = io::stderr().lock();
    let _ = writeln!(stderr, "{label}: {text}");
    for hint in hints {
        let _ = writeln!(stderr, "hint: {hint}");
    }
}

pub(super) fn prefixed(line: &Line) -> String {
    match line.tone {
        Tone::Plain => line.text.clone(),
        Tone::Warning => format!("warning: {}", line.text),
        Tone::Error => format!("error: {}", line.text),
        Tone::Hint => format!("hint: {}", line.text),
    }
}
