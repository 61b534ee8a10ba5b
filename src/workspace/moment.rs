//! Names the two moments to which a workspace can be restored.

/// A moment to which a workspace can be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before the run.
    Start,
    /// Before the attempt.
    Attempt,
}

impl Moment {
    pub(super) fn name(self) -> &'static str {
        match self {
            Moment::Start => "start",
            Moment::Attempt => "attempt",
        }
    }
}
