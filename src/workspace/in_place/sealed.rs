//! Protects the records about an attempt against an agent that writes into them: by a copy outside of the repository, and by the
//! stamp of the private index.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

use crate::git::stale;
use crate::stamp::Stamp;
use crate::vault::Vault;
use crate::workspace::Workspace;

const GUARD: &str = "guard";
/// The file that says which records the copy is valid for. It is overwritten in place with one write, because creating a new file
/// for every attempt takes longer than writing its content.
const SEAL: &str = "seal";
const SEAL_LENGTH: usize = 128;
const DURING: &str = "during";
const AFTER: &str = "after";
/// The records from which configuration, hooks and the change file are restored.
const STEERING: [&str; 2] = ["git-dir", "steering"];
const ORIGINAL_INDEX: &str = "index.orig";
/// Stands in place of the digest if the repository had no index.
const NONE: &str = "none";

/// Which of the records the copy is valid for.
enum Seal {
    /// None: the records are being written.
    Broken,
    /// All records. Holds the stamp of the private index when the attempt began.
    During(String),
    /// Only those in [`STEERING`]: the attempt is over, and git-ralph does not write to them until it records the next one.
    After,
}

impl Seal {
    fn of(vault: &Vault) -> Self {
        let text = vault.read(SEAL).and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        match (text.trim_end(), text.trim_end().strip_prefix(DURING)) {
            (_, Some(index)) => Seal::During(index.trim().to_owned()),
            (AFTER, None) => Seal::After,
            _ => Seal::Broken,
        }
    }

    fn write(&self, vault: &Vault) -> io::Result<()> {
        let text = match self {
            Seal::Broken => String::new(),
            Seal::During(index) => format!("{DURING} {index}"),
            Seal::After => AFTER.to_owned(),
        };
        vault.open(SEAL)?.write_all_at(format!("{text:SEAL_LENGTH$}").as_bytes(), 0)
    }
}

/// What this process knows about the records, and the vault that holds their copy.
#[derive(Clone, Debug, Default)]
pub(in crate::workspace) struct Sealed {
    vault: Option<Vault>,
    known: Arc<Mutex<Known>>,
}

/// Everything in a directory by relative path; directories have no stamp.
type Records = BTreeMap<PathBuf, Option<Stamp>>;

#[derive(Debug, Default)]
struct Known {
    /// The stamps of the records when they were last copied.
    records: Option<Records>,
    /// The stamp of the private index when the attempt began.
    index: Option<String>,
    /// Whether changed records had to be restored.
    restored: bool,
    /// Whether the git directory and the records have been repaired, and no agent or gate has run since.
    repaired: bool,
}

impl Sealed {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of our copy of the user's index from before the run.
pub(crate) enum OriginalIndex {
    /// The copy is unchanged.
    Whole,
    /// The copy exists, but no digest is recorded to verify it.
    Unverified,
    /// The repository had no index.
    None,
    /// The copy is missing or was modified.
    Spoilt,
}

impl Workspace {
    /// The same workspace, with a vault for files that an agent must not write.
    #[must_use]
    pub fn with_vault(mut self, vault: Option<Vault>) -> Self {
        self.sealed.vault = vault.filter(Vault::exists);
        self
    }

    /// Notes that repairs may be needed again: an agent or a gate is about to run, or files that one has written were restored.
    pub(crate) fn expect_foreign_writes(&self) {
        self.sealed.known().repaired = false;
    }

    /// Notes that the git directory and the records have been repaired.
    pub(super) fn note_repaired(&self) {
        self.sealed.known().repaired = true;
    }

    /// Whether the git directory and the records are still known to be in order.
    pub(super) fn is_repaired(&self) -> bool {
        self.sealed.known().repaired
    }

    /// The path of a file in the vault, outside of the repository, if the run has a vault.
    pub(in crate::workspace) fn in_vault(&self, name: &str) -> Option<PathBuf> {
        self.sealed.vault.as_ref().map(|vault| vault.path(name))
    }

    /// Invalidates the copy of the records, because they are about to be rewritten for the next attempt.
    pub(super) fn break_seal(&self) -> Result<()> {
        let Some(vault) = &self.sealed.vault else { return Ok(()) };
        match Seal::Broken.write(vault) {
            // Without a vault there is no copy to invalidate.
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).context("cannot write to the state directory"),
            _ => Ok(()),
        }
    }

    /// Copies the records, links objects, and notes the stamp of the private index, right before an agent starts. Until they are
    /// unsealed, only the agent can have changed them.
    pub(crate) fn seal(&self) -> Result<()> {
        self.expect_foreign_writes();
        self.link_objects();
        let (guard, index) = (self.guard_dir(), stamp(&self.private_index()));
        let mut known = self.sealed.known();
        known.index = Some(index.clone());
        let records = records(&guard);
        let Some(vault) = &self.sealed.vault else { return Ok(()) };
        let last = known.records.take();
        self.copy_records(last.as_ref(), &records, &vault.path(GUARD)).context("cannot write to the state directory")?;
        known.records = Some(records);
        // Written last, so that an interrupted copy is not valid for anything.
        Seal::During(index).write(vault).context("cannot write to the state directory")
    }

    /// Copies the records that changed since the last copy, or all of them if this process has not copied any yet.
    fn copy_records(&self, last: Option<&Records>, now: &Records, to: &Path) -> io::Result<()> {
        let guard = self.guard_dir();
        let Some(last) = last else { return self.mirror.copy(&guard, to) };
        let gone = last.keys().filter(|path| !now.contains_key(*path));
        let changed = now.iter().filter(|(path, stamp)| last.get(*path) != Some(*stamp)).map(|(path, _)| path);
        gone.chain(changed).try_for_each(|path| self.mirror.replace_entry(&guard.join(path), &to.join(path)))
    }

    /// Restores records that were modified since they were sealed. Repeating it is harmless.
    pub(crate) fn restore_records(&self) -> Result<()> {
        let Some(vault) = &self.sealed.vault else { return Ok(()) };
        let guard = self.guard_dir();
        let mut known = self.sealed.known();
        if known.repaired {
            return Ok(());
        }
        let restore = |copy: &Path, records: &Path| -> Result<bool> {
            let differs = copy.exists() && !self.mirror.same(copy, records);
            if differs {
                self.mirror.copy(copy, records).with_context(|| format!("cannot restore {}", records.display()))?;
            }
            Ok(differs)
        };
        match Seal::of(vault) {
            Seal::During(_) if known.records.is_some() && known.records == Some(records(&guard)) => {}
            Seal::During(_) => known.restored |= restore(&vault.path(GUARD), &guard)?,
            Seal::After => {
                for name in STEERING {
                    known.restored |= restore(&vault.path(GUARD).join(name), &guard.join(name))?;
                }
            }
            Seal::Broken => {}
        }
        Ok(())
    }

    /// Restores modified records after an attempt, and moves the private index aside if it was modified.
    pub(in crate::workspace) fn unseal(&self) -> Result<()> {
        self.restore_loose_objects().context("cannot restore deleted objects")?;
        self.restore_records()?;
        let index = self.private_index();
        let vault = self.sealed.vault.as_ref();
        let outside = || if let Seal::During(index) = Seal::of(vault?) { Some(index) } else { None };
        // Taken out, because after the attempt git-ralph itself writes to the index.
        let Some(was) = self.sealed.known().index.take().or_else(outside) else { return Ok(()) };
        if was != stamp(&index) && index.symlink_metadata().is_ok() {
            stale::move_aside(&index, &self.moved_dir("index"))?;
        }
        if let Some(vault) = vault {
            // An agent may have deleted the vault; the next attempt reports that.
            let _ = Seal::After.write(vault);
        }
        Ok(())
    }

    /// Whether records had to be restored since the last call.
    pub(super) fn take_restored(&self) -> bool {
        std::mem::take(&mut self.sealed.known().restored)
    }

    /// Stores the digest of the user's index from before the run.
    pub(in crate::workspace) fn seal_original_index(&self) -> Result<()> {
        let Some(vault) = &self.sealed.vault else { return Ok(()) };
        let digest = digest(&self.original_index()).unwrap_or_else(|| NONE.to_owned());
        vault.write(ORIGINAL_INDEX, digest.as_bytes()).context("cannot write to the state directory")
    }

    /// The state of our copy of the user's index from before the run.
    pub(crate) fn original_index_now(&self) -> OriginalIndex {
        let recorded = self.sealed.vault.as_ref().and_then(|vault| String::from_utf8(vault.read(ORIGINAL_INDEX)?).ok());
        match (recorded.as_deref(), digest(&self.original_index())) {
            (Some(NONE), _) | (None, None) => OriginalIndex::None,
            (Some(recorded), Some(digest)) if recorded == digest => OriginalIndex::Whole,
            (None, Some(_)) => OriginalIndex::Unverified,
            (Some(_), _) => OriginalIndex::Spoilt,
        }
    }
}

fn digest(path: &Path) -> Option<String> {
    if !path.symlink_metadata().ok()?.is_file() {
        return None;
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(fs::File::open(path).ok()?).ok()?;
    Some(hasher.finalize().to_hex().to_string())
}

/// The stamp of a file as text; empty if there is no file.
fn stamp(path: &Path) -> String {
    Stamp::of(path).map(|stamp| stamp.to_string()).unwrap_or_default()
}

fn records(dir: &Path) -> Records {
    let mut records = Records::new();
    let mut dirs = vec![PathBuf::new()];
    while let Some(inner) = dirs.pop() {
        for entry in fs::read_dir(dir.join(&inner)).into_iter().flatten().flatten() {
            let path = inner.join(entry.file_name());
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let stamp = if is_dir { None } else { Stamp::of(&entry.path()) };
            records.insert(path.clone(), stamp);
            dirs.extend(is_dir.then_some(path));
        }
    }
    records
}
