//! The commented change file that `git ralph new` writes.

use super::schema::SCHEMA_FILE;
use super::table::KEYS;
use crate::story::Story;

/// The alternative to `agent`; it is not in the table of settings, see `change_file.rs`.
const COMMAND: &str = "# … or a command, the prompt comes on stdin.\n# command = [\"./my-agent\", \"--flag\"]\n";

/// Placeholders for the title and the prompt of a story.
const TITLE: &str = "Say what is to be done";
const PROMPT: &str = "Describe the story for the agent.";

/// The placeholder that is still in a story, if the user has not edited it.
#[must_use]
pub fn unedited(story: &Story) -> Option<&'static str> {
    let has = |text: &str, placeholder: &str| text.trim() == placeholder;
    [(&story.title, TITLE), (&story.prompt, PROMPT)].into_iter().find(|(text, words)| has(text, words)).map(|(_, words)| words)
}

/// A change file to fill in; it is valid as it is.
#[must_use]
pub fn change_file(name: &str) -> String {
    let settings = settings();
    format!(
        r#"#:schema ./{SCHEMA_FILE}
# The change '{name}': stories for an agent to work through.
# Start it with: git ralph start {name}

title = "{name}"

# Text that goes into the prompt of every story.
# context = """
# """

{settings}
# One table per story, worked through in this order.
[[story]]
id = "story-1"
title = "{TITLE}"
prompt = """
{PROMPT}
"""
# tasks = ["first part", "second part"]
# acceptance = ["what must hold when it is done"]
# after = []
# verify = ["cargo test story_1"]
"#
    )
}

/// All settings of a change file, as comments. A setting with its own comment starts a new paragraph.
fn settings() -> String {
    let mut paragraphs: Vec<String> = Vec::new();
    for key in KEYS {
        let Some(name) = key.change_file else { continue };
        let line = format!("# {name} = {}\n", key.toml_example());
        match (key.comment, paragraphs.last_mut()) {
            (None, Some(paragraph)) => paragraph.push_str(&line),
            (comment, _) => paragraphs.push(comment.map(|comment| format!("# {comment}\n")).unwrap_or_default() + &line),
        }
    }
    if let Some(agent) = paragraphs.iter_mut().find(|paragraph| paragraph.contains("# agent = ")) {
        agent.push_str(COMMAND);
    }
    paragraphs.join("\n")
}

/// A change file for a change whose stories are in a separate source.
#[must_use]
pub fn sourced_change_file(name: &str, source: &str, verify: &[String]) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let gates: Vec<String> = verify.iter().map(|gate| quoted(gate)).collect();
    let verify = if gates.is_empty() { "# verify = [\"cargo test\"]\n".to_owned() } else { format!("verify = [{}]\n", gates.join(", ")) };
    format!(
        r#"#:schema ./{SCHEMA_FILE}
# The change '{name}'.
# Start it with: git ralph start {name}

# The source of its stories. When a story lands, git-ralph marks it as done there.
source = {}

# Gates: commands that must succeed before a story counts as done. git-ralph reads them from this file, never from the source.
{verify}
# agent = "claude"
# max-retries = 3
# context = """
# """
"#,
        quoted(source)
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_template_is_a_valid_change_file() {
        let file = crate::config::parse_change_file(&super::change_file("x"), "x.toml").unwrap();
        assert_eq!(file.stories.len(), 1);
    }

    #[test]
    fn every_commented_key_of_the_template_is_known() {
        let text: String = super::change_file("x")
            .lines()
            .filter(|line| !line.starts_with("# agent"))
            .map(|line| match line.strip_prefix("# ") {
                Some(rest) if rest.contains(" = ") || rest.starts_with("\"\"\"") => format!("{rest}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        let file = crate::config::parse_change_file(&text, "x.toml").unwrap();
        assert_eq!(file.settings.verify, Some(vec!["cargo test".to_owned()]));
        assert_eq!(file.stories[0].verify, ["cargo test story_1"]);
    }
}
