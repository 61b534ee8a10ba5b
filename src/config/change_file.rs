//! The change file: TOML to data, purely, with errors that name file, line and key.

use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::git_config;
use super::settings::{AgentChoice, Finish};
use crate::cost::Cost;
use crate::story::{OrderProblem, Story, StoryId, check_order};

const KEYS: [&str; 15] = [
    "title",
    "context",
    "source",
    "agent",
    "command",
    "model",
    "verify",
    "max-retries",
    "max-cost",
    "max-tokens",
    "attempt-timeout",
    "idle-timeout",
    "verify-timeout",
    "finish",
    "story",
];
const STORY_KEYS: [&str; 8] = ["id", "title", "prompt", "tasks", "acceptance", "after", "verify", "attempt-timeout"];

/// What a change file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeFile {
    /// What a person calls the change.
    pub title: Option<String>,
    /// What every story's prompt carries.
    pub context: Option<String>,
    /// Where the stories are kept, if not in the file itself.
    pub source: Option<String>,
    /// The agent to use.
    pub agent: Option<AgentChoice>,
    /// The model that it is told to use.
    pub model: Option<String>,
    /// What a run may cost.
    pub max_cost: Option<Cost>,
    /// How many tokens a run may use.
    pub max_tokens: Option<u64>,
    /// Gates for every story.
    pub verify: Option<Vec<String>>,
    /// Retries after a first attempt.
    pub max_retries: Option<u32>,
    /// Time limit for an attempt; inside, none means no limit.
    pub attempt_timeout: Option<Option<Duration>>,
    /// Time limit without output.
    pub idle_timeout: Option<Option<Duration>>,
    /// Time limit for one gate.
    pub verify_timeout: Option<Option<Duration>>,
    /// What happens at the end.
    pub finish: Option<Finish>,
    /// The stories, in order.
    pub stories: Vec<Story>,
}

/// Reads a change file's text; `file` is what errors call it.
///
/// # Errors
/// A line of the form `file:line: what is wrong`.
pub fn parse(text: &str, file: &str) -> Result<ChangeFile, String> {
    let reader = Reader { text, file };
    let root = DeTable::parse(text).map_err(|error| reader.at(error.span().map_or(0, |span| span.start), error.message()))?;
    reader.change(root.get_ref())
}

struct Reader<'a> {
    text: &'a str,
    file: &'a str,
}

type Value<'i> = Spanned<DeValue<'i>>;
/// The line of every story, for errors that concern two of them.
type Lines = Vec<(StoryId, usize)>;

impl Reader<'_> {
    fn at(&self, offset: usize, what: &str) -> String {
        let line = self.text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1;
        format!("{}:{line}: {what}", self.file)
    }

    fn wrong(&self, key: &str, value: &Value, expected: &str) -> String {
        let found = value.get_ref().type_str();
        self.at(value.span().start, &format!("'{key}' must be {expected}, not {} {found}", article(found)))
    }

    fn change(&self, root: &DeTable) -> Result<ChangeFile, String> {
        self.known_keys(root, &KEYS)?;
        let source = self.text(root, "source")?;
        let (stories, lines) = match (&source, root.get("story")) {
            (Some(_), Some(story)) => {
                return Err(self.at(story.span().start, "there are stories in it and a 'source': only one of them can be"));
            }
            (Some(path), None) if path.is_empty() => {
                let offset = root.get("source").map_or(0, |value| value.span().start);
                return Err(self.at(offset, "'source' must be the path of a folder or a file"));
            }
            (Some(_), None) => (Vec::new(), Vec::new()),
            (None, _) => self.stories(root)?,
        };
        let file = ChangeFile {
            title: self.text(root, "title")?,
            context: self.text(root, "context")?,
            source,
            agent: self.agent(root)?,
            model: self.text(root, "model")?,
            max_cost: self.amount(root, "max-cost", |text| text.parse())?,
            max_tokens: self.amount(root, "max-tokens", git_config::tokens)?,
            verify: self.texts(root, "verify")?,
            max_retries: self.number(root, "max-retries")?,
            attempt_timeout: self.limit(root, "attempt-timeout")?,
            idle_timeout: self.limit(root, "idle-timeout")?,
            verify_timeout: self.limit(root, "verify-timeout")?,
            finish: self.read(root, "finish", str::parse)?,
            stories,
        };
        self.check(&file.stories, &lines)?;
        Ok(file)
    }

    fn check(&self, stories: &[Story], lines: &Lines) -> Result<(), String> {
        let line = |id: &StoryId| lines.iter().rev().find(|(known, _)| known == id).map_or(0, |(_, offset)| *offset);
        check_order(stories).map_err(|problem| match problem {
            OrderProblem::Duplicate(id) => self.at(line(&id), &format!("two stories have the id '{id}'")),
            OrderProblem::Unknown { story, after } => {
                let near = crate::nearest::suggestion(after.as_str(), stories.iter().map(|story| story.id.as_str()));
                self.at(line(&story), &format!("story '{story}' has 'after' the unknown story '{after}'{near}"))
            }
            OrderProblem::Circle(ids) => {
                let words: Vec<&str> = ids.iter().map(StoryId::as_str).collect();
                let first = ids.first().map_or(0, line);
                self.at(first, &format!("'after' goes in a circle: {}", words.join(" -> ")))
            }
        })
    }

    fn known_keys(&self, table: &DeTable, known: &[&str]) -> Result<(), String> {
        match table.keys().find(|key| !known.contains(&key.get_ref().as_ref())) {
            Some(key) => {
                let near = crate::nearest::suggestion(key.get_ref(), known.iter().copied());
                Err(self.at(key.span().start, &format!("unknown key '{}'{near}", key.get_ref().escape_debug())))
            }
            None => Ok(()),
        }
    }

    fn stories(&self, root: &DeTable) -> Result<(Vec<Story>, Lines), String> {
        let none = || format!("{}: there is no [[story]] in it, nor a 'source'", self.file);
        let value = root.get("story").ok_or_else(none)?;
        let list = value.get_ref().as_array().ok_or_else(|| self.wrong("story", value, "a list of tables, [[story]]"))?;
        let mut stories = Vec::new();
        let mut lines = Vec::new();
        for value in list.iter() {
            let table = value.get_ref().as_table().ok_or_else(|| self.wrong("story", value, "a table, [[story]]"))?;
            let (story, offset) = self.story(table, value.span().start)?;
            lines.push((story.id.clone(), offset));
            stories.push(story);
        }
        if stories.is_empty() { Err(none()) } else { Ok((stories, lines)) }
    }

    fn story(&self, table: &DeTable, start: usize) -> Result<(Story, usize), String> {
        self.known_keys(table, &STORY_KEYS)?;
        let id: StoryId = self.read(table, "id", str::parse)?.ok_or_else(|| self.at(start, "this story has no 'id'"))?;
        let offset = table.get("id").map_or(start, |value| value.span().start);
        let after = table.get("after").map_or(0, |value| value.span().start);
        let after = self
            .texts(table, "after")?
            .unwrap_or_default()
            .iter()
            .map(|text| text.parse::<StoryId>().map_err(|why| self.at(after, &format!("'after': {why}"))))
            .collect::<Result<_, _>>()?;
        let story = Story {
            title: self.text(table, "title")?.unwrap_or_else(|| id.to_string()),
            prompt: self.text(table, "prompt")?.unwrap_or_default(),
            tasks: self.texts(table, "tasks")?.unwrap_or_default(),
            acceptance: self.texts(table, "acceptance")?.unwrap_or_default(),
            after,
            verify: self.texts(table, "verify")?.unwrap_or_default(),
            attempt_timeout: self.limit(table, "attempt-timeout")?.flatten(),
            done: false,
            id,
        };
        Ok((story, offset))
    }

    fn agent(&self, root: &DeTable) -> Result<Option<AgentChoice>, String> {
        let command = self.texts(root, "command")?;
        match (self.text(root, "agent")?, command) {
            (Some(_), Some(_)) => {
                let offset = root.get("command").map_or(0, |value| value.span().start);
                Err(self.at(offset, "'agent' and 'command' exclude each other: keep one of them"))
            }
            (_, Some(words)) if words.is_empty() => {
                let offset = root.get("command").map_or(0, |value| value.span().start);
                Err(self.at(offset, "'command' must name a program"))
            }
            (Some(name), None) => Ok(Some(AgentChoice::Named(name))),
            (None, words) => Ok(words.map(AgentChoice::Command)),
        }
    }

    fn text(&self, table: &DeTable, key: &str) -> Result<Option<String>, String> {
        let Some(value) = table.get(key) else { return Ok(None) };
        let text = value.get_ref().as_str().ok_or_else(|| self.wrong(key, value, "a string"))?;
        Ok(Some(text.to_owned()))
    }

    fn texts(&self, table: &DeTable, key: &str) -> Result<Option<Vec<String>>, String> {
        let Some(value) = table.get(key) else { return Ok(None) };
        let list = value.get_ref().as_array().ok_or_else(|| self.wrong(key, value, "a list of strings"))?;
        let text = |value: &Value| value.get_ref().as_str().map(str::to_owned).ok_or_else(|| self.wrong(key, value, "a list of strings"));
        list.iter().map(text).collect::<Result<_, _>>().map(Some)
    }

    fn number(&self, table: &DeTable, key: &str) -> Result<Option<u32>, String> {
        let Some(value) = table.get(key) else { return Ok(None) };
        let integer = value.get_ref().as_integer().ok_or_else(|| self.wrong(key, value, "a whole number"))?;
        let number = u32::from_str_radix(integer.as_str(), integer.radix());
        number.map(Some).map_err(|_| self.at(value.span().start, &format!("'{key}' must be a whole number from 0 to {}", u32::MAX)))
    }

    /// A number, or a text that is read as one.
    fn amount<T>(&self, table: &DeTable, key: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
        let Some(value) = table.get(key) else { return Ok(None) };
        let text = match value.get_ref() {
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::String(text) => text.to_string(),
            _ => return Err(self.wrong(key, value, "a number")),
        };
        read(&text).map(Some).map_err(|why| self.at(value.span().start, &format!("'{key}': {why}")))
    }

    fn limit(&self, table: &DeTable, key: &str) -> Result<Option<Option<Duration>>, String> {
        self.read(table, key, git_config::limit)
    }

    fn read<T>(&self, table: &DeTable, key: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
        let Some(text) = self.text(table, key)? else { return Ok(None) };
        let offset = table.get(key).map_or(0, |value| value.span().start);
        read(&text).map(Some).map_err(|why| self.at(offset, &format!("'{key}': {why}")))
    }
}

fn article(noun: &str) -> &'static str {
    if noun.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORY: &str = "[[story]]\nid = \"1\"\n";

    fn error(text: &str) -> String {
        parse(text, "x.toml").unwrap_err()
    }

    #[test]
    fn the_documented_change_file_is_read_whole() {
        let text = r#"
title = "Task priorities"
context = "Anything every story's prompt should carry."
command = ["./my-agent", "--flag"]
verify = ["cargo test"]
max-retries = 3
attempt-timeout = "45m"

[[story]]
id = "story-1"
title = "Add the priority column"
prompt = "text"
tasks = ["migration", "model field"]
acceptance = ["migration runs twice without error"]
after = []
verify = ["cargo test priority"]
"#;
        let file = parse(text, "x.toml").unwrap();
        assert_eq!(file.title.as_deref(), Some("Task priorities"));
        assert_eq!(file.agent, Some(AgentChoice::Command(vec!["./my-agent".into(), "--flag".into()])));
        assert_eq!(file.max_retries, Some(3));
        assert_eq!(file.attempt_timeout, Some(Some(Duration::from_secs(2700))));
        assert_eq!(file.stories[0].tasks, ["migration", "model field"]);
        assert_eq!(file.stories[0].verify, ["cargo test priority"]);
    }

    #[test]
    fn every_error_names_file_line_and_key() {
        let table = [
            (format!("verfy = []\n{STORY}"), "x.toml:1: unknown key 'verfy'; did you mean 'verify'?"),
            (format!("{STORY}titel = \"x\"\n"), "x.toml:3: unknown key 'titel'; did you mean 'title'?"),
            (format!("max-retries = \"3\"\n{STORY}"), "x.toml:1: 'max-retries' must be a whole number, not a string"),
            (format!("max-retries = -1\n{STORY}"), "x.toml:1: 'max-retries' must be a whole number from 0 to 4294967295"),
            (format!("\nverify = \"cargo test\"\n{STORY}"), "x.toml:2: 'verify' must be a list of strings, not a string"),
            (format!("verify = [1]\n{STORY}"), "x.toml:1: 'verify' must be a list of strings, not an integer"),
            (
                format!("attempt-timeout = \"soon\"\n{STORY}"),
                "x.toml:1: 'attempt-timeout': 'soon' is not a duration such as '45m', '1h 30m' or '90s'",
            ),
            (format!("{STORY}{STORY}"), "x.toml:4: two stories have the id '1'"),
            (format!("{STORY}after = [\"2\"]\n"), "x.toml:2: story '1' has 'after' the unknown story '2'; did you mean '1'?"),
            (format!("{STORY}after = [\"1\"]\n"), "x.toml:2: 'after' goes in a circle: 1 -> 1"),
            ("title = \"x\"\n".to_owned(), "x.toml: there is no [[story]] in it, nor a 'source'"),
            ("story = []\n".to_owned(), "x.toml: there is no [[story]] in it, nor a 'source'"),
            ("[[story]]\ntitle = \"x\"\n".to_owned(), "x.toml:1: this story has no 'id'"),
            (
                "[[story]]\nid = \"a\\nb\"\n".to_owned(),
                "x.toml:2: 'id': 'a\\nb' is not a valid story id: it must be one line without control characters",
            ),
            (format!("agent = \"a\"\ncommand = [\"b\"]\n{STORY}"), "x.toml:2: 'agent' and 'command' exclude each other: keep one of them"),
            (format!("command = []\n{STORY}"), "x.toml:1: 'command' must name a program"),
            (format!("finish = \"later\"\n{STORY}"), "x.toml:1: 'finish': 'later' is not one of ask, cleanup, keep"),
            ("[story]\nid = \"1\"\n".to_owned(), "x.toml:1: 'story' must be a list of tables, [[story]], not a table"),
        ];
        for (text, expected) in table {
            assert_eq!(error(&text), expected, "{text}");
        }
    }

    #[test]
    fn a_syntax_error_names_its_line() {
        assert!(error("title = \"x\"\nverify = [\n").starts_with("x.toml:"), "{}", error("title = \"x\"\nverify = [\n"));
    }

    #[test]
    fn a_circle_of_three_is_named_in_order() {
        let text =
            "[[story]]\nid = \"a\"\nafter = [\"c\"]\n[[story]]\nid = \"b\"\nafter = [\"a\"]\n[[story]]\nid = \"c\"\nafter = [\"b\"]\n";
        assert_eq!(error(text), "x.toml:2: 'after' goes in a circle: a -> c -> b -> a");
    }
}
