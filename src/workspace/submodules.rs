//! Saves HEAD and modified files of submodules under refs in the submodules themselves, and restores them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

use super::nested_copies::is_git_dir;
use super::{Moment, Notice, Workspace, index};
use crate::free_name::free_name;
use crate::git::{Git, Head, Oid, Place, Reach, RefList, RefUpdate, Repo, Spot, Tolerance};
use crate::{safe_read, safe_write};

/// A submodule that is checked out, with the directory of its record for one moment.
#[derive(Clone)]
struct Submodule {
    path: PathBuf,
    top: PathBuf,
    dir: PathBuf,
}

/// The recorded state of a submodule.
struct SubmoduleState {
    head: Head,
    /// A commit of all files in its work tree.
    state: Oid,
    /// The content of its `.git` file.
    link: Option<Vec<u8>>,
}

/// Identifies one record of the submodules.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SubmoduleRecord<'a> {
    /// The record of a moment to which a workspace can be restored.
    Of(Moment),
    /// The record of the first attempt after a checkpoint: the submodules as the checkpoint left them.
    At(&'a Oid),
}

impl Workspace {
    /// The submodules that git knows: those that both `.gitmodules` and the index list (a cloned repository may list anything),
    /// and those in the user's index at the start. Also those that are checked out although no index lists them, for example
    /// after a `git stash`.
    async fn submodules(&self, record: SubmoduleRecord<'_>) -> Result<Vec<Submodule>> {
        let dir = self.submodules_dir(record);
        let submodule = |path: PathBuf| Submodule { top: self.repo.place.top.join(&path), dir: dir.join(file_name(&path)), path };
        let embedded = self.embedded();
        let mut paths = self.registered_submodules();
        if !paths.is_empty() {
            let links = self.repo.gitlinks(&self.private_index(), &paths).await?;
            paths.retain(|path| links.contains(path));
        }
        paths.extend(embedded.paths().filter(|path| is_inside(&self.repo.place.top, path)).cloned());
        paths.extend(self.stray_submodules(&dir).into_iter().filter(|path| is_inside(&self.repo.place.top, path)));
        paths.sort();
        paths.dedup();
        Ok(paths.into_iter().map(submodule).collect())
    }

    fn submodules_dir(&self, record: SubmoduleRecord<'_>) -> PathBuf {
        let dir = self.dir.join("submodules");
        match record {
            SubmoduleRecord::Of(Moment::Start) => dir.join(Moment::Start.name()),
            SubmoduleRecord::Of(Moment::Attempt) => dir.join(fs::read_to_string(dir.join("last")).unwrap_or_default()),
            SubmoduleRecord::At(checkpoint) => dir.join(format!("at-{checkpoint}")),
        }
    }

    /// The paths in `.gitmodules` that do not lead out of the work tree.
    pub(super) fn registered_submodules(&self) -> Vec<PathBuf> {
        registered(&self.repo.place.top)
    }

    /// Saves the state of every submodule before the run.
    pub(super) async fn keep_submodules_at_start(&self) -> Result<()> {
        self.keep_submodules(SubmoduleRecord::Of(Moment::Start), SubmoduleRecord::Of(Moment::Start), "start").await
    }

    /// Saves the state of every submodule before the attempt with this label, which starts from `checkpoint`.
    pub(super) async fn keep_submodules_before(&self, checkpoint: &Oid, label: &str) -> Result<()> {
        let dir = self.dir.join("submodules");
        let first = !dir.join("last").exists();
        let last = SubmoduleRecord::Of(if first { Moment::Start } else { Moment::Attempt });
        self.keep_submodules(SubmoduleRecord::At(checkpoint), last, label).await?;
        if self.submodules_dir(SubmoduleRecord::At(checkpoint)).exists() {
            safe_write::draft(&dir.join("new"), format!("at-{checkpoint}").as_bytes())?;
            fs::rename(dir.join("new"), dir.join("last"))?;
        }
        Ok(())
    }

    /// Saves the current state of every submodule. Each state gets a ref of its own, unless it equals the last one.
    async fn keep_submodules(&self, record: SubmoduleRecord<'_>, last: SubmoduleRecord<'_>, label: &str) -> Result<()> {
        let last = self.submodules_dir(last);
        for submodule in self.submodules(record).await? {
            if !submodule.top.join(".git").exists() || self.is_copied_whole(&submodule.path) {
                continue;
            }
            let (inner, refs) = self.inside(&submodule.top).await?;
            let known = Submodule { dir: last.join(file_name(&submodule.path)), ..submodule.clone() }.record();
            fs::create_dir_all(&submodule.dir)?;
            let own = inner.place.git_dir.join("index");
            if own.exists() {
                index::copy(&own, &submodule.dir.join("index.orig"))?;
            }
            let tree = self.tree_of_submodule(&inner, &submodule.dir).await?;
            // A state that is saved already needs no second commit, which would only be one more object to copy.
            let known = known.filter(|known| known.head == inner.place.head);
            let is_kept = match &known {
                Some(known) => {
                    inner.missing(&BTreeSet::from([known.state.clone()])).await?.is_empty() && inner.tree_of(&known.state).await? == tree
                }
                None => false,
            };
            let state = match known {
                Some(known) if is_kept => known.state,
                _ => {
                    let state = state_above(&inner, &tree, &[]).await?;
                    let name = unused(&refs, format!("{}submodule/{label}", self.names.prefix()));
                    inner.update_refs(&[RefUpdate::Set { name, to: state.clone() }], "git ralph").await?;
                    state
                }
            };
            safe_write::draft(&submodule.dir.join("head.json"), &serde_json::to_vec(&inner.place.head)?)?;
            safe_write::draft(&submodule.dir.join("state"), state.as_str().as_bytes())?;
            if submodule.top.join(".git").is_file() {
                fs::copy(submodule.top.join(".git"), submodule.dir.join("link"))?;
            }
        }
        Ok(())
    }

    /// Restores every submodule that differs from the record. Its changed state is saved in the submodule, under the ref `rescue`
    /// or, if that exists, under a similar name.
    pub(crate) async fn restore_submodules(&self, record: SubmoduleRecord<'_>, rescue: &str) -> Result<Vec<Notice>> {
        let mut notices = Vec::new();
        for submodule in self.submodules(record).await? {
            let Some(record) = submodule.record() else { continue };
            let restored = self.restore_submodule(&submodule, &record, rescue).await;
            let kept = restored.with_context(|| format!("submodule {}", submodule.path.display()))?;
            notices.extend(kept);
        }
        Ok(notices)
    }

    /// Restores, after a landing, the submodules that no index lists and that the attempt removed. A tracked submodule may have
    /// been removed on purpose.
    pub(super) async fn restore_removed_strays(&self, label: &str) -> Result<Vec<Notice>> {
        let record = SubmoduleRecord::Of(Moment::Attempt);
        let strays = self.stray_submodules(&self.submodules_dir(record));
        if strays.is_empty() {
            return Ok(Vec::new());
        }
        let mut notices = Vec::new();
        let is_removed = |submodule: &Submodule| strays.contains(&submodule.path) && !submodule.top.join(".git").exists();
        for submodule in self.submodules(record).await?.into_iter().filter(is_removed) {
            let Some(record) = submodule.record() else { continue };
            let rescue = format!("{}submodule/{label}-removed", self.names.prefix());
            notices.extend(self.restore_submodule(&submodule, &record, &rescue).await?);
        }
        Ok(notices)
    }

    /// Restores the `.git` file of a submodule. If the attempt created another repository in its place, that is moved aside as a
    /// whole, because it has none of the submodule's commits.
    fn relink(&self, submodule: &Submodule, link: &[u8]) -> Result<Option<Notice>> {
        let at = submodule.top.join(".git");
        if fs::read(&at).is_ok_and(|found| found == link) && at.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
            return Ok(None);
        }
        let is_plain = submodule.top.symlink_metadata().map_or(true, |meta| meta.is_dir()) && at.symlink_metadata().is_err();
        let moved = if is_plain { None } else { Some(self.move_aside(&submodule.path, "submodules")?) };
        fs::create_dir_all(&submodule.top)?;
        fs::write(at, link)?;
        let path = submodule.path.display().to_string();
        Ok(moved.map(|to| Notice::NestedRestored { path, kept: Some(to.display().to_string()) }))
    }

    async fn restore_submodule(&self, submodule: &Submodule, record: &SubmoduleState, rescue: &str) -> Result<Vec<Notice>> {
        let path = submodule.path.display().to_string();
        let mut notices = Vec::new();
        if let Some(link) = &record.link {
            notices.extend(self.relink(submodule, link)?);
        }
        if Spot::in_top(&submodule.top).is_none_or(|spot| !is_git_dir(&spot.git_dir)) {
            // The git directory is gone, and was too big to be copied.
            return Ok([notices, vec![Notice::NestedLost { path }]].concat());
        }
        let (inner, refs) = self.inside(&submodule.top).await?;
        let wanted: BTreeSet<Oid> = record.head.oid().into_iter().chain([&record.state]).cloned().collect();
        if !inner.missing(&wanted).await?.is_empty() {
            self.restore_objects_of(&inner.place.git_dir)?;
            if !inner.missing(&wanted).await?.is_empty() {
                return Ok([notices, vec![Notice::NestedLost { path }]].concat());
            }
        }
        let parents: Vec<&Oid> = record.head.oid().into_iter().collect();
        let tree = self.tree_of_submodule(&inner, &submodule.dir).await?;
        let now = state_above(&inner, &tree, &parents).await?;
        let same = inner.diff_trees(&record.state, &now).await?.is_empty();
        if same && inner.place.head == record.head {
            return Ok(notices);
        }
        let kept = unused(&refs, rescue.to_owned());
        inner.update_refs(&[RefUpdate::Set { name: kept.clone(), to: now.clone() }], "git ralph: rescue").await?;
        match &record.head {
            Head::Branch { name, oid } => {
                inner.update_refs(&[RefUpdate::Set { name: name.clone(), to: oid.clone() }], "git ralph: back").await?;
                inner.attach_head(name, "git ralph: back").await?;
            }
            Head::Detached { oid } => inner.detach_head(oid, "git ralph: back").await?,
            Head::Unborn { name } => inner.attach_head(name, "git ralph: back").await?,
        }
        inner.switch_tree(&submodule.dir.join("index"), &now, &record.state, Reach::AsConfigured).await?;
        let original = submodule.dir.join("index.orig");
        if original.exists() {
            index::copy(&original, &inner.place.git_dir.join("index"))?;
        }
        notices.push(Notice::SubmoduleRestored { path, kept });
        Ok(notices)
    }

    /// The tree of all files in a submodule's work tree.
    async fn tree_of_submodule(&self, inner: &Repo, dir: &Path) -> Result<Oid> {
        let index = dir.join("index");
        if !index.exists() {
            let own = inner.place.git_dir.join("index");
            if own.exists() {
                index::copy(&own, &index)?;
            }
        }
        let answer = inner.add_all(&index, &[], Tolerance::SkipUnaddable).await?;
        anyhow::ensure!(answer.code <= 1, answer.failure());
        inner.write_tree(&index).await
    }

    /// A submodule as a repository, with its refs.
    async fn inside(&self, top: &Path) -> Result<(Repo, RefList)> {
        let git_dir = PathBuf::from(self.repo.git.elsewhere(top, None).call(["rev-parse", "--absolute-git-dir"]).line().await?);
        let git: Git = self.repo.git.elsewhere(top, Some(&git_dir));
        let place = Place { common_dir: git_dir.clone(), git_dir, top: top.to_owned(), head: self.repo.place.head.clone() };
        // The submodule may have no user identity configured, and these commits are not part of any real history.
        let mut inner = Repo { git, place }.under_stand_in();
        let refs = inner.refs().await?;
        inner.place.head = inner.head(&refs).await?;
        Ok((inner, refs))
    }
}

/// A commit of a submodule's work tree, with its HEAD and the given commits as parents.
async fn state_above(inner: &Repo, tree: &Oid, others: &[&Oid]) -> Result<Oid> {
    let head = inner.place.head.oid();
    let parents: Vec<&Oid> = head.into_iter().chain(others.iter().copied().filter(|oid| Some(*oid) != head)).collect();
    inner.commit(tree, &parents, "state of a submodule\n").await
}

/// The paths in the `.gitmodules` of a work tree that do not lead out of it.
pub(super) fn registered(top: &Path) -> Vec<PathBuf> {
    let modules = safe_read::text(&top.join(".gitmodules")).unwrap_or_default();
    let settings = modules.lines().filter_map(|line| line.split_once('='));
    let paths = settings.filter(|(key, _)| key.trim() == "path").map(|(_, path)| PathBuf::from(path.trim()));
    paths.filter(|path| is_inside(top, path)).collect()
}

/// Whether a path relative to a work tree stays inside it: it contains no `..`, no symbolic link and no `.git`.
fn is_inside(top: &Path, path: &Path) -> bool {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(name) if name != ".git");
    let is_link = |part: &Path| top.join(part).symlink_metadata().is_ok_and(|meta| meta.is_symlink());
    path.components().next().is_some() && path.components().all(plain) && !path.ancestors().any(is_link)
}

/// A ref name that is not in use. An earlier run may have used the wanted one.
fn unused(refs: &RefList, wanted: String) -> String {
    free_name(wanted.clone(), |number| format!("{wanted}.{number}"), |name| refs.get(name).is_some())
}

/// Encodes a path as a file name.
pub(super) fn file_name(path: &Path) -> String {
    path.to_string_lossy().replace('%', "%25").replace('/', "%2F")
}

impl Submodule {
    fn record(&self) -> Option<SubmoduleState> {
        Some(SubmoduleState {
            head: serde_json::from_slice(&fs::read(self.dir.join("head.json")).ok()?).ok()?,
            state: fs::read_to_string(self.dir.join("state")).ok()?.parse().ok()?,
            link: fs::read(self.dir.join("link")).ok(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_is_inside_only_if_nothing_leads_out() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        fs::create_dir(top.join("real")).unwrap();
        symlink("/", top.join("link")).unwrap();
        for (path, inside) in [
            ("real", true),
            ("real/sub", true),
            ("not-yet-there", true),
            ("", false),
            ("/", false),
            ("/tmp", false),
            ("..", false),
            ("real/../../x", false),
            (".git", false),
            (".git/modules/x", false),
            ("link", false),
            ("link/tmp", false),
        ] {
            assert_eq!(is_inside(top, Path::new(path)), inside, "{path}");
        }
    }
}
