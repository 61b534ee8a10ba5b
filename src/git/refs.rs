//! Lists all refs with one query, and updates several refs in one transaction.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Oid;

/// One ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefEntry {
    /// Its full name.
    pub name: String,
    /// The object that it points to.
    pub oid: Oid,
    /// Whether HEAD points to it.
    pub head: bool,
    /// The commit that it resolves to, if any.
    pub commit: Option<Oid>,
    /// The target, if it is a symbolic ref.
    pub symref: Option<String>,
}

/// All refs of a repository.
#[derive(Clone, Debug, Default)]
pub struct RefList {
    entries: Vec<RefEntry>,
    /// Refs that point to an object which does not exist.
    broken: Vec<String>,
}

impl RefList {
    /// The arguments of the git command that lists all refs.
    pub const QUERY: [&str; 2] =
        ["for-each-ref", "--format=%(objectname) %(objecttype) %(*objecttype)%(*objectname) %(HEAD) %(refname) %(symref)"];

    /// Parses the output of [`RefList::QUERY`].
    pub fn parse(output: &[u8]) -> Result<Self> {
        let parse = |line: &str| {
            let (oid, rest) = line.split_once(' ').context("no object id")?;
            let (kind, rest) = rest.split_once(' ').context("no object type")?;
            let (peeled, rest) = rest.split_once(' ').context("no peeled object")?;
            let (head, names) = (rest.starts_with('*'), rest.get(2..).context("no ref name")?);
            let (name, symref) = named(names);
            let oid: Oid = oid.parse()?;
            let commit = match (kind, peeled.strip_prefix("commit")) {
                ("commit", _) => Some(oid.clone()),
                (_, Some(commit)) => Some(commit.parse()?),
                _ => None,
            };
            Ok(RefEntry { name, oid, head, commit, symref })
        };
        let text = String::from_utf8_lossy(output);
        let entries = text.lines().map(parse).collect::<Result<_>>().context("git for-each-ref answered in an unknown form")?;
        Ok(RefList { entries, broken: Vec::new() })
    }

    /// The arguments of a git command that lists refs without reading objects. [`RefList::objects`] prepares the query for the
    /// objects.
    pub const NAMES: [&str; 2] = ["for-each-ref", "--format=%(objectname) %(HEAD) %(refname) %(symref)"];

    /// The input for `git cat-file --batch-check=%(objectname) %(objecttype)`, two lines per ref. `names` is the output of
    /// [`RefList::NAMES`].
    #[must_use]
    pub fn objects(names: &[u8]) -> String {
        let text = String::from_utf8_lossy(names);
        text.lines().filter_map(|line| line.split_once(' ')).map(|(oid, _)| format!("{oid}\n{oid}^{{commit}}\n")).collect()
    }

    /// Parses the output of both commands, [`RefList::NAMES`] and the query of [`RefList::objects`].
    pub fn parse_both(names: &[u8], objects: &[u8]) -> Result<Self> {
        let (names, objects) = (String::from_utf8_lossy(names), String::from_utf8_lossy(objects));
        let mut objects = objects.lines();
        let mut list = RefList::default();
        let unknown = "git for-each-ref answered in an unknown form";
        for line in names.lines() {
            let (oid, rest) = line.split_once(' ').context(unknown)?;
            let (name, symref) = named(rest.get(2..).context(unknown)?);
            let (object, commit) = (objects.next().context(unknown)?, objects.next().context(unknown)?);
            if object.ends_with(" missing") {
                list.broken.push(name);
                continue;
            }
            let commit = commit.strip_suffix(" commit").map(str::parse).transpose()?;
            list.entries.push(RefEntry { name, oid: oid.parse()?, head: rest.starts_with('*'), commit, symref });
        }
        Ok(list)
    }

    /// The refs that point to an object which does not exist. The other methods do not return them.
    #[must_use]
    pub fn broken(&self) -> &[String] {
        &self.broken
    }

    /// The list without the refs that the predicate selects.
    #[must_use]
    pub fn without(&self, is_left_out: impl Fn(&str) -> bool) -> Self {
        RefList { entries: self.entries.iter().filter(|entry| !is_left_out(&entry.name)).cloned().collect(), broken: self.broken.clone() }
    }

    /// The list after a transaction.
    #[must_use]
    pub fn after(&self, updates: &[RefUpdate]) -> Self {
        let mut list = self.without(|name| updates.iter().any(|update| update.name() == name));
        for update in updates {
            let (RefUpdate::Set { name, to } | RefUpdate::Move { name, to, .. } | RefUpdate::Create { name, to }) = update else {
                continue;
            };
            let head = self.entry(name).is_some_and(|entry| entry.head);
            list.entries.push(RefEntry { name: name.clone(), oid: to.clone(), head, commit: Some(to.clone()), symref: None });
        }
        list.entries.sort_by(|one, other| one.name.cmp(&other.name));
        list
    }

    /// The list as text, one ref per line. Does not record which ref HEAD points to.
    #[must_use]
    pub fn lines(&self) -> String {
        let line = |entry: &RefEntry| match &entry.symref {
            Some(target) => format!("ref {} {} {target}\n", entry.oid, entry.name),
            None => format!("ref {} {}\n", entry.oid, entry.name),
        };
        self.entries.iter().map(line).chain(self.broken.iter().map(|name| format!("broken {name}\n"))).collect()
    }

    /// Parses the output of [`RefList::lines`], which may be mixed with other lines.
    ///
    /// # Errors
    /// If a line is damaged.
    pub fn from_lines(text: &str) -> Result<Self> {
        let parse = |line: &str| {
            let (oid, names) = line.split_once(' ').context("a damaged record of refs")?;
            let (name, symref) = named(names);
            Ok(RefEntry { name, oid: oid.parse()?, head: false, commit: None, symref })
        };
        let entries = text.lines().filter_map(|line| line.strip_prefix("ref ")).map(parse).collect::<Result<_>>()?;
        let broken = text.lines().filter_map(|line| line.strip_prefix("broken ")).map(str::to_owned).collect();
        Ok(RefList { entries, broken })
    }

    /// All refs.
    pub fn iter(&self) -> impl Iterator<Item = &RefEntry> {
        self.entries.iter()
    }

    /// The refs in the given namespaces.
    pub fn owned<'a>(&'a self, namespaces: &'a [&str]) -> impl Iterator<Item = &'a RefEntry> {
        self.entries.iter().filter(move |entry| namespaces.iter().any(|space| entry.name.starts_with(space)))
    }

    /// The objects that refs point to and that are not commits.
    pub fn tags(&self) -> impl Iterator<Item = &Oid> {
        self.entries.iter().filter(|entry| entry.commit.as_ref() != Some(&entry.oid)).map(|entry| &entry.oid)
    }

    /// Every commit that a ref resolves to.
    pub fn commits(&self) -> impl Iterator<Item = &Oid> {
        self.entries.iter().filter_map(|entry| entry.commit.as_ref())
    }

    /// The ref with a full name.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&RefEntry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The object that the ref with a full name points to.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Oid> {
        self.entry(name).map(|entry| &entry.oid)
    }

    /// The branch that HEAD points to, if it has commits.
    #[must_use]
    pub fn head(&self) -> Option<&RefEntry> {
        self.entries.iter().find(|entry| entry.head)
    }

    /// The refs below a prefix that ends in a slash.
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a RefEntry> {
        self.entries.iter().filter(move |entry| entry.name.starts_with(prefix))
    }
}

/// Splits the name of a ref and its symbolic target; ref names contain no blanks.
fn named(names: &str) -> (String, Option<String>) {
    let (name, target) = names.split_once(' ').unwrap_or((names, ""));
    (name.to_owned(), Some(target.to_owned()).filter(|target| !target.is_empty()))
}

/// One update in a ref transaction. If it has an old value, the transaction fails when the ref has moved.
#[derive(Clone, Debug)]
pub enum RefUpdate {
    /// Sets a ref, whatever its value.
    Set {
        /// Full name.
        name: String,
        /// New value.
        to: Oid,
    },
    /// Moves a ref from a known value.
    Move {
        /// Full name.
        name: String,
        /// New value.
        to: Oid,
        /// The value it must have.
        from: Oid,
    },
    /// Creates a ref that must not exist.
    Create {
        /// Full name.
        name: String,
        /// New value.
        to: Oid,
    },
    /// Deletes a ref, if it still has the given value.
    Delete {
        /// Full name.
        name: String,
        /// The value it must have.
        from: Oid,
    },
}

impl RefUpdate {
    /// The full name of the updated ref.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            RefUpdate::Set { name, .. }
            | RefUpdate::Move { name, .. }
            | RefUpdate::Create { name, .. }
            | RefUpdate::Delete { name, .. } => name,
        }
    }

    /// The transaction as input for `git update-ref --stdin`.
    #[must_use]
    pub fn transaction(updates: &[RefUpdate]) -> String {
        let mut text = "start\n".to_owned();
        for update in updates {
            let _ = match update {
                RefUpdate::Set { name, to } => writeln!(text, "update {name} {to}"),
                RefUpdate::Move { name, to, from } => writeln!(text, "update {name} {to} {from}"),
                RefUpdate::Create { name, to } => writeln!(text, "create {name} {to}"),
                RefUpdate::Delete { name, from } => writeln!(text, "delete {name} {from}"),
            };
        }
        text.push_str("prepare\ncommit\n");
        text
    }
}
/// The namespace of refs by which git shows another object in the place of one.
pub const REPLACED: &str = "refs/replace/";

/// Whether a repository may have refs in a namespace, read from its files. Where git alone can read the refs, the answer is yes.
#[must_use]
pub fn may_have_refs_below(common_dir: &Path, namespace: &str) -> bool {
    let packed = || fs::read(common_dir.join("packed-refs")).is_ok_and(|refs| memchr::memmem::find(&refs, namespace.as_bytes()).is_some());
    common_dir.join(namespace).exists() || common_dir.join("reftable").exists() || packed()
}
