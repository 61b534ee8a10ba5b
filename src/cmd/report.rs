//! `git ralph report`: writes a page about a run, as HTML, Markdown or JUnit XML.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context as _, Result, bail};

use super::context::Context;
use super::log::{format_of, run_looked_at};
use crate::agent::Said;
use crate::cli::{ReportArgs, ReportFormat};
use crate::config::Environment;
use crate::error::{ExitStatus, Problem, words};
use crate::git::{Comparison, DescribedRef, PatchLimit, RefList};
use crate::names::Names;
use crate::process::{edit, on_path};
use crate::report::{
    CommandPlace, Findings, History, Kept, Line, Page, REPORT_MARK, Tone, comparisons, output, page_html, page_junit, page_markdown,
    patch_limits, said_line,
};
use crate::run::{PageMaker, RunDir, Transcript};
use crate::safe_write;
use crate::shell_word::quoted;
use crate::story::StoryId;

/// The file name of the page in the directory of its run.
const FILE: &str = "report.html";
/// At most this many saved refs are listed; the others are in `git ralph log`.
const MOST_SAVED: usize = 200;
/// How many lines from the end of a transcript a page shows.
const TRANSCRIPT_LINES: usize = 1000;
/// The same for all transcripts together.
const ALL_LINES: usize = 200_000;
/// How many bytes of a file are searched for the note that git-ralph wrote it.
const HEAD: u64 = 1000;

/// Creates the page and writes it.
pub async fn run(args: &ReportArgs, environment: Environment) -> Result<ExitStatus> {
    if args.open && (args.format != ReportFormat::Html || args.output.as_deref() == Some(Path::new("-"))) {
        bail!(Problem::usage("--open needs an HTML page in a file").hint("git ralph report --open"));
    }
    let context = Context::open(environment).await?;
    let (run, state) = run_looked_at(&context, args.change.as_deref(), args.run)?;
    let transcripts = if args.with_transcripts { Transcripts::Included } else { Transcripts::LeftOut };
    let owner = context.store.owner(&state);
    let page = page(&context, &run, owner, transcripts).await?;
    let text = match args.format {
        ReportFormat::Html => page_html(&page)?,
        ReportFormat::Markdown => page_markdown(&page),
        ReportFormat::Junit => page_junit(&page),
    };
    let path = match (&args.output, args.format) {
        (Some(path), _) if path != Path::new("-") => Some(context.environment.cwd.join(path)),
        (None, ReportFormat::Html) => Some(run.path().join(FILE)),
        (Some(_), _) | (None, ReportFormat::Markdown | ReportFormat::Junit) => None,
    };
    let Some(path) = path else {
        output::data(&text);
        return Ok(ExitStatus::Done);
    };
    write(&path, &text)?;
    output::data(&format!("{}\n", context.changes.shown(&path)));
    if args.open {
        open(&context, &path).await?;
    }
    Ok(ExitStatus::Done)
}

/// Whether the page includes the agents' transcripts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transcripts {
    Included,
    LeftOut,
}

/// The callback that writes the page of a run when its loop ends, and stores its path in `written`. A failure is only a warning.
pub fn page_maker(context: &Context, run: &RunDir, written: &Rc<RefCell<Option<PathBuf>>>) -> PageMaker {
    let (context, run, written) = (context.clone(), run.clone(), Rc::clone(written));
    Rc::new(move || {
        let (context, run, written) = (context.clone(), run.clone(), Rc::clone(&written));
        Box::pin(async move {
            let path = write_page(&context, &run).await.map_err(|error| warn(&error)).ok();
            written.borrow_mut().clone_from(&path);
            path
        })
    })
}

/// Rewrites the page that was written at the end of the loop, because a finish or an abort makes it outdated.
pub async fn renew_page(context: &Context, run: &RunDir) {
    if run.path().join(FILE).symlink_metadata().is_ok()
        && let Err(error) = write_page(context, run).await
    {
        warn(&error);
    }
}

fn warn(error: &anyhow::Error) {
    output::message(&Line::new(Tone::Warning, format!("the page of the run could not be written: {}", words(error))));
}

/// Writes the page of a run whose loop has ended into the run's directory. Returns its path.
async fn write_page(context: &Context, run: &RunDir) -> Result<PathBuf> {
    let page = page(context, run, None, Transcripts::LeftOut).await?;
    let path = run.path().join(FILE);
    write(&path, &page_html(&page)?)?;
    Ok(path)
}

/// Collects everything about a run; `owner` is the process that works on it, if there is one.
async fn page(context: &Context, run: &RunDir, owner: Option<u32>, wanted_transcripts: Transcripts) -> Result<Page> {
    let mut history = History::new();
    run.replay(|record| history.take(record))?;
    let stories = context.changes.stories(run, history.state());
    history.add_stories(&stories);
    let saved = saved_refs(context, run).await?;
    let rescued: BTreeMap<String, Comparison> =
        saved.iter().filter_map(|(journal_name, entry)| Some((journal_name.clone(), compared(entry)?))).collect();
    let mut findings = Findings { is_running: owner.is_some(), rescued, ..Findings::default() };
    let wanted = wanted(&history, &findings.rescued, &saved);
    let patches = context.repo.patches(&wanted).await?;
    findings.patches = wanted.into_iter().zip(patches).filter_map(|((it, _), patch)| Some((it, patch?))).collect();
    // The suggested commands must not depend on other refs of the repository, so that the page stays the same when it is written again.
    let place = CommandPlace { change: &run.change, refs: &RefList::default(), at_top: false };
    for (_, entry) in saved.iter().take(MOST_SAVED) {
        let patch = compared(entry).and_then(|it| findings.patches.get(&it));
        let changes = patch.map_or(&[][..], |patch| &patch.paths);
        findings.kept.extend(Kept::new(entry, changes, &place));
    }
    if wanted_transcripts == Transcripts::Included {
        findings.transcripts = transcripts(context, run, &history);
    }
    Ok(Page::new(&history, &findings))
}

/// The refs of a run that hold saved work, each with its name in the run's journal.
async fn saved_refs(context: &Context, run: &RunDir) -> Result<Vec<(String, DescribedRef)>> {
    let names = Names::new(&run.change);
    let is_last = context.store.runs(&run.change)?.last().is_none_or(|last| last.number == run.number);
    let of_run = if is_last { None } else { Some(run.number) };
    let prefix = names.prefix();
    let earlier = format!("{prefix}runs/{}/", run.number);
    let refs = context.repo.described_refs(&prefix).await?.into_iter();
    let own = refs.filter(|entry| names.kind(&entry.name).is_some_and(|own| own.run == of_run && own.kind.keeps_work()));
    Ok(own
        .map(|entry| {
            let journal_name = entry.name.strip_prefix(&earlier).map_or_else(|| entry.name.clone(), |rest| format!("{prefix}{rest}"));
            (journal_name, entry)
        })
        .collect())
}

fn compared(entry: &DescribedRef) -> Option<Comparison> {
    Some(Comparison { commit: entry.oid.clone(), before: entry.parent.clone()? })
}

/// All comparisons that git has to make, for a single call.
fn wanted(history: &History, rescued: &BTreeMap<String, Comparison>, saved: &[(String, DescribedRef)]) -> Vec<(Comparison, PatchLimit)> {
    let shown = comparisons(history, rescued);
    let checkpoints = shown.iter().filter(|(_, is_checkpoint)| *is_checkpoint).count();
    let (of_checkpoint, of_other) = patch_limits(checkpoints, shown.len() - checkpoints);
    let mut wanted: BTreeMap<Comparison, PatchLimit> =
        shown.into_iter().map(|(it, is_checkpoint)| (it, if is_checkpoint { of_checkpoint } else { of_other })).collect();
    for it in saved.iter().take(MOST_SAVED).filter_map(|(_, entry)| compared(entry)) {
        wanted.entry(it).or_insert(PatchLimit { lines: 0, bytes: 0 });
    }
    wanted.into_iter().collect()
}

/// The last lines of the agents' transcripts. A transcript that cannot be read is left out.
fn transcripts(context: &Context, run: &RunDir, history: &History) -> BTreeMap<(StoryId, usize), Vec<String>> {
    let (mut all, mut room) = (BTreeMap::new(), ALL_LINES);
    for (story, index, number, agent) in history.agents() {
        let path = run.attempt(&story, number).join("stdout");
        // An agent may have replaced the file by something else.
        if !path.symlink_metadata().is_ok_and(|meta| meta.is_file()) || room == 0 {
            continue;
        }
        let Ok(mut transcript) = Transcript::open(&path, format_of(context, &agent)) else { continue };
        let most = TRANSCRIPT_LINES.min(room);
        let mut lines = VecDeque::new();
        let read = transcript.rest(&mut |said| {
            if lines.len() == most {
                lines.pop_front();
            }
            lines.push_back(match said {
                Said::Text(text) => said_line(None, text),
                Said::Tool { name, target } => said_line(Some(name), target),
            });
        });
        if read.is_ok() {
            room -= lines.len();
            all.insert((story, index), lines.into());
        }
    }
    all
}

/// Writes a page. Never overwrites a file that is not a page of git-ralph.
fn write(path: &Path, text: &str) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    match fs::metadata(path) {
        Ok(meta) if !meta.is_file() => {
            // A pipe or a device.
            let mut file = fs::OpenOptions::new().write(true).open(path).with_context(cannot)?;
            return file.write_all(text.as_bytes()).with_context(cannot);
        }
        Ok(_) if !is_ours(path) => {
            bail!(
                Problem::refused(format!("{} exists and is not a page that git-ralph wrote: it is not overwritten", path.display()))
                    .hint(format!("rm {}", quoted(&path.display().to_string())))
            )
        }
        _ => {}
    }
    let draft = path.with_file_name(format!(".{}.part", path.file_name().unwrap_or_default().to_string_lossy()));
    safe_write::draft(&draft, text.as_bytes()).with_context(cannot)?;
    fs::rename(&draft, path).with_context(cannot)
}

fn is_ours(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    read.is_ok() && (head.is_empty() || String::from_utf8_lossy(&head).contains(REPORT_MARK))
}

/// Opens a page with the program in `BROWSER`, or else with the desktop's default.
async fn open(context: &Context, path: &Path) -> Result<()> {
    let environment = &context.environment;
    let named = environment.get("BROWSER").map(|browser| browser.to_string_lossy().into_owned());
    let candidates = named.iter().flat_map(|named| named.split(':')).chain(["xdg-open", "open"]);
    let is_there = |command: &&str| {
        let program = command.split(' ').next().unwrap_or_default();
        !program.is_empty() && on_path(program.as_ref(), &environment.as_typed(), &environment.cwd).is_some()
    };
    let command = candidates.into_iter().find(is_there).map(|command| command.replace(" %s", "").replace(" '%s'", ""));
    let Some(command) = command else {
        bail!(
            Problem::fatal("no browser was found: BROWSER is not set, and xdg-open is not installed")
                .hint("BROWSER=firefox git ralph report --open")
        )
    };
    if !edit(&command, environment.as_typed(), &environment.cwd, path).await.with_context(|| format!("cannot start '{command}'"))? {
        bail!("'{command}' could not open {}", path.display());
    }
    Ok(())
}
