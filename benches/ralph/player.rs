//! The scripted agent: this same program with another first argument, so that starting it is cheap and takes equally long for both sides.
//!
//! It records a timestamp first when it starts and last before it ends.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use crate::gauge::now;

/// The first argument that turns this program into the agent.
pub const WORD: &str = "--play";

const COMPLETE: &str = "<promise>COMPLETE</promise>\n";
const FAILED: &str = "<promise>FAILED: as it shall</promise>\n";

/// Plays the role `<part> <file of stamps> [<number>]`.
pub fn play(args: &[String]) -> ExitCode {
    let begun = now();
    let [part, stamps, rest @ ..] = args else { return ExitCode::FAILURE };
    let played = stamp(stamps, "S", begun).and_then(|()| act(part, stamps, rest)).and_then(|()| stamp(stamps, "E", now()));
    if played.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn act(part: &str, stamps: &str, rest: &[String]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let size = || rest.first().and_then(|text| text.parse().ok()).unwrap_or(0);
    match part {
        "rest" => out.write_all(COMPLETE.as_bytes()),
        "edit" => edit().and_then(|()| out.write_all(COMPLETE.as_bytes())),
        "edit-and-move" => {
            // Moves the original branch, as another user would; the script is next to the stamps.
            let script = Path::new(stamps).with_file_name("move-on");
            let moved = Command::new("sh").arg(script).stdout(Stdio::null()).status()?;
            edit().and_then(|()| out.write_all(if moved.success() { COMPLETE } else { FAILED }.as_bytes()))
        }
        "fail" => edit().and_then(|()| out.write_all(FAILED.as_bytes())),
        "text" => pour(&mut out, size(), &text_line(), "", COMPLETE),
        "json" => pour(&mut out, size(), &json_line(), "", &json_result()),
        "one-line" => pour(&mut out, size(), &"x".repeat(100), "", &format!("\n{COMPLETE}")),
        "one-json-line" => {
            let begin = "{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"content\":\"";
            pour(&mut out, size(), &"x".repeat(100), begin, &format!("\"}}]}}}}\n{}", json_result()))
        }
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Appends a line to one file of the repository and creates another file.
fn edit() -> io::Result<()> {
    let unique = now();
    let mut file = OpenOptions::new().append(true).open("d0/s0/f0")?;
    writeln!(file, "{unique}")?;
    fs::write(Path::new("d0").join(format!("new-{unique}")), format!("{unique}\n"))
}

fn pour(out: &mut impl Write, size: u64, piece: &str, begin: &str, end: &str) -> io::Result<()> {
    let block = piece.repeat(64 * 1024 / piece.len() + 1);
    out.write_all(begin.as_bytes())?;
    let mut left = size;
    while left > 0 {
        let part = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        // A line that is cut off would not be valid JSON.
        let part = if begin.is_empty() { block.len() } else { part };
        out.write_all(&block.as_bytes()[..part])?;
        left = left.saturating_sub(part as u64);
    }
    out.write_all(end.as_bytes())?;
    out.flush()
}

fn text_line() -> String {
    format!("{}\n", "an agent tells what it has found in the sources and what it is about to do ".repeat(2).trim_end())
}

/// A line of the size that clients really print: a message of the model with a tool call, and the result of the tool.
fn json_line() -> String {
    let text = "I have read the sources and will now change the parser so that it takes the new form. ".repeat(3);
    let result = "    fn parse(input: &str) -> Result<Value> {\\n        let mut rest = input;\\n".repeat(24);
    let usage = "{\"input_tokens\":12,\"cache_read_input_tokens\":3400,\"output_tokens\":120}";
    format!(
        "{{\"type\":\"assistant\",\"message\":{{\"id\":\"msg_1\",\"model\":\"m\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}},\
         {{\"type\":\"tool_use\",\"name\":\"Read\",\"input\":{{\"file_path\":\"src/parser.rs\"}}}}],\"usage\":{usage}}}}}\n\
         {{\"type\":\"user\",\"message\":{{\"content\":[{{\"type\":\"tool_result\",\"content\":\"{result}\"}}]}}}}\n"
    )
}

fn json_result() -> String {
    "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"num_turns\":1,\"result\":\"<promise>COMPLETE</promise>\",\
     \"usage\":{\"input_tokens\":1,\"output_tokens\":1}}\n"
        .to_owned()
}

fn stamp(file: &str, kind: &str, time: u128) -> io::Result<()> {
    OpenOptions::new().append(true).create(true).open(file)?.write_all(format!("{kind} {time}\n").as_bytes())
}
