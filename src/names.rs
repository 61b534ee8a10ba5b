//! The names of a run's branch and refs, and the messages of its commits.

use crate::git::{Oid, RefList};
use crate::story::{ChangeName, Story, StoryId};

/// Prefix of the branches of all runs.
pub const BRANCHES: &str = "refs/heads/ralph/";
/// Prefix of all other refs of all runs.
pub const REFS: &str = "refs/ralph/";
/// The part of a ref name under which the refs of earlier runs are, by run number.
const EARLIER: &str = "runs";

/// The purpose of a ref. `KINDS` has the word for each kind in the names of refs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefKind {
    /// The commit that the run started from.
    Base,
    /// The index at the start of the run: what the user had staged.
    Index,
    /// The first commit of the run: the work tree as it was at the start.
    Initial,
    /// The content of the user's checkout when a story was last marked as done by hand in an isolated run.
    ByHand,
    /// The last checkpoint. It moves in the same transaction as the branch.
    Checkpoint,
    /// A ref or a stash entry as it was before an attempt. It keeps the objects reachable, even if the agent deletes the original.
    Pin,
    /// Edits that the user made before an attempt. They stay reachable whatever the agent does with them.
    Adopted,
    /// The work of a failed attempt.
    Attempt,
    /// The work of an accepted attempt that waits in the landing queue.
    Queued,
    /// The base or the result of an attempt on another machine, on its way through a hub.
    Remote,
    /// Commits that a landed attempt made and that are not part of the checkpoint.
    Abandoned,
    /// The value that an agent gave to a ref which git-ralph then restored.
    Moved,
    /// The checkpoints that an undo removed from the branch.
    Undone,
    /// A branch with the name of the run's branch that an earlier run left behind.
    Leftover,
    /// The last commit of a finished or aborted run.
    Done,
}

/// How long a ref is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needed {
    /// While the run is open.
    WhileOpen,
    /// Until the user prunes it, because it holds work.
    UntilPruned,
    /// Until the user prunes it. The next run of the change does not rename it.
    AcrossRuns,
}

/// Every kind of ref: its word in ref names, and how long it is needed.
const KINDS: [(RefKind, &str, Needed); 15] = [
    (RefKind::Base, "base", Needed::WhileOpen),
    (RefKind::Index, "index", Needed::UntilPruned),
    (RefKind::Initial, "initial", Needed::WhileOpen),
    (RefKind::ByHand, "by-hand", Needed::WhileOpen),
    (RefKind::Checkpoint, "checkpoint", Needed::WhileOpen),
    (RefKind::Pin, "pins", Needed::WhileOpen),
    (RefKind::Adopted, "adopted", Needed::UntilPruned),
    (RefKind::Attempt, "attempts", Needed::UntilPruned),
    (RefKind::Queued, "queued", Needed::UntilPruned),
    (RefKind::Remote, "remote", Needed::WhileOpen),
    (RefKind::Abandoned, "abandoned", Needed::UntilPruned),
    (RefKind::Moved, "moved", Needed::UntilPruned),
    (RefKind::Undone, "undone", Needed::UntilPruned),
    (RefKind::Leftover, "leftover", Needed::AcrossRuns),
    (RefKind::Done, "done", Needed::UntilPruned),
];

impl RefKind {
    fn row(self) -> &'static (RefKind, &'static str, Needed) {
        // A test checks that every kind has a row.
        KINDS.iter().find(|(kind, ..)| *kind == self).unwrap_or(&KINDS[0])
    }

    /// Whether only an open run needs this ref. Such a ref holds no work of the user or an agent.
    #[must_use]
    pub fn is_internal(self) -> bool {
        self.row().2 == Needed::WhileOpen
    }

    /// Whether the ref holds work of an agent or the user that may be wanted back.
    #[must_use]
    pub fn keeps_work(self) -> bool {
        !self.is_internal() && self != RefKind::Index
    }

    /// Whether the ref is best shown as the files that differ from its parent commit.
    #[must_use]
    pub fn holds_files(self) -> bool {
        matches!(self, RefKind::Attempt | RefKind::Queued | RefKind::Adopted | RefKind::Index)
    }
}

/// The parsed name of a ref of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnRef<'a> {
    /// The purpose of the ref.
    pub kind: RefKind,
    /// The number of the earlier run that the ref belongs to. `None` for the last run.
    pub run: Option<u32>,
    /// The part of the name after the word for its kind.
    rest: &'a str,
}

impl OwnRef<'_> {
    /// The story that the ref belongs to, in the form that ref names use.
    #[must_use]
    pub fn story(&self) -> Option<&str> {
        match self.kind {
            RefKind::Attempt | RefKind::Queued | RefKind::Remote | RefKind::Abandoned | RefKind::Moved => {
                self.rest.split('/').next().filter(|story| !story.is_empty())
            }
            RefKind::Base
            | RefKind::Index
            | RefKind::Initial
            | RefKind::ByHand
            | RefKind::Checkpoint
            | RefKind::Pin
            | RefKind::Adopted
            | RefKind::Undone
            | RefKind::Leftover
            | RefKind::Done => None,
        }
    }

    /// The number at the end of the name.
    #[must_use]
    pub fn number(&self) -> Option<u32> {
        self.rest.rsplit('/').next()?.parse().ok()
    }

    /// The run that left this ref behind. `leftover/<n>` carries the number of the run that found it.
    fn left_by(&self) -> Option<u32> {
        self.run.or_else(|| self.number().filter(|_| self.kind == RefKind::Leftover))
    }
}

/// The user's remark on a story that they did by hand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// The text for the commit message.
    pub text: Option<String>,
}

/// All names that belong to one change. They are full ref names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    change: ChangeName,
}

impl Names {
    /// The names of a change.
    #[must_use]
    pub fn new(change: &ChangeName) -> Self {
        Names { change: change.clone() }
    }

    /// The names of the change that a ref belongs to, if it belongs to one.
    #[must_use]
    pub fn of_ref(name: &str) -> Option<Self> {
        let change = name.strip_prefix(BRANCHES).or_else(|| Some(name.strip_prefix(REFS)?.split_once('/')?.0))?;
        Some(Names { change: change.parse().ok()? })
    }

    /// The name of the change.
    #[must_use]
    pub fn change(&self) -> &ChangeName {
        &self.change
    }

    /// The branch that checkpoints land on.
    #[must_use]
    pub fn branch(&self) -> String {
        format!("{BRANCHES}{}", self.change)
    }

    /// The branch without `refs/heads/`, as users type it.
    #[must_use]
    pub fn short_branch(&self) -> String {
        format!("ralph/{}", self.change)
    }

    /// Prefix of all refs of the change except for its branch.
    #[must_use]
    pub fn prefix(&self) -> String {
        format!("{REFS}{}/", self.change)
    }

    /// The purpose of a ref of this change. `None` for the branch of the change and for all other refs.
    #[must_use]
    pub fn kind<'a>(&self, name: &'a str) -> Option<OwnRef<'a>> {
        let rest = name.strip_prefix(REFS)?.strip_prefix(self.change.as_str())?.strip_prefix('/')?;
        let earlier = rest.split_once('/').filter(|(word, _)| *word == EARLIER).and_then(|(_, rest)| rest.split_once('/'));
        let (run, own) = match earlier {
            Some((number, own)) => (Some(number.parse().ok()?), own),
            None => (None, rest),
        };
        let (word, rest) = own.split_once('/').unwrap_or((own, ""));
        let (kind, ..) = KINDS.iter().find(|(_, known, _)| *known == word)?;
        Some(OwnRef { kind: *kind, run, rest })
    }

    /// Whether a ref is the branch or another ref of this change.
    #[must_use]
    pub fn owns(&self, name: &str) -> bool {
        name == self.branch() || name.starts_with(&self.prefix())
    }

    fn own(&self, kind: RefKind) -> String {
        format!("{}{}", self.prefix(), kind.row().1)
    }

    fn below(&self, kind: RefKind, rest: &str) -> String {
        format!("{}/{rest}", self.own(kind))
    }

    /// The ref of the commit that the run started from.
    #[must_use]
    pub fn base(&self) -> String {
        self.own(RefKind::Base)
    }

    /// The ref of the index at the start of the run.
    #[must_use]
    pub fn index(&self) -> String {
        self.own(RefKind::Index)
    }

    /// The ref of the first commit of the run.
    #[must_use]
    pub fn initial(&self) -> String {
        self.own(RefKind::Initial)
    }

    /// The ref of the user's checkout when a story was last marked as done by hand in an isolated run.
    #[must_use]
    pub fn by_hand(&self) -> String {
        self.own(RefKind::ByHand)
    }

    /// The ref of the last checkpoint.
    #[must_use]
    pub fn checkpoint(&self) -> String {
        self.own(RefKind::Checkpoint)
    }

    /// The ref of edits that the user made before an attempt.
    #[must_use]
    pub fn adopted(&self, base: &Oid) -> String {
        self.below(RefKind::Adopted, base.short())
    }

    /// The ref that pins a ref or a stash entry as it was before an attempt, by number.
    #[must_use]
    pub fn pin(&self, number: usize) -> String {
        self.below(RefKind::Pin, &number.to_string())
    }

    /// Prefix of all pins.
    #[must_use]
    pub fn pins(&self) -> String {
        self.below(RefKind::Pin, "")
    }

    /// The ref for the value that an agent gave to a ref which git-ralph then restored.
    #[must_use]
    pub fn moved(&self, story: &StoryId, attempt: u32, name: &str) -> String {
        let name = name.strip_prefix("refs/").unwrap_or(name);
        self.below(RefKind::Moved, &format!("{}/{attempt}/{name}", story.as_component()))
    }

    /// The ref of commits that a landed attempt made and that are not part of the checkpoint.
    #[must_use]
    pub fn abandoned(&self, story: &StoryId, attempt: u32) -> String {
        self.below(RefKind::Abandoned, &format!("{}/{attempt}", story.as_component()))
    }

    /// The ref of the last commit of a finished or aborted run.
    #[must_use]
    pub fn done(&self) -> String {
        self.own(RefKind::Done)
    }

    /// The ref of a failed attempt's work.
    #[must_use]
    pub fn attempt(&self, story: &StoryId, attempt: u32) -> String {
        self.below(RefKind::Attempt, &format!("{}/{attempt}", story.as_component()))
    }

    /// Prefix of the refs of all failed attempts.
    #[must_use]
    pub fn attempts(&self) -> String {
        self.below(RefKind::Attempt, "")
    }

    /// The ref of commits that are on the branch of an isolated run but not in its result.
    #[must_use]
    pub fn moved_branch(&self) -> String {
        self.below(RefKind::Moved, "branch")
    }

    /// The ref of edits that were made in a workspace between two attempts.
    #[must_use]
    pub fn workspace_edits(&self, slot: u32) -> String {
        self.below(RefKind::Moved, &format!("workspace/{}", slot + 1))
    }

    /// The ref of an accepted attempt's work while it waits in the landing queue.
    #[must_use]
    pub fn queued(&self, story: &StoryId, attempt: u32) -> String {
        self.below(RefKind::Queued, &format!("{}/{attempt}", story.as_component()))
    }

    /// The hub's ref for the base commit of an attempt on another machine.
    #[must_use]
    pub fn remote_base(&self, story: &StoryId, attempt: u32) -> String {
        format!("{}-base", self.remote_result(story, attempt))
    }

    /// The hub's ref for the result of an attempt on another machine.
    #[must_use]
    pub fn remote_result(&self, story: &StoryId, attempt: u32) -> String {
        self.below(RefKind::Remote, &format!("{}/{attempt}", story.as_component()))
    }

    /// The ref of a branch with the name of the run's branch that an earlier run left behind.
    #[must_use]
    pub fn leftover(&self, run: u32) -> String {
        self.below(RefKind::Leftover, &run.to_string())
    }

    /// The ref of the checkpoints that an undo removed.
    #[must_use]
    pub fn undone(&self, number: u32) -> String {
        self.below(RefKind::Undone, &number.to_string())
    }

    /// The ref of the last undo: its number and the commit it points to.
    #[must_use]
    pub fn last_undone(&self, refs: &RefList) -> Option<(u32, Oid)> {
        let prefix = self.below(RefKind::Undone, "");
        let undone = refs.below(&prefix).filter_map(|entry| Some((self.kind(&entry.name)?.number()?, entry.oid.clone())));
        undone.max_by_key(|(number, _)| *number)
    }

    /// The new name of a ref of an earlier run when the next run starts. `None` if the ref keeps its name.
    #[must_use]
    pub fn archived(&self, name: &str, run: u32) -> Option<String> {
        if self.kind(name).is_some_and(|own| own.run.is_some() || own.kind.row().2 == Needed::AcrossRuns) {
            return None;
        }
        let rest = name.strip_prefix(&self.prefix()).filter(|rest| !rest.starts_with(&format!("{EARLIER}/")))?;
        Some(format!("{}{EARLIER}/{run}/{rest}", self.prefix()))
    }

    /// Whether the ref belongs to a closed run. `open` is the number of the open run, if there is one.
    #[must_use]
    pub fn is_left(&self, name: &str, open: Option<u32>) -> bool {
        if !name.starts_with(&self.prefix()) {
            return false;
        }
        let Some(open) = open else { return true };
        self.kind(name).and_then(|own| own.left_by()).is_some_and(|number| number < open)
    }

    /// The commit message of a checkpoint. `subject` is the template of its first line. `note` is given if the user did the story by hand.
    #[must_use]
    pub fn checkpoint_message(&self, story: &Story, attempt: u32, subject: &str, note: Option<&Note>) -> String {
        let (title, subject) = (one_line(&story.title), self.checkpoint_subject(story, subject));
        let mut body = String::new();
        if !(title.is_empty() || title == story.id.as_str() || subject.contains(&title)) {
            body = format!("{title}\n\n");
        }
        if let Some(text) = note.and_then(|note| note.text.as_deref()).map(str::trim).filter(|text| !text.is_empty()) {
            body = format!("{body}{text}\n\n");
        }
        let by_hand = if note.is_some() { "Ralph-By: human\n" } else { "" };
        format!("{subject}\n\n{body}{}{by_hand}", self.trailers(&story.id, attempt))
    }

    /// The first line of a checkpoint's message, made from its template.
    #[must_use]
    pub fn checkpoint_subject(&self, story: &Story, template: &str) -> String {
        let subject = one_line(&template.replace("{id}", story.id.as_str()).replace("{title}", &story.title));
        if subject.is_empty() { format!("checkpoint: {}", story.id) } else { subject }
    }

    /// The commit message for the saved work of a failed attempt.
    #[must_use]
    pub fn rescue_message(&self, story: &StoryId, attempt: u32) -> String {
        format!("rescue: attempt {attempt} of {story}\n\n{}", self.trailers(story, attempt))
    }

    fn trailers(&self, story: &StoryId, attempt: u32) -> String {
        format!("Ralph-Change: {}\nRalph-Story: {story}\nRalph-Attempt: {attempt}\n", self.change)
    }
}

/// The name of an attempt in directory names.
#[must_use]
pub fn attempt_label(story: &StoryId, attempt: u32) -> String {
    format!("{}-{attempt}", story.as_component())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::new(&"work".parse().unwrap())
    }

    #[test]
    fn every_name_is_understood_as_what_it_was_made_for() {
        let (names, story) = (names(), "a b".parse::<StoryId>().unwrap());
        let oid: Oid = format!("{:040x}", 7).parse().unwrap();
        let table = [
            (names.base(), RefKind::Base),
            (names.index(), RefKind::Index),
            (names.initial(), RefKind::Initial),
            (names.by_hand(), RefKind::ByHand),
            (names.checkpoint(), RefKind::Checkpoint),
            (names.pin(0), RefKind::Pin),
            (names.adopted(&oid), RefKind::Adopted),
            (names.attempt(&story, 2), RefKind::Attempt),
            (names.queued(&story, 2), RefKind::Queued),
            (names.remote_result(&story, 2), RefKind::Remote),
            (names.abandoned(&story, 2), RefKind::Abandoned),
            (names.moved(&story, 2, "refs/heads/main"), RefKind::Moved),
            (names.undone(2), RefKind::Undone),
            (names.leftover(2), RefKind::Leftover),
            (names.done(), RefKind::Done),
        ];
        assert_eq!(table.len(), KINDS.len());
        for (name, kind) in table {
            assert_eq!(names.kind(&name).map(|own| (own.kind, own.run)), Some((kind, None)), "{name}");
            assert_eq!(kind.row().0, kind);
            let archived = names.archived(&name, 3);
            assert_eq!(archived.is_none(), kind == RefKind::Leftover, "{name}");
            if let Some(archived) = archived {
                assert_eq!(names.kind(&archived).map(|own| (own.kind, own.run)), Some((kind, Some(3))), "{archived}");
                assert!(names.is_left(&archived, Some(4)) && !names.is_left(&archived, Some(3)), "{archived}");
            }
            assert!(names.owns(&name) && names.is_left(&name, None));
            assert_eq!(Names::of_ref(&name).unwrap().change().as_str(), "work");
        }
        assert_eq!(names.kind(&names.attempt(&story, 2)).unwrap().story(), Some(story.as_component().as_str()));
    }

    #[test]
    fn the_subject_of_a_checkpoint_follows_its_template_and_the_trailers_stay() {
        let story = Story { title: "Add\n the column".into(), ..Story::stand_in(&"7".parse().unwrap()) };
        let trailers = "Ralph-Change: work\nRalph-Story: 7\nRalph-Attempt: 2\n";
        let note = Note { text: Some(" By me.\n".into()) };
        let table = [
            ("checkpoint: {id}", None, "checkpoint: 7\n\nAdd the column\n\n"),
            ("feat: {title} ({id})", None, "feat: Add the column (7)\n\n"),
            (" ", None, "checkpoint: 7\n\nAdd the column\n\n"),
            ("{title}", Some(&note), "Add the column\n\nBy me.\n\n"),
        ];
        for (subject, note, start) in table {
            let by = if note.is_some() { "Ralph-By: human\n" } else { "" };
            assert_eq!(names().checkpoint_message(&story, 2, subject, note), format!("{start}{trailers}{by}"));
        }
    }

    #[test]
    fn refs_of_others_are_not_ours() {
        let names = names();
        for name in ["refs/heads/ralph/work", "refs/heads/main", "refs/ralph/working/base", "refs/ralph/work", "refs/ralph/work/strange"] {
            assert_eq!(names.kind(name), None, "{name}");
        }
        assert!(names.owns("refs/heads/ralph/work") && !names.owns("refs/heads/ralph/working") && !names.owns("refs/ralph/working/base"));
        assert_eq!(Names::of_ref("refs/heads/ralph/x").unwrap().change().as_str(), "x");
        assert!(Names::of_ref("refs/heads/main").is_none() && Names::of_ref("refs/ralph/").is_none());
    }
}
