//! The two moments that a directory can be put back to.

/// A moment that a directory can be put back to.
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
