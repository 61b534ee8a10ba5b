//! Renders the page of a run as JUnit XML: the change is the suite, a story is a case, earlier attempts are reruns.

use std::fmt::Write as _;

use super::MARK;
use super::model::{AttemptPart, Page, StoryPart};

/// Renders the page as JUnit XML.
#[must_use]
pub fn page_junit(page: &Page) -> String {
    let failures = page.stories.iter().filter(|story| story.trouble.is_some()).count();
    let skipped = page.stories.iter().filter(|story| is_skipped(story)).count();
    let mut text = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- {MARK} -->\n");
    let _ = writeln!(
        text,
        "<testsuite name=\"{}\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" time=\"{}\" timestamp=\"{}\">",
        attribute(&page.change),
        page.stories.len(),
        seconds(page.wall_milliseconds),
        attribute(&page.started_iso)
    );
    properties(&mut text, page);
    page.stories.iter().for_each(|story| case(&mut text, page, story));
    if !page.warnings.is_empty() {
        let _ = writeln!(text, "  <system-err>{}</system-err>", content(&page.warnings.join("\n")));
    }
    text.push_str("</testsuite>\n");
    text
}

fn properties(text: &mut String, page: &Page) {
    text.push_str("  <properties>\n");
    let mut property = |name: &str, value: &str| {
        let _ = writeln!(text, "    <property name=\"{}\" value=\"{}\"/>", attribute(name), attribute(value));
    };
    property("run", &page.run.to_string());
    property("state", page.state);
    property("verdict", &page.headline);
    page.figures.iter().for_each(|figure| property(figure.label, &figure.value));
    page.versions.iter().for_each(|(name, version)| property(&format!("version of {name}"), version));
    property("masked secrets", &page.masked.to_string());
    text.push_str("  </properties>\n");
}

fn is_skipped(story: &StoryPart) -> bool {
    story.state != "done" && story.trouble.is_none()
}

fn case(text: &mut String, page: &Page, story: &StoryPart) {
    let name = if story.title == story.id { story.id.clone() } else { format!("{}: {}", story.id, story.title) };
    let _ = writeln!(
        text,
        "  <testcase classname=\"{}\" name=\"{}\" time=\"{}\">",
        attribute(&page.change),
        attribute(&name),
        seconds(story.milliseconds)
    );
    let did_not_land = |attempt: &&AttemptPart| attempt.checkpoint.is_none() || attempt.undone.is_some();
    if let Some(trouble) = &story.trouble {
        let (last, earlier) = story.attempts.split_last().map_or((None, &[][..]), |(last, earlier)| (Some(last), earlier));
        let details = last.map(details).unwrap_or_default();
        let _ = writeln!(
            text,
            "    <failure type=\"{}\" message=\"{}\">{}</failure>",
            attribute(story.state),
            attribute(trouble),
            content(&details)
        );
        earlier.iter().for_each(|attempt| rerun(text, "rerunFailure", attempt));
    } else if is_skipped(story) {
        let _ = writeln!(text, "    <skipped message=\"{}\"/>", attribute(story.state));
        story.attempts.iter().filter(did_not_land).for_each(|attempt| rerun(text, "rerunFailure", attempt));
    } else {
        story.attempts.iter().filter(did_not_land).for_each(|attempt| rerun(text, "flakyFailure", attempt));
    }
    let out = output(story);
    if !out.is_empty() {
        let _ = writeln!(text, "    <system-out>{}</system-out>", content(&out));
    }
    text.push_str("  </testcase>\n");
}

fn rerun(text: &mut String, element: &str, attempt: &AttemptPart) {
    let message = format!("attempt {} {}", attempt.number, attempt.outcome);
    let _ = writeln!(
        text,
        "    <{element} message=\"{}\" type=\"attempt\"><stackTrace>{}</stackTrace></{element}>",
        attribute(&message),
        content(&details(attempt))
    );
}

/// A description of an attempt that did not land.
fn details(attempt: &AttemptPart) -> String {
    let mut text = format!("attempt {} {}\n", attempt.number, attempt.outcome);
    for gate in attempt.gates.iter().filter(|gate| !gate.passed) {
        let _ = writeln!(text, "gate {}: {} ({})\n{}", gate.command, gate.result, gate.time, gate.output);
    }
    for saved in &attempt.saved {
        let _ = writeln!(text, "saved as {saved}");
    }
    let _ = writeln!(text, "{}", attempt.log);
    text
}

/// The checkpoints and gates of a story.
fn output(story: &StoryPart) -> String {
    let mut text = String::new();
    for attempt in story.attempts.iter().filter(|attempt| attempt.checkpoint.is_some()) {
        let changed = attempt.stat.as_ref().map(|stat| format!(" ({})", stat.words)).unwrap_or_default();
        let _ = writeln!(text, "attempt {}: checkpoint {}{changed}", attempt.number, attempt.checkpoint.as_deref().unwrap_or_default());
        for gate in &attempt.gates {
            let _ = writeln!(text, "gate {}: {} ({})", gate.command, gate.result, gate.time);
        }
        for warning in &attempt.warnings {
            let _ = writeln!(text, "warning: {warning}");
        }
    }
    for attempt in &story.attempts {
        attempt.transcript.iter().for_each(|line| {
            let _ = writeln!(text, "{}| {line}", attempt.number);
        });
    }
    text
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000)
}

/// Replaces a character that XML cannot represent.
fn valid(c: char) -> char {
    match c {
        '\n' | '\t' => c,
        c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => '\u{fffd}',
        c => c,
    }
}

fn content(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars().map(valid) {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            // Only `]]>` would have to be escaped, but some readers complain about a plain `>`.
            '>' => escaped.push_str("&gt;"),
            c => escaped.push(c),
        }
    }
    escaped
}

fn attribute(text: &str) -> String {
    content(text).replace('"', "&quot;").replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_xml_cannot_hold_are_replaced_and_markup_is_escaped() {
        assert_eq!(content("a\u{0}b\u{1b}[0m\u{ffff}"), "a\u{fffd}b\u{fffd}[0m\u{fffd}");
        assert_eq!(attribute("<a href=\"x\">&\n]]>"), "&lt;a href=&quot;x&quot;&gt;&amp; ]]&gt;");
        assert_eq!(seconds(61_005), "61.005");
    }
}
