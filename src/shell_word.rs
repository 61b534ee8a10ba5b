//! Words and commands as a shell reads them: hints are commands that can be pasted as they stand.

/// The word, quoted where a shell would make something else of it.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A `git ralph` command as all hints spell it: the command with its options, then the arguments, each quoted.
#[must_use]
pub fn git_ralph(command: &str, arguments: &[&str]) -> String {
    let end = if arguments.iter().any(|word| word.starts_with('-')) { " --" } else { "" };
    arguments.iter().fold(format!("git ralph {command}{end}"), |line, word| line + " " + &quoted(word))
}

#[cfg(test)]
mod tests {
    use super::{git_ralph, quoted};

    #[test]
    fn a_command_has_its_options_first_and_its_arguments_quoted() {
        assert_eq!(git_ralph("finish --cleanup", &["work"]), "git ralph finish --cleanup work");
        assert_eq!(git_ralph("log --attempt 2", &["work", "it's"]), "git ralph log --attempt 2 work 'it'\\''s'");
        assert_eq!(git_ralph("undo", &["work", "-x"]), "git ralph undo -- work -x");
        assert_eq!(git_ralph("list", &[]), "git ralph list");
    }

    #[test]
    fn words_reach_the_shell_as_they_are() {
        assert_eq!(quoted("refs/ralph/work/attempts/a%20b/1"), "refs/ralph/work/attempts/a%20b/1");
        assert_eq!(quoted("$(reboot)"), "'$(reboot)'");
        assert_eq!(quoted("f;touch x"), "'f;touch x'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
