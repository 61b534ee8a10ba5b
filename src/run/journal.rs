//! The journal: one event per line, appended and synced before git-ralph acts on it, and replayed line by line.
//!
//! An agent can write to the file. So the process that appends compares the file with its own copy, and the next process accepts only the
//! lines that the chain verifies.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use jiff::Timestamp;

use super::chain::{Chain, Mac, take_mac};
use super::{Event, Record, RunState};
use crate::free_name::free_name;
use crate::safe_read;
use crate::stamp::Stamp;
use crate::vault::Vault;
use crate::workspace::{Doubt, Notice};

/// Longer lines cannot be events that git-ralph wrote.
const LONGEST_LINE: u64 = 16 * 1024 * 1024;
/// The file in the vault with the number of the journal's last line.
const TIP: &str = "tip";
/// The file in the vault with a copy of the lines up to the end of the start.
const START: &str = "start.jsonl";

/// A journal that can be appended to.
#[derive(Debug)]
pub struct Journal {
    file: Arc<File>,
    path: PathBuf,
    seq: u64,
    /// Whether something was written that may not be on the disk yet.
    ahead: bool,
    chain: Option<Chain>,
    vault: Option<Vault>,
    /// The open vault file for the number of the last line.
    tip: Option<File>,
    /// The whole content of the file, as this process wrote or accepted it.
    bytes: Vec<u8>,
    /// The stamp of the file when it was last known to have exactly this content.
    stamp: Option<Stamp>,
    notices: Vec<Notice>,
}

/// The result of opening a journal.
#[derive(Debug)]
pub struct OpenedJournal {
    /// The journal, ready to append to.
    pub journal: Journal,
    /// The fold of its events.
    pub state: RunState,
    /// Why the journal is not reliable enough to land an attempt that is under way, if it is not.
    pub doubt: Option<Doubt>,
}

impl Journal {
    /// Creates the journal of a new run. Its directory must exist.
    ///
    /// # Errors
    /// If the file exists or cannot be written.
    pub fn create(path: &Path, vault: Option<Vault>) -> Result<Self> {
        let file = create(path)?;
        if let Some(dir) = path.parent() {
            sync_dir(dir)?;
        }
        // If the vault cannot be created, the run has no chain.
        let key = vault.as_ref().and_then(|vault| vault.create().ok());
        let vault = vault.filter(|_| key.is_some());
        Ok(Journal::over(file, path, Vec::new(), 0, key.map(Chain::new), vault))
    }

    /// Opens a journal and replays the lines that can be trusted. A last line that a crash has torn is cut off. Other lines that are not
    /// trusted are saved in a file next to the journal.
    pub fn open(path: &Path, vault: Option<Vault>) -> Result<OpenedJournal> {
        let mut reading = Reading::of(path, vault.as_ref());
        let mut notices = Vec::new();
        if let Some(start) = reading.start_instead(vault.as_ref()) {
            let kept = aside(path)?;
            fs::rename(path, &kept).or_else(unless_missing).with_context(|| format!("cannot move {} aside", path.display()))?;
            create(path)?.write_all(&start)?;
            let kept = kept.symlink_metadata().is_ok().then(|| kept.display().to_string());
            notices.push(Notice::JournalDoubted { why: Doubt::Forged, kept });
            reading = Reading::of(path, vault.as_ref());
            reading.short = true;
        }
        let Reading { outcome, seq, bytes, chain, short, state, .. } = reading;
        let forged = outcome.with_context(|| format!("cannot read {}", path.display()))?;
        let file = OpenOptions::new().append(true).read(true).custom_flags(libc::O_NOFOLLOW).open(path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        if forged {
            let kept = keep_rest(&file, path, bytes.len() as u64)?;
            notices.push(Notice::JournalDoubted { why: Doubt::Forged, kept: Some(kept.display().to_string()) });
        }
        if file.metadata()?.len() > bytes.len() as u64 {
            file.set_len(bytes.len() as u64)?;
            file.sync_data()?;
        }
        let doubt = match (&chain, short) {
            (None, _) => Some(Doubt::NoKey),
            (Some(_), true) => Some(Doubt::Short),
            (Some(_), false) => None,
        };
        let vault = vault.filter(|_| chain.is_some());
        let mut journal = Journal::over(file, path, bytes, seq, chain, vault);
        journal.notices = notices;
        Ok(OpenedJournal { journal, state, doubt })
    }

    fn over(file: File, path: &Path, bytes: Vec<u8>, seq: u64, chain: Option<Chain>, vault: Option<Vault>) -> Self {
        let tip = vault.as_ref().and_then(|vault| vault.open(TIP).ok());
        let stamp = Stamp::of(path);
        Journal { file: Arc::new(file), path: path.to_owned(), seq, ahead: false, chain, vault, tip, bytes, stamp, notices: Vec::new() }
    }

    /// Appends an event and syncs it to the disk.
    pub async fn append(&mut self, event: Event) -> Result<Record> {
        let record = self.note(event)?;
        self.sync().await?;
        Ok(record)
    }

    /// Appends an event without syncing it. The event survives a kill of this process, but a power failure may lose it until
    /// [`Journal::sync`].
    pub fn note(&mut self, event: Event) -> Result<Record> {
        self.restore_if_changed()?;
        let record = Record { seq: self.seq + 1, at: Timestamp::now(), event };
        let json = serde_json::to_vec(&record)?;
        let line = match &mut self.chain {
            Some(chain) => chain.line(json),
            None => [&json[..], b"\n"].concat(),
        };
        (&*self.file).write_all(&line).with_context(|| format!("cannot write to {}", self.path.display()))?;
        self.bytes.extend(line);
        self.ahead = true;
        self.seq += 1;
        self.stamp = Stamp::of(&self.path);
        self.note_outside(&record.event);
        Ok(record)
    }

    /// Updates the vault's records about the journal. They are needed only for a damaged journal, so errors are ignored.
    fn note_outside(&self, event: &Event) {
        if let Some(tip) = &self.tip {
            let _ = tip.write_all_at(format!("{:020}\n", self.seq).as_bytes(), 0);
        }
        if let (Some(vault), Event::RunStarted { .. }) = (&self.vault, event) {
            let _ = vault.write(START, &self.bytes);
        }
    }

    /// The notices about the file since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// If the file is not what this process has written, saves the changed file under another name and writes the journal again.
    fn restore_if_changed(&mut self) -> Result<()> {
        let stamp = Stamp::of(&self.path);
        // If only the name of the file was deleted, the state backup links it again.
        if stamp == self.stamp || stamp.is_none() && self.file.metadata()?.nlink() > 0 {
            return Ok(());
        }
        if self.file.metadata().is_ok_and(|meta| Some(Stamp::from(&meta)) == stamp) && self.holds_our_bytes()? {
            self.stamp = stamp;
            return Ok(());
        }
        let kept = if stamp.is_some() {
            let kept = aside(&self.path)?;
            fs::rename(&self.path, &kept).with_context(|| format!("cannot move {} aside", self.path.display()))?;
            Some(kept.display().to_string())
        } else {
            None
        };
        if let Some(dir) = self.path.parent() {
            fs::create_dir_all(dir)?;
        }
        let file = create(&self.path)?;
        (&file).write_all(&self.bytes).with_context(|| format!("cannot write to {}", self.path.display()))?;
        self.file = Arc::new(file);
        self.ahead = true;
        self.stamp = Stamp::of(&self.path);
        self.notices.push(Notice::JournalDoubted { why: Doubt::Changed, kept });
        Ok(())
    }

    fn holds_our_bytes(&self) -> io::Result<bool> {
        if self.file.metadata()?.len() != self.bytes.len() as u64 {
            return Ok(false);
        }
        let mut found = vec![0; self.bytes.len()];
        self.file.read_exact_at(&mut found, 0)?;
        Ok(found == self.bytes)
    }

    /// Syncs all appended events to the disk.
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

/// The result of reading a journal, before it is opened for appending.
struct Reading {
    /// Whether a line was forged, or the error if the journal cannot be read.
    outcome: io::Result<bool>,
    seq: u64,
    /// The lines that are trusted.
    bytes: Vec<u8>,
    chain: Option<Chain>,
    /// Whether lines at the end are missing, according to the number in the vault.
    short: bool,
    state: RunState,
}

impl Reading {
    fn of(path: &Path, vault: Option<&Vault>) -> Self {
        let mut chain = vault.and_then(Vault::key).map(Chain::new);
        let (mut state, mut seq) = (RunState::default(), 0);
        let read = safe_read::open(path).and_then(|mut file| {
            let trusted = read_trusted(&file, chain.as_mut(), |record| {
                state.apply(&record.event);
                seq = record.seq;
            })?;
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(0))?;
            file.take(trusted.good).read_to_end(&mut bytes)?;
            Ok((trusted, bytes))
        });
        let (outcome, bytes, last) = match read {
            Ok((TrustedPart { forged, last, .. }, bytes)) => (Ok(forged), bytes, last),
            Err(error) => (Err(error), Vec::new(), None),
        };
        // The line after the last valid one is rejected, so the chain continues from the valid one.
        let chain = chain.map(|chain| chain.from(last));
        let short = vault.filter(|_| chain.is_some()).and_then(|vault| vault.read(TIP)).is_some_and(|tip| tip_of(&tip) > seq);
        Reading { outcome, seq, bytes, chain, short, state }
    }

    /// The lines of the start from the vault, if the journal no longer has them.
    fn start_instead(&self, vault: Option<&Vault>) -> Option<Vec<u8>> {
        if self.state.initial.is_some() { None } else { vault?.read(START) }
    }
}

/// Parses the number of the last line.
fn tip_of(text: &[u8]) -> u64 {
    String::from_utf8_lossy(text).trim().parse().unwrap_or(0)
}

/// The part of a journal that can be trusted.
struct TrustedPart {
    /// Its length in bytes.
    good: u64,
    /// Whether more lines follow that were not just torn by a crash.
    forged: bool,
    /// The digest of the last valid line.
    last: Option<Mac>,
}

/// Calls `each` with every event, up to the first line that is no event or that the chain does not verify.
fn read_trusted(file: &File, mut chain: Option<&mut Chain>, mut each: impl FnMut(&Record)) -> io::Result<TrustedPart> {
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let (mut good, mut last) = (0, None);
    loop {
        line.clear();
        let count = Read::take(&mut reader, LONGEST_LINE).read_until(b'\n', &mut line)? as u64;
        if !line.ends_with(b"\n") {
            return Ok(TrustedPart { good, forged: count == LONGEST_LINE, last });
        }
        // A torn write leaves zero bytes, in the last line or with more lines after it. Lines that were synced before have none.
        let torn = line.contains(&0);
        let mac = take_mac(&mut line);
        let is_next = chain.as_mut().is_none_or(|chain| chain.is_next(&line, mac.as_ref()));
        match serde_json::from_slice::<Record>(&line) {
            Ok(record) if is_next => each(&record),
            _ => return Ok(TrustedPart { good, forged: !torn, last }),
        }
        good += count;
        last = mac;
    }
}

/// Calls `each` with every event of a journal that can be trusted. Returns the length of these lines. If an agent has replaced the file by
/// a FIFO, this does not block.
pub fn replay(path: &Path, vault: Option<&Vault>, each: impl FnMut(&Record)) -> Result<u64> {
    let file = safe_read::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut chain = vault.and_then(Vault::key).map(Chain::new);
    Ok(read_trusted(&file, chain.as_mut(), each)?.good)
}

/// Calls `each` with the events of the start, if the vault has them. Returns whether it does.
pub(super) fn replay_start(vault: &Vault, mut each: impl FnMut(&Record)) -> bool {
    let Some(start) = vault.read(START) else { return false };
    for line in start.split_inclusive(|byte| *byte == b'\n') {
        let mut line = line.to_vec();
        take_mac(&mut line);
        if let Ok(record) = serde_json::from_slice::<Record>(&line) {
            each(&record);
        }
    }
    true
}

/// Reads a journal while another process appends to it.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    good: u64,
}

impl Follower {
    /// A follower that begins with the first event.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Follower { path, good: 0 }
    }

    /// Calls `each` with every complete event that was added since the last call.
    pub fn more(&mut self, mut each: impl FnMut(&Record)) -> Result<()> {
        let mut file = safe_read::open(&self.path).with_context(|| format!("cannot open {}", self.path.display()))?;
        file.seek(SeekFrom::Start(self.good))?;
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let count = Read::take(&mut reader, LONGEST_LINE).read_until(b'\n', &mut line)? as u64;
            match serde_json::from_slice::<Record>(&line) {
                Ok(record) if line.ends_with(b"\n") => each(&record),
                // The line is still being written, or its writer was killed. The next process cuts it off.
                _ => return Ok(()),
            }
            self.good += count;
        }
    }
}

fn create(path: &Path) -> Result<File> {
    let file = OpenOptions::new().append(true).read(true).create_new(true).mode(0o600).open(path);
    file.with_context(|| format!("cannot create {}", path.display()))
}

/// A free file name next to the journal.
fn aside(path: &Path) -> Result<PathBuf> {
    let name = path.file_name().context("a journal has a name")?.to_string_lossy().into_owned();
    let wanted = path.with_file_name(format!("{name}.disbelieved"));
    let numbered = |number| path.with_file_name(format!("{name}.disbelieved.{number}"));
    Ok(free_name(wanted, numbered, |path| path.symlink_metadata().is_ok()))
}

fn unless_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Copies everything after the first `good` bytes to a file next to the journal.
fn keep_rest(file: &File, path: &Path, good: u64) -> Result<PathBuf> {
    let kept = aside(path)?;
    let mut rest = create(&kept)?;
    let mut from = file;
    from.seek(SeekFrom::Start(good))?;
    io::copy(&mut from, &mut rest).with_context(|| format!("cannot write {}", kept.display()))?;
    rest.sync_all()?;
    Ok(kept)
}

/// Syncs a directory, so that a new entry survives a crash.
pub(super) fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).with_context(|| format!("cannot sync {}", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str = "{\"seq\":1,\"at\":\"2026-01-01T00:00:00Z\",\"event\":\"run-resumed\"}\n";

    #[test]
    fn lines_after_a_hole_are_cut_off_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        fs::write(&path, format!("{EVENT}{{\"seq\":2,\0\0\0\"}}\n{EVENT}{EVENT}")).unwrap();
        Journal::open(&path, None).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), EVENT);
    }

    #[test]
    fn an_endless_line_and_all_behind_it_are_kept_beside_the_journal() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let length = usize::try_from(LONGEST_LINE).unwrap() + 1;
        let rest = format!("{}\n{EVENT}", "x".repeat(length));
        fs::write(&path, format!("{EVENT}{rest}")).unwrap();
        let mut taken = Journal::open(&path, None).unwrap();
        let kept = dir.path().join("journal.jsonl.disbelieved");
        let notice = Notice::JournalDoubted { why: Doubt::Forged, kept: Some(kept.display().to_string()) };
        assert_eq!(taken.journal.take_notices(), [notice]);
        assert_eq!(fs::read_to_string(&path).unwrap(), EVENT);
        assert!(fs::read_to_string(kept).unwrap() == rest);
    }

    fn chained(dir: &Path) -> (PathBuf, Vault) {
        let (path, vault) = (dir.join("journal.jsonl"), Vault::new(&dir.join("vaults"), "work", 1));
        let mut journal = Journal::create(&path, Some(vault.clone())).unwrap();
        for _ in 0..3 {
            journal.note(Event::RunResumed {}).unwrap();
        }
        (path, vault)
    }

    #[test]
    fn a_line_that_the_chain_does_not_vouch_for_is_kept_beside_the_journal() {
        let dir = tempfile::tempdir().unwrap();
        let (path, vault) = chained(dir.path());
        let written = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{written}{EVENT}")).unwrap();
        let mut taken = Journal::open(&path, Some(vault.clone())).unwrap();
        assert_eq!((taken.journal.take_notices().len(), taken.doubt), (1, None));
        assert_eq!(fs::read_to_string(&path).unwrap(), written);
        taken.journal.note(Event::RunResumed {}).unwrap();
        let mut taken = Journal::open(&path, Some(vault)).unwrap();
        assert_eq!((taken.journal.take_notices(), taken.doubt), (Vec::new(), None), "the chain goes on");
    }

    #[test]
    fn a_journal_that_lost_its_last_lines_is_doubted() {
        let dir = tempfile::tempdir().unwrap();
        let (path, vault) = chained(dir.path());
        let written = fs::read_to_string(&path).unwrap();
        let two: String = written.split_inclusive('\n').take(2).collect();
        fs::write(&path, two).unwrap();
        assert_eq!(Journal::open(&path, Some(vault.clone())).unwrap().doubt, Some(Doubt::Short));
        vault.discard();
        assert_eq!(Journal::open(&path, Some(vault)).unwrap().doubt, Some(Doubt::NoKey));
    }

    type Spoil = (&'static str, fn(&Path));

    #[test]
    fn a_writer_restores_what_it_has_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let mut journal = Journal::create(&path, None).unwrap();
        journal.note(Event::RunResumed {}).unwrap();
        let written = fs::read_to_string(&path).unwrap();
        let spoil: [Spoil; 4] = [
            ("truncated", |path| fs::write(path, "").unwrap()),
            ("appended to", |path| fs::write(path, fs::read_to_string(path).unwrap() + EVENT).unwrap()),
            ("edited", |path| fs::write(path, fs::read_to_string(path).unwrap().replace("resumed", "reseeme")).unwrap()),
            ("a directory", |path| fs::remove_file(path).and_then(|()| fs::create_dir(path)).unwrap()),
        ];
        for (number, (what, spoil)) in spoil.into_iter().enumerate() {
            spoil(&path);
            journal.note(Event::RunResumed {}).unwrap();
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.starts_with(&written), "{what}");
            assert_eq!((text.lines().count(), journal.take_notices().len()), (number + 2, 1), "{what}");
        }
    }
}
