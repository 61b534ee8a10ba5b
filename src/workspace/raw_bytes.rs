//! Saves and restores what a tree object cannot hold: empty directories, and raw bytes where a checkout would write different
//! ones.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::baseline::is_attributes;
use super::tree_scan::TreeScan;
use super::{Workspace, nul_records};
use crate::git::{Conversion, LineEnds, PathChange, attributes_convert};
use crate::{safe_read, safe_write};

/// The size limits of copies: for one file, and for all copies together.
pub(super) const SMALL: u64 = 1024 * 1024;
pub(super) const TOGETHER: u64 = 32 * 1024 * 1024;

/// The version of a file whose raw bytes are saved.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Version {
    path: PathBuf,
    oid: String,
}

impl Version {
    fn after(change: &PathChange) -> Self {
        Version { path: change.path.clone(), oid: change.new_oid.to_string() }
    }
}

/// How to restore the bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bytes {
    /// Write what a checkout writes, but with these line endings.
    With(LineEnds),
    /// Copy them from the saved copy with this number.
    Copied(usize),
    /// Write what a checkout writes, because there was no room for a copy.
    Uncopied,
}

/// Adds files to the saved raw bytes.
struct Collector<'a> {
    workspace: &'a Workspace,
    record: Vec<u8>,
    next: usize,
    room: u64,
}

impl Workspace {
    fn raw_bytes_dir(&self) -> PathBuf {
        self.dir.join("raw-bytes")
    }

    /// A file that exists while git may convert content between the work tree and its objects.
    fn converting_mark(&self) -> PathBuf {
        self.raw_bytes_dir().join("converting")
    }

    /// Makes our git calls use the conversion settings from the start of the run, whatever an agent changes in the configuration.
    pub fn pin_conversion(&mut self) {
        let settings = fs::read_to_string(self.raw_bytes_dir().join("settings")).unwrap_or_default();
        self.repo.git = self.repo.git.clone().with_config(settings.lines().map(str::to_owned));
    }

    /// Saves what the initial commit cannot hold. `changes` are the user's uncommitted files.
    pub(super) async fn keep_raw_bytes(&self, changes: &[PathChange], scan: &TreeScan) -> Result<()> {
        let dir = self.raw_bytes_dir();
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("empty"), nul_records::joined(scan.empty.iter().map(|path| nul_records::field(path))))?;
        self.keep_modes(&scan.modes)?;
        let conversion = self.repo.conversion().await?;
        fs::write(dir.join("settings"), conversion.settings().join("\n"))?;
        // An interrupted start may have left entries in the file.
        fs::write(dir.join("files"), "")?;
        if !scan.converting && !conversion.is_possible() {
            return Ok(());
        }
        safe_write::draft(&self.converting_mark(), b"")?;
        let mut collector = Collector { workspace: self, record: vec![0, 0], next: 0, room: TOGETHER };
        collector.add_copies(changes)?;
        collector.add_unlike(conversion).await?;
        collector.save()
    }

    /// Whether git may convert content between the work tree and its objects.
    pub(super) fn is_converting(&self) -> bool {
        self.converting_mark().exists()
    }

    /// Saves the bytes of files that have changed since, so that a later rollback restores them as they are now.
    pub(crate) async fn keep_more_raw_bytes(&self, changes: &[PathChange]) -> Result<()> {
        self.keep_more_modes(changes)?;
        let ruled = changes.iter().any(is_attributes);
        let convert = |change: &PathChange| {
            is_attributes(change) && safe_read::bytes(&self.repo.place.top.join(&change.path)).is_ok_and(|text| attributes_convert(&text))
        };
        if ruled && changes.iter().any(convert) {
            fs::create_dir_all(self.raw_bytes_dir())?;
            safe_write::draft(&self.converting_mark(), b"")?;
        }
        if changes.is_empty() || !self.is_converting() {
            return Ok(());
        }
        let copies = fs::read_dir(self.raw_bytes_dir())?.flatten().filter_map(|entry| {
            let number: usize = entry.file_name().to_str()?.parse().ok()?;
            Some((number, entry.metadata().ok()?.len()))
        });
        let (next, used) = copies.fold((0, 0), |(next, used), (number, length)| (next.max(number + 1), used + length));
        let mut collector = Collector { workspace: self, record: vec![0, 0], next, room: TOGETHER.saturating_sub(used) };
        collector.add_copies(changes)?;
        if ruled {
            // With changed attributes, a checkout may write different bytes for files that have not changed.
            collector.add_unlike(self.repo.conversion().await?).await?;
        }
        collector.save()
    }

    /// After files were restored from trees: restores the original bytes of those whose raw bytes are saved.
    pub(crate) async fn restore_raw_bytes(&self, restored: &[PathChange]) -> Result<()> {
        let kept_bytes = self.kept_bytes();
        let mut rewritten = Vec::new();
        for change in restored.iter().filter(|change| change.new_mode != 0) {
            let version = Version::after(change);
            let Some(kept) = kept_bytes.get(&version) else { continue };
            let path = self.repo.place.top.join(&version.path);
            let bytes = match kept {
                Bytes::Copied(number) => fs::read(self.raw_bytes_dir().join(number.to_string()))?,
                Bytes::With(ends) => ends.applied(&fs::read(&path)?),
                Bytes::Uncopied => continue,
            };
            fs::write(&path, bytes).with_context(|| format!("cannot restore {}", path.display()))?;
            rewritten.push(version.path);
        }
        if rewritten.is_empty() {
            return Ok(());
        }
        if self.is_unconverted() {
            // To refresh the index, git would have to run the filter that failed. The bytes on disk are right in any case.
            return Ok(());
        }
        // Without this, git would consider a file modified whose length differs from the one in the index.
        self.repo.record(&self.private_index(), &rewritten).await
    }

    /// The files, among those just written without a filter, that now contain what git stores, because their bytes were not
    /// copied.
    pub(super) fn not_copied(&self, written: &[PathChange]) -> Vec<PathBuf> {
        let kept_bytes = self.kept_bytes();
        let there = written.iter().filter(|change| change.new_mode != 0).map(Version::after);
        there.filter(|version| kept_bytes.get(version) == Some(&Bytes::Uncopied)).map(|version| version.path).collect()
    }

    /// Recreates the directories that were empty at the start, unless a file or a symbolic link has taken their place.
    pub(super) fn restore_empty_directories(&self) {
        let top = &self.repo.place.top;
        for path in nul_records::fields(&fs::read(self.raw_bytes_dir().join("empty")).unwrap_or_default()).filter(|path| !path.is_empty()) {
            let path = nul_records::path(path);
            let leads_out = |dir: &Path| top.join(dir).symlink_metadata().is_ok_and(|meta| !meta.is_dir());
            if !path.ancestors().any(leads_out) {
                let _ = fs::create_dir_all(top.join(&path));
            }
        }
    }

    /// Files whose content can change without changing size or object id, because of a filter.
    pub(super) fn filtered(&self) -> Vec<PathBuf> {
        let filtered = self.kept_bytes().into_iter().filter(|(_, bytes)| !matches!(bytes, Bytes::With(_)));
        filtered.map(|(version, _)| version.path).collect()
    }

    fn kept_bytes(&self) -> HashMap<Version, Bytes> {
        let record = fs::read(self.raw_bytes_dir().join("files")).unwrap_or_default();
        let fields: Vec<&[u8]> = nul_records::fields(&record).collect();
        let parse = |fields: &[&[u8]]| {
            let [oid, bytes, path] = fields else { return None };
            let version = Version { path: nul_records::path(path), oid: String::from_utf8_lossy(oid).into_owned() };
            Some((version, Bytes::parse(std::str::from_utf8(bytes).ok()?)?))
        };
        // Each record ends with an empty field, so that an incomplete record does not damage the next one.
        fields.split(|field| field.is_empty()).filter_map(parse).collect()
    }
}

impl Collector<'_> {
    fn add_copies(&mut self, changes: &[PathChange]) -> Result<()> {
        versions(changes).try_for_each(|version| self.add_copy(&version))
    }

    /// Adds every file of our index for which a checkout would write different bytes.
    async fn add_unlike(&mut self, conversion: Conversion) -> Result<()> {
        for file in self.workspace.repo.unlike_checkout(&self.workspace.private_index(), conversion).await? {
            let version = Version { path: file.path, oid: file.oid.to_string() };
            match file.ends {
                Some(ends) => self.add(&version, Bytes::With(ends)),
                None => self.add_copy(&version)?,
            }
        }
        Ok(())
    }

    /// Adds a copy of a file, if there is room.
    fn add_copy(&mut self, version: &Version) -> Result<()> {
        let path = self.workspace.repo.place.top.join(&version.path);
        let Ok(meta) = path.symlink_metadata() else { return Ok(()) };
        if !meta.is_file() {
            return Ok(());
        }
        if meta.len() > SMALL.min(self.room) {
            self.add(version, Bytes::Uncopied);
            return Ok(());
        }
        fs::copy(&path, self.workspace.raw_bytes_dir().join(self.next.to_string()))
            .with_context(|| format!("cannot copy {}", path.display()))?;
        self.add(version, Bytes::Copied(self.next));
        self.next += 1;
        self.room -= meta.len();
        Ok(())
    }

    fn add(&mut self, version: &Version, bytes: Bytes) {
        let bytes = bytes.to_string();
        self.record.extend(nul_records::joined([version.oid.as_bytes(), bytes.as_bytes(), nul_records::field(&version.path), b""]));
    }

    fn save(self) -> Result<()> {
        let file = self.workspace.raw_bytes_dir().join("files");
        Ok(OpenOptions::new().append(true).create(true).open(file)?.write_all(&self.record)?)
    }
}

impl Bytes {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "lf" => Some(Bytes::With(LineEnds::Lf)),
            "crlf" => Some(Bytes::With(LineEnds::CrLf)),
            "uncopied" => Some(Bytes::Uncopied),
            number => number.parse().ok().map(Bytes::Copied),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bytes::With(LineEnds::Lf) => f.write_str("lf"),
            Bytes::With(LineEnds::CrLf) => f.write_str("crlf"),
            Bytes::Copied(number) => write!(f, "{number}"),
            Bytes::Uncopied => f.write_str("uncopied"),
        }
    }
}

/// The new versions of regular files.
fn versions(changes: &[PathChange]) -> impl Iterator<Item = Version> {
    changes.iter().filter(|change| change.is_file()).map(Version::after)
}
