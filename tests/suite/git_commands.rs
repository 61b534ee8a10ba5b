//! git_commands
