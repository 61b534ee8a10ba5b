//! The types for an agent's output: its text and tool calls while it works; its promise, usage and errors at the end.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Signal;
use crate::cost::Cost;

/// Something that the agent says or does while it works, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// Text by the agent.
    Text(&'a str),
    /// The agent calls a tool.
    Tool {
        /// The name of the tool, as the agent calls it.
        name: &'a str,
        /// The file, command or address that the tool is used on; may be empty.
        target: &'a str,
    },
}

/// Everything that is known once the agent has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentReport {
    /// The promise in its final message.
    pub signal: Signal,
    /// The error that kept the agent from its work, if there was one.
    pub trouble: Option<Trouble>,
    /// Tokens, requests and money that the agent used.
    pub usage: Usage,
    /// The last lines of its final message.
    pub words: String,
}

/// Why an agent could not work, by what can be done about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Trouble {
    /// A key, login, model or request was refused: a retry cannot help, a person must fix the configuration.
    Configuration {
        /// In the client's words.
        message: String,
    },
    /// A usage limit that resets by itself is used up.
    Limit {
        /// In the client's words.
        message: String,
        /// When the limit resets, if the client said so.
        resets: Option<Timestamp>,
    },
    /// The model could not be reached or was overloaded: a retry may help.
    Unavailable {
        /// In the client's words.
        message: String,
    },
    /// Any other error.
    Other {
        /// In the client's words.
        message: String,
    },
}

/// What the agent used, as far as it reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Usage {
    /// Input tokens, including those from a cache.
    pub input: u64,
    /// How many of the input tokens came from a cache.
    pub cached: u64,
    /// Output tokens.
    pub output: u64,
    /// Requests to the model, if the client counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// The cost in dollars, if the client knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

impl Usage {
    /// Whether the client reported nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Usage::default()
    }

    /// Input and output tokens together.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// The sum of two usages.
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
    fn usage_adds_up_and_stays_unknown_where_none_is_reported() {
        let priced = Usage { input: 10, output: 5, cost: Cost::dollars(0.5), ..Usage::default() };
        let free = Usage { input: 1, output: 1, ..Usage::default() };
        assert_eq!(free.plus(&free).cost, None);
        assert_eq!((priced.plus(&free).tokens(), priced.plus(&free).cost), (17, Cost::dollars(0.5)));
        assert_eq!(priced.plus(&priced).cost, Cost::dollars(1.0));
        let most = Usage { input: u64::MAX, ..Usage::default() };
        assert_eq!(most.plus(&priced).tokens(), u64::MAX);
    }
}
