//! What differs between two trees, found without a process: only the trees on the way to a difference are read.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::{Oid, PathChange, Repo};

const KIND: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;

impl Repo {
    /// What differs between two trees, or the trees of two commits.
    ///
    /// # Errors
    /// If git fails.
    pub async fn diff_trees(&self, from: &Oid, to: &Oid) -> Result<Vec<PathChange>> {
        if from == to {
            return Ok(Vec::new());
        }
        match self.walk(from, to).await {
            Ok(changes) => Ok(changes),
            // Whatever is wrong with the git that stays, a new one does the same and has the better words.
            Err(_) => self.diff_trees_anew(from, to).await,
        }
    }

    async fn walk(&self, from: &Oid, to: &Oid) -> Result<Vec<PathChange>> {
        let nothing = from.nothing();
        let top = |oid: &Oid| Some(format!("{oid}^{{tree}}"));
        let mut pairs = vec![Pair { dir: Vec::new(), old: top(from), new: top(to) }];
        let mut changes = Vec::new();
        while !pairs.is_empty() {
            let names: Vec<String> = pairs.iter().flat_map(|pair| [&pair.old, &pair.new]).flatten().cloned().collect();
            let mut trees = self.git.trees(&names).await?.into_iter();
            let mut below = Vec::new();
            for pair in pairs {
                let mut read = |name: &Option<String>| match name {
                    Some(name) => trees.next().flatten().with_context(|| format!("there is no tree {name}")),
                    None => Ok(Vec::new()),
                };
                let (old, new) = (read(&pair.old)?, read(&pair.new)?);
                let (old, new) = (entries(&old, &nothing)?, entries(&new, &nothing)?);
                compare(&pair.dir, &old, &new, &nothing, &mut changes, &mut below);
            }
            pairs = below;
        }
        // The order of git, in which a directory stands where its path with a slash behind it does.
        changes.sort_by(|one: &PathChange, other| one.path.as_os_str().as_bytes().cmp(other.path.as_os_str().as_bytes()));
        Ok(changes)
    }
}

/// Two trees of the same place; one of them may not be there.
struct Pair {
    dir: Vec<u8>,
    old: Option<String>,
    new: Option<String>,
}

#[derive(Clone, PartialEq, Eq)]
struct Entry<'a> {
    name: &'a [u8],
    mode: u32,
    oid: &'a [u8],
}

impl Entry<'_> {
    fn is_directory(&self) -> bool {
        self.mode & KIND == DIRECTORY
    }

    /// Directories sort as if their names had a slash behind them; a file and a directory of one name are two things.
    fn key(&self) -> (&[u8], bool) {
        (self.name, self.is_directory())
    }
}

fn entries<'a>(tree: &'a [u8], nothing: &Oid) -> Result<Vec<Entry<'a>>> {
    let length = nothing.as_str().len() / 2;
    let mut rest = tree;
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let (Some(space), Some(end)) = (memchr::memchr(b' ', rest), memchr::memchr(0, rest)) else { bail!("a damaged tree") };
        let oid = rest.get(end + 1..end + 1 + length).filter(|_| space < end).context("a damaged tree")?;
        let mode = u32::from_str_radix(std::str::from_utf8(&rest[..space])?, 8)?;
        entries.push(Entry { name: &rest[space + 1..end], mode: canonical(mode), oid });
        rest = &rest[end + 1 + length..];
    }
    entries.sort_by(|one, other| one.key().cmp(&other.key()));
    Ok(entries)
}

/// Old trees have modes that mean the same as one of the few that git knows.
fn canonical(mode: u32) -> u32 {
    match mode & KIND {
        0o100_000 if mode & 0o100 != 0 => 0o100_755,
        0o100_000 => 0o100_644,
        kind @ (0o120_000 | DIRECTORY) => kind,
        _ => 0o160_000,
    }
}

fn compare(dir: &[u8], old: &[Entry<'_>], new: &[Entry<'_>], nothing: &Oid, changes: &mut Vec<PathChange>, below: &mut Vec<Pair>) {
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    loop {
        let (was, is) = match (old.peek(), new.peek()) {
            (None, None) => return,
            (Some(one), Some(other)) if one.key() == other.key() => (old.next(), new.next()),
            (Some(one), Some(other)) if one.key() < other.key() => (old.next(), None),
            (Some(_), None) => (old.next(), None),
            (_, Some(_)) => (None, new.next()),
        };
        if was == is {
            continue;
        }
        let Some(either) = was.or(is) else { return };
        let path = [dir, either.name].concat();
        if either.is_directory() {
            let id = |entry: Option<&Entry<'_>>| entry.map(|entry| Oid::from_bytes(entry.oid).to_string());
            below.push(Pair { dir: [&path, &b"/"[..]].concat(), old: id(was), new: id(is) });
            continue;
        }
        let (old_mode, new_mode) = (was.map_or(0, |entry| entry.mode), is.map_or(0, |entry| entry.mode));
        let status = match (was, is) {
            (None, _) => 'A',
            (_, None) => 'D',
            _ if old_mode & KIND != new_mode & KIND => 'T',
            _ => 'M',
        };
        let oid = |entry: Option<&Entry<'_>>| entry.map_or_else(|| nothing.clone(), |entry| Oid::from_bytes(entry.oid));
        let path = PathBuf::from(OsString::from_vec(path));
        changes.push(PathChange { path, status, old_mode, new_mode, old_oid: oid(was), new_oid: oid(is) });
    }
}
