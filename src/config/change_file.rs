//! Parses the change file from TOML, with errors that name the file, the line and the key. Pure.

use serde_json::Value;
use toml::de::DeTable;

use super::agent_choice::AgentChoice;
use super::schema::kinds;
use super::setting_type::{TextList, TimeLimit};
use super::table::{FileSettings, KEYS};
use super::toml_value::{Reader, TomlValue, Wrong, text, texts};
use crate::story::{Order, OrderProblem, Story, StoryId, check_order};

/// A key of the change file that is not a setting.
pub(super) struct OwnKey {
    pub name: &'static str,
    /// Returns the schema of the value, given the schema of a story.
    pub kind: fn(&Value) -> Value,
    pub about: &'static str,
}

const fn key(name: &'static str, kind: fn(&Value) -> Value, about: &'static str) -> OwnKey {
    OwnKey { name, kind, about }
}

/// The top-level keys that are not settings.
pub(super) const OWN_KEYS: [OwnKey; 6] = [
    key("title", kinds::text, "The title of the change."),
    key("context", kinds::text, "Text for the prompt of every story."),
    key("source", kinds::path, "The file or folder that holds the stories, if they are not in this file."),
    key("order", kinds::order, "list: each story waits for the one before it; any: a story waits only for those in its 'after'."),
    key("command", kinds::command, "A command to use as the agent, with its arguments; the prompt comes on its standard input."),
    key("story", kinds::stories, "The stories, in order."),
];

/// The keys of a story.
pub(super) const STORY_KEYS: [OwnKey; 9] = [
    key("id", kinds::id, "The name of the story in messages, commits and refs."),
    key("title", kinds::text, "The title of the story; its id if there is none."),
    key("prompt", kinds::text, "What the agent should do."),
    key("tasks", kinds::texts, "The parts of the work."),
    key("acceptance", kinds::texts, "What must be true when the story is done."),
    key("after", kinds::ids, "The stories that must be done before this one starts."),
    key("touches", kinds::texts, "Paths that the story changes, as patterns; stories whose paths overlap do not run at the same time."),
    key("verify", kinds::texts, "Gates of this story, in addition to those of the change."),
    key("attempt-timeout", kinds::time_limit, "Time limit for an attempt at this story."),
];

/// The content of a change file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeFile {
    /// The title of the change.
    pub title: Option<String>,
    /// Text for the prompt of every story.
    pub context: Option<String>,
    /// The file or folder with the stories, if they are not in the change file itself.
    pub source: Option<String>,
    /// The order in which the stories may start, if the file sets one.
    pub order: Option<Order>,
    /// The settings in the file.
    pub settings: FileSettings,
    /// The stories, in order.
    pub stories: Vec<Story>,
}

/// Parses the text of a change file; `file` is its name in errors.
///
/// # Errors
/// A line of the form `file:line: what is wrong`.
pub fn parse(text: &str, file: &str) -> Result<ChangeFile, String> {
    let reader = Reader { text, file };
    let root = DeTable::parse(text).map_err(|error| reader.at(error.span().map_or(0, |span| span.start), error.message()))?;
    reader.change(root.get_ref())
}

/// The line of every story, for errors about two stories.
type Lines = Vec<(StoryId, usize)>;

impl Reader<'_> {
    fn change(&self, root: &DeTable) -> Result<ChangeFile, String> {
        let known: Vec<&str> = OWN_KEYS.iter().map(|key| key.name).chain(KEYS.iter().filter_map(|key| key.change_file)).collect();
        self.known_keys(root, &known)?;
        let source = self.get(root, "source", text)?;
        let (stories, lines) = match (&source, root.get("story")) {
            (Some(_), Some(story)) => {
                return Err(self.at(story.span().start, "it has both stories and a 'source': keep one of them"));
            }
            (Some(path), None) if path.is_empty() => {
                return Err(self.at(Self::offset(root, "source"), "'source' must be the path of a folder or a file"));
            }
            (Some(_), None) => (Vec::new(), Vec::new()),
            (None, _) => self.stories(root)?,
        };
        let file = ChangeFile {
            title: self.get(root, "title", text)?,
            context: self.get(root, "context", text)?,
            source,
            order: self.get(root, "order", order)?,
            settings: self.settings(root)?,
            stories,
        };
        self.check(&file.stories, &lines)?;
        Ok(file)
    }

    /// Reads the settings of the table, and the key `command`, which is another way to set `agent`.
    fn settings(&self, root: &DeTable) -> Result<FileSettings, String> {
        let settings = FileSettings::read(self, root)?;
        let wrong = |what| self.at(Self::offset(root, "command"), what);
        match self.get(root, "command", texts)? {
            None => Ok(settings),
            Some(_) if settings.agent.is_some() => Err(wrong("'agent' and 'command' exclude each other: keep one of them")),
            Some(words) if words.is_empty() => Err(wrong("'command' must name a program")),
            Some(words) => Ok(FileSettings { agent: Some(AgentChoice::Command(words)), ..settings }),
        }
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

    fn stories(&self, root: &DeTable) -> Result<(Vec<Story>, Lines), String> {
        let none = || format!("{}: it has neither a [[story]] nor a 'source'", self.file);
        let value = root.get("story").ok_or_else(none)?;
        let list = value.get_ref().as_array().ok_or_else(|| self.wrong("story", &Wrong::kind(value, "a list of tables, [[story]]")))?;
        let mut stories = Vec::new();
        let mut lines = Vec::new();
        for value in list.iter() {
            let table = value.get_ref().as_table().ok_or_else(|| self.wrong("story", &Wrong::kind(value, "a table, [[story]]")))?;
            let (story, offset) = self.story(table, value.span().start)?;
            lines.push((story.id.clone(), offset));
            stories.push(story);
        }
        if stories.is_empty() { Err(none()) } else { Ok((stories, lines)) }
    }

    fn story(&self, table: &DeTable, start: usize) -> Result<(Story, usize), String> {
        self.known_keys(table, &STORY_KEYS.map(|key| key.name))?;
        let id: StoryId = self.get(table, "id", id)?.ok_or_else(|| self.at(start, "this story has no 'id'"))?;
        let offset = table.get("id").map_or(start, |value| value.span().start);
        let after = Self::offset(table, "after");
        let after = self
            .get(table, "after", texts)?
            .unwrap_or_default()
            .iter()
            .map(|text| text.parse::<StoryId>().map_err(|why| self.at(after, &format!("'after': {why}"))))
            .collect::<Result<_, _>>()?;
        let story = Story {
            title: self.get(table, "title", text)?.unwrap_or_else(|| id.to_string()),
            prompt: self.get(table, "prompt", text)?.unwrap_or_default(),
            tasks: self.get(table, "tasks", texts)?.unwrap_or_default(),
            acceptance: self.get(table, "acceptance", texts)?.unwrap_or_default(),
            after,
            touches: self.get(table, "touches", texts)?.unwrap_or_default(),
            verify: self.setting::<TextList>(table, "verify")?.unwrap_or_default(),
            attempt_timeout: self.setting::<TimeLimit>(table, "attempt-timeout")?.flatten(),
            done: false,
            id,
        };
        Ok((story, offset))
    }
}

fn order(value: &TomlValue) -> Result<Order, Wrong> {
    match text(value)?.as_str() {
        "list" => Ok(Order::List),
        "any" => Ok(Order::Graph),
        other => Err(Wrong::text(value, &format!("'{other}' is not one of list, any"))),
    }
}

fn id(value: &TomlValue) -> Result<StoryId, Wrong> {
    text(value)?.parse().map_err(|why: String| Wrong::text(value, &why))
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
        assert_eq!(file.settings.agent, Some(AgentChoice::Command(vec!["./my-agent".into(), "--flag".into()])));
        assert_eq!(file.settings.max_retries, Some(3));
        assert_eq!(file.settings.attempt_timeout, Some(Some(std::time::Duration::from_secs(2700))));
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
            ("title = \"x\"\n".to_owned(), "x.toml: it has neither a [[story]] nor a 'source'"),
            ("story = []\n".to_owned(), "x.toml: it has neither a [[story]] nor a 'source'"),
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
