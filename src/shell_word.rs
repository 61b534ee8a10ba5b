//! Quotes and splits words the way a shell does, so that users can paste hints into a shell.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::str::Chars;

/// The word, quoted if a shell would otherwise interpret it.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The word, quoted if a shell would otherwise interpret it, whatever bytes it has.
#[must_use]
pub fn quoted_bytes(word: &OsStr) -> OsString {
    match word.to_str() {
        Some(text) => quoted(text).into(),
        None => {
            let bytes = word.as_bytes().split(|byte| *byte == b'\'').collect::<Vec<_>>().join(&b"'\\''"[..]);
            OsString::from_vec([b"'", &bytes[..], b"'"].concat())
        }
    }
}

/// Splits a command line into words and removes quotes, like a shell. Nothing is expanded.
///
/// # Errors
/// If a quote is not closed, or nothing follows the last backslash.
pub fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or("a single quote is not closed")? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => in_double_quotes(&mut chars, word.get_or_insert_default())?,
            '\\' => word.get_or_insert_default().push(chars.next().ok_or("nothing follows the last backslash")?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Reads up to the closing quote. A backslash is literal unless it precedes a character that it can escape.
fn in_double_quotes(chars: &mut Chars<'_>, word: &mut String) -> Result<(), String> {
    const OPEN: &str = "a double quote is not closed";
    loop {
        match chars.next().ok_or(OPEN)? {
            '"' => return Ok(()),
            '\\' => match chars.next().ok_or(OPEN)? {
                c @ ('"' | '\\' | '$' | '`') => word.push(c),
                c => word.extend(['\\', c]),
            },
            c => word.push(c),
        }
    }
}

/// Joins words into a command line that [`split`] reads back.
#[must_use]
pub fn joined(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A `git ralph` command for a hint: the command with its options, then the arguments, each quoted.
#[must_use]
pub fn git_ralph(command: &str, arguments: &[&str]) -> String {
    let end = if arguments.iter().any(|word| word.starts_with('-')) { " --" } else { "" };
    arguments.iter().fold(format!("git ralph {command}{end}"), |line, word| line + " " + &quoted(word))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use super::{git_ralph, joined, quoted, quoted_bytes, split};

    #[test]
    fn a_command_has_its_options_first_and_its_arguments_quoted() {
        assert_eq!(git_ralph("finish --cleanup", &["work"]), "git ralph finish --cleanup work");
        assert_eq!(git_ralph("log --attempt 2", &["work", "it's"]), "git ralph log --attempt 2 work 'it'\\''s'");
        assert_eq!(git_ralph("undo", &["work", "-x"]), "git ralph undo -- work -x");
        assert_eq!(git_ralph("list", &[]), "git ralph list");
    }

    #[test]
    fn a_word_that_is_not_text_is_quoted_byte_for_byte() {
        let word = OsString::from_vec(b"\xff'".to_vec());
        let expected = OsString::from_vec(b"'\xff'\\'''".to_vec());
        assert_eq!(quoted_bytes(&word), expected);
    }

    #[test]
    fn words_reach_the_shell_as_they_are() {
        assert_eq!(quoted("refs/ralph/work/attempts/a%20b/1"), "refs/ralph/work/attempts/a%20b/1");
        assert_eq!(quoted("$(reboot)"), "'$(reboot)'");
        assert_eq!(quoted("f;touch x"), "'f;touch x'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_command_line_is_split_as_a_shell_would_without_expanding_anything() {
        let words = |line: &str| split(line).unwrap();
        assert_eq!(words("srun  -n1 --job-name='a b'"), ["srun", "-n1", "--job-name=a b"]);
        assert_eq!(words(r#"a "b \"c\" \d $x" \ e ''"#), ["a", r#"b "c" \d $x"#, " e", ""]);
        assert_eq!(words("echo $HOME * ~"), ["echo", "$HOME", "*", "~"]);
        assert_eq!(words("  "), Vec::<String>::new());
        for (line, why) in [("a 'b", "single quote"), ("a \"b", "double quote"), ("a \"b\\", "double quote"), ("a \\", "backslash")] {
            assert!(split(line).unwrap_err().contains(why), "{line}");
        }
    }

    #[test]
    fn a_command_line_is_read_back_as_it_was_joined() {
        let all = ["a", "", "it's", "a b", "\"", "\\", "{story}", "$(x)", "\n"].map(str::to_owned);
        assert_eq!(split(&joined(&all)).unwrap(), all);
    }
}
