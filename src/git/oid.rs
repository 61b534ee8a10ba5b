//! Defines object ids, SHA-1 or SHA-256.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The full hexadecimal id of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Oid(String);

impl Oid {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// An abbreviated id for messages.
    #[must_use]
    pub fn short(&self) -> &str {
        self.0.get(..10).unwrap_or(&self.0)
    }

    /// The id of the same length that means "no object".
    #[must_use]
    pub fn nothing(&self) -> Self {
        Oid("0".repeat(self.0.len()))
    }

    /// Whether this is the id that means "no object".
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.0.bytes().all(|byte| byte == b'0')
    }
}

impl FromStr for Oid {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim_end();
        let valid = matches!(text.len(), 40 | 64) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        anyhow::ensure!(valid, "git answered '{}' where an object id was expected", text.escape_debug());
        Ok(Oid(text.to_owned()))
    }
}

impl TryFrom<String> for Oid {
    type Error = anyhow::Error;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Oid> for String {
    fn from(oid: Oid) -> String {
        oid.0
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
