//! Every `ralph.*` key of git's configuration: plain data, for listings and the manual.

/// One key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// As it is written; `<name>` stands for the name of an agent.
    pub name: &'static str,
    /// The form of its value.
    pub value: &'static str,
    /// What holds where it is not set, in words where that is no value.
    pub default: &'static str,
    /// The option of `start` and `resume` that goes before it.
    pub option: Option<&'static str>,
    /// The key of the change file that goes before it.
    pub change_file: Option<&'static str>,
    /// What it means, in a sentence.
    pub meaning: &'static str,
}

impl Key {
    /// Whether a name stands for this key, written in any case.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        match self.name.split_once("<name>") {
            None => name.eq_ignore_ascii_case(self.name),
            Some((before, after)) => {
                let rest = name.get(..before.len()).filter(|head| head.eq_ignore_ascii_case(before)).map(|_| &name[before.len()..]);
                rest.and_then(|rest| rest.rsplit_once('.')).is_some_and(|(agent, variable)| {
                    !agent.is_empty() && after.strip_prefix('.').is_some_and(|after| after.eq_ignore_ascii_case(variable))
                })
            }
        }
    }

    /// The one that a name stands for.
    #[must_use]
    pub fn of(name: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| key.is(name))
    }
}

const fn key(name: &'static str, value: &'static str, default: &'static str, meaning: &'static str) -> Key {
    Key { name, value, default, option: None, change_file: None, meaning }
}

impl Key {
    const fn option(self, option: &'static str) -> Key {
        Key { option: Some(option), ..self }
    }

    const fn change_file(self, name: &'static str) -> Key {
        Key { change_file: Some(name), ..self }
    }
}

/// All of them, in the order in which people look for them.
pub const KEYS: [Key; 23] = [
    key(
        "ralph.agent",
        "<name>",
        "the first known client that is installed, on a terminal",
        "The agent that works: claude, codex, opencode, gemini, qwen, aider, goose, copilot, or one that ralph.<name>.cmd names.",
    )
    .option("--agent")
    .change_file("agent"),
    key("ralph.model", "<model>", "the agent's own choice", "The model that a known client is told to use.")
        .option("--model")
        .change_file("model"),
    key(
        "ralph.<name>.cmd",
        "<command>",
        "the client of that name",
        "The command line of an agent of your own, run by sh; the prompt comes on its standard input.",
    ),
    key(
        "ralph.<name>.args",
        "<argument>",
        "none",
        "One more argument for that agent; may be set more than once, and an empty value clears those before it.",
    ),
    key(
        "ralph.<name>.format",
        "text|aider|claude|qwen|codex|opencode|gemini|goose|copilot",
        "that of the client of that name, else text",
        "How to read what that agent prints.",
    ),
    key(
        "ralph.verify",
        "<command>",
        "none",
        "A gate, run by sh: it must succeed before a story counts as done; may be set more than once, and an empty value clears those before it.",
    )
    .option("--verify")
    .change_file("verify"),
    key("ralph.maxRetries", "<n>", "3", "How many attempts a story gets after its first one.")
        .option("--max-retries")
        .change_file("max-retries"),
    key("ralph.maxCost", "<dollars>", "no limit", "No more agents are started once the run has cost this much.")
        .option("--max-cost")
        .change_file("max-cost"),
    key("ralph.maxTokens", "<n>[k|M]", "no limit", "No more agents are started once the run has used this many tokens.")
        .option("--max-tokens")
        .change_file("max-tokens"),
    key(
        "ralph.limitWait",
        "wait|stop",
        "wait",
        "What happens when the agent's allowance is used up: wait until it comes back, or end the loop.",
    ),
    key(
        "ralph.limitPause",
        "<duration>",
        "5m",
        "The first wait for an allowance of which nobody said when it comes back; each further one is twice as long, up to an hour.",
    ),
    key("ralph.attemptTimeout", "<duration>|none", "60m", "Time limit for an attempt.")
        .option("--attempt-timeout")
        .change_file("attempt-timeout"),
    key("ralph.idleTimeout", "<duration>|none", "15m", "Time limit for an agent that prints nothing.")
        .option("--idle-timeout")
        .change_file("idle-timeout"),
    key("ralph.verifyTimeout", "<duration>|none", "30m", "Time limit for one gate.").change_file("verify-timeout"),
    key(
        "ralph.lingerTimeout",
        "<duration>",
        "10s",
        "How long an agent that has promised may be silent before it is ended; its promise still counts.",
    ),
    key("ralph.grace", "<duration>", "10s", "How long a process that is asked to end has before it is killed."),
    key("ralph.gitTimeout", "<duration>|none", "30s for questions, none for work", "Time limit for each git command that git-ralph runs."),
    key(
        "ralph.finish",
        "ask|cleanup|keep",
        "ask",
        "What happens when the loop has ended; where nobody can be asked, ask leaves the run open.",
    )
    .option("--finish")
    .change_file("finish"),
    key("ralph.hooks", "true|false", "false", "Whether the repository's pre-commit and commit-msg hooks are run, as gates."),
    key("ralph.sign", "true|false", "false", "Whether checkpoints are signed."),
    key("ralph.onFinish", "<command>", "none", "A command, run by sh, with the event as JSON on its standard input, when a run ends."),
    key("ralph.onStory", "<command>", "none", "A command, run by sh, with the event as JSON on its standard input, when a story lands or fails."),
    key("ralph.bell", "true|false|auto", "auto", "Whether the terminal's bell rings and it is asked for a notification when a run ends."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_any_case_and_of_any_agent_finds_its_key() {
        assert_eq!(Key::of("ralph.maxretries").unwrap().name, "ralph.maxRetries");
        assert_eq!(Key::of("ralph.My.Agent.CMD").unwrap().name, "ralph.<name>.cmd");
        for name in ["ralph.cmd", "ralph..cmd", "ralph.x.colour", "ralph", "ralph.ä", ""] {
            assert_eq!(Key::of(name), None, "{name}");
        }
    }
}
