//! The names of a run's branch and refs, and the messages of its commits.

use crate::git::{Oid, RefList};
use crate::story::{ChangeName, Story, StoryId};

/// What all branches of runs start with.
pub const BRANCHES: &str = "refs/heads/ralph/";
/// What all other refs of runs start with.
pub const REFS: &str = "refs/ralph/";
/// Below this are the refs of earlier runs, by their number.
const EARLIER: &str = "runs";

/// What a ref of a change is for. Its word in the name of the ref is in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefKind {
    /// The commit that the run started from.
    Base,
    /// What the user had staged at the start.
    Index,
    /// The first commit of the run: everything as it was at the start.
    Initial,
    /// What the user's checkout held when a story was last done by hand in an isolated run.
    ByHand,
    /// The last checkpoint; moves in one transaction with the branch.
    Checkpoint,
    /// A ref or a stash entry of before an attempt: git keeps its objects, whatever the agent deletes.
    Pin,
    /// Edits of the user's that an attempt started from; they stay reachable whatever the agent makes of them.
    Adopted,
    /// What a failed attempt left.
    Attempt,
    /// The work of an accepted attempt that waits in the landing queue.
    Queued,
    /// An attempt on another machine: where it begins, or what it left, on its way through a hub.
    Remote,
    /// Commits that a landed attempt made and left behind.
    Abandoned,
    /// What an agent made of a ref that was put back.
    Moved,
    /// What an undo took back.
    Undone,
    /// A branch of this name that an earlier run left.
    Leftover,
    /// What a finished or aborted run ended with.
    Done,
}

/// How long a ref is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needed {
    /// As long as the run is open.
    WhileOpen,
    /// Until the user prunes it: it keeps work.
    UntilPruned,
    /// The same, and the next run of the change leaves it where it is.
    AcrossRuns,
}

/// Every kind of ref: its word in the name, and how long it is needed.
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
        // Every kind has its row; a test says so.
        KINDS.iter().find(|(kind, ..)| *kind == self).unwrap_or(&KINDS[0])
    }

    /// Whether only an open run needs it: it keeps no work of anybody's.
    #[must_use]
    pub fn is_internal(self) -> bool {
        self.row().2 == Needed::WhileOpen
    }

    /// Whether it keeps work of an agent's or of the user's that may be wanted back.
    #[must_use]
    pub fn keeps_work(self) -> bool {
        !self.is_internal() && self != RefKind::Index
    }

    /// Whether it is best looked at as files that differ from its parent's.
    #[must_use]
    pub fn holds_files(self) -> bool {
        matches!(self, RefKind::Attempt | RefKind::Queued | RefKind::Adopted | RefKind::Index)
    }
}

/// A ref of a change, understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnRef<'a> {
    /// What it is for.
    pub kind: RefKind,
    /// The earlier run that it is of; none for the last one.
    pub run: Option<u32>,
    /// The part of the name after the word for its kind.
    rest: &'a str,
}

impl OwnRef<'_> {
    /// The story that it keeps something of, as it is written in names.
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

    /// The number that its name ends with.
    #[must_use]
    pub fn number(&self) -> Option<u32> {
        self.rest.rsplit('/').next()?.parse().ok()
    }

    /// The run that left it; `leftover/<n>` is numbered by the run that found it.
    fn left_by(&self) -> Option<u32> {
        self.run.or_else(|| self.number().filter(|_| self.kind == RefKind::Leftover))
    }
}

/// What the user says about a story that they did by hand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// The text for the commit message.
    pub text: Option<String>,
}

/// Every name that belongs to one change; all of them full ref names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    change: ChangeName,
}

impl Names {
    /// The names for a change.
    #[must_use]
    pub fn new(change: &ChangeName) -> Self {
        Names { change: change.clone() }
    }

    /// The names for the change that a ref belongs to, if it belongs to one.
    #[must_use]
    pub fn of_ref(name: &str) -> Option<Self> {
        let change = name.strip_prefix(BRANCHES).or_else(|| Some(name.strip_prefix(REFS)?.split_once('/')?.0))?;
        Some(Names { change: change.parse().ok()? })
    }

    /// The change.
    #[must_use]
    pub fn change(&self) -> &ChangeName {
        &self.change
    }

    /// The branch that checkpoints land on.
    #[must_use]
    pub fn branch(&self) -> String {
        format!("{BRANCHES}{}", self.change)
    }

    /// The branch as a person types it.
    #[must_use]
    pub fn short_branch(&self) -> String {
        format!("ralph/{}", self.change)
    }

    /// What all refs of the change, but for the branch, start with.
    #[must_use]
    pub fn prefix(&self) -> String {
        format!("{REFS}{}/", self.change)
    }

    /// What a ref of the change is for; none for its branch and for refs of others.
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

    /// Whether a ref is the run's branch or another one of its refs.
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

    /// The commit that the run started from.
    #[must_use]
    pub fn base(&self) -> String {
        self.own(RefKind::Base)
    }

    /// What the user had staged at the start.
    #[must_use]
    pub fn index(&self) -> String {
        self.own(RefKind::Index)
    }

    /// The first commit of the run.
    #[must_use]
    pub fn initial(&self) -> String {
        self.own(RefKind::Initial)
    }

    /// What the user's checkout held when a story was last done by hand in an isolated run.
    #[must_use]
    pub fn by_hand(&self) -> String {
        self.own(RefKind::ByHand)
    }

    /// The last checkpoint.
    #[must_use]
    pub fn checkpoint(&self) -> String {
        self.own(RefKind::Checkpoint)
    }

    /// Edits of the user's that an attempt started from.
    #[must_use]
    pub fn adopted(&self, base: &Oid) -> String {
        self.below(RefKind::Adopted, base.short())
    }

    /// What refs and stash entries led to before an attempt, by a number.
    #[must_use]
    pub fn pin(&self, number: usize) -> String {
        self.below(RefKind::Pin, &number.to_string())
    }

    /// What all of these start with.
    #[must_use]
    pub fn pins(&self) -> String {
        self.below(RefKind::Pin, "")
    }

    /// What an agent made of a ref that was put back.
    #[must_use]
    pub fn moved(&self, story: &StoryId, attempt: u32, name: &str) -> String {
        let name = name.strip_prefix("refs/").unwrap_or(name);
        self.below(RefKind::Moved, &format!("{}/{attempt}/{name}", story.as_component()))
    }

    /// Commits that a landed attempt made and left behind.
    #[must_use]
    pub fn abandoned(&self, story: &StoryId, attempt: u32) -> String {
        self.below(RefKind::Abandoned, &format!("{}/{attempt}", story.as_component()))
    }

    /// What a finished or aborted run ended with.
    #[must_use]
    pub fn done(&self) -> String {
        self.own(RefKind::Done)
    }

    /// What a failed attempt left.
    #[must_use]
    pub fn attempt(&self, story: &StoryId, attempt: u32) -> String {
        self.below(RefKind::Attempt, &format!("{}/{attempt}", story.as_component()))
    }

    /// What the refs of all failed attempts start with.
    #[must_use]
    pub fn attempts(&self) -> String {
        self.below(RefKind::Attempt, "")
    }

    /// Commits on the branch of an isolated run that its result does not have.
    #[must_use]
    pub fn moved_branch(&self) -> String {
        self.below(RefKind::Moved, "branch")
    }

    /// What was edited in a workspace between two attempts.
    #[must_use]
    pub fn workspace_edits(&self, slot: u32) -> String {
        self.below(RefKind::Moved, &format!("workspace/{}", slot + 1))
    }

    /// The work of an accepted attempt that waits in the landing queue.
    #[must_use]
    pub fn queued(&self, story: &StoryId, attempt: u32) -> String {
        self.below(RefKind::Queued, &format!("{}/{attempt}", story.as_component()))
    }

    /// Where an attempt on another machine begins, on the hub.
    #[must_use]
    pub fn remote_base(&self, story: &StoryId, attempt: u32) -> String {
        format!("{}-base", self.remote_result(story, attempt))
    }

    /// What an attempt on another machine left, on the hub.
    #[must_use]
    pub fn remote_result(&self, story: &StoryId, attempt: u32) -> String {
        self.below(RefKind::Remote, &format!("{}/{attempt}", story.as_component()))
    }

    /// A branch of this name that an earlier run left.
    #[must_use]
    pub fn leftover(&self, run: u32) -> String {
        self.below(RefKind::Leftover, &run.to_string())
    }

    /// What an undo took back.
    #[must_use]
    pub fn undone(&self, number: u32) -> String {
        self.below(RefKind::Undone, &number.to_string())
    }

    /// The last undo's ref: its number and what it points at.
    #[must_use]
    pub fn last_undone(&self, refs: &RefList) -> Option<(u32, Oid)> {
        let prefix = self.below(RefKind::Undone, "");
        let undone = refs.below(&prefix).filter_map(|entry| Some((self.kind(&entry.name)?.number()?, entry.oid.clone())));
        undone.max_by_key(|(number, _)| *number)
    }

    /// Where a ref of an earlier run moves when the next one starts; none if it stays.
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

    /// The message of a checkpoint. `subject` is the template of its first line; `note` is what the user says about a story that they
    /// did by hand.
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

    /// The subject of a checkpoint, by its template.
    #[must_use]
    pub fn checkpoint_subject(&self, story: &Story, template: &str) -> String {
        let subject = one_line(&template.replace("{id}", story.id.as_str()).replace("{title}", &story.title));
        if subject.is_empty() { format!("checkpoint: {}", story.id) } else { subject }
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

/// What an attempt is called in the names of directories.
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
    fn what_others_own_is_not_ours() {
        let names = names();
        for name in ["refs/heads/ralph/work", "refs/heads/main", "refs/ralph/working/base", "refs/ralph/work", "refs/ralph/work/strange"] {
            assert_eq!(names.kind(name), None, "{name}");
        }
        assert!(names.owns("refs/heads/ralph/work") && !names.owns("refs/heads/ralph/working") && !names.owns("refs/ralph/working/base"));
        assert_eq!(Names::of_ref("refs/heads/ralph/x").unwrap().change().as_str(), "x");
        assert!(Names::of_ref("refs/heads/main").is_none() && Names::of_ref("refs/ralph/").is_none());
    }
}
