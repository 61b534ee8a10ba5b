//! The prompt: pure text from a story, its change, and what the last attempt left to say.

use anyhow::{Context, Result};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Value, context};
use serde::{Deserialize, Serialize};

use super::disarmed;
use crate::story::{Change, Story};

const TEMPLATE: &str = include_str!("prompt.md.jinja");

/// What the next attempt should know about the one before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Feedback {
    /// The agent said FAILED.
    Failed {
        /// Its reason.
        reason: String,
    },
    /// A gate was red.
    Gate {
        /// The command.
        command: String,
        /// The end of its output.
        output: String,
    },
    /// It ended in another way than by saying so.
    Abnormal {
        /// In words.
        how: String,
    },
}

impl Feedback {
    fn values(&self) -> Value {
        match self {
            Feedback::Failed { reason } => context! { kind => "failed", reason => reason.as_str() },
            Feedback::Gate { command, output } => context! { kind => "gate", command => command.as_str(), output => output.as_str() },
            Feedback::Abnormal { how } => context! { kind => "abnormal", how => how.as_str() },
        }
    }
}

/// Everything that goes into a prompt.
#[derive(Debug)]
pub struct Prompt<'a> {
    /// The change.
    pub change: &'a Change,
    /// The story.
    pub story: &'a Story,
    /// The number of this attempt.
    pub attempt: u32,
    /// The commands that will be run after COMPLETE.
    pub gates: &'a [String],
    /// What the last attempt left to say.
    pub feedback: Option<&'a Feedback>,
}

impl Prompt<'_> {
    /// The text for the agent.
    ///
    /// # Errors
    /// If the template cannot be rendered.
    pub fn render(&self) -> Result<String> {
        let mut environment = Environment::new();
        environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
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
        };
        let text = environment.render_str(TEMPLATE, values).context("cannot render the prompt")?;
        // An agent that repeats its prompt must not be taken at its word.
        Ok(disarmed(&text) + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Signal;

    fn change() -> Change {
        let story = Story {
            id: "s1".parse().unwrap(),
            title: "Add the column".into(),
            prompt: "Write it.".into(),
            tasks: vec!["migration".into()],
            acceptance: vec!["runs twice".into()],
            after: Vec::new(),
            verify: Vec::new(),
            attempt_timeout: None,
            done: false,
        };
        Change { name: "prio".parse().unwrap(), title: Some("Priorities".into()), context: Some("Rust.".into()), stories: vec![story] }
    }

    fn render(feedback: Option<&Feedback>) -> String {
        let change = change();
        let prompt = Prompt { change: &change, story: &change.stories[0], attempt: 2, gates: &["cargo test".into()], feedback };
        prompt.render().unwrap()
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
    }

    #[test]
    fn template_syntax_in_a_story_is_just_text() {
        let mut change = change();
        change.stories[0].prompt = "Use {{ braces }} and {% raw %}".into();
        let prompt = Prompt { change: &change, story: &change.stories[0], attempt: 1, gates: &[], feedback: None };
        assert!(prompt.render().unwrap().contains("{{ braces }} and {% raw %}"));
    }
}
