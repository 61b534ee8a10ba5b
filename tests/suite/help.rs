//! Compares the help of every command with the files in `tests/help/`, word for word.

use clap::CommandFactory;
use git_ralph::cli::Cli;

use crate::golden;
use crate::support::World;

#[test]
fn the_help_of_every_command_is_the_committed_one() {
    let world = World::empty();
    golden::compare("tests/help/git-ralph.txt", &world.ralph(&["-h"]).code(0).stdout);
    let cli = Cli::command();
    let commands: Vec<&str> = cli.get_subcommands().filter(|command| !command.is_hide_set()).map(|command| command.get_name()).collect();
    for command in &commands {
        golden::compare(&format!("tests/help/{command}.txt"), &world.ralph(&[command, "--help"]).code(0).stdout);
    }
    let mut expected: Vec<String> = commands.iter().map(|command| format!("{command}.txt")).chain(["git-ralph.txt".to_owned()]).collect();
    expected.sort();
    assert_eq!(golden::files("tests/help"), expected);
}
