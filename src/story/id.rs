//! The names of changes and stories, which become parts of refs, commit messages and file names.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The name of a change, which is safe as one component of a ref name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ChangeName(String);

impl ChangeName {
    const LONGEST: usize = 100;

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ChangeName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let wrong = if name.is_empty() {
            "it is empty"
        } else if name.len() > Self::LONGEST {
            "it is longer than 100 characters"
        } else if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            "it must start with a letter or a digit"
        } else if !name.chars().all(allowed) {
            "only letters, digits, '.', '_' and '-' are allowed"
        } else if name.contains("..") {
            "'..' is not allowed"
        } else if name.ends_with('.') || name.to_ascii_lowercase().ends_with(".lock") {
            "it must not end in '.' or '.lock'"
        } else {
            return Ok(ChangeName(name.to_owned()));
        };
        Err(format!("'{}' is not a valid change name: {wrong}", name.escape_debug()))
    }
}

impl TryFrom<String> for ChangeName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

impl From<ChangeName> for String {
    fn from(name: ChangeName) -> String {
        name.0
    }
}

impl fmt::Display for ChangeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of a story: one line of text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoryId(String);

impl StoryId {
    const LONGEST: usize = 200;

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id in a form that is safe as one component of a ref or file name, and different for different ids.
    #[must_use]
    pub fn as_component(&self) -> String {
        let mut component = String::new();
        for (at, byte) in self.0.bytes().enumerate() {
            let last = at + 1 == self.0.len();
            let dot_ok = byte == b'.' && at > 0 && !last && !component.ends_with('.');
            if byte.is_ascii_alphanumeric() || byte == b'_' || (byte == b'-' && at > 0) || dot_ok {
                component.push(char::from(byte));
            } else {
                component.push_str(&format!("%{byte:02X}"));
            }
        }
        match component.strip_suffix(".lock") {
            Some(stem) => format!("{stem}%2Elock"),
            None => component,
        }
    }
}

impl FromStr for StoryId {
    type Err = String;

    fn from_str(id: &str) -> Result<Self, String> {
        let wrong = if id.trim().is_empty() {
            "it is empty"
        } else if id.trim() != id {
            "it must not start or end with blanks"
        } else if id.chars().any(char::is_control) {
            "it must be one line without control characters"
        } else if StoryId(id.to_owned()).as_component().len() > Self::LONGEST {
            "it is too long"
        } else {
            return Ok(StoryId(id.to_owned()));
        };
        Err(format!("'{}' is not a valid story id: {wrong}", id.escape_debug()))
    }
}

impl Borrow<str> for StoryId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_name_is_one_safe_ref_component() {
        for name in ["a", "task-priorities", "v1.2_x", "9lives"] {
            assert!(ChangeName::from_str(name).is_ok(), "{name}");
        }
        let long = "a".repeat(101);
        for name in ["", "-x", "a/b", "--orphan=x", "../..", "a..b", "a.lock", "a.LOCK", "a.", ".a", "a b", "ä", "a\n", "@{x}", &long] {
            assert!(ChangeName::from_str(name).is_err(), "{name}");
        }
    }

    #[test]
    fn story_ids_become_distinct_components() {
        let component = |id: &str| id.parse::<StoryId>().unwrap().as_component();
        assert_eq!(component("story-1"), "story-1");
        assert_eq!(component("1.2"), "1.2");
        assert_eq!(component("a b"), "a%20b");
        assert_eq!(component("a%20b"), "a%2520b");
        assert_eq!(component(".x."), "%2Ex%2E");
        assert_eq!(component("a..b"), "a.%2Eb");
        assert_eq!(component("x.lock"), "x%2Elock");
        assert_eq!(component("a/b"), "a%2Fb");
        assert_eq!(component("-f"), "%2Df");
    }
}
