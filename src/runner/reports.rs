//! Finds the reports of a shim in a program's output and removes them. Pure.

use memchr::memmem;

use super::Shim;
use crate::process::{Exit, Stream};

/// The length of the longest report after the mark. A terminal may have turned its line end into `\r\n`.
const LONGEST: usize = "-end-255\r\n".len();
/// How many of the last lines of standard error a message contains, and how many characters of each.
const LINES: usize = 3;
const LINE: usize = 160;
/// How many bytes from the end of standard error are kept for messages.
const TAIL: usize = 2048;

/// A piece of the output of a runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard<'a> {
    /// The program behind the runner has started.
    Begun,
    /// The program printed this.
    Output(Stream, &'a [u8]),
    /// The runner printed this on standard error, before the program started or after it ended.
    Runner(&'a [u8]),
}

/// The progress of a program behind a runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The runner has not started it yet.
    Waiting,
    /// It is running.
    Running,
    /// It has ended with this exit status.
    Ended(i32),
}

/// Searches both output streams for reports of a shim, because a runner with a terminal merges standard error into standard output.
pub(super) struct Reports<'s> {
    shim: &'s Shim,
    pub progress: Progress,
    /// Bytes at the end of each stream that may be the beginning of a report.
    held: [Vec<u8>; 2],
    /// The end of standard error.
    tail: Vec<u8>,
}

impl<'s> Reports<'s> {
    pub fn new(shim: &'s Shim) -> Self {
        Reports { shim, progress: Progress::Waiting, held: [Vec::new(), Vec::new()], tail: Vec::new() }
    }

    /// Takes a piece of output and passes its content on without the reports.
    pub fn feed<E>(&mut self, stream: Stream, bytes: &[u8], each: &mut dyn FnMut(Heard<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut held = std::mem::take(&mut self.held[index(stream)]);
        let whole: &[u8] = if held.is_empty() {
            bytes
        } else {
            held.extend_from_slice(bytes);
            &held
        };
        let mut rest = whole;
        while let Some(at) = memmem::find(rest, self.shim.mark().as_bytes()) {
            let behind = &rest[at + self.shim.mark().len()..];
            let line = &behind[..behind.len().min(LONGEST)];
            match (line.iter().position(|byte| *byte == b'\n'), report(line)) {
                (Some(end), Some(progress)) => {
                    self.give(stream, &rest[..at], each)?;
                    rest = &behind[end + 1..];
                    self.progress = progress;
                    if progress == Progress::Running {
                        each(Heard::Begun)?;
                    }
                }
                (None, _) if behind.len() < LONGEST => {
                    self.give(stream, &rest[..at], each)?;
                    self.held[index(stream)] = rest[at..].to_vec();
                    return Ok(());
                }
                _ => {
                    self.give(stream, &rest[..rest.len() - behind.len()], each)?;
                    rest = behind;
                }
            }
        }
        let kept = rest.len() - self.beginning_at_the_end(rest);
        self.give(stream, &rest[..kept], each)?;
        self.held[index(stream)] = rest[kept..].to_vec();
        Ok(())
    }

    /// Passes on the bytes that were held back, because no more output will come.
    pub fn rest<E>(&mut self, each: &mut dyn FnMut(Heard<'_>) -> Result<(), E>) -> Result<(), E> {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let held = std::mem::take(&mut self.held[index(stream)]);
            self.give(stream, &held, each)?;
        }
        Ok(())
    }

    /// How the program ended, given how its runner ended.
    pub fn exit(&self, runner: Exit) -> Exit {
        match (runner, self.progress) {
            (Exit::Success | Exit::Code { .. } | Exit::Signal { .. } | Exit::Lingered, Progress::Ended(0)) => Exit::Success,
            (Exit::Success | Exit::Code { .. } | Exit::Signal { .. } | Exit::Lingered, Progress::Ended(code)) => Exit::Code { code },
            (exit @ (Exit::Success | Exit::Code { .. } | Exit::Signal { .. }), Progress::Running) => {
                Exit::Lost { message: self.message(&exit) }
            }
            (exit @ (Exit::Success | Exit::Code { .. } | Exit::Signal { .. } | Exit::CouldNotStart { .. }), _) => {
                Exit::NotStarted { message: self.message(&exit) }
            }
            (Exit::NotStarted { message }, _) => Exit::NotStarted { message: format!("{}: {message}", self.shim.runner()) },
            // git-ralph ended the runner itself.
            (exit, _) => exit,
        }
    }

    fn message(&self, exit: &Exit) -> String {
        let how = match exit {
            Exit::Code { code } => format!("ended with exit status {code}"),
            Exit::Signal { signal } => format!("was killed by signal {signal}"),
            Exit::CouldNotStart { error } => format!("could not be started: {error}"),
            _ => "ended with exit status 0".to_owned(),
        };
        let text = String::from_utf8_lossy(&self.tail);
        let lines: Vec<String> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| line.chars().take(LINE).collect()).collect();
        let last = &lines[lines.len().saturating_sub(LINES)..];
        let colon = if last.is_empty() { "" } else { ": " };
        format!("{} {how}{colon}{}", self.shim.runner(), last.join("; "))
    }

    fn give<E>(&mut self, stream: Stream, bytes: &[u8], each: &mut dyn FnMut(Heard<'_>) -> Result<(), E>) -> Result<(), E> {
        if bytes.is_empty() {
            return Ok(());
        }
        if stream == Stream::Stderr {
            self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL)..]);
            self.tail.drain(..self.tail.len().saturating_sub(TAIL));
        }
        // The two streams may arrive out of order, so a report in one of them says nothing about where the other one is.
        let is_programs = stream == Stream::Stdout || self.progress == Progress::Running;
        each(if is_programs { Heard::Output(stream, bytes) } else { Heard::Runner(bytes) })
    }

    /// How many bytes at the end may be the beginning of the mark.
    fn beginning_at_the_end(&self, bytes: &[u8]) -> usize {
        let mark = self.shim.mark().as_bytes();
        (1..mark.len().min(bytes.len() + 1)).rev().find(|length| bytes.ends_with(&mark[..*length])).unwrap_or(0)
    }
}

fn index(stream: Stream) -> usize {
    usize::from(stream == Stream::Stderr)
}

/// Parses the line that follows the mark.
fn report(line: &[u8]) -> Option<Progress> {
    let end = line.iter().position(|byte| *byte == b'\n')?;
    match str::from_utf8(&line[..end]).ok()?.trim_end_matches('\r') {
        "-start" => Some(Progress::Running),
        other => other.strip_prefix("-end-")?.parse().ok().map(Progress::Ended),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// Feeds these pieces; returns the program's output, the runner's output, the progress and the exit.
    fn heard(shim: &Shim, pieces: &[(Stream, &str)]) -> (String, String, Progress, Exit) {
        let (mut program, mut runner) = (String::new(), String::new());
        let mut reports = Reports::new(shim);
        let mut each = |heard: Heard<'_>| -> Result<(), Infallible> {
            match heard {
                Heard::Begun => program.push('^'),
                Heard::Output(_, bytes) => program.push_str(&String::from_utf8_lossy(bytes)),
                Heard::Runner(bytes) => runner.push_str(&String::from_utf8_lossy(bytes)),
            }
            Ok(())
        };
        for (stream, piece) in pieces {
            let Ok(()) = reports.feed(*stream, piece.as_bytes(), &mut each);
        }
        let Ok(()) = reports.rest(&mut each);
        let exit = reports.exit(Exit::Code { code: 143 });
        (program, runner, reports.progress, exit)
    }

    #[test]
    fn reports_are_found_however_the_output_is_cut_and_nothing_else_is_lost() {
        let shim = Shim::new("/usr/bin/srun");
        let mark = shim.mark().to_owned();
        let text = format!("queued {mark} ral\n{mark}-start\nwork {mark}-stop ralph-\nhalf a line{mark}-end-7\nsrun: error\nralph");
        let whole = heard(&shim, &[(Stream::Stderr, &text)]);
        assert_eq!(whole.0, format!("^work {mark}-stop ralph-\nhalf a line"));
        assert_eq!(whole.1, format!("queued {mark} ral\nsrun: error\nralph"));
        assert_eq!((whole.2, &whole.3), (Progress::Ended(7), &Exit::Code { code: 7 }));
        for at in 1..text.len() {
            let cut = heard(&shim, &[(Stream::Stderr, &text[..at]), (Stream::Stderr, &text[at..])]);
            assert_eq!(cut, whole, "cut at {at}");
        }
        let bytes: Vec<&str> = text.split("").filter(|piece| !piece.is_empty()).collect();
        assert_eq!(heard(&shim, &bytes.iter().map(|byte| (Stream::Stderr, *byte)).collect::<Vec<_>>()), whole);
        let terminal = format!("{mark}-start\r\nwork\r\n{mark}-end-0\r\n");
        let late = [(Stream::Stderr, format!("{mark}-start\n{mark}-end-0\n")), (Stream::Stdout, "done\n".to_owned())];
        let late: Vec<(Stream, &str)> = late.iter().map(|(stream, text)| (*stream, text.as_str())).collect();
        assert_eq!(heard(&shim, &late).0, "^done\n", "what is read after the report of the end");
        assert_eq!(heard(&shim, &[(Stream::Stdout, &terminal)]), ("^work\r\n".into(), String::new(), Progress::Ended(0), Exit::Success));
    }

    #[test]
    fn the_end_of_a_runner_is_not_taken_for_the_end_of_the_program() {
        let shim = Shim::new("srun");
        let (start, end) = (format!("{}-start\n", shim.mark()), format!("{}-end-137\n", shim.mark()));
        let exit = |printed: &str, runner: Exit| {
            let mut reports = Reports::new(&shim);
            let Ok(()) = reports.feed::<Infallible>(Stream::Stderr, printed.as_bytes(), &mut |_| Ok(()));
            reports.exit(runner)
        };
        let not_started = |message: &str| Exit::NotStarted { message: message.to_owned() };
        let lost = |message: &str| Exit::Lost { message: message.to_owned() };
        let code = |code| Exit::Code { code };
        let stalled = || Exit::Stalled { seconds: 9 };
        let table = [
            ("", Exit::Success, not_started("srun ended with exit status 0")),
            ("srun: error: no\n", code(1), not_started("srun ended with exit status 1: srun: error: no")),
            ("", Exit::CouldNotStart { error: "gone".into() }, not_started("srun could not be started: gone")),
            (&start, Exit::Success, lost("srun ended with exit status 0")),
            (&format!("{start}a\nb\n\nc\nd"), code(143), lost("srun ended with exit status 143: b; c; d")),
            (&start, Exit::Signal { signal: 9 }, lost("srun was killed by signal 9")),
            (&format!("{start}{end}"), code(137), code(137)),
            (&format!("{start}{end}"), Exit::Success, code(137)),
            (&format!("{start}{end}"), Exit::Lingered, code(137)),
            (&start, Exit::Lingered, Exit::Lingered),
            (&start, Exit::Interrupted, Exit::Interrupted),
            (&start, stalled(), stalled()),
            (&format!("{start}{end}"), stalled(), stalled()),
        ];
        for (printed, runner, expected) in table {
            assert_eq!(exit(printed, runner.clone()), expected, "{printed:?} {runner:?}");
        }
    }
}
