//! The commits that a run has put on its branch, and which of them an undo removes. Pure.

use crate::git::Oid;
use crate::story::StoryId;

/// The checkpoints and the adopted commits of the user on the branch since the initial commit, oldest first. Commits that an agent made
/// below its checkpoint are not listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoints(Vec<Mark>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    /// The story that the checkpoint belongs to. `None` for commits of the user.
    story: Option<StoryId>,
    commit: Oid,
}

/// The effect of an undo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoPlan {
    /// The new tip of the branch.
    pub to: Oid,
    /// The stories whose checkpoints are removed, oldest first.
    pub stories: Vec<StoryId>,
    /// The oldest of these checkpoints.
    pub oldest: Oid,
}

/// Why there is nothing to undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoUndo {
    /// The run has no checkpoint.
    NoCheckpoint,
    /// The story to go back to has no checkpoint.
    NotLanded,
    /// The story to go back to has the last checkpoint, so there is nothing to remove.
    IsLast,
}

impl Checkpoints {
    pub(super) fn land(&mut self, story: &StoryId, commit: &Oid) {
        self.0.push(Mark { story: Some(story.clone()), commit: commit.clone() });
    }

    /// Adds commits that the user made on the branch. `standing` is the tip so far, which is not added again.
    pub(super) fn adopt(&mut self, commit: &Oid, standing: Option<&Oid>) {
        if standing != Some(commit) {
            self.0.push(Mark { story: None, commit: commit.clone() });
        }
    }

    pub(super) fn cut(&mut self, to: &Oid) {
        self.0.truncate(self.length_to(to));
    }

    /// The last commit of the user that going back to `to` removes from the branch.
    #[must_use]
    pub fn adopted_after(&self, to: &Oid) -> Option<&Oid> {
        self.0[self.length_to(to)..].iter().rev().find(|mark| mark.story.is_none()).map(|mark| &mark.commit)
    }

    fn length_to(&self, to: &Oid) -> usize {
        self.0.iter().position(|mark| mark.commit == *to).map_or(0, |at| at + 1)
    }

    /// Plans an undo: back to the checkpoint of `story`, or, without a story, by one checkpoint.
    ///
    /// # Errors
    /// The reason if there is nothing to undo.
    pub fn undo(&self, initial: &Oid, story: Option<&StoryId>) -> Result<UndoPlan, NoUndo> {
        let landed: Vec<(&StoryId, &Oid)> = self.0.iter().filter_map(|mark| Some((mark.story.as_ref()?, &mark.commit))).collect();
        let kept = match story {
            Some(story) => landed.iter().position(|(id, _)| *id == story).ok_or(NoUndo::NotLanded)? + 1,
            None => landed.len().checked_sub(1).ok_or(NoUndo::NoCheckpoint)?,
        };
        let (stay, go) = landed.split_at(kept);
        let oldest = go.first().ok_or(NoUndo::IsLast)?.1.clone();
        let to = stay.last().map_or(initial, |(_, commit)| commit).clone();
        Ok(UndoPlan { to, stories: go.iter().map(|(id, _)| (*id).clone()).collect(), oldest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oid(number: u8) -> Oid {
        format!("{number:040x}").parse().unwrap()
    }

    fn id(text: &str) -> StoryId {
        text.parse().unwrap()
    }

    #[test]
    fn an_undo_goes_to_the_checkpoint_before_or_to_the_initial_state() {
        let mut checkpoints = Checkpoints::default();
        assert_eq!(checkpoints.undo(&oid(0), None), Err(NoUndo::NoCheckpoint));
        checkpoints.land(&id("a"), &oid(1));
        checkpoints.adopt(&oid(1), Some(&oid(1)));
        checkpoints.adopt(&oid(2), Some(&oid(1)));
        checkpoints.land(&id("b"), &oid(3));
        let last = UndoPlan { to: oid(1), stories: vec![id("b")], oldest: oid(3) };
        assert_eq!(checkpoints.undo(&oid(0), None), Ok(last.clone()));
        assert_eq!(checkpoints.undo(&oid(0), Some(&id("a"))), Ok(last));
        assert_eq!(checkpoints.undo(&oid(0), Some(&id("b"))), Err(NoUndo::IsLast));
        assert_eq!(checkpoints.undo(&oid(0), Some(&id("c"))), Err(NoUndo::NotLanded));
        assert_eq!(checkpoints.adopted_after(&oid(1)), Some(&oid(2)));
        checkpoints.cut(&oid(1));
        assert_eq!(checkpoints.undo(&oid(0), None), Ok(UndoPlan { to: oid(0), stories: vec![id("a")], oldest: oid(1) }));
        checkpoints.cut(&oid(0));
        assert_eq!(checkpoints, Checkpoints::default());
    }
}
