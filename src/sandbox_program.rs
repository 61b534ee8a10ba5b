//! The programs that make sandboxes: one per system, chosen here.

/// A program that makes sandboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxProgram {
    /// bubblewrap (`bwrap`), which needs Linux.
    Bubblewrap,
    /// `sandbox-exec`, which is part of macOS.
    SandboxExec,
}

/// The program that makes the sandboxes of this system.
pub const SANDBOX: SandboxProgram = if cfg!(target_os = "macos") { SandboxProgram::SandboxExec } else { SandboxProgram::Bubblewrap };

impl SandboxProgram {
    /// Its name, for messages.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            SandboxProgram::Bubblewrap => "bubblewrap",
            SandboxProgram::SandboxExec => "sandbox-exec",
        }
    }
}
