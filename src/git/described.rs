//! Lists refs with the parent and the subject of their commits.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::{Oid, PathChange, Repo};

/// A ref and the commit that it points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedRef {
    /// The ref's full name.
    pub name: String,
    /// The object that it points to.
    pub oid: Oid,
    /// The commit's first parent.
    pub parent: Option<Oid>,
    /// The first line of the commit message.
    pub subject: String,
}

impl Repo {
    /// The refs below a prefix; numbers in their names are sorted numerically.
    pub async fn described_refs(&self, prefix: &str) -> Result<Vec<DescribedRef>> {
        let format = "--format=%(refname)%00%(objectname)%00%(parent)%00%(subject)";
        let output = self.git.call(["for-each-ref", "--sort=version:refname", format, prefix]).working().output().await?;
        String::from_utf8_lossy(&output).lines().map(parse).collect()
    }

    /// Every file of a commit, as an addition.
    pub async fn files_of(&self, commit: &Oid) -> Result<Vec<PathChange>> {
        let output = self.git.call(["ls-tree", "-r", "-z", commit.as_str()]).working().output().await?;
        let entries = output.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
        let file = |entry: &[u8]| {
            let tab = entry.iter().position(|byte| *byte == b'\t')?;
            let mode = u32::from_str_radix(std::str::from_utf8(entry.get(..6)?).ok()?, 8).ok()?;
            let path = PathBuf::from(OsStr::from_bytes(&entry[tab + 1..]));
            let oid: Oid = std::str::from_utf8(entry.get(..tab)?).ok()?.rsplit(' ').next()?.parse().ok()?;
            let nothing = oid.as_str().replace(|_| true, "0").parse().ok()?;
            Some(PathChange { path, status: 'A', old_mode: 0, new_mode: mode, old_oid: nothing, new_oid: oid })
        };
        Ok(entries.filter_map(file).collect())
    }
}

fn parse(line: &str) -> Result<DescribedRef> {
    let fields: Vec<&str> = line.split('\0').collect();
    let [name, oid, parents, subject] = fields.as_slice() else { anyhow::bail!("git for-each-ref answered in an unknown form: {line}") };
    let parent = parents.split(' ').next().filter(|parent| !parent.is_empty());
    let parent = parent.map(str::parse).transpose().context("git for-each-ref answered in an unknown form")?;
    Ok(DescribedRef { name: (*name).to_owned(), oid: oid.parse()?, parent, subject: (*subject).to_owned() })
}
