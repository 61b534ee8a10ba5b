//! Runs the commands of a Markdown page in a test, and compares the output that the page shows with the real output.
//!
//! In such a page, a `console` block holds commands after `$ ` and their output; an `sh` block holds commands whose output is not shown; a
//! block with a file name after its language (`toml .git/ralph/greeter.toml`) is written to that file. `RALPH_BLESS=1` writes the output
//! into the page.

use std::fs;
use std::path::Path;

use regex_lite::{Captures, Regex};

use crate::golden;
use crate::support::World;

/// Commit ids as pages show them, in order of appearance.
const IDS: [&str; 6] = ["72f4f98496", "46becae435", "8777ac50b3", "c1f07a92de", "5d3b60e8a7", "e94a1c26f0"];

/// A page of the repository.
pub struct Page {
    name: &'static str,
    text: String,
}

/// A fenced block: the text after the fence, and its lines.
pub struct Block<'a> {
    info: &'a str,
    pub lines: Vec<&'a str>,
}

/// The command in a line of a block, without its comment.
pub fn command(line: &str) -> Option<&str> {
    line.strip_prefix("$ ").map(|command| command.split("  #").next().unwrap().trim())
}

/// Runs a line as if a user had typed it: through a shell, with git-ralph on PATH.
#[track_caller]
pub fn typed(world: &World, line: &str) -> String {
    let output = world.command("sh", &["-c", &format!("{{ {line}\n}} 2>&1")]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{line}\n{said}");
    said
}

/// Replaces ids and times in the output by ones that are the same in every run.
pub fn steady(text: &str, seen: &mut Vec<String>) -> String {
    let id = Regex::new(r"\b[0-9a-f]{10}\b").unwrap();
    let text = id.replace_all(text, |found: &Captures<'_>| {
        let at = seen.iter().position(|known| *known == found[0]).unwrap_or_else(|| {
            seen.push(found[0].to_owned());
            seen.len() - 1
        });
        IDS[at]
    });
    let mut text = text.into_owned();
    for (pattern, time) in [
        (r"\(\d+(\.\d+)? s\)", "(0.1 s)"),
        (r"\bdone in \d+(\.\d+)? s", "done in 41 s"),
        (r"\battempts? in \d+(\.\d+)? s", "attempts in 97 s"),
        (r"\bworked for \d+(\.\d+)? s", "worked for 93 s"),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, time).into_owned();
    }
    text
}

impl Page {
    pub fn read(name: &'static str) -> Self {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        Page { name, text }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The blocks of a language, in order.
    pub fn blocks(&self, language: &str) -> Vec<Block<'_>> {
        let fenced = self.text.split("```").skip(1).step_by(2);
        let blocks = fenced.map(|block| {
            let (info, body) = block.split_once('\n').unwrap_or((block, ""));
            Block { info, lines: body.lines().collect() }
        });
        blocks.filter(|block| block.info.split(' ').next() == Some(language)).collect()
    }

    /// The commands of the first console block that contains some text.
    #[track_caller]
    pub fn commands(&self, needle: &str) -> Vec<String> {
        let blocks = self.blocks("console");
        let block = blocks.iter().find(|block| block.lines.iter().any(|line| line.contains(needle)));
        let block = block.unwrap_or_else(|| panic!("{} has no block with {needle}", self.name));
        block.lines.iter().filter_map(|line| command(line)).map(str::to_owned).collect()
    }

    /// Runs every command of the page from top to bottom, and compares the output that it shows.
    #[track_caller]
    pub fn play(&self, world: &mut World) {
        let (mut page, mut seen) = (String::new(), Vec::new());
        let home = world.repo.display().to_string();
        for (at, part) in self.text.split("```").enumerate() {
            page.push_str(if at == 0 { "" } else { "```" });
            if at % 2 == 0 {
                page.push_str(part);
                continue;
            }
            let (info, body) = part.split_once('\n').unwrap();
            page.push_str(&format!("{info}\n"));
            match info.split_once(' ') {
                Some((_, file)) => world.write(file, body),
                None if info == "console" => {
                    for line in body.lines().filter(|line| line.starts_with("$ ")) {
                        let said = typed(world, command(line).unwrap()).replace(&home, "/home/ada");
                        page.push_str(&format!("{line}\n{}", steady(&said, &mut seen)));
                        enter(world, line);
                    }
                    continue;
                }
                None if info == "sh" => body.lines().for_each(|line| drop(typed(world, line.split("  #").next().unwrap()))),
                None => {}
            }
            page.push_str(body);
        }
        golden::compare(self.name, &page);
    }
}

/// Follows a `cd` at the end of a line, which also applies to the lines after it.
fn enter(world: &mut World, line: &str) {
    if let Some((_, dir)) = line.rsplit_once("cd ") {
        world.repo = world.repo.join(dir.trim()).canonicalize().unwrap();
    }
}
