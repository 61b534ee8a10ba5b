//! Renders the page of a run as Markdown, short enough for the description of a pull request.

use std::fmt::Write as _;

use super::MARK;
use super::model::{AttemptPart, Page, StoryPart};
use crate::report::secrets::masked_words;

/// At most this many stories are listed, because hosts cut a description that is too long; the others are counted.
const MOST_STORIES: usize = 100;
/// The same for failed attempts, warnings and saved refs.
const MOST_DETAILS: usize = 30;

/// Renders the page as Markdown.
#[must_use]
pub fn page_markdown(page: &Page) -> String {
    let mut text = format!("<!-- {MARK} -->\n");
    let sign = match page.tone {
        "good" => "✅",
        "bad" => "❌",
        "busy" => "⏳",
        _ => "⏹️",
    };
    let _ = writeln!(text, "## {sign} {}\n", code(&page.title));
    let _ = writeln!(
        text,
        "{} — change {}, run {}, started {} {} from {}.\n",
        code(&page.headline),
        code(&page.change),
        page.run,
        page.started,
        page.clock,
        code(&page.original)
    );
    figures(&mut text, page);
    stories(&mut text, page);
    models(&mut text, page);
    failures(&mut text, page);
    list(&mut text, "Warnings", &page.warnings);
    let saved: Vec<String> = page.saved.iter().map(|saved| saved.look.clone()).collect();
    list(&mut text, "Saved work, with the commands to look at it", &saved);
    let _ = writeln!(text, "Next: {}", page.next.first().map(|command| code(command)).unwrap_or_default());
    if page.masked > 0 {
        let _ = writeln!(text, "\n{}", masked_words(page.masked));
    }
    text
}

fn figures(text: &mut String, page: &Page) {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    text.push_str(&row(page.figures.iter().map(|figure| figure.label.to_owned()).collect()));
    text.push_str(&row(page.figures.iter().map(|_| "---".to_owned()).collect()));
    text.push_str(&row(page.figures.iter().map(|figure| figure.value.clone()).collect()));
    text.push('\n');
}

fn stories(text: &mut String, page: &Page) {
    text.push_str("| story | | attempts | time | used | checkpoint |\n| --- | --- | --: | --: | --: | --- |\n");
    // Stories that need the user come first.
    let in_need = page.stories.iter().filter(|story| story.trouble.is_some());
    let others = page.stories.iter().filter(|story| story.trouble.is_none());
    for story in in_need.chain(others).take(MOST_STORIES) {
        let checkpoint = story.attempts.iter().rev().find_map(|attempt| attempt.checkpoint.as_deref()).filter(|_| story.state == "done");
        let _ = writeln!(
            text,
            "| {} {} | {} | {} | {} | {} | {} |",
            in_cell(&code(&story.id)),
            in_cell(&plain(&story.title, &story.id)),
            state_words(story),
            story.attempts.len(),
            story.time,
            story.used,
            checkpoint.map(code).unwrap_or_default()
        );
    }
    if page.stories.len() > MOST_STORIES {
        let _ = writeln!(text, "\n… and {} more stories", page.stories.len() - MOST_STORIES);
    }
    text.push('\n');
}

fn state_words(story: &StoryPart) -> String {
    let sign = match story.tone {
        "good" => "✅",
        "bad" => "❌",
        "busy" => "⏳",
        _ => "▫️",
    };
    let warned = if story.warned { " ⚠️" } else { "" };
    format!("{sign} {}{warned}", story.state)
}

fn models(text: &mut String, page: &Page) {
    if page.models.is_empty() {
        return;
    }
    fold(text, "Agents and what they used", |text| {
        text.push_str(
            "| agent | attempts | time | tokens read | from cache | written | cost |\n| --- | --: | --: | --: | --: | --: | --: |\n",
        );
        for row in &page.models {
            let name = in_cell(&code(&row.name));
            let _ = writeln!(
                text,
                "| {name} | {} | {} | {} | {} | {} | {} |",
                row.attempts, row.time, row.input, row.cached, row.output, row.cost
            );
        }
    });
}

fn failures(text: &mut String, page: &Page) {
    let failed: Vec<(&StoryPart, &AttemptPart)> = page
        .stories
        .iter()
        .flat_map(|story| story.attempts.iter().map(move |attempt| (story, attempt)))
        .filter(|(_, attempt)| attempt.tone == "bad" || attempt.tone == "off")
        .collect();
    if failed.is_empty() {
        return;
    }
    fold(text, &format!("Attempts that did not land ({})", failed.len()), |text| {
        for (story, attempt) in failed.iter().take(MOST_DETAILS) {
            let _ = writeln!(text, "- {} attempt {}: {}", code(&story.id), attempt.number, code(&attempt.outcome));
            if let Some(gate) = attempt.gates.iter().rev().find(|gate| !gate.passed && !gate.output.is_empty()) {
                let _ = writeln!(text, "\n{}", indented(&block(&gate.output)));
            }
        }
        if failed.len() > MOST_DETAILS {
            let _ = writeln!(text, "- … and {} more", failed.len() - MOST_DETAILS);
        }
    });
}

fn list(text: &mut String, title: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    fold(text, &format!("{title} ({})", items.len()), |text| {
        for item in items.iter().take(MOST_DETAILS) {
            let _ = writeln!(text, "- {}", code(item));
        }
        if items.len() > MOST_DETAILS {
            let _ = writeln!(text, "- … and {} more", items.len() - MOST_DETAILS);
        }
    });
}

fn fold(text: &mut String, summary: &str, body: impl FnOnce(&mut String)) {
    let _ = writeln!(text, "<details><summary>{summary}</summary>\n");
    body(text);
    text.push_str("\n</details>\n\n");
}

/// The longest run of backticks in a text.
fn backticks(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Untrusted text as inline code, without markup, HTML or @mentions.
fn code(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let ticks = "`".repeat(backticks(text) + 1);
    // Markdown removes one space on both sides, which allows the text to begin with a backtick.
    let pad = if text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']) { " " } else { "" };
    format!("{ticks}{pad}{text}{pad}{ticks}")
}

/// The title of a story, unless it is the same as the id.
fn plain(title: &str, id: &str) -> String {
    if title == id { String::new() } else { code(title) }
}

/// Escapes bars, which would end the table cell even inside code.
fn in_cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn block(text: &str) -> String {
    let fence = "`".repeat(backticks(text).max(2) + 1);
    format!("{fence}text\n{text}\n{fence}")
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_stays_code() {
        assert_eq!(code("plain"), "`plain`");
        assert_eq!(code("a `b` c"), "``a `b` c``");
        assert_eq!(code("``"), "``` `` ```");
        assert_eq!(in_cell(&code("a|b")), "`a\\|b`");
        assert_eq!(block("```\nx"), "````text\n```\nx\n````");
    }
}
