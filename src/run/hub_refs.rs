//! Records the refs that a run has on hubs, before they are created, so that closing the run can delete all of them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::RunDir;
use crate::git::{Git, Repo};
use crate::portable_word::{decoded, encoded};
use crate::remote::{Hub, HubRef};
use crate::{safe_read, safe_write};

const FILE: &str = "hub-refs";

/// The list of refs that a run has on hubs. The file has one line per ref: the hub, the name and the state.
pub(super) struct HubRefs<'a>(pub &'a RunDir);

/// A ref on a hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    hub: Hub,
    name: HubRef,
    state: State,
}

/// Whether a ref on a hub is still needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It may be needed.
    Wanted,
    /// It only remains to be deleted: the result was fetched, or never arrived.
    Done,
}

const DONE: &str = "done";

impl HubRefs<'_> {
    /// The file with the list. It is in the vault, if there is one, because an agent must not write it.
    fn file(&self) -> PathBuf {
        match self.0.vault().filter(|vault| vault.exists()) {
            Some(vault) => vault.path(FILE),
            None => self.0.path().join(FILE),
        }
    }

    fn all(&self) -> Vec<Entry> {
        let text = safe_read::text(&self.file()).unwrap_or_default();
        let entry = |line: &str| {
            let mut words = line.split(' ');
            let (hub, name) = (decoded(words.next()?.as_ref()).ok()?, words.next()?.parse().ok()?);
            let state = if words.next() == Some(DONE) { State::Done } else { State::Wanted };
            Some(Entry { hub: Hub::new(hub).ok()?, name, state })
        };
        text.lines().filter_map(entry).collect()
    }

    /// The hub whose ref with this name is still needed.
    pub fn wanted_from(&self, name: &HubRef) -> Option<Hub> {
        self.all().into_iter().find(|entry| entry.name == *name && entry.state == State::Wanted).map(|entry| entry.hub)
    }

    /// Records refs that are about to be created.
    pub fn note(&self, hub: &Hub, names: &[&HubRef]) -> Result<()> {
        let mut all = self.all();
        all.retain(|entry| !names.contains(&&entry.name));
        all.extend(names.iter().map(|name| Entry { hub: hub.clone(), name: (*name).clone(), state: State::Wanted }));
        self.write(&all)
    }

    /// Records that a ref only remains to be deleted.
    pub fn note_done(&self, name: &HubRef) -> Result<()> {
        let mut all = self.all();
        all.iter_mut().filter(|entry| entry.name == *name).for_each(|entry| entry.state = State::Done);
        self.write(&all)
    }

    /// Removes refs from the list after they were deleted.
    fn forget(&self, names: &[&HubRef]) -> Result<()> {
        let mut all = self.all();
        all.retain(|entry| !names.contains(&&entry.name));
        self.write(&all)
    }

    fn write(&self, all: &[Entry]) -> Result<()> {
        let line = |Entry { hub, name, state }: &Entry| {
            let done = if *state == State::Done { format!(" {DONE}") } else { String::new() };
            format!("{} {}{done}\n", encoded(hub.url()), name.name())
        };
        let text: String = all.iter().map(line).collect();
        let file = self.file();
        let draft = file.with_added_extension("new");
        let written = safe_write::draft(&draft, text.as_bytes()).and_then(|()| std::fs::rename(&draft, &file));
        written.with_context(|| format!("cannot write {}", file.display()))
    }

    /// Deletes refs on their hub.
    ///
    /// # Errors
    /// If the hub cannot be reached or refuses. The refs then stay on the list.
    pub async fn delete(&self, repo: &Repo, hub: &Hub, names: &[&HubRef]) -> Result<()> {
        let git = for_hub(repo);
        let args = ["ls-remote", "--"].map(OsString::from).into_iter().chain([hub.url().to_owned()]);
        let listed = git.call(args.chain(names.iter().map(|name| name.name().into()))).working().output().await?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let there: BTreeSet<&str> = listed.lines().filter_map(|line| line.split('\t').nth(1)).collect();
        let there: Vec<OsString> =
            names.iter().filter(|name| there.contains(name.name())).map(|name| format!(":{}", name.name()).into()).collect();
        if !there.is_empty() {
            git.call(push_to(hub).into_iter().chain(there)).working().output().await?;
        }
        self.forget(names)
    }

    /// Deletes all refs on hubs. Returns those that could not be deleted, with the reason.
    pub async fn delete_all(&self, repo: &Repo) -> Vec<(Hub, HubRef, String)> {
        let mut left = Vec::new();
        for Entry { hub, name, .. } in self.all() {
            if let Err(error) = self.delete(repo, &hub, &[&name]).await {
                left.push((hub, name, format!("{error:#}")));
            }
        }
        left
    }
}

/// git for use with a hub: fetched objects are checked, and a push includes nothing but the named refs.
pub(super) fn for_hub(repo: &Repo) -> Git {
    let settings = ["fetch.fsckObjects=true", "push.followTags=false", "push.gpgSign=false", "push.recurseSubmodules=no"];
    repo.git.clone().with_config(settings.map(str::to_owned))
}

/// The arguments of a push to a hub. The refspecs follow.
pub(super) fn push_to(hub: &Hub) -> Vec<OsString> {
    ["push", "-q", "--no-verify", "--"].map(OsString::from).into_iter().chain([hub.url().to_owned()]).collect()
}
