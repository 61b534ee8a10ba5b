//! A story source in the work tree: finds it, reads it, and sets the marks of stories that land.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};

use crate::error::Problem;
use crate::story::StoryId;
use crate::story::source::{Edit, Kind, Material, Page, apply, kind_of, mark_landed, marks};
use crate::{safe_read, safe_write};

/// The directory of OpenSpec changes.
pub const OPENSPEC_CHANGES: &str = "openspec/changes";
/// Files of a spec-kit feature that a prompt mentions or contains.
const BESIDE_SPECKIT: [&str; 5] = ["spec.md", "plan.md", "research.md", "data-model.md", "quickstart.md"];

/// The location of a source, from the path in the change file.
#[derive(Clone, Debug)]
pub struct SourcePlace {
    top: PathBuf,
    path: String,
    /// The kind that was detected when the run began. Edits by an agent do not change it.
    kind: Option<Kind>,
}

/// The result of setting the marks of a story that lands.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// Other stories whose marks the agent had set.
    pub strays: Vec<StoryId>,
    /// Why the marks could not be set, if they could not.
    pub problem: Option<String>,
    /// Whether an earlier version of the file was restored.
    pub put_back: bool,
}

impl SourcePlace {
    /// The source at a path, which is absolute or relative to the top of a work tree.
    #[must_use]
    pub fn new(top: &Path, path: &str) -> Self {
        SourcePlace { top: top.to_owned(), path: path.trim_end_matches('/').to_owned(), kind: None }
    }

    /// The same source with a known kind.
    #[must_use]
    pub fn with_kind(self, kind: Option<Kind>) -> Self {
        SourcePlace { kind, ..self }
    }

    /// The path as it is written in the change file.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    fn full(&self) -> PathBuf {
        self.top.join(&self.path)
    }

    /// Reads the whole source.
    ///
    /// # Errors
    /// If it does not exist, cannot be read, or has no known format.
    pub fn material(&self) -> Result<Material> {
        let main = self.main_file()?;
        let page = self.page(&main)?;
        let folder = main.parent().unwrap_or(&self.top);
        let tasks = main.ends_with("tasks.md");
        let kind = match self.kind {
            Some(kind) => kind,
            None if tasks && (folder.join("proposal.md").exists() || self.is_openspec(folder)) => Kind::OpenSpec,
            None => kind_of(&page).map_err(Problem::fatal)?,
        };
        let beside = match kind {
            Kind::OpenSpec => self.beside_openspec(folder)?,
            Kind::SpecKit => self.beside_speckit(folder)?,
            Kind::Prd | Kind::Plan | Kind::Checklist => Vec::new(),
        };
        Ok(Material { kind, main: page, beside })
    }

    fn is_openspec(&self, folder: &Path) -> bool {
        folder.parent().is_some_and(|parent| parent.ends_with(OPENSPEC_CHANGES))
    }

    /// The file with the marks.
    fn main_file(&self) -> Result<PathBuf> {
        let full = self.full();
        let meta = match fs::metadata(&full) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                bail!(Problem::fatal(format!("the source {} does not exist", self.path)))
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", self.path)),
        };
        if !meta.is_dir() {
            return Ok(full);
        }
        let found = ["tasks.md", "prd.json"].iter().map(|name| full.join(name)).find(|file| file.exists());
        let shown = if self.path.is_empty() { "." } else { &self.path };
        found.ok_or_else(|| Problem::fatal(format!("{shown}: expected a tasks.md or a prd.json in it")).into())
    }

    /// Refuses a file behind a symbolic link that leads out of the work tree or into the git directory. A cloned repository may contain any
    /// link, and the file's content goes to an agent. If the user's path itself is outside of the work tree, its directory is the limit
    /// instead.
    fn check_stays_inside(&self, file: &Path) -> Result<()> {
        let named = self.full();
        let root = if named.starts_with(&self.top) && !self.path.contains("..") { &self.top } else { named.parent().unwrap_or(&named) };
        let there = file.ancestors().find_map(|path| path.canonicalize().ok());
        let inside = there.zip(root.canonicalize().ok()).and_then(|(path, root)| Some(path.strip_prefix(root).ok()?.to_owned()));
        if inside.is_none_or(|path| path.components().any(|part| part.as_os_str() == ".git")) {
            bail!(Problem::fatal(format!("{} is a link that leads out of the work tree: it is not followed", self.shown(file))));
        }
        Ok(())
    }

    fn shown(&self, file: &Path) -> String {
        file.strip_prefix(&self.top).unwrap_or(file).display().to_string()
    }

    fn page(&self, file: &Path) -> Result<Page> {
        self.check_stays_inside(file)?;
        let name = self.shown(file);
        let bytes = safe_read::bytes(file).with_context(|| format!("cannot read {name}"))?;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Page { name, text }),
            Err(error) => {
                let line = error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
                bail!(Problem::fatal(format!("{name}:{line}: expected UTF-8")))
            }
        }
    }

    fn beside_openspec(&self, folder: &Path) -> Result<Vec<Page>> {
        let mut files: Vec<PathBuf> = ["proposal.md", "design.md"].iter().map(|name| folder.join(name)).collect();
        let mut specs = folders(&folder.join("specs"));
        specs.sort();
        files.extend(specs.into_iter().map(|spec| spec.join("spec.md")));
        files.iter().filter(|file| file.is_file()).map(|file| self.page(file)).collect()
    }

    fn beside_speckit(&self, folder: &Path) -> Result<Vec<Page>> {
        BESIDE_SPECKIT.iter().map(|name| folder.join(name)).filter(|file| file.is_file()).map(|file| self.page(&file)).collect()
    }

    /// The source with another text for the file with the marks. The other files of the source need not exist.
    ///
    /// # Errors
    /// If the source cannot be read and its kind is not known.
    pub fn material_with(&self, text: String) -> Result<Material> {
        match (self.material(), self.kind) {
            (Ok(material), _) => Ok(Material { main: Page { text, ..material.main }, ..material }),
            (Err(_), Some(kind)) => Ok(Material { kind, main: Page { name: self.path.clone(), text }, beside: Vec::new() }),
            (Err(error), None) => Err(error),
        }
    }

    /// The text of the file with the marks. A copy is made before an attempt and compared with the file when the story lands.
    pub fn text(&self) -> Result<String> {
        Ok(self.page(&self.main_file()?)?.text)
    }

    /// Sets the marks of a story that is about to land, and removes marks that the agent has set for other stories. If the agent has
    /// deleted the file or the story in it, the earlier version is restored, and the agent's version goes to `aside`.
    pub fn mark(&self, before: &str, landed: &StoryId, aside: &Path) -> Marked {
        let Some(kind) = self.kind else { return Marked::default() };
        let known = Page { name: self.path.clone(), text: before.to_owned() };
        let now = self.main_file().and_then(|file| self.page(&file));
        let marking = now.as_ref().ok().map(|now| mark_landed(kind, &known, now, landed));
        let done = match (now, marking) {
            (Ok(now), Some(Ok(marking))) if !marking.lost => {
                self.write(&now, &marking.edits).map(|()| Marked { strays: marking.strays, ..Marked::default() })
            }
            _ => self.put_back(kind, &known, landed, aside),
        };
        done.unwrap_or_else(|error| Marked { problem: Some(format!("{error:#}")), ..Marked::default() })
    }

    fn put_back(&self, kind: Kind, known: &Page, landed: &StoryId, aside: &Path) -> Result<Marked> {
        let marking = mark_landed(kind, known, known, landed).map_err(Problem::fatal)?;
        if known.text.is_empty() || marking.lost {
            bail!("it could not be read before the attempt");
        }
        self.restore(&apply(&known.text, &marking.edits), aside)?;
        Ok(Marked { put_back: true, ..Marked::default() })
    }

    /// Restores an earlier text of the file with the marks, and saves another text in `aside`. Returns whether there was another text.
    pub fn restore(&self, text: &str, aside: &Path) -> Result<bool> {
        let full = self.full();
        let file = self.main_file().unwrap_or_else(|_| if self.is_folder_kind() { full.join("tasks.md") } else { full });
        self.check_stays_inside(&file)?;
        match safe_read::bytes(&file) {
            Ok(bytes) if bytes == text.as_bytes() => return Ok(false),
            Ok(bytes) => safe_write::write(aside, &bytes).with_context(|| format!("cannot write {}", aside.display()))?,
            Err(_) if file.symlink_metadata().is_ok() => bail!("{} is not a regular file any more", self.path),
            Err(_) => {}
        }
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let written = if file.exists() { replace(&file, text) } else { fs::write(&file, text) };
        written.with_context(|| format!("cannot write {}", self.path))?;
        Ok(true)
    }

    /// Whether the path names a directory that contains the file with the marks.
    fn is_folder_kind(&self) -> bool {
        matches!(self.kind, Some(Kind::OpenSpec | Kind::SpecKit)) && Path::new(&self.path).extension().is_none()
    }

    /// The path of the file with the marks relative to the work tree, if the file is inside of it.
    #[must_use]
    pub fn in_work_tree(&self) -> Option<String> {
        let file = self.main_file().ok()?.canonicalize().ok()?;
        Some(file.strip_prefix(self.top.canonicalize().ok()?).ok()?.display().to_string())
    }

    /// The path of the file with the marks relative to the work tree, if the marks of the landing story are the only change since `before`.
    #[must_use]
    pub fn only_marked(&self, before: &str, landed: &StoryId) -> Option<PathBuf> {
        let known = Page { name: self.path.clone(), text: before.to_owned() };
        let marking = mark_landed(self.kind?, &known, &known, landed).ok()?;
        let path = self.in_work_tree()?;
        (self.text().ok()? == apply(before, &marking.edits)).then(|| path.into())
    }

    /// Whether its files are read from below a directory.
    #[must_use]
    pub fn is_below(&self, dir: &Path) -> bool {
        self.top.starts_with(dir)
    }

    /// The text of the file with the marks when a story lands: `now`, with the marks of this story set and the marks of other stories as in
    /// `before`. If the file or the story in it was deleted, `before` is used in place of `now`. `None` if no marks can be set.
    #[must_use]
    pub fn marked_text(&self, before: &str, now: Option<&str>, landed: &StoryId) -> Option<String> {
        let kind = self.kind?;
        let page = |text: &str| Page { name: self.path.clone(), text: text.to_owned() };
        let known = page(before);
        let marked = |text: &str| {
            let marking = mark_landed(kind, &known, &page(text), landed).ok().filter(|marking| !marking.lost)?;
            Some(apply(text, &marking.edits))
        };
        now.and_then(marked).or_else(|| marked(before))
    }

    /// Whether two texts of the file differ only in marks.
    #[must_use]
    pub fn differs_in_marks_only(&self, one: &str, other: &str) -> bool {
        let Some(kind) = self.kind else { return false };
        let unmarked = |text: &str| {
            let page = Page { name: self.path.clone(), text: text.to_owned() };
            let mut edits: Vec<Edit> = marks(kind, &page).ok()?.iter().filter(|mark| mark.done).map(|mark| mark.set(false)).collect();
            edits.sort_by_key(|edit| edit.at.start);
            Some(apply(text, &edits))
        };
        unmarked(one).is_some_and(|one| unmarked(other) == Some(one))
    }

    /// Whether `further` is the same text with at least the same marks set.
    #[must_use]
    pub fn is_marked_further(&self, text: &str, further: &str) -> bool {
        let Some(kind) = self.kind else { return false };
        let done = |text: &str| {
            let page = Page { name: self.path.clone(), text: text.to_owned() };
            marks(kind, &page).map(|marks| marks.iter().map(|mark| mark.done).collect::<Vec<bool>>()).unwrap_or_default()
        };
        let are_kept = || done(text).into_iter().zip(done(further)).all(|(before, after)| after || !before);
        self.differs_in_marks_only(text, further) && are_kept()
    }

    /// The length and modification time of the file with the marks. `None` if it does not exist.
    #[must_use]
    pub fn stamp(&self) -> Option<(u64, SystemTime)> {
        let meta = fs::metadata(self.main_file().ok()?).ok()?;
        Some((meta.len(), meta.modified().ok()?))
    }

    fn write(&self, page: &Page, edits: &[Edit]) -> Result<()> {
        if edits.is_empty() {
            return Ok(());
        }
        let file = self.top.join(&page.name);
        let written = if edits.iter().all(|edit| edit.at.len() == edit.with.len()) {
            overwrite(&file, edits)
        } else {
            replace(&file, &apply(&page.text, edits))
        };
        written.with_context(|| format!("cannot write {}", page.name))
    }
}

/// Overwrites single bytes in place. After a crash each mark is either old or new, and the rest of the file is intact.
fn overwrite(file: &Path, edits: &[Edit]) -> io::Result<()> {
    let file = fs::OpenOptions::new().write(true).open(file)?;
    for edit in edits {
        file.write_all_at(edit.with.as_bytes(), edit.at.start as u64)?;
    }
    file.sync_all()
}

/// Replaces a file by a new one, so that a complete file always exists under its name.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let file = fs::canonicalize(file)?;
    let folder = file.parent().unwrap_or(Path::new("/"));
    let mut new = tempfile::Builder::new().prefix(".ralph-").tempfile_in(folder)?;
    new.write_all(text.as_bytes())?;
    new.as_file().set_permissions(fs::metadata(&file)?.permissions())?;
    new.as_file().sync_all()?;
    new.persist(&file).map(drop).map_err(|error| error.error)
}

/// The directories in a directory.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// The OpenSpec changes of a work tree, in alphabetical order.
#[must_use]
pub fn openspec_changes(top: &Path) -> Vec<String> {
    let names = folders(&top.join(OPENSPEC_CHANGES)).into_iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let mut names: Vec<String> = names.filter(|name| name != "archive").collect();
    names.sort();
    names
}

/// The archive directory of an OpenSpec change, if it was archived.
#[must_use]
pub fn openspec_archived(top: &Path, name: &str) -> Option<String> {
    let archive = format!("{OPENSPEC_CHANGES}/archive");
    let names = folders(&top.join(&archive)).into_iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let dated = |folder: &str| {
        folder == name
            || folder
                .strip_suffix(name)
                .is_some_and(|date| date.ends_with('-') && date[..date.len() - 1].chars().all(|c| c.is_ascii_digit() || c == '-'))
    };
    names.filter(|folder| dated(folder)).max().map(|folder| format!("{archive}/{folder}"))
}

/// Everything in a work tree that stories could be read from, the likeliest first.
#[must_use]
pub fn sources_in(top: &Path) -> Vec<String> {
    let mut found: Vec<String> = openspec_changes(top).into_iter().map(|name| format!("{OPENSPEC_CHANGES}/{name}")).collect();
    let mut features: Vec<String> = folders(&top.join("specs"))
        .into_iter()
        .filter(|path| path.join("tasks.md").is_file())
        .filter_map(|path| Some(format!("specs/{}", path.file_name()?.to_str()?)))
        .collect();
    features.sort();
    found.extend(features);
    for name in ["prd.json", "plan.md", "PLAN.md", "TODO.md", "todo.md", "tasks.md", "scripts/ralph/prd.json"] {
        if top.join(name).is_file() {
            found.push(name.to_owned());
        }
    }
    let plans = top.join("docs/plans");
    let mut plans: Vec<String> = fs::read_dir(plans)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some(format!("docs/plans/{}", entry.file_name().to_str().filter(|name| name.ends_with(".md"))?)))
        .collect();
    plans.sort();
    found.extend(plans);
    found.retain(|path| SourcePlace::new(top, path).material().is_ok_and(|material| material.read().is_ok()));
    found
}
