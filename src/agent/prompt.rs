//! Renders the prompt from a story, its change and the feedback on the last attempt. Pure.

use anyhow::Result;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, UndefinedBehavior, Value, context};
use serde::{Deserialize, Serialize};

use super::disarmed;
use crate::error::Problem;
use crate::story::{Change, Story};

const TEMPLATE: &str = include_str!("prompt.md.jinja");
const PROMISE: &str = include_str!("promise.md");
/// At most this many bytes from the end of the learnings go into a prompt.
const LONGEST_LEARNINGS: usize = 16 * 1024;

/// A prompt template of the user's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The template's name in error messages.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Notes that agents leave for later attempts and stories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learnings {
    /// The file that the agents write to.
    pub file: String,
    /// The content of the file.
    pub text: String,
}

impl Learnings {
    fn values(&self) -> Value {
        let text = self.text.trim();
        let cut = text.ceil_char_boundary(text.len().saturating_sub(LONGEST_LEARNINGS));
        // Half a line at the cut would be no help.
        let text = if cut == 0 { text } else { text[cut..].split_once('\n').map_or(&text[cut..], |(_, whole)| whole) };
        context! { file => self.file.as_str(), text => text }
    }
}

/// What the next attempt should know about the previous one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Feedback {
    /// The agent said FAILED.
    Failed {
        /// Its reason.
        reason: String,
    },
    /// The agent said BLOCKED; the user has answered since.
    Blocked {
        /// What it needed.
        needs: String,
    },
    /// A gate failed.
    Gate {
        /// The command.
        command: String,
        /// The end of its output.
        output: String,
    },
    /// The work conflicts with stories that have landed since the attempt began.
    Conflict {
        /// The checkpoint that the work conflicts with.
        tip: String,
        /// The ref that keeps the work.
        kept: String,
        /// The conflicting paths.
        paths: Vec<String>,
        /// The conflicting hunks.
        hunks: String,
    },
    /// The gates passed in the attempt, but one failed after the merge with stories that have landed since it began.
    MergeGate {
        /// The checkpoint that the work was merged with.
        tip: String,
        /// The ref that keeps the work.
        kept: String,
        /// The command.
        command: String,
        /// The end of its output.
        output: String,
    },
    /// The agent ended without a promise, for instance by a crash or a time limit.
    Abnormal {
        /// A description of how it ended.
        how: String,
    },
}

impl Feedback {
    fn values(&self) -> Value {
        match self {
            Feedback::Failed { reason } => context! { kind => "failed", reason => reason.as_str() },
            Feedback::Blocked { needs } => context! { kind => "blocked", needs => needs.as_str() },
            Feedback::Gate { command, output } => context! { kind => "gate", command => command.as_str(), output => output.as_str() },
            Feedback::Conflict { tip, kept, paths, hunks } => {
                context! { kind => "conflict", tip => tip.as_str(), kept => kept.as_str(), paths => paths.clone(), hunks => hunks.as_str() }
            }
            Feedback::MergeGate { tip, kept, command, output } => {
                context! { kind => "merge-gate", tip => tip.as_str(), kept => kept.as_str(), command => command.as_str(), output => output.as_str() }
            }
            Feedback::Abnormal { how } => context! { kind => "abnormal", how => how.as_str() },
        }
    }
}

/// The input of a prompt.
#[derive(Debug)]
pub struct Prompt<'a> {
    /// The change.
    pub change: &'a Change,
    /// The story.
    pub story: &'a Story,
    /// The number of this attempt.
    pub attempt: u32,
    /// The gate commands that will run after COMPLETE.
    pub gates: &'a [String],
    /// Feedback on the last attempt.
    pub feedback: Option<&'a Feedback>,
    /// The user's hints.
    pub hints: &'a [String],
    /// Notes of earlier attempts and stories.
    pub learnings: Option<&'a Learnings>,
    /// The user's template, which replaces the built-in one.
    pub template: Option<&'a Template>,
}

impl Prompt<'_> {
    /// Renders the prompt.
    pub fn render(&self) -> Result<String> {
        let mut environment = Environment::new();
        environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        let (name, template) = self.template.map_or(("the built-in template", TEMPLATE), |own| (own.name.as_str(), own.text.as_str()));
        environment.add_template(name, template).map_err(|error| broken(name, &error))?;
        let values = context! {
            change => context! { name => self.change.name.as_str(), title => self.change.title.as_deref() },
            context => self.change.context.as_deref().map(str::trim),
            story => context! {
                id => self.story.id.as_str(),
                title => self.story.title.as_str(),
                prompt => self.story.prompt.trim(),
                tasks => self.story.tasks.clone(),
                acceptance => self.story.acceptance.clone(),
            },
            attempt => self.attempt,
            gates => self.gates.to_vec(),
            feedback => self.feedback.map(Feedback::values),
            hints => self.hints.to_vec(),
            learnings => self.learnings.map(Learnings::values),
            promise => PROMISE.trim_end(),
        };
        let text = environment.get_template(name).and_then(|template| template.render(values)).map_err(|error| broken(name, &error))?;
        // Hints are appended if the template does not mention them.
        let text = if self.hints.is_empty() || template.contains("hints") {
            text
        } else {
            format!("{}\n{}", text.trim_end(), hint_section(self.hints))
        };
        // The description of the promise is appended if the template has none, so that template authors need not know about it.
        let text = if text.contains("<promise>") { text } else { format!("{}\n\n{PROMISE}", text.trim_end()) };
        let text = text.trim_end();
        // An agent that repeats its prompt must not make a promise that way.
        Ok(disarmed(text) + "\n")
    }
}

fn hint_section(hints: &[String]) -> String {
    let hints: String = hints.iter().map(|hint| format!("\n{}\n", hint.trim())).collect();
    format!("\n## Hints from the user\n{hints}")
}

fn broken(name: &str, error: &minijinja::Error) -> Problem {
    let line = error.line().map(|line| format!(":{line}")).unwrap_or_default();
    let what = error.detail().map_or_else(|| error.kind().to_string(), |detail| format!("{}: {detail}", error.kind()));
    Problem::fatal(format!("{name}{line}: the prompt cannot be made: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Signal;
    use crate::story::Order;

    fn change() -> Change {
        let story = Story {
            id: "s1".parse().unwrap(),
            title: "Add the column".into(),
            prompt: "Write it.".into(),
            tasks: vec!["migration".into()],
            acceptance: vec!["runs twice".into()],
            after: Vec::new(),
            verify: Vec::new(),
            touches: Vec::new(),
            attempt_timeout: None,
            done: false,
        };
        Change {
            name: "prio".parse().unwrap(),
            title: Some("Priorities".into()),
            context: Some("Rust.".into()),
            stories: vec![story],
            order: Order::List,
        }
    }

    fn render(feedback: Option<&Feedback>) -> String {
        render_with(feedback, None, None).unwrap()
    }

    fn render_with(feedback: Option<&Feedback>, learnings: Option<&Learnings>, template: Option<&str>) -> Result<String> {
        let template = template.map(|text| Template { name: "prompt.md".into(), text: text.to_owned() });
        let (change, gates) = (change(), ["cargo test".to_owned()]);
        let story = &change.stories[0];
        Prompt { change: &change, story, attempt: 2, gates: &gates, feedback, hints: &[], learnings, template: template.as_ref() }.render()
    }

    #[test]
    fn the_end_of_the_learnings_is_in_the_prompt() {
        let lines: String = (0..10_000).map(|n| format!("lesson {n} ä\n")).collect();
        let learnings = Learnings { file: "/x/learnings.md".into(), text: lines };
        let text = render_with(None, Some(&learnings), None).unwrap();
        assert!(text.contains("lesson 9999") && text.contains("/x/learnings.md") && !text.contains("lesson 1 "), "{text}");
        assert!(text.len() < 20 * 1024, "{}", text.len());
        let empty = Learnings { text: String::new(), ..learnings };
        let text = render_with(None, Some(&empty), None).unwrap();
        assert!(text.contains("/x/learnings.md") && !text.contains("wrote down for you"), "{text}");
    }

    #[test]
    fn a_custom_prompt_template_is_used_and_gets_the_instructions_for_the_promise() {
        let text = render_with(None, None, Some("Do {{ story.title }} ({{ attempt }}).\n")).unwrap();
        assert!(text.starts_with("Do Add the column (2).\n\n## The end\n"), "{text}");
        let text = render_with(None, None, Some("{{ promise }}\nGo.")).unwrap();
        assert!(text.ends_with("\nGo.\n") && text.matches("## The end").count() == 1, "{text}");
    }

    #[test]
    fn a_broken_template_is_an_error_with_file_and_line() {
        for (text, expected) in
            [("a\n{{ storry.title }}", "prompt.md:2: "), ("\n\n{% if %}", "prompt.md:3: "), ("{{ story.titel }}", "prompt.md:1: ")]
        {
            let error = render_with(None, None, Some(text)).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn the_prompt_carries_everything_the_agent_needs() {
        let text = render(None);
        for part in ["Priorities", "Rust.", "Add the column", "Write it.", "migration", "runs twice", "cargo test"] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
        assert!(!text.contains("previous attempt"), "{text}");
    }

    #[test]
    fn feedback_is_in_the_next_prompt() {
        let failed = render(Some(&Feedback::Failed { reason: "no database".into() }));
        assert!(failed.contains("previous attempt") && failed.contains("no database"), "{failed}");
        let gate = render(Some(&Feedback::Gate { command: "make check".into(), output: "1 failure".into() }));
        assert!(gate.contains("make check") && gate.contains("1 failure"), "{gate}");
        let abnormal = render(Some(&Feedback::Abnormal { how: "was stopped after 60 min".into() }));
        assert!(abnormal.contains("was stopped after 60 min"), "{abnormal}");
    }

    #[test]
    fn an_echo_of_the_prompt_can_never_be_a_promise_however_it_is_wrapped() {
        let text = render(None);
        assert!(!text.contains("<promise>COMPLETE</promise>") && !text.contains("<promise>FAILED"), "{text}");
        let one_word_a_line: String = text.split_whitespace().map(|word| format!("{word}\n")).collect();
        assert_eq!(Signal::of(&one_word_a_line), Signal::Nothing);
        assert_eq!(Signal::of(&text), Signal::Nothing);
        // A repeated prompt does not spoil the promise that follows it.
        assert_eq!(Signal::of(&format!("{text}\n<promise>COMPLETE</promise>\n")), Signal::Complete);
    }

    #[test]
    fn template_syntax_in_a_story_is_just_text() {
        let mut change = change();
        change.stories[0].prompt = "Use {{ braces }} and {% raw %}".into();
        let prompt = Prompt {
            change: &change,
            story: &change.stories[0],
            attempt: 1,
            gates: &[],
            feedback: None,
            hints: &[],
            learnings: None,
            template: None,
        };
        assert!(prompt.render().unwrap().contains("{{ braces }} and {% raw %}"));
    }
}
