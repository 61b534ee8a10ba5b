//! Stories from where people already keep them. Pure: texts in, stories and marks out.
//!
//! A source has one file whose marks say what is done (boxes, or `passes` in a `prd.json`), and files beside it that are for
//! the prompt. Checkpoints decide what is done; the marks follow them.

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

/// What a source is, told by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A change folder of OpenSpec.
    OpenSpec,
    /// A feature folder of spec-kit.
    SpecKit,
    /// A `prd.json`.
    Prd,
    /// A Markdown plan with tasks or iterations.
    Plan,
    /// A file with boxes.
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

/// A text with the name that people and errors call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its path.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// Everything of a source that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Material {
    /// What it is.
    pub kind: Kind,
    /// The file with the marks.
    pub main: Page,
    /// Files beside it, for the prompt.
    pub beside: Vec<Page>,
}

/// What a source says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sourced {
    /// What a person calls the change.
    pub title: Option<String>,
    /// What every story's prompt carries.
    pub context: Option<String>,
    /// Gates for every story.
    pub verify: Vec<String>,
    /// The stories, in the order in which they are to be done.
    pub stories: Vec<Story>,
    /// What is worth saying about it.
    pub notes: Vec<String>,
}

/// A place that says whether something is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The story that it belongs to.
    pub story: StoryId,
    /// What tells it apart from others of the story.
    pub text: String,
    /// Whether it says done.
    pub done: bool,
    /// Its bytes.
    pub at: Range<usize>,
    /// What is written there for done and for not done.
    pub words: (&'static str, &'static str),
}

/// Tells what a file is by what is in it.
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
    /// The stories and what goes with them.
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

    /// The stories that it says are done.
    ///
    /// # Errors
    /// A line of the form `file:line: what is wrong`.
    pub fn done(&self) -> Result<Vec<StoryId>, String> {
        Ok(self.read()?.stories.into_iter().filter(|story| story.done).map(|story| story.id).collect())
    }
}

/// Every mark of a file.
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

/// A story under way: a heading with the boxes below it.
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

    /// Whether all of it is ticked.
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

/// A text cut to what a prompt can carry, with the place of the rest.
fn carried(page: &Page, longest: usize) -> String {
    let text = page.text.trim_start_matches('\u{feff}').trim();
    if text.len() <= longest {
        return text.to_owned();
    }
    format!("{}\n\n(the rest is in {})", text[..text.floor_char_boundary(longest)].trim_end(), page.name)
}

/// Hands out ids; one that is taken gets a number.
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
        // Somebody may be called like that already.
        if self.0.contains_key(&numbered) { self.next(numbered) } else { self.register(numbered) }
    }

    fn register(&mut self, id: String) -> String {
        self.0.insert(id.clone(), 1);
        id
    }
}

/// A word for a ref or an option, made of a sentence.
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
