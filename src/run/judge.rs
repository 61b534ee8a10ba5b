//! Judges an attempt by the agent's output and the way its process ended. Pure.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::agent::{Feedback, Signal, Trouble};
use crate::process::Exit;

/// Why an attempt was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
#[expect(missing_docs, reason = "the fields say what they are")]
pub enum Outcome {
    /// The agent said FAILED.
    Failed { reason: String },
    /// The agent said BLOCKED: it cannot go on without the user.
    Blocked { needs: String },
    /// A gate failed.
    #[serde(rename = "gate-red")]
    GateFailed { command: String, exit: Exit, output: String },
    /// The agent ended without a promise.
    Vanished {
        /// The agent's last lines.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        words: String,
    },
    /// The agent's process did not end normally.
    Abnormal {
        exit: Exit,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The agent is not set up correctly. A retry cannot help.
    Misconfigured { message: String },
    /// The agent has reached a usage limit.
    Limited { message: String, resets: Option<Timestamp> },
    /// The model could not be reached.
    Unavailable { message: String },
    /// The runner of the agent, or of a gate, ended without reporting how its program ended.
    Lost { message: String },
    /// The runner did not start the agent, or a gate.
    NotStarted { message: String },
    /// The work could not be committed as a checkpoint.
    Unlandable { reason: String },
    /// The user stopped the attempt, or the process that supervised it died.
    Interrupted,
}

impl Outcome {
    /// Whether the outcome costs one of the story's retries.
    #[must_use]
    pub fn costs_retry(&self) -> bool {
        !matches!(
            self,
            Outcome::Blocked { .. }
                | Outcome::Interrupted
                | Outcome::Limited { .. }
                | Outcome::Misconfigured { .. }
                | Outcome::Lost { .. }
                | Outcome::NotStarted { .. }
        )
    }

    /// The feedback for the next attempt.
    #[must_use]
    pub fn feedback(&self) -> Option<Feedback> {
        match self {
            Outcome::Failed { reason } | Outcome::Unlandable { reason } => Some(Feedback::Failed { reason: reason.clone() }),
            Outcome::Blocked { needs } => Some(Feedback::Blocked { needs: needs.clone() }),
            Outcome::GateFailed { command, exit: Exit::TimedOut { seconds }, output } => {
                Some(Feedback::Gate { command: command.clone(), output: format!("{output}\n(stopped after {})", span(*seconds)) })
            }
            Outcome::GateFailed { command, output, .. } => Some(Feedback::Gate { command: command.clone(), output: output.clone() }),
            Outcome::Abnormal { exit, message: None } => Some(Feedback::Abnormal { how: abnormal(exit) }),
            Outcome::Abnormal { exit, message: Some(message) } => {
                Some(Feedback::Abnormal { how: format!("{}: {message}", abnormal(exit)) })
            }
            // These problems are not about the work itself, so the next agent cannot fix them.
            Outcome::Vanished { .. }
            | Outcome::Interrupted
            | Outcome::Misconfigured { .. }
            | Outcome::Limited { .. }
            | Outcome::Unavailable { .. }
            | Outcome::Lost { .. }
            | Outcome::NotStarted { .. } => None,
        }
    }
}

/// How a process ended, as the rest of a sentence about it.
#[must_use]
pub fn abnormal(exit: &Exit) -> String {
    match exit {
        Exit::Success | Exit::Lingered => "ended without a result".to_owned(),
        Exit::Code { code } => format!("ended with exit status {code} and without a result"),
        Exit::Signal { signal } => format!("was killed by signal {signal}"),
        Exit::TimedOut { seconds } => format!("was stopped after {}, the time limit for an attempt", span(*seconds)),
        Exit::Stalled { seconds } => format!("was stopped after {} without any output", span(*seconds)),
        Exit::Interrupted => "was interrupted".to_owned(),
        Exit::CouldNotStart { error } => format!("could not be started: {error}"),
        Exit::NotStarted { message } => format!("was not started by its runner: {message}"),
        Exit::Lost { message } => format!("was lost by its runner: {message}"),
    }
}

/// The signal that killed the program, if a shell reports that by its exit status.
fn shell_signal(exit: &Exit) -> Option<i32> {
    match exit {
        Exit::Code { code: code @ 129..=192 } => Some(code - 128),
        _ => None,
    }
}

fn killed_after_promise(signal: i32) -> String {
    format!("it said COMPLETE, which does not count from a process that was killed by signal {signal}")
}

fn span(seconds: u64) -> String {
    match seconds {
        s if s >= 120 && s % 60 == 0 => format!("{} minutes", s / 60),
        s => format!("{s} seconds"),
    }
}

/// The verdict on an attempt, before the gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The agent says that it is done. The gates come next.
    Promised,
    /// The attempt is rejected.
    Rejected(Outcome),
}

/// Judges an attempt before its gates. A promise of a known client counts whatever the exit status is, because clients exit with 0 on
/// errors and with 1 after success. (If a plain command fails, its promise is not reported here in the first place.) A promise does not
/// count if the process was killed, also behind a shell, or if the client itself reports an error. The last words are only shown to users;
/// they decide nothing.
#[must_use]
pub fn judge(signal: &Signal, exit: &Exit, trouble: Option<&Trouble>, words: &str) -> Verdict {
    let abnormal = || Outcome::Abnormal { exit: exit.clone(), message: None };
    Verdict::Rejected(match (exit, signal, trouble) {
        (Exit::Interrupted, ..) => Outcome::Interrupted,
        // The output of a lost agent may be incomplete.
        (Exit::Lost { message }, ..) => Outcome::Lost { message: message.clone() },
        (Exit::NotStarted { message }, ..) => Outcome::NotStarted { message: message.clone() },
        (_, Signal::Failed { reason }, _) => Outcome::Failed { reason: reason.clone() },
        (_, Signal::Blocked { needs }, _) => Outcome::Blocked { needs: blocked(needs) },
        (_, _, Some(Trouble::Limit { message, resets })) => Outcome::Limited { message: message.clone(), resets: *resets },
        (Exit::CouldNotStart { .. } | Exit::Signal { .. }, ..) => abnormal(),
        (_, _, Some(Trouble::Configuration { message })) => Outcome::Misconfigured { message: message.clone() },
        (_, _, Some(Trouble::Unavailable { message })) => Outcome::Unavailable { message: message.clone() },
        (_, _, Some(Trouble::Other { message })) => Outcome::Abnormal { exit: exit.clone(), message: Some(message.clone()) },
        (Exit::TimedOut { .. } | Exit::Stalled { .. }, _, None) => abnormal(),
        (_, Signal::Complete, None) => match shell_signal(exit) {
            Some(signal) => Outcome::Abnormal { exit: exit.clone(), message: Some(killed_after_promise(signal)) },
            None => return Verdict::Promised,
        },
        (Exit::Code { .. }, Signal::Nothing, None) => abnormal(),
        (Exit::Success | Exit::Lingered, Signal::Nothing, None) => Outcome::Vanished { words: words.to_owned() },
    })
}

/// What a blocked agent needs from the user.
fn blocked(needs: &str) -> String {
    if needs.is_empty() { "the agent does not say what it needs".to_owned() } else { needs.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_verdicts() {
        let failed = || Signal::Failed { reason: "r".into() };
        let rejected_failed = Verdict::Rejected(Outcome::Failed { reason: "r".into() });
        let abnormal = |exit: Exit| Verdict::Rejected(Outcome::Abnormal { exit, message: None });
        let code = || Exit::Code { code: 1 };
        let killed = || Exit::Signal { signal: 9 };
        let blocked = |needs: &str| Signal::Blocked { needs: needs.into() };
        let needs = |needs: &str| Verdict::Rejected(Outcome::Blocked { needs: needs.into() });
        let shot =
            |code, signal| Verdict::Rejected(Outcome::Abnormal { exit: Exit::Code { code }, message: Some(killed_after_promise(signal)) });
        let late = || Exit::TimedOut { seconds: 60 };
        let table = [
            (Exit::Success, Signal::Complete, Verdict::Promised),
            (Exit::Success, failed(), rejected_failed.clone()),
            (Exit::Success, Signal::Nothing, Verdict::Rejected(Outcome::Vanished { words: "Shall I?".into() })),
            (code(), Signal::Complete, Verdict::Promised),
            (code(), failed(), rejected_failed.clone()),
            (code(), Signal::Nothing, abnormal(code())),
            (Exit::Lingered, Signal::Complete, Verdict::Promised),
            (Exit::Lingered, failed(), rejected_failed.clone()),
            (killed(), Signal::Complete, abnormal(killed())),
            (killed(), Signal::Nothing, abnormal(killed())),
            (late(), Signal::Complete, abnormal(late())),
            (late(), failed(), rejected_failed.clone()),
            (Exit::Code { code: 137 }, Signal::Complete, shot(137, 9)),
            (Exit::Code { code: 143 }, Signal::Complete, shot(143, 15)),
            (Exit::Code { code: 143 }, Signal::Nothing, abnormal(Exit::Code { code: 143 })),
            (Exit::Code { code: 128 }, Signal::Complete, Verdict::Promised),
            (Exit::Code { code: 255 }, Signal::Complete, Verdict::Promised),
            (Exit::Code { code: 137 }, failed(), rejected_failed.clone()),
            (Exit::Success, blocked("a key"), needs("a key")),
            (killed(), blocked(""), needs("the agent does not say what it needs")),
            (Exit::Interrupted, Signal::Complete, Verdict::Rejected(Outcome::Interrupted)),
            (Exit::Lost { message: "m".into() }, Signal::Complete, Verdict::Rejected(Outcome::Lost { message: "m".into() })),
            (Exit::Lost { message: "m".into() }, failed(), Verdict::Rejected(Outcome::Lost { message: "m".into() })),
            (Exit::NotStarted { message: "m".into() }, Signal::Nothing, Verdict::Rejected(Outcome::NotStarted { message: "m".into() })),
        ];
        for (exit, signal, verdict) in table {
            assert_eq!(judge(&signal, &exit, None, "Shall I?"), verdict, "{exit:?} {signal:?}");
        }
    }

    #[test]
    fn trouble_around_an_agent_beats_its_promise_but_not_its_failure() {
        let message = || "m".to_owned();
        let limit = Trouble::Limit { message: message(), resets: None };
        let limited = Verdict::Rejected(Outcome::Limited { message: message(), resets: None });
        let refused = Trouble::Configuration { message: message() };
        let misconfigured = Verdict::Rejected(Outcome::Misconfigured { message: message() });
        let stalled = || Exit::Stalled { seconds: 9 };
        let failed = Signal::Failed { reason: "r".into() };
        let table = [
            (Exit::Success, Signal::Complete, &limit, limited.clone()),
            (stalled(), Signal::Nothing, &limit, limited),
            (Exit::Success, Signal::Nothing, &refused, misconfigured.clone()),
            (Exit::Code { code: 1 }, Signal::Complete, &refused, misconfigured.clone()),
            (stalled(), Signal::Nothing, &refused, misconfigured.clone()),
            (Exit::Success, failed, &limit, Verdict::Rejected(Outcome::Failed { reason: "r".into() })),
        ];
        for (exit, signal, trouble, verdict) in table {
            assert_eq!(judge(&signal, &exit, Some(trouble), ""), verdict, "{exit:?} {signal:?} {trouble:?}");
        }
    }

    #[test]
    fn a_vanished_agent_leaves_no_text_for_the_next_prompt() {
        assert_eq!(Outcome::Vanished { words: "Shall I?".into() }.feedback(), None);
    }

    #[test]
    fn an_agent_that_vanished_in_an_old_journal_has_no_words() {
        let old: Outcome = serde_json::from_str(r#"{"outcome":"vanished"}"#).unwrap();
        assert_eq!(old, Outcome::Vanished { words: String::new() });
        assert_eq!(serde_json::to_string(&old).unwrap(), r#"{"outcome":"vanished"}"#);
    }
}
