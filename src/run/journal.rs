//! The journal: one event a line, appended and synced before its effect, replayed line by line.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;

use super::{Event, Record, RunState};

/// A longer line is no event of ours.
const LONGEST_LINE: u64 = 16 * 1024 * 1024;

/// A journal that can be appended to.
#[derive(Debug)]
pub struct Journal {
    file: Arc<File>,
    path: PathBuf,
    seq: u64,
    /// Something was written that may not be on the disk yet.
    ahead: bool,
}

impl Journal {
    /// Creates the journal of a new run; its directory must exist.
    ///
    /// # Errors
    /// If the file exists or cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path);
        let file = file.with_context(|| format!("cannot create {}", path.display()))?;
        if let Some(dir) = path.parent() {
            sync_dir(dir)?;
        }
        Ok(Journal { file: Arc::new(file), path: path.to_owned(), seq: 0, ahead: false })
    }

    /// Opens a journal, replays it, and cuts off a last line that a crash has torn.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged before its last line.
    pub fn open(path: &Path) -> Result<(Self, RunState)> {
        let mut state = RunState::default();
        let mut seq = 0;
        let good = replay(path, |record| {
            state.apply(&record.event);
            seq = record.seq;
        })?;
        let file = OpenOptions::new().append(true).open(path).with_context(|| format!("cannot open {}", path.display()))?;
        if file.metadata()?.len() > good {
            file.set_len(good)?;
            file.sync_data()?;
        }
        Ok((Journal { file: Arc::new(file), path: path.to_owned(), seq, ahead: false }, state))
    }

    /// Appends an event; when this returns, it is on the disk.
    ///
    /// # Errors
    /// If it cannot be written.
    pub async fn append(&mut self, event: Event) -> Result<Record> {
        let record = self.note(event)?;
        self.sync().await?;
        Ok(record)
    }

    /// Appends an event that is read again after a kill, but may be lost with the power until [`Journal::sync`].
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn note(&mut self, event: Event) -> Result<Record> {
        let record = Record { seq: self.seq + 1, at: Timestamp::now(), event };
        let mut line = serde_json::to_vec(&record)?;
        line.push(b'\n');
        (&*self.file).write_all(&line).with_context(|| format!("cannot write to {}", self.path.display()))?;
        self.ahead = true;
        self.seq += 1;
        Ok(record)
    }

    /// When this returns, everything that was appended is on the disk.
    ///
    /// # Errors
    /// If it cannot be written.
    pub async fn sync(&mut self) -> Result<()> {
        if self.ahead {
            let file = Arc::clone(&self.file);
            let synced = tokio::task::spawn_blocking(move || file.sync_data());
            synced.await?.with_context(|| format!("cannot write to {}", self.path.display()))?;
            self.ahead = false;
        }
        Ok(())
    }
}

/// Hands every event of a journal to `each`; gives the length of what is whole, without a torn last line.
///
/// # Errors
/// If the file cannot be read, or a line before the last one is no event.
pub fn replay(path: &Path, mut each: impl FnMut(&Record)) -> Result<u64> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let (mut good, mut number) = (0, 0);
    loop {
        line.clear();
        let count = io::Read::take(&mut reader, LONGEST_LINE).read_until(b'\n', &mut line)? as u64;
        number += 1;
        if !line.ends_with(b"\n") {
            // What goes on behind the limit is no torn line, and events may follow it.
            ensure!(count < LONGEST_LINE, "{}:{number}: this line is too long for an event", path.display());
            break;
        }
        match serde_json::from_slice::<Record>(&line) {
            Ok(record) => each(&record),
            // A torn write leaves zeros, in its last line or with more lines behind it; what was synced has none before it.
            Err(_) if line.contains(&0) || is_last(&mut reader)? => break,
            Err(error) => bail!("{}:{number}: this is not an event: {error}", path.display()),
        }
        good += count;
    }
    Ok(good)
}

/// A journal that somebody else is writing, read as it grows.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    good: u64,
}

impl Follower {
    /// From the first event on.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Follower { path, good: 0 }
    }

    /// Hands every event to `each` that has been added since the last time and is whole.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn more(&mut self, mut each: impl FnMut(&Record)) -> Result<()> {
        let mut file = File::open(&self.path).with_context(|| format!("cannot open {}", self.path.display()))?;
        file.seek(SeekFrom::Start(self.good))?;
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let count = io::Read::take(&mut reader, LONGEST_LINE).read_until(b'\n', &mut line)? as u64;
            match serde_json::from_slice::<Record>(&line) {
                Ok(record) if line.ends_with(b"\n") => each(&record),
                // It is being written, or its writer has died; the next one cuts it off.
                _ => return Ok(()),
            }
            self.good += count;
        }
    }
}

fn is_last(reader: &mut BufReader<File>) -> io::Result<bool> {
    let at = reader.stream_position()?;
    Ok(reader.seek(SeekFrom::End(0))? == at)
}

/// Makes a new directory entry survive a crash.
pub(super) fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).with_context(|| format!("cannot sync {}", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_behind_a_hole_is_cut_off_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let event = "{\"seq\":1,\"at\":\"2026-01-01T00:00:00Z\",\"event\":\"run-resumed\"}\n";
        std::fs::write(&path, format!("{event}{{\"seq\":2,\0\0\0\"}}\n{event}{event}")).unwrap();
        Journal::open(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), event);
    }

    #[test]
    fn an_endless_line_is_an_error_and_nothing_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let event = "{\"seq\":1,\"at\":\"2026-01-01T00:00:00Z\",\"event\":\"run-resumed\"}\n";
        let length = usize::try_from(LONGEST_LINE).unwrap() + 1;
        std::fs::write(&path, format!("{event}{}\n{event}", "x".repeat(length))).unwrap();
        let before = path.metadata().unwrap().len();
        let error = Journal::open(&path).unwrap_err().to_string();
        assert!(error.ends_with("journal.jsonl:2: this line is too long for an event"), "{error}");
        assert_eq!(path.metadata().unwrap().len(), before);
    }
}
