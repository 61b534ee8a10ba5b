//! The workspace of a worker: a private clone like that of an isolated run, but made from a fetch from the hub.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::order::Order;
use super::scratch::Scratch;
use crate::config::Environment;
use crate::error::Problem;
use crate::git::{Git, Head, Limits, Oid, Place, Repo};
use crate::remote::RemoteResult;
use crate::workspace::{Origin, Snapshot, WORKSPACES_BELOW, Workspace};

/// The name of the snapshot in file names.
const LABEL: &str = "attempt";

/// The clone that the agent works in, and the repository that its objects come from. All commits and pushes happen in that repository,
/// which the agent can reach only through its clone.
pub struct RemoteWorkspace<'a> {
    order: &'a Order,
    store: Repo,
    origin: Origin,
    workspace: Workspace,
    scratch: PathBuf,
}

impl<'a> RemoteWorkspace<'a> {
    /// Fetches the base of the attempt from the hub and checks it out.
    ///
    /// # Errors
    /// If the hub cannot be reached or does not have the commit.
    pub async fn fetch(order: &'a Order, environment: &Environment, scratch: &Scratch) -> Result<Self> {
        let top = scratch.join("store");
        fs::create_dir(&top).with_context(|| format!("cannot create {}", top.display()))?;
        let store = init(&top, order, environment).await?;
        let branch = order.result.names().branch();
        let from = order.base_ref.as_ref().map_or(order.base.as_str(), |name| name.name());
        let mut args: Vec<OsString> = ["fetch", "-q", "--no-tags", "--no-write-fetch-head"].map(OsString::from).into();
        args.extend(order.depth.map(|depth| format!("--depth={depth}").into()));
        args.extend(["--".into(), order.hub.url().to_owned(), format!("+{from}:{branch}").into()]);
        store.git.call(args).working().output().await.context("cannot fetch from the hub")?;
        let refs = store.refs().await?;
        match refs.get(&branch) {
            Some(oid) if *oid == order.base => {}
            found => {
                let found = found.map_or("nothing", |oid| oid.short());
                bail!(Problem::fatal(format!("the hub has {found} at {from}, and not {}", order.base.short())));
            }
        }
        let names = order.result.names().clone();
        let origin = Origin::read(&store, &names, environment.for_git()).await?;
        let known = scratch.join("run").join(WORKSPACES_BELOW).join("1");
        fs::create_dir_all(&known).with_context(|| format!("cannot create {}", known.display()))?;
        let workspace = Workspace::isolated(&store, names, known, scratch.join("work"), None);
        workspace.make(&origin, &order.base, &refs, &[]).await.context("cannot make the workspace")?;
        Ok(RemoteWorkspace { order, store, origin, workspace, scratch: scratch.join("") })
    }

    /// The directory that the agent works in.
    #[must_use]
    pub fn top(&self) -> &Path {
        &self.workspace.repo.place.top
    }

    /// Records that the workspace is set up. Files that are ignored now are not part of the result.
    pub async fn hand_over(&self) -> Result<()> {
        self.workspace.note_ready("", !self.order.setup.is_empty()).await?;
        self.workspace.hand_over();
        Ok(())
    }

    /// Commits all of the agent's work. `result` says how the agent ended; this adds the commits that the agent made.
    pub async fn commit(&self, mut result: RemoteResult) -> Result<Oid> {
        let base = &self.order.base;
        let commits = self.origin.agents_commits(self.top(), base, self.workspace.dir()).await?;
        let above = match &commits.head {
            Some(head) if self.store.is_ancestor(base, head).await? => Some(head),
            _ => None,
        };
        let snapshot = self.workspace.snapshot_above(above, base, LABEL, &mut Vec::new()).await?;
        if let Some(trouble) = snapshot.trouble() {
            result.warnings.push(format!("git could not add every file: {trouble}"));
        }
        result.others = self.store.loose_commits(commits.all, &[base]).await?;
        result.others.retain(|oid| commits.head.as_ref() != Some(oid));
        for path in &snapshot.nested {
            result.others.extend(self.nested(path).await?);
            result.warnings.push(format!("the repository that the agent made in '{}' is not part of its work", path.display()));
        }
        result.staged = self.staged(commits.staged.as_ref(), &snapshot).await?;
        result.head = commits.head;
        let first = result.head.as_ref().unwrap_or(base);
        let mut parents = vec![first];
        parents.extend(result.commits().filter(|oid| *oid != first));
        self.store.commit(&snapshot.tree, &parents, &result.message()).await
    }

    async fn staged(&self, tree: Option<&Oid>, snapshot: &Snapshot) -> Result<Option<Oid>> {
        let Some(tree) = tree.filter(|tree| **tree != snapshot.tree) else { return Ok(None) };
        self.store.commit(tree, &[&self.order.base], "what was staged\n").await.map(Some)
    }

    /// The commits of a repository that the agent created inside the workspace, and a commit of its files.
    async fn nested(&self, path: &Path) -> Result<Vec<Oid>> {
        let top = self.top().join(path);
        let git = self.store.git.elsewhere(&top, Some(&self.store.place.git_dir)).with_index(self.scratch.join("index.nested"));
        let _ = fs::remove_file(self.scratch.join("index.nested"));
        git.call(["add", "-A", "-f"]).working().answer().await?;
        let tree: Oid = git.call(["write-tree"]).line().await?.parse()?;
        let files = self.store.commit(&tree, &[], &format!("files of the repository in {}\n", path.display())).await?;
        let below = "refs/ralph-nested/";
        let refspec = format!("+refs/*:{below}*");
        let args = ["fetch", "-q", "--no-tags", "--no-write-fetch-head", "--"].map(OsStr::new);
        // A broken repository must not prevent the rest from being pushed.
        let call = self.store.git.call(args.into_iter().chain([
            top.as_os_str(),
            OsStr::new(&refspec),
            OsStr::new("+HEAD:refs/ralph-nested/HEAD"),
        ]));
        call.working().answer().await?;
        let refs = self.store.refs().await?;
        let commits = refs.below(below).filter_map(|entry| entry.commit.clone()).collect();
        let commits = self.store.loose_commits(commits, &[]).await?;
        Ok([files].into_iter().chain(commits).collect())
    }

    /// Pushes the result to the hub. The hub rejects it if the base ref is gone, because then the attempt is over for the run.
    ///
    /// # Errors
    /// If the hub rejects the push.
    pub async fn push(&self, commit: &Oid) -> Result<()> {
        let (base, result) = (&self.order.base, self.order.result.name());
        let mut args: Vec<OsString> = ["push", "-q", "--no-verify", "--no-signed"].map(OsString::from).into();
        let mut refs = vec![format!("+{commit}:{result}")];
        if let Some(name) = &self.order.base_ref {
            args.extend(["--atomic".into(), format!("--force-with-lease={}:{base}", name.name()).into()]);
            refs.push(format!("{base}:{}", name.name()));
        }
        args.extend(["--".into(), self.order.hub.url().to_owned()]);
        args.extend(refs.into_iter().map(OsString::from));
        self.store.git.call(args).working().output().await.map(drop).context("cannot push to the hub")
    }
}

/// Creates an empty repository to fetch objects into.
async fn init(top: &Path, order: &Order, environment: &Environment) -> Result<Repo> {
    let format = if order.base.as_str().len() == 64 { "sha256" } else { "sha1" };
    let plain = Git::plain(top.to_owned(), environment.for_git());
    plain.call(["init", "-q", "--template=", &format!("--object-format={format}")]).output().await?;
    let git_dir = top.join(".git");
    for (key, value) in order.identity.iter().flat_map(|(name, address)| [("user.name", name), ("user.email", address)]) {
        plain.call(["config", key, value]).output().await?;
    }
    let limits = Limits { work: None, ..Limits::default() };
    let git = Git::pinned(&git_dir, top, environment.for_git()).with_limits(limits);
    let head = Head::Unborn { name: order.result.names().branch() };
    let place = Place { common_dir: git_dir.clone(), git_dir, top: top.to_owned(), head };
    Ok(Repo { git, place }.under_stand_in())
}
