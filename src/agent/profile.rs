//! The agents that are known by name: data, no code.

use super::Format;

/// How a client is called so that it works alone: the prompt on standard input, no question asked, a readable stream.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Its name, which is also that of its program.
    pub name: &'static str,
    /// What it is called with.
    pub args: &'static [&'static str],
    /// Arguments that must come last.
    pub last: &'static [&'static str],
    /// The option that names a model.
    pub model: &'static str,
    /// How it prints.
    pub format: Format,
    /// Variables that are set for it unless the user has set them.
    pub env: &'static [(&'static str, &'static str)],
}

/// Every one of them, in the order in which they are looked for.
pub const PROFILES: [Profile; 8] = [
    Profile {
        name: "claude",
        args: &["-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"],
        last: &[],
        model: "--model",
        format: Format::Claude,
        env: &[("DISABLE_AUTOUPDATER", "1")],
    },
    Profile {
        name: "codex",
        args: &["exec", "--json", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check", "--color", "never"],
        last: &["-"],
        model: "--model",
        format: Format::Codex,
        env: &[],
    },
    Profile {
        name: "opencode",
        args: &["run", "--auto", "--format", "json"],
        last: &[],
        model: "--model",
        format: Format::Opencode,
        env: &[("OPENCODE_DISABLE_AUTOUPDATE", "1")],
    },
    Profile {
        name: "gemini",
        args: &["--yolo", "--skip-trust", "-o", "stream-json"],
        last: &[],
        model: "--model",
        format: Format::Gemini,
        // Without it the client starts itself again, and there is one more process between it and us.
        env: &[("GEMINI_CLI_NO_RELAUNCH", "true")],
    },
    Profile {
        name: "qwen",
        args: &["--yolo", "-o", "stream-json"],
        last: &[],
        model: "--model",
        format: Format::Claude,
        env: &[("QWEN_CODE_SUPPRESS_YOLO_WARNING", "1")],
    },
    Profile {
        name: "aider",
        args: &[
            "--yes-always",
            "--no-pretty",
            "--no-check-update",
            "--no-show-model-warnings",
            "--no-show-release-notes",
            "--analytics-disable",
            "--no-gitignore",
            "--no-auto-commits",
            // Its map of the repository is a file in the work tree that no story asked for.
            "--map-tokens",
            "0",
            "--chat-history-file",
            "/dev/null",
            "--input-history-file",
            "/dev/null",
        ],
        last: &["--message-file", "/dev/stdin"],
        model: "--model",
        format: Format::Aider,
        env: &[],
    },
    Profile {
        name: "goose",
        args: &["run", "--no-session", "-q", "--with-builtin", "developer", "--output-format", "stream-json"],
        last: &["-i", "-"],
        model: "--model",
        format: Format::Goose,
        env: &[("GOOSE_MODE", "auto")],
    },
    Profile {
        name: "copilot",
        args: &["--yolo", "--no-ask-user", "--no-color", "--no-auto-update", "--output-format", "json"],
        last: &[],
        model: "--model",
        format: Format::Copilot,
        env: &[("COPILOT_AUTO_UPDATE", "false")],
    },
];

impl Profile {
    /// The one of that name.
    #[must_use]
    pub fn of(name: &str) -> Option<&'static Profile> {
        PROFILES.iter().find(|profile| profile.name == name)
    }
}
