//! The parameters of a loop: the agent, the stories and the limits.

use std::time::Duration;

use anyhow::Result;
use jiff::Zoned;

use super::{Conditions, Gates, LimitWaits, Outline, Policy, RunnerFailures, SettingUsed};
use crate::agent::{Agent, Learnings, Prompt, Template, Usage};
use crate::config::{GitConfig, Origin, Settings};
use crate::runner::Runner;
use crate::story::{Change, Order, Story, StoryId};

/// How much time a runner has to end its programs when the user quits at once.
const RUNNER_GRACE: Duration = Duration::from_secs(3);

/// The parameters of a loop.
pub struct Work {
    /// All settings, such as limits and gates.
    pub settings: Settings,
    /// The agent.
    pub agent: Agent,
    /// The user's own prompt template.
    pub template: Option<Template>,
    /// The stories to work on. Empty means all.
    pub only: Vec<StoryId>,
    /// How many stories to land.
    pub limit: Option<u32>,
}

impl Work {
    /// The rules for the state machine.
    #[must_use]
    pub fn policy(&self, is_isolated: bool) -> Policy {
        let settings = &self.settings;
        let jobs = if is_isolated { usize::try_from(settings.jobs.value).unwrap_or(1).max(1) } else { 1 };
        Policy {
            max_retries: settings.max_retries.value,
            keep_going: settings.keep_going.value,
            jobs,
            order: Order::Graph,
            limit: self.limit,
            only: self.only.clone(),
            agent: Some(self.agent.name.clone()),
            limit_wait: settings.limit_wait.value,
            limit_pause: settings.limit_pause.value,
            limit_waits: LimitWaits::default(),
            runner_failures: RunnerFailures::default(),
            max_cost: settings.max_cost.as_ref().map(|cost| cost.value),
            max_tokens: settings.max_tokens.as_ref().map(|tokens| tokens.value),
            in_flight: Usage::default(),
        }
    }

    /// The conditions of the loop, for the journal.
    #[must_use]
    pub fn conditions(&self, git: String, config: &GitConfig, change: &Change) -> Conditions {
        let origin = |origin: &Origin| (*origin != Origin::Default).then(|| origin.to_string());
        let listed = self.settings.listing(config).into_iter().filter(|setting| !setting.values.is_empty());
        Conditions {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            git,
            agent: self.agent.name.clone(),
            model: self.settings.model.as_ref().map(|model| model.value.clone()),
            clock_offset: Zoned::now().offset().seconds(),
            title: change.title.clone(),
            stories: change.stories.iter().map(Outline::of).collect(),
            settings: listed.map(|it| SettingUsed { origin: origin(&it.origin), key: it.key, values: it.values }).collect(),
        }
    }

    /// How much time agents and gates have to end when the user quits at once. A runner that is killed would leave its programs running
    /// elsewhere.
    pub(super) fn quit_grace(&self) -> Duration {
        let has_runner = !Runner::of_agents(&self.settings).is_none() || !Runner::of_gates(&self.settings).is_none();
        if has_runner { RUNNER_GRACE } else { Duration::ZERO }
    }

    /// Whether attempts should work in private clones.
    #[must_use]
    pub fn wants_isolation(&self) -> bool {
        self.settings.wants_isolation()
    }

    /// The prompt of a story's first attempt, without learnings.
    ///
    /// # Errors
    /// If the template cannot be rendered.
    pub fn prompt(&self, change: &Change, story: &Story) -> Result<String> {
        let gates = Gates::of(&self.settings, story);
        let learnings = Learnings { file: "<learnings>".to_owned(), text: String::new() };
        let template = self.template.as_ref();
        Prompt { change, story, attempt: 1, gates: &gates.commands, feedback: None, hints: &[], learnings: Some(&learnings), template }
            .render()
    }

    /// Renders every prompt once, so that an error in the template is noticed before anything is touched.
    ///
    /// # Errors
    /// If one cannot be rendered.
    pub fn check_prompts(&self, change: &Change) -> Result<()> {
        if self.template.is_none() {
            return Ok(());
        }
        change.stories.iter().try_for_each(|story| self.prompt(change, story).map(drop))
    }
}
