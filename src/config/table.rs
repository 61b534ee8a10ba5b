//! The table of settings: the one place where a setting is defined.
//!
//! # Adding a setting
//!
//! 1. Add an entry here. Entries stand in the order of the manual, of `git ralph config` and of a new change file.
//!
//!    ```text
//!    be_brief: YesNo {
//!        key: "ralph.beBrief",
//!        default: "false",
//!        help: "Whether only the ends of stories are printed.",
//!        option: "--be-brief" at 105 "Print only the ends of stories",
//!        file: "be-brief",
//!        comment: "Print only the ends of stories.",
//!    }
//!    ```
//!
//! 2. Use `settings.be_brief.value` where the setting matters.
//! 3. Run `RALPH_BLESS=1 cargo test --test suite -- man_pages help`, and look at the difference.
//!
//! Only a value of a new kind needs more: an `impl SettingType` in `setting_type.rs`, or a `choice!` in `choices.rs` if it is one
//! of a few words, and its name in the imports below.
//!
//! From the entry follow the field in [`Settings`]; the option of `start` and `resume` with its help, its completion and its
//! place in the journal; the key of the change file with its errors, and its lines in a new change file; the key in git's
//! configuration; the line of `git ralph config`; and the paragraph in the manual. `tests/suite/config_keys.rs` goes over the
//! table and checks all of that.
//!
//! # Entries
//!
//! The parts of an entry, in this order:
//!
//! | part | what it is |
//! |---|---|
//! | `name: Type` | the field in [`Settings`], and how a value is read and shown |
//! | `key` | the key in git's configuration, `ralph.camelCase`; every setting can be set there |
//! | `form` | the form of a value in the manual, where that of the type is not clear enough |
//! | `default` | the default, as text: the field is a `Setting<_>` … |
//! | `unset` | … or, in words, what happens when it is not set: the field is an `Option<Setting<_>>` … |
//! | `empty` | … or, in words, what an empty list means: the field is a `Setting<Vec<_>>` … |
//! | `per_agent` | … or, in words, the default of a key `ralph.<name>.…`: there is no field, `agent/invocation.rs` reads it |
//! | `help` | what it means, a sentence for the manual |
//! | `option` | the option, if there is one: the name of its value, its place in the help, its help; the default is added |
//! | `file` | the key in the change file, if it can be set there |
//! | `example` | its value in a new change file, as TOML; otherwise the default stands there |
//! | `comment` | the line above it in a new change file; without one it joins the setting before it |
//!
//! One setting has a second key in the change file: `command` sets `agent`, and excludes it; `change_file.rs` reads it.

use anyhow::Result;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::de::DeTable;

use super::agent_choice::AgentChoice;
use super::change_file::ChangeFile;
use super::choices::{Bell, EmptyDiff, Finish, LimitWait, MergeGates, ReportWhen, SandboxMode};
use super::define::{settings, when};
use super::flags::Written;
use super::git_config::GitConfig;
use super::key::Key;
use super::layers::{Layers, Value, or_default};
use super::listing::Listed;
use super::setting::{Origin, Setting};
use super::setting_type::{
    CommandPrefix, Count, Dollars, Number, SettingType, ShellCommand, SubjectTemplate, Text, TextList, Time, TimeLimit, Tokens, YesNo,
};
use super::toml_value::Reader;

settings! {
    agent: AgentChoice {
        key: "ralph.agent",
        unset: "the first known client that is installed, on a terminal",
        help: "The agent: claude, codex, opencode, gemini, qwen, aider, goose, copilot, or one that you define with ralph.<name>.cmd.",
        option: "--agent" <NAME> at 10
            "The agent: claude, codex, opencode, gemini, qwen, aider, goose, copilot, or your own (see `ralph.<name>.cmd`)",
        file: "agent",
        example: "\"claude\"",
        comment: "The agent: claude, codex, opencode, gemini, qwen, aider, goose, copilot, or your own (see ralph.<name>.cmd) …",
    }
    model: Text {
        key: "ralph.model",
        form: "<model>",
        unset: "the agent's own choice",
        help: "The model that a known agent should use.",
        option: "--model" <MODEL> at 20 "The model that the agent should use",
        file: "model",
        example: "\"opus\"",
    }
    agent_cmd: ShellCommand {
        key: "ralph.<name>.cmd",
        per_agent: "the client of that name",
        help: "The command line of an agent of your own, run by sh; the prompt comes on its standard input.",
    }
    agent_args: TextList {
        key: "ralph.<name>.args",
        form: "<argument>",
        per_agent: "none",
        help: "One more argument for that agent; may be repeated; an empty value resets the list.",
    }
    agent_format: Text {
        key: "ralph.<name>.format",
        form: "text|aider|claude|qwen|codex|opencode|gemini|goose|copilot",
        per_agent: "that of the client of that name, else text",
        help: "How to read what that agent prints.",
    }
    verify: TextList {
        key: "ralph.verify",
        form: "<command>",
        empty: "none",
        help: "A gate, run by sh: it must pass before a story counts as done; may be repeated; an empty value resets the list.",
        option: "--verify" <CMD> at 60 "A command that must pass before a story counts as done; may be repeated",
        file: "verify",
        example: "[\"cargo test\"]",
        comment: "Gates: commands that must pass before a story counts as done.",
    }
    max_retries: Number {
        key: "ralph.maxRetries",
        default: "3",
        help: "How many attempts a story gets after its first one.",
        option: "--max-retries" <N> at 50 "Retries after a story's first attempt",
        file: "max-retries",
        comment: "Retries after a story's first attempt.",
    }
    keep_going: YesNo {
        key: "ralph.keepGoing",
        default: "false",
        help: "Whether the run continues when a story has no retries left. Only stories that come after it wait.",
        option: "--keep-going" at 105 "Continue with other stories when one has no retries left",
        file: "keep-going",
        comment: "Continue with other stories when one has no retries left.",
    }
    max_cost: Dollars {
        key: "ralph.maxCost",
        unset: "no limit",
        help: "Budget of the run in dollars. When it is spent, git-ralph starts no more agents.",
        option: "--max-cost" <USD> at 30 "Start no more agents once the run has cost this many dollars",
        file: "max-cost",
        example: "20.0",
        comment: "Limits for the whole run.",
    }
    max_tokens: Tokens {
        key: "ralph.maxTokens",
        unset: "no limit",
        help: "Budget of the run in tokens. When it is spent, git-ralph starts no more agents.",
        option: "--max-tokens" <N> at 40 "Start no more agents once the run has used this many tokens, such as 500k or 2M",
        file: "max-tokens",
        example: "\"5M\"",
    }
    limit_wait: LimitWait {
        key: "ralph.limitWait",
        default: "wait",
        help: "What happens when the agent's usage limit is reached: wait until it resets, or end the loop.",
    }
    limit_pause: Time {
        key: "ralph.limitPause",
        default: "5m",
        help: "How long to wait first when a usage limit is hit and its reset time is unknown. Each further wait doubles, up to one hour.",
    }
    attempt_timeout: TimeLimit {
        key: "ralph.attemptTimeout",
        default: "60m",
        help: "Time limit for an attempt.",
        option: "--attempt-timeout" <D> at 70 "Time limit for an attempt, such as 45m, or none",
        file: "attempt-timeout",
        comment: "Time limits: for a whole attempt, without output, for one gate.",
    }
    idle_timeout: TimeLimit {
        key: "ralph.idleTimeout",
        default: "15m",
        help: "Time limit for an agent that prints nothing.",
        option: "--idle-timeout" <D> at 80 "Time limit for an agent that prints nothing, or none",
        file: "idle-timeout",
    }
    verify_timeout: TimeLimit {
        key: "ralph.verifyTimeout",
        default: "30m",
        help: "Time limit for one gate.",
        file: "verify-timeout",
    }
    linger_timeout: Time {
        key: "ralph.lingerTimeout",
        default: "10s",
        help: "How long to wait for the agent to exit after it has said it is done. It is then terminated; the story still counts as done.",
    }
    grace: Time {
        key: "ralph.grace",
        default: "10s",
        help: "How long to wait for a process to exit after SIGTERM before it is killed.",
    }
    git_timeout: TimeLimit {
        key: "ralph.gitTimeout",
        unset: "30s for read-only git commands, no limit for others",
        help: "Time limit for each git command that git-ralph runs.",
    }
    isolate: YesNo {
        key: "ralph.isolate",
        default: "false",
        help: "Whether the agent works in a private clone beside the repository, so that you can keep using your checkout.",
        option: "--isolate" at 102 "Let the agent work in a private clone, not in your checkout",
        file: "isolate",
        comment: "Let the agent work in a private clone, so that you can keep using your checkout.",
    }
    jobs: Count {
        key: "ralph.jobs",
        default: "1",
        help: "How many stories are worked on at the same time, each in a private clone of its own; more than 1 implies ralph.isolate.",
        option: "--jobs" <N> at 104 "Work on this many stories at the same time; implies --isolate",
        file: "jobs",
        comment: "How many stories are worked on at the same time, each in a private clone.",
    }
    workspace_dir: Text {
        key: "ralph.workspaceDir",
        form: "<path>",
        unset: "../<repository>.ralph",
        help: "The directory of the private clones: the workspaces of a change are <path>/<change>/1, 2 and so on. A relative path starts at the top of the checkout. It must not be inside a repository.",
    }
    workspace_include: TextList {
        key: "ralph.workspaceInclude",
        form: "<pattern>",
        empty: "none",
        help: "A pattern, in the syntax of .gitignore, for ignored files to copy into private clones, in addition to those that .worktreeinclude lists; may be repeated; an empty value resets the list.",
    }
    setup: TextList {
        key: "ralph.setup",
        form: "<command>",
        empty: "none",
        help: "A command, run by sh once in every new private clone before its first agent, such as npm ci; may be repeated; an empty value resets the list.",
        file: "setup",
        example: "[\"npm ci\"]",
        comment: "Commands that set up a private clone, run once in each.",
    }
    runner: CommandPrefix {
        key: "ralph.runner",
        unset: "none",
        help: "A command, such as srun -n1, that starts agents, gates and setup commands: their command line is appended to it as arguments. It is split into words like a shell command, but no shell runs it. {workspace}, {change}, {story}, {attempt} and {slot} are replaced. An empty value means none.",
        option: "--runner" <CMD> at 106 "A command that starts agents, gates and setup commands, such as 'srun -n1'",
        file: "runner",
        example: "[\"srun\", \"-n1\"]",
        comment: "A command that starts agents, gates and setup commands; and one for gates alone.",
    }
    gate_runner: CommandPrefix {
        key: "ralph.gateRunner",
        unset: "that of ralph.runner",
        help: "The runner for gates, instead of ralph.runner. An empty value means none.",
        file: "gate-runner",
        example: "[]",
    }
    runner_timeout: TimeLimit {
        key: "ralph.runnerTimeout",
        unset: "no limit",
        help: "How long a runner may take to start a command, such as in the queue of a cluster. Until then no other time limit counts.",
        file: "runner-timeout",
        example: "\"12h\"",
    }
    sandbox: SandboxMode {
        key: "ralph.sandbox",
        default: "off",
        help: "Whether to run agents, gates and setup commands in a sandbox (bubblewrap on Linux, sandbox-exec on macOS). They can write only to the workspace, to caches and to the agent's own state. They see your repository read-only, no credentials, and only listed environment variables.",
        option: "--sandbox" <MODE> at 103 "Run agents, gates and setup commands in a sandbox: off, auto, bwrap (Linux) or sandbox-exec (macOS); without a value: the one of this system",
        file: "sandbox",
        example: "\"bwrap\"",
        comment: "Run agents, gates and setup commands in a sandbox: off, auto, bwrap (Linux) or sandbox-exec (macOS).",
    }
    sandbox_write: TextList {
        key: "ralph.sandboxWrite",
        form: "<path>",
        empty: "none",
        help: "An additional path that is writable in the sandbox. It may begin with ~/; a relative path starts at the top of your checkout. May be repeated, an empty value resets the list.",
    }
    pass_env: TextList {
        key: "ralph.passEnv",
        form: "<name>",
        empty: "none",
        help: "An additional environment variable that is visible in the sandbox; a * at the end matches any rest of the name. May be repeated, an empty value resets the list.",
    }
    merge_gates: MergeGates {
        key: "ralph.mergeGates",
        default: "always",
        help: "When to run the gates again before an attempt lands, if the branch has moved since the attempt began: always, or only if the attempt and the stories that landed changed the same files.",
    }
    finish: Finish {
        key: "ralph.finish",
        default: "ask",
        help: "What happens when every story is done; without a terminal, ask leaves the run open. If not every story is done, the run stays open.",
        option: "--finish" <MODE> at 110 "What happens when every story is done: ask, cleanup or keep",
        file: "finish",
        comment: "What happens when every story is done: ask, cleanup or keep.",
    }
    hooks: YesNo {
        key: "ralph.hooks",
        default: "false",
        help: "Whether the repository's pre-commit and commit-msg hooks are run, as gates.",
    }
    sign: YesNo {
        key: "ralph.sign",
        default: "false",
        help: "Whether checkpoints are signed.",
    }
    subject: SubjectTemplate {
        key: "ralph.subject",
        default: "checkpoint: {id}",
        help: "The subject of a checkpoint's commit message. {id} stands for the id of the story, {title} for its title.",
        file: "subject",
        comment: "The subject of a checkpoint's commit message; {id} and {title} are filled in from the story.",
    }
    empty_diff: EmptyDiff {
        key: "ralph.emptyDiff",
        default: "warn",
        help: "What to do when an agent says that a story is done, but nothing has changed except the ticked boxes of the story: land it with a warning, or fail the attempt.",
    }
    report: ReportWhen {
        key: "ralph.report",
        default: "never",
        help: "When to write the page of a run (see git-ralph-report(1)) into the directory of the run: only on demand, or whenever a loop ends.",
        file: "report",
        comment: "Write a page of the run whenever a loop ends: never or always.",
    }
    on_finish: ShellCommand {
        key: "ralph.onFinish",
        unset: "none",
        help: "A command, run by sh when the loop ends, with the event as JSON on its standard input. If ralph.report is always, RALPH_REPORT and the field report of the event contain the path of the page.",
    }
    on_story: ShellCommand {
        key: "ralph.onStory",
        unset: "none",
        help: "A command, run by sh when a story lands or has no retries left, with the event as JSON on its standard input.",
    }
    bell: Bell {
        key: "ralph.bell",
        default: "auto",
        help: "Whether to ring the terminal bell and send a desktop notification (OSC 9) when the loop ends.",
    }
}
