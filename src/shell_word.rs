//! A word as a shell reads it: hints are commands that can be pasted as they stand.

/// The word, quoted where a shell would make something else of it.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_reach_the_shell_as_they_are() {
        assert_eq!(quoted("refs/ralph/work/attempts/a%20b/1"), "refs/ralph/work/attempts/a%20b/1");
        assert_eq!(quoted("$(reboot)"), "'$(reboot)'");
        assert_eq!(quoted("f;touch x"), "'f;touch x'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
