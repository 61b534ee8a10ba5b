//! Whether output has colour and hints, according to git's configuration and the environment.

use anyhow::Result;

use super::git_config::boolean;
use super::{Environment, GitConfig};

/// A kind of hint that the user can switch off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// The command to type next at the end of a loop.
    NextStep,
    /// The command to type after an error.
    Problem,
}

impl Advice {
    /// The configuration key that switches the hint off.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Advice::NextStep => "advice.ralphNextStep",
            Advice::Problem => "advice.ralphProblem",
        }
    }
}

/// Whether and how a kind of hint is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Shown, along with how to switch it off: the configuration does not set it.
    #[default]
    Unasked,
    /// Shown: the configuration asks for it.
    Yes,
    /// Not shown.
    No,
}

/// How output looks.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputStyle {
    /// Whether standard output is coloured.
    pub colour: bool,
    /// Whether standard error is coloured.
    pub colour_errors: bool,
    next_step: Wanted,
    problem: Wanted,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Colour {
    Always,
    Never,
    Auto,
}

impl OutputStyle {
    /// The style that configuration and environment ask for.
    ///
    /// # Errors
    /// If a value is invalid. The error names the key, the value and its origin.
    pub fn resolve(environment: &Environment, config: &GitConfig) -> Result<Self> {
        let own = config.read_last("color.ralph", colour)?;
        let colour = own.map_or_else(|| config.read_last("color.ui", colour), |own| Ok(Some(own)))?;
        Ok(Self::of(environment, colour.unwrap_or(Colour::Auto))
            .with_advice(advice(environment, config, Advice::NextStep)?, advice(environment, config, Advice::Problem)?))
    }

    /// The style to use if git's configuration could not be read.
    #[must_use]
    pub fn usual(environment: &Environment) -> Self {
        let wanted = if is_off(environment) { Wanted::No } else { Wanted::Unasked };
        Self::of(environment, Colour::Auto).with_advice(wanted, wanted)
    }

    fn of(environment: &Environment, colour: Colour) -> Self {
        let set = |name| environment.get(name).is_some_and(|value| !value.is_empty());
        let plain = set("NO_COLOR") || environment.get("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        let on = |terminal: bool| match colour {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => terminal && !plain,
        };
        // A pager that git has started shows colours too.
        OutputStyle {
            colour: on(environment.display || set("GIT_PAGER_IN_USE")),
            colour_errors: on(environment.screen),
            ..OutputStyle::default()
        }
    }

    fn with_advice(self, next_step: Wanted, problem: Wanted) -> Self {
        OutputStyle { next_step, problem, ..self }
    }

    /// Whether and how a kind of hint is shown.
    #[must_use]
    pub fn wants(&self, advice: Advice) -> Wanted {
        match advice {
            Advice::NextStep => self.next_step,
            Advice::Problem => self.problem,
        }
    }
}

fn is_off(environment: &Environment) -> bool {
    environment.get("GIT_ADVICE").and_then(|value| value.to_str()).is_some_and(|value| boolean(value) == Ok(false))
}

fn advice(environment: &Environment, config: &GitConfig, advice: Advice) -> Result<Wanted> {
    if is_off(environment) {
        return Ok(Wanted::No);
    }
    Ok(match config.read_last(advice.key(), boolean)? {
        None => Wanted::Unasked,
        Some(true) => Wanted::Yes,
        Some(false) => Wanted::No,
    })
}

/// Reads `color.*` like git, where `true` means `auto`.
fn colour(text: &str) -> Result<Colour, String> {
    match text.trim().to_lowercase().as_str() {
        "always" => Ok(Colour::Always),
        "never" => Ok(Colour::Never),
        "auto" => Ok(Colour::Auto),
        other => match boolean(other) {
            Ok(true) => Ok(Colour::Auto),
            Ok(false) => Ok(Colour::Never),
            Err(_) => Err(format!("'{text}' is not one of always, never, auto")),
        },
    }
}
