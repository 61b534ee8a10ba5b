//! The table of agent clients that git-ralph knows by name. It holds data and no code.

use super::Format;

/// How to start a client so that it works unattended: prompt on standard input, no questions, machine-readable output.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// The name of the client, which is also the name of its program.
    pub name: &'static str,
    /// The command-line arguments.
    pub args: &'static [&'static str],
    /// Arguments that must come last, after the model option.
    pub last: &'static [&'static str],
    /// The option that names a model.
    pub model: &'static str,
    /// The format of its output.
    pub format: Format,
    /// Environment variables that are set for the client unless the user has set them.
    pub env: &'static [(&'static str, &'static str)],
    /// Where the client keeps its state, for the sandbox. `~` is the home directory, `$NAME` an environment variable. A
    /// path that does not end in `.json` is a directory.
    pub state: &'static [&'static str],
    /// Environment variables with the client's keys and settings, for the sandbox; `*` matches the rest of a name.
    pub variables: &'static [&'static str],
}

/// All known clients, in the order in which git-ralph looks for an installed one.
pub const PROFILES: [Profile; 8] = [
    Profile {
        name: "claude",
        args: &["-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"],
        last: &[],
        model: "--model",
        format: Format::Claude,
        env: &[("DISABLE_AUTOUPDATER", "1")],
        state: &["~/.claude", "~/.claude.json", "$CLAUDE_CONFIG_DIR"],
        variables: &["ANTHROPIC_*", "CLAUDE_*", "DISABLE_*", "IS_SANDBOX", "API_TIMEOUT_MS", "MAX_THINKING_TOKENS", "BASH_*"],
    },
    Profile {
        name: "codex",
        args: &["exec", "--json", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check", "--color", "never"],
        last: &["-"],
        model: "--model",
        format: Format::Codex,
        env: &[],
        state: &["~/.codex", "$CODEX_HOME"],
        variables: &["OPENAI_*", "CODEX_*"],
    },
    Profile {
        name: "opencode",
        args: &["run", "--auto", "--format", "json"],
        last: &[],
        model: "--model",
        format: Format::Opencode,
        env: &[("OPENCODE_DISABLE_AUTOUPDATE", "1")],
        state: &["$XDG_DATA_HOME/opencode", "$XDG_CONFIG_HOME/opencode", "$XDG_STATE_HOME/opencode"],
        variables: &[
            "OPENCODE_*",
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "GEMINI_API_KEY",
            "GOOGLE_GENERATIVE_AI_API_KEY",
            "OPENROUTER_API_KEY",
            "GROQ_API_KEY",
            "XAI_API_KEY",
            "DEEPSEEK_API_KEY",
            "MISTRAL_API_KEY",
        ],
    },
    Profile {
        name: "gemini",
        args: &["--yolo", "--skip-trust", "-o", "stream-json"],
        last: &[],
        model: "--model",
        format: Format::Gemini,
        // Without this variable the client re-executes itself, which puts one more process between it and git-ralph.
        env: &[("GEMINI_CLI_NO_RELAUNCH", "true")],
        state: &["~/.gemini"],
        variables: &["GEMINI_*", "GOOGLE_API_KEY", "GOOGLE_GEMINI_*", "GOOGLE_GENAI_*", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"],
    },
    Profile {
        name: "qwen",
        args: &["--yolo", "-o", "stream-json"],
        last: &[],
        model: "--model",
        format: Format::Claude,
        env: &[("QWEN_CODE_SUPPRESS_YOLO_WARNING", "1")],
        state: &["~/.qwen"],
        variables: &["QWEN_*", "OPENAI_*", "DASHSCOPE_*", "GEMINI_*"],
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
            // aider's repository map would be a file in the work tree that no story asked for.
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
        state: &["~/.aider"],
        variables: &[
            "AIDER_*",
            "LITELLM_*",
            "OPENAI_*",
            "ANTHROPIC_API_KEY",
            "GEMINI_API_KEY",
            "DEEPSEEK_API_KEY",
            "OPENROUTER_API_KEY",
            "GROQ_API_KEY",
        ],
    },
    Profile {
        name: "goose",
        args: &["run", "--no-session", "-q", "--with-builtin", "developer", "--output-format", "stream-json"],
        last: &["-i", "-"],
        model: "--model",
        format: Format::Goose,
        env: &[("GOOSE_MODE", "auto")],
        state: &["$XDG_CONFIG_HOME/goose", "$XDG_DATA_HOME/goose", "$XDG_STATE_HOME/goose"],
        variables: &["GOOSE_*", "OPENAI_*", "ANTHROPIC_*", "GOOGLE_API_KEY", "OPENROUTER_API_KEY", "DATABRICKS_*"],
    },
    Profile {
        name: "copilot",
        args: &["--yolo", "--no-ask-user", "--no-color", "--no-auto-update", "--output-format", "json"],
        last: &[],
        model: "--model",
        format: Format::Copilot,
        env: &[("COPILOT_AUTO_UPDATE", "false")],
        state: &["~/.copilot", "$COPILOT_HOME"],
        variables: &["COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN"],
    },
];

impl Profile {
    /// The profile with the given name.
    #[must_use]
    pub fn of(name: &str) -> Option<&'static Profile> {
        PROFILES.iter().find(|profile| profile.name == name)
    }
}
