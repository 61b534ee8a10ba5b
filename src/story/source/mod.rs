//! Reads stories from files of other tools, such as OpenSpec, spec-kit or a Markdown plan. Pure: takes texts, returns
//! stories and marks.
//!
//! A source has one main file whose marks say which stories are done (check boxes, or `passes` in a `prd.json`), and
//! other files that go into the prompt. The checkpoints decide what is done; git-ralph updates the marks accordingly.

mod markdown;
mod marking;
mod openspec;
mod plan;
mod prd;
mod speckit;

pub use marking::{Edit, Marking, apply, mark_landed};
pub use openspec::count as count_boxes;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use self::markdown::{BlockKind, blocks};
use super::{Story, StoryId};

/// The kind of a source, recognised by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An OpenSpec change folder.
    OpenSpec,
    /// A spec-kit feature folder.
    SpecKit,
    /// A `prd.json`.
    Prd,
    /// A Markdown plan with tasks or iterations.
    Plan,
    /// A file with check boxes.
    Checklist,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::OpenSpec => "OpenSpec change",
            Kind::SpecKit => "spec-kit feature",
            Kind::Prd => "prd.json",
            Kind::Plan => "Markdown plan",
            Kind::Checklist => "checklist",
        })
    }
}

/// A text with its name for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The path.
    pub name: String,
    /// The content.
    pub text: String,
}

/// All files of a source that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Material {
    /// The kind of source.
    pub kind: Kind,
    /// The main file, which has the marks.
    pub main: Page,
    /// Other files, for the prompt.
    pub beside: Vec<Page>,
}

/// The content of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sourced {
    /// The title of the change.
    pub title: Option<String>,
    /// Text for the prompt of every story.
    pub context: Option<String>,
    /// Gates for every story.
    pub verify: Vec<String>,
    /// The stories, in the order in which they are to be done.
    pub stories: Vec<Story>,
    /// Remarks for the user.
    pub notes: Vec<String>,
}

/// A place in the file that says whether something is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The story that the mark belongs to.
    pub story: StoryId,
    /// The text that distinguishes it from other marks of the story.
    pub text: String,
    /// Whether it is marked as done.
    pub done: bool,
    /// The byte range of the mark.
    pub at: Range<usize>,
    /// The texts for done and for not done.
    pub words: (&'static str, &'static str),
}

/// Recognises the kind of a file by its content.
///
/// # Errors
/// What was expected.
pub fn kind_of(page: &Page) -> Result<Kind, String> {
    let text = page.text.trim_start_matches('\u{feff}').trim_start();
    if text.starts_with('{') {
        return Ok(Kind::Prd);
    }
    let mut boxes = false;
    let (mut groups, mut phases) = (false, false);
    for block in blocks(&page.text) {
        match block.kind {
            BlockKind::Heading { level: 3, text } if plan::task(text).is_some() => return Ok(Kind::Plan),
            BlockKind::Heading { level: 2, text } => {
                phases |= speckit::phase(text).is_some();
                groups |= openspec::group(text).is_some();
            }
            BlockKind::Box(found) => boxes |= !found.fenced,
            _ => {}
        }
    }
    match (boxes, phases, groups) {
        (true, true, _) => Ok(Kind::SpecKit),
        (true, false, true) => Ok(Kind::OpenSpec),
        (true, false, false) => Ok(Kind::Checklist),
        (false, ..) => Err(format!("{}: expected boxes ('- [ ] …'), '### Task N: …' or \"userStories\" in it", page.name)),
    }
}

impl Material {
    /// Reads the stories, the context and the gates.
    ///
    /// # Errors
    /// A line of the form `file:line: what is wrong`.
    pub fn read(&self) -> Result<Sourced, String> {
        let sourced = match self.kind {
            Kind::OpenSpec => openspec::read(self)?,
            Kind::SpecKit => speckit::read(self)?,
            Kind::Prd => prd::read(self)?,
            Kind::Plan => plan::read(self)?,
            Kind::Checklist => plan::read_checklist(self)?,
        };
        if sourced.stories.is_empty() {
            return Err(format!("{}: there is no task in it", self.main.name));
        }
        super::check_order(&sourced.stories).map_err(|problem| format!("{}: {}", self.main.name, order_words(&problem)))?;
        Ok(sourced)
    }

    /// The stories that are marked as done.
    ///
    /// # Errors
    /// A line of the form `file:line: what is wrong`.
    pub fn done(&self) -> Result<Vec<StoryId>, String> {
        Ok(self.read()?.stories.into_iter().filter(|story| story.done).map(|story| story.id).collect())
    }
}

/// All marks of a file.
///
/// # Errors
/// A line of the form `file:line: what is wrong`.
pub fn marks(kind: Kind, page: &Page) -> Result<Vec<Mark>, String> {
    match kind {
        Kind::OpenSpec => openspec::marks(page),
        Kind::SpecKit => speckit::marks(page),
        Kind::Prd => prd::marks(page),
        Kind::Plan => plan::marks(page),
        Kind::Checklist => plan::checklist_marks(page),
    }
}

fn order_words(problem: &super::OrderProblem) -> String {
    match problem {
        super::OrderProblem::Duplicate(id) => format!("two stories have the id '{id}'"),
        super::OrderProblem::Unknown { story, after } => format!("story '{story}' depends on the unknown story '{after}'"),
        super::OrderProblem::Circle(ids) => {
            format!("stories depend on each other in a circle: {}", ids.iter().map(StoryId::as_str).collect::<Vec<_>>().join(" -> "))
        }
    }
}

/// A story while it is being read: a heading with the boxes below it.
#[derive(Clone, Debug)]
struct Section<'a> {
    id: String,
    title: &'a str,
    line: usize,
    boxes: Vec<markdown::CheckBox<'a>>,
    text: String,
}

impl<'a> Section<'a> {
    fn new(id: impl Into<String>, title: &'a str, line: usize) -> Self {
        Section { id: id.into(), title, line, boxes: Vec::new(), text: String::new() }
    }

    /// Whether all boxes are checked.
    fn is_done(&self) -> bool {
        !self.boxes.is_empty() && self.boxes.iter().all(|found| found.done)
    }

    fn story(&self, page: &Page) -> Result<Story, String> {
        let id: StoryId = self.id.parse().map_err(|why: String| format!("{}:{}: {why}", page.name, self.line))?;
        let title = if self.title.is_empty() { self.id.as_str() } else { self.title };
        let least = self.boxes.iter().map(|found| found.indent).min().unwrap_or(0);
        let task = |found: &markdown::CheckBox<'_>| {
            let done = if found.done { " (done)" } else { "" };
            format!("{}{}{done}", " ".repeat(found.indent - least), found.text)
        };
        Ok(Story {
            title: title.to_owned(),
            prompt: self.text.trim().to_owned(),
            tasks: self.boxes.iter().map(task).collect(),
            done: self.is_done(),
            ..Story::stand_in(&id)
        })
    }

    fn marks(&self, page: &Page) -> Result<Vec<Mark>, String> {
        let story: StoryId = self.id.parse().map_err(|why: String| format!("{}:{}: {why}", page.name, self.line))?;
        let mark = |found: &markdown::CheckBox<'_>| Mark {
            story: story.clone(),
            text: found.text.to_owned(),
            done: found.done,
            at: found.mark.clone(),
            words: ("x", " "),
        };
        Ok(self.boxes.iter().map(mark).collect())
    }
}

/// The text of a page, cut to what fits into a prompt, with a reference to the file for the rest.
fn carried(page: &Page, longest: usize) -> String {
    let text = page.text.trim_start_matches('\u{feff}').trim();
    if text.len() <= longest {
        return text.to_owned();
    }
    format!("{}\n\n(the rest is in {})", text[..text.floor_char_boundary(longest)].trim_end(), page.name)
}

/// Assigns unique ids; a repeated id gets a number.
#[derive(Debug, Default)]
struct Ids(BTreeMap<String, u32>);

impl Ids {
    fn next(&mut self, wanted: String) -> String {
        let wanted = if wanted.is_empty() { "task".to_owned() } else { wanted };
        let count = self.0.entry(wanted.clone()).or_default();
        *count += 1;
        if *count == 1 {
            return wanted;
        }
        let numbered = format!("{wanted}-{count}");
        // The numbered id may exist already.
        if self.0.contains_key(&numbered) { self.next(numbered) } else { self.register(numbered) }
    }

    fn register(&mut self, id: String) -> String {
        self.0.insert(id.clone(), 1);
        id
    }
}

/// Turns a sentence into a short word that is suitable for a ref or an option.
fn slug(text: &str) -> String {
    const LONGEST: usize = 48;
    let mut slug = String::new();
    for c in text.chars() {
        if c.is_alphanumeric() {
            slug.extend(c.to_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') && c != '`' && c != '\'' {
            slug.push('-');
        }
        if slug.len() >= LONGEST {
            break;
        }
    }
    slug.trim_end_matches('-').to_owned()
}
