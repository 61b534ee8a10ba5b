//! The commands that continue a run after its loop has ended.

use crate::run::{Budget, End, RunState};
use crate::shell_word::git_ralph;
use crate::story::StoryId;

/// The commands, the likeliest first, each with its purpose.
#[must_use]
pub fn go_on_commands(state: &RunState, change: &str) -> Vec<(String, &'static str)> {
    let resume = format!("git ralph resume {change}");
    let steer = |command: &str, story: &StoryId| {
        // Several isolated runs can be open in one work tree, so the command has to name the change.
        let which = if state.is_isolated() { format!(" --change {change}") } else { String::new() };
        format!("{} && {resume}", git_ralph(&format!("{command}{which}"), &[story.as_str()]))
    };
    match &state.end {
        Some(End::AllDone) => Vec::new(),
        Some(End::RetriesSpent { story }) => {
            let failures = state.stories.get(story).map_or(0, |progress| progress.failures);
            vec![
                (steer("retry", story), "to try it again"),
                (format!("git ralph resume --max-retries {} {change}", failures.saturating_add(2)), "to allow more retries"),
                (steer("skip", story), "to continue without it"),
            ]
        }
        Some(End::NeedsUser { story, .. }) => vec![
            (steer("hint -m '<answer>'", story), "to answer"),
            (steer("retry", story), "to try it again without an answer"),
            (steer("skip", story), "to continue without it"),
        ],
        Some(End::BudgetSpent { spent: Budget::Cost { used, most } }) => {
            vec![(format!("git ralph resume --max-cost {:.2} {change}", used.plus(*most).as_dollars()), "to raise the budget")]
        }
        Some(End::BudgetSpent { spent: Budget::Tokens { used, most } }) => {
            vec![(format!("git ralph resume --max-tokens {} {change}", used.saturating_add(*most)), "to raise the budget")]
        }
        Some(End::Misconfigured { .. }) => vec![(resume, "to continue when the agent works again")],
        Some(End::RunnerFailed { .. }) => vec![(resume, "to continue when the runner works again")],
        Some(End::UsageLimit { .. } | End::StillLimited { .. }) => vec![(resume, "to continue when the limit has been reset")],
        Some(End::SelectionDone | End::Blocked { .. }) => vec![(resume, "to continue with the other stories")],
        Some(End::LimitReached | End::Stopped | End::Interrupted { .. }) | None => vec![(resume, "to continue")],
    }
}
