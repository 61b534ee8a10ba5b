//! The report on an agent: what it says and does on the way, and in the end its promise, its usage and its trouble.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Signal;
use crate::cost::Cost;

/// Something that an agent says or does on the way, for the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// Text of its own.
    Text(&'a str),
    /// It uses a tool.
    Tool {
        /// The tool, as the agent calls it.
        name: &'a str,
        /// The file, command or address that it is used on; may be empty.
        target: &'a str,
    },
}

/// Everything that is known when an agent has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentReport {
    /// The promise in its final message.
    pub signal: Signal,
    /// What went wrong around it.
    pub trouble: Option<Trouble>,
    /// What it used up.
    pub usage: Usage,
    /// The last lines of its final message.
    pub words: String,
}

/// Why an agent could not do its work, by what can be done about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Trouble {
    /// A key, a login, a model, a request that is refused: a retry cannot help, somebody must mend it.
    Configuration {
        /// In the client's words.
        message: String,
    },
    /// An allowance is used up: it comes back by itself.
    Limit {
        /// In the client's words.
        message: String,
        /// When, if that was said.
        resets: Option<Timestamp>,
    },
    /// The model could not be reached or had too much to do: a retry may help.
    Unavailable {
        /// In the client's words.
        message: String,
    },
    /// Something else.
    Other {
        /// In the client's words.
        message: String,
    },
}

/// What an agent used up, as far as it says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Usage {
    /// Tokens read, those from a cache included.
    pub input: u64,
    /// How many of them came from a cache.
    pub cached: u64,
    /// Tokens written.
    pub output: u64,
    /// Requests to the model, if it counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Dollars, if it knows the price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

impl Usage {
    /// Whether nothing was said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Usage::default()
    }

    /// All tokens.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, more: &Usage) -> Usage {
        let either = |a: Option<u64>, b: Option<u64>| a.map_or(b, |a| Some(a.saturating_add(b.unwrap_or(0))));
        Usage {
            input: self.input.saturating_add(more.input),
            cached: self.cached.saturating_add(more.cached),
            output: self.output.saturating_add(more.output),
            turns: either(self.turns, more.turns),
            cost: self.cost.map_or(more.cost, |cost| Some(cost.plus(more.cost.unwrap_or_default()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_adds_up_and_stays_unknown_where_nothing_was_said() {
        let priced = Usage { input: 10, output: 5, cost: Cost::dollars(0.5), ..Usage::default() };
        let free = Usage { input: 1, output: 1, ..Usage::default() };
        assert_eq!(free.plus(&free).cost, None);
        assert_eq!((priced.plus(&free).tokens(), priced.plus(&free).cost), (17, Cost::dollars(0.5)));
        assert_eq!(priced.plus(&priced).cost, Cost::dollars(1.0));
        let most = Usage { input: u64::MAX, ..Usage::default() };
        assert_eq!(most.plus(&priced).tokens(), u64::MAX);
    }
}
