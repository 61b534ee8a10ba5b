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
    /// Where it keeps its state, for the sandbox: `~` is the home, `$NAME` a variable. What does not end in `.json` is a directory.
    pub state: &'static [&'static str],
    /// Variables that hold its keys and settings, for the sandbox; `*` stands for the rest of a name.
    pub variables: &'static [&'static str],
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
        // Without it the client starts itself again, and there is one more process between it and us.
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
    /// The one of that name.
    #[must_use]
    pub fn of(name: &str) -> Option<&'static Profile> {
        PROFILES.iter().find(|profile| profile.name == name)
    }
}
