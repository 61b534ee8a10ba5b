//! Everything that is tested on a real repository, with real processes.
#![allow(clippy::disallowed_methods, reason = "tests start the program and git themselves")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod agents;
mod change_files;
mod clients;
mod completion;
mod config_keys;
mod configuration;
mod costs;
mod ctrl_c;
mod doctor;
mod finish;
mod generated;
mod git_commands;
mod golden;
mod hazards;
mod help;
mod house_rules;
mod kill_matrix;
mod log_undo_prune;
mod looking_back;
mod machine;
mod man_pages;
mod notifications;
mod output;
mod prompts;
mod properties;
mod readme;
mod reliability;
mod resume;
mod runtime;
mod scenarios;
mod screen;
mod setup;
mod sources;
mod support;
mod surroundings;
mod transcripts;
mod trees;
