//! The names of a run's branch and refs, and the messages of its commits.

use crate::git::{Oid, RefList};
use crate::story::{ChangeName, Story, StoryId};

/// Every name that belongs to one change; all of them full ref names.
#[derive(Clone, Debug)]
pub struct Names {
    change: ChangeName,
}

impl Names {
    /// The names for a change.
    #[must_use]
    pub fn new(change: &ChangeName) -> Self {
        Names { change: change.clone() }
    }

    /// The branch that checkpoints land on.
    #[must_use]
    pub fn branch(&self) -> String {
        format!("refs/heads/{}", self.short_branch())
    }

    /// The branch as a person types it.
    #[must_use]
    pub fn short_branch(&self) -> String {
        format!("ralph/{}", self.change)
    }

    /// What all refs of the change, but for the branch, start with.
    #[must_use]
    pub fn prefix(&self) -> String {
        format!("refs/ralph/{}/", self.change)
    }

    fn own(&self, name: &str) -> String {
        format!("{}{name}", self.prefix())
    }

    /// The commit that the run started from.
    #[must_use]
    pub fn base(&self) -> String {
        self.own("base")
    }

    /// What the user had staged at the start.
    #[must_use]
    pub fn index(&self) -> String {
        self.own("index")
    }

    /// The first commit of the run: everything as it was at the start.
    #[must_use]
    pub fn initial(&self) -> String {
        self.own("initial")
    }

    /// The last checkpoint; moves in one transaction with the branch.
    #[must_use]
    pub fn checkpoint(&self) -> String {
        self.own("checkpoint")
    }

    /// Edits of the user's that an attempt started from; they stay reachable whatever the agent makes of them.
    #[must_use]
    pub fn adopted(&self, base: &Oid) -> String {
        self.own(&format!("adopted/{}", base.short()))
    }

    /// Every ref and stash entry of before an attempt, in one commit.
    #[must_use]
    pub fn pin(&self) -> String {
        self.own("pin")
    }

    /// What an agent made of a ref that was put back.
    #[must_use]
    pub fn moved(&self, story: &StoryId, attempt: u32, name: &str) -> String {
        let name = name.strip_prefix("refs/").unwrap_or(name);
        self.own(&format!("moved/{}/{attempt}/{name}", story.as_component()))
    }

    /// Commits that a landed attempt made and left behind.
    #[must_use]
    pub fn abandoned(&self, story: &StoryId, attempt: u32) -> String {
        self.own(&format!("abandoned/{}/{attempt}", story.as_component()))
    }

    /// What a finished or aborted run ended with.
    #[must_use]
    pub fn done(&self) -> String {
        self.own("done")
    }

    /// What a failed attempt left.
    #[must_use]
    pub fn attempt(&self, story: &StoryId, attempt: u32) -> String {
        self.own(&format!("attempts/{}/{attempt}", story.as_component()))
    }

    /// A branch of this name that an earlier run left.
    #[must_use]
    pub fn leftover(&self, run: u32) -> String {
        self.own(&format!("leftover/{run}"))
    }

    /// What an undo took back.
    #[must_use]
    pub fn undone(&self, number: u32) -> String {
        self.own(&format!("undone/{number}"))
    }

    /// The last undo's ref: its number and what it points at.
    #[must_use]
    pub fn last_undone(&self, refs: &RefList) -> Option<(u32, Oid)> {
        let prefix = self.own("undone/");
        let undone = refs.below(&prefix).filter_map(|entry| Some((entry.name.strip_prefix(&prefix)?.parse().ok()?, entry.oid.clone())));
        undone.max_by_key(|(number, _)| *number)
    }

    /// Where a ref of an earlier run moves when the next one starts.
    #[must_use]
    pub fn archived(&self, name: &str, run: u32) -> Option<String> {
        let rest = name.strip_prefix(&self.prefix())?;
        if rest.starts_with("runs/") || rest.starts_with("leftover/") {
            return None;
        }
        Some(self.own(&format!("runs/{run}/{rest}")))
    }

    /// Whether a ref is left from runs that are over; `open` is the number of the run that is not.
    #[must_use]
    pub fn is_left(&self, name: &str, open: Option<u32>) -> bool {
        let Some(rest) = name.strip_prefix(&self.prefix()) else { return false };
        let Some(open) = open else { return true };
        let earlier = rest.strip_prefix("runs/").or(rest.strip_prefix("leftover/"));
        let number = earlier.and_then(|rest| rest.split('/').next()?.parse::<u32>().ok());
        number.is_some_and(|number| number < open)
    }

    /// The message of a checkpoint.
    #[must_use]
    pub fn checkpoint_message(&self, story: &Story, attempt: u32) -> String {
        let title = one_line(&story.title);
        let body = if title.is_empty() || title == story.id.as_str() { String::new() } else { format!("{title}\n\n") };
        format!("checkpoint: {}\n\n{body}{}", story.id, self.trailers(&story.id, attempt))
    }

    /// The message of a rescue.
    #[must_use]
    pub fn rescue_message(&self, story: &StoryId, attempt: u32) -> String {
        format!("rescue: attempt {attempt} of {story}\n\n{}", self.trailers(story, attempt))
    }

    fn trailers(&self, story: &StoryId, attempt: u32) -> String {
        format!("Ralph-Change: {}\nRalph-Story: {story}\nRalph-Attempt: {attempt}\n", self.change)
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
