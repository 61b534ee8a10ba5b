//! The files that are part of the program: the contents of `man/` and `completions/` in the repository.

/// A file that is part of the program.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// Its name in the repository.
    pub name: &'static str,
    /// Its whole content.
    pub text: &'static str,
}

macro_rules! shipped {
    ($dir:literal: $($name:literal),* $(,)?) => {
        [$(Shipped { name: $name, text: include_str!(concat!("../../", $dir, "/", $name)) }),*]
    };
}

/// The manual pages.
pub const PAGES: &[Shipped] = &shipped!("man":
    "git-ralph.1",
    "git-ralph-abort.1",
    "git-ralph-config.1",
    "git-ralph-demo.1",
    "git-ralph-doctor.1",
    "git-ralph-done.1",
    "git-ralph-edit.1",
    "git-ralph-events.5",
    "git-ralph-finish.1",
    "git-ralph-hint.1",
    "git-ralph-list.1",
    "git-ralph-log.1",
    "git-ralph-new.1",
    "git-ralph-prune.1",
    "git-ralph-report.1",
    "git-ralph-resume.1",
    "git-ralph-retry.1",
    "git-ralph-setup.1",
    "git-ralph-skip.1",
    "git-ralph-start.1",
    "git-ralph-status.1",
    "git-ralph-stop.1",
    "git-ralph-undo.1",
    "git-ralph-worker.1",
);

/// The completion scripts, which make shells call git-ralph.
pub const COMPLETIONS: &[Shipped] =
    &shipped!("completions": "git-ralph.bash", "_git-ralph", "_git_ralph", "git-ralph.fish", "git-ralph.conf.fish");
