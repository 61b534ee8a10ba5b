//! The hub: a repository that both machines can reach, and its refs. Their names come from another machine, so they are validated here.

use std::ffi::{OsStr, OsString};
use std::str::FromStr;

use anyhow::{Result, bail};

use crate::error::Problem;
use crate::names::{Names, REFS};

/// The URL or the path of a hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hub(OsString);

impl Hub {
    /// Parses a URL or path.
    ///
    /// # Errors
    /// A [`Problem`] if it is empty, or git would take it for an option.
    pub fn new(text: OsString) -> Result<Self> {
        if text.is_empty() || text.as_encoded_bytes().starts_with(b"-") {
            bail!(Problem::fatal(format!("'{}' is not the URL of a hub", text.display())));
        }
        Ok(Hub(text))
    }

    /// The URL or path for git's command line.
    #[must_use]
    pub fn url(&self) -> &OsStr {
        &self.0
    }
}

/// A ref on a hub, below `refs/ralph/<change>/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubRef {
    name: String,
    names: Names,
}

impl HubRef {
    /// The full name of the ref.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of the change that the ref belongs to.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }
}

impl FromStr for HubRef {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '%');
        let is_part = |part: &str| {
            let dots = part.starts_with('.') || part.ends_with('.') || part.contains("..") || part.ends_with(".lock");
            !part.is_empty() && part.chars().all(plain) && !dots
        };
        match (name.strip_prefix(REFS).filter(|rest| rest.split('/').all(is_part)), Names::of_ref(name)) {
            (Some(_), Some(names)) => Ok(HubRef { name: name.to_owned(), names }),
            _ => bail!(Problem::fatal(format!("'{}' is not a ref below {REFS}<change>/", name.escape_debug()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refs_of_a_change_below_refs_ralph_are_taken() {
        for name in ["refs/ralph/work/remote/1/2", "refs/ralph/a.b/remote/x%20y/10-base", "refs/ralph/work/x"] {
            let parsed: HubRef = name.parse().unwrap();
            assert_eq!(parsed.name(), name);
        }
        let wrong = [
            "refs/heads/main",
            "refs/heads/ralph/work",
            "refs/ralph/work",
            "refs/ralph/",
            "refs/ralph//x",
            "refs/ralph/work/../../heads/main",
            "refs/ralph/work/x:refs/heads/main",
            "refs/ralph/work/a b",
            "refs/ralph/work/x.lock",
            "refs/ralph/-work/x",
            "+refs/ralph/work/x",
            "refs/ralph/work/*",
            "--force",
        ];
        for name in wrong {
            assert!(name.parse::<HubRef>().is_err(), "{name}");
        }
    }

    #[test]
    fn a_hub_is_no_option() {
        assert!(Hub::new("--upload-pack=touch x".into()).is_err() && Hub::new("".into()).is_err());
        assert_eq!(Hub::new("ssh://host/hub.git".into()).unwrap().url(), "ssh://host/hub.git");
    }
}
