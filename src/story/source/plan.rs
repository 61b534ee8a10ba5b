//! Reads a Markdown plan, whose `### Task N: …` sections are stories and whose `## Validation Commands` are gates; also
//! reads plain check lists.

use super::markdown::{BlockKind, blocks};
use super::{Ids, Mark, Material, Page, Section, Sourced, slug};

/// How many bytes of the text before the first task go into a prompt.
const LONGEST_CONTEXT: usize = 48 * 1024;

/// The keyword, number and title of a task: `Task 1: Set up`.
pub(super) fn task(heading: &str) -> Option<(&str, &str, &str)> {
    let (kind, rest) = heading.split_once([' ', '\t'])?;
    let known = ["task", "iteration"].iter().any(|word| kind.eq_ignore_ascii_case(word));
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len());
    let number = rest[..end].trim_end_matches('.');
    let behind = rest[end..].trim_start();
    // Skips an aside: `Task 5 (optional): …`
    let behind = behind.strip_prefix('(').and_then(|aside| aside.split_once(')')).map_or(behind, |(_, behind)| behind.trim_start());
    let dotted = rest[..end].ends_with('.').then_some(behind);
    let title = behind.strip_prefix([':', '-', '–', '—']).or(dotted).or_else(|| behind.is_empty().then_some(""))?;
    (known && number.starts_with(|c: char| c.is_ascii_digit())).then_some((kind, number, title.trim()))
}

/// The parts of a plan.
#[derive(Default)]
struct Plan<'a> {
    title: Option<&'a str>,
    context: String,
    gates: Vec<String>,
    sections: Vec<Section<'a>>,
    notes: Vec<(usize, String)>,
}

/// The part of the plan that a line belongs to.
enum Part {
    Before,
    Gates,
    Task,
    Elsewhere,
}

fn take_apart(text: &str) -> Plan<'_> {
    let mut plan = Plan::default();
    let mut place = Part::Before;
    for block in blocks(text) {
        match block.kind {
            BlockKind::Heading { level: 1, text } if plan.title.is_none() => plan.title = Some(text),
            BlockKind::Heading { level: 3, text } if task(text).is_some() => {
                if let Some((kind, number, title)) = task(text) {
                    let taken = |id: &str| plan.sections.iter().any(|section: &Section<'_>| section.id == id);
                    let id = if taken(number) { format!("{}-{number}", kind.to_ascii_lowercase()) } else { number.to_owned() };
                    plan.sections.push(Section::new(id, title, block.line));
                }
                place = Part::Task;
            }
            BlockKind::Heading { level, text } if level <= 3 => {
                place = match text.to_ascii_lowercase().as_str() {
                    "validation commands" => Part::Gates,
                    _ if plan.sections.is_empty() => Part::Before,
                    _ => Part::Elsewhere,
                };
                if matches!(place, Part::Before) {
                    plan.context.push_str(&format!("{} {text}\n", "#".repeat(level)));
                }
            }
            kind => plan.put(&place, &kind, block.line),
        }
    }
    plan
}

impl<'a> Plan<'a> {
    fn put(&mut self, place: &Part, kind: &BlockKind<'a>, line: usize) {
        match (place, kind, self.sections.last_mut()) {
            (Part::Task, BlockKind::Box(found), Some(section)) if !found.fenced => section.boxes.push(found.clone()),
            (Part::Task, BlockKind::Text(text), Some(section)) => {
                section.text.push_str(text);
                section.text.push('\n');
            }
            (Part::Task, BlockKind::Heading { level, text }, Some(section)) => {
                section.text.push_str(&format!("{} {text}\n", "#".repeat(*level)));
            }
            (Part::Gates, BlockKind::Text(text), _) => self.gates.extend(command(text)),
            (Part::Before, BlockKind::Text(text), _) => {
                self.context.push_str(text);
                self.context.push('\n');
            }
            (Part::Before | Part::Elsewhere, BlockKind::Box(found), _) if !found.fenced => {
                self.notes.push((line, format!("the box '{}' belongs to no task, it is left alone", found.text)));
            }
            _ => {}
        }
    }
}

/// A command in a list, either in backticks or the whole item.
fn command(line: &str) -> Option<String> {
    let text = line.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let numbered = if digits > 0 { text[digits..].strip_prefix(['.', ')']) } else { None };
    let item = text.strip_prefix(['-', '*', '+']).or(numbered)?.trim();
    let quoted = item.strip_prefix('`').and_then(|rest| rest.split_once('`')).map(|(command, _)| command);
    Some(quoted.unwrap_or(item).trim().to_owned()).filter(|command| !command.is_empty())
}

pub(super) fn read(material: &Material) -> Result<Sourced, String> {
    let page = &material.main;
    let plan = take_apart(&page.text);
    let context = plan.context.trim();
    let context = &context[..context.floor_char_boundary(LONGEST_CONTEXT)];
    Ok(Sourced {
        title: plan.title.map(str::to_owned),
        context: (!context.is_empty()).then(|| context.to_owned()),
        verify: plan.gates,
        stories: plan.sections.iter().map(|section| section.story(page)).collect::<Result<_, _>>()?,
        notes: {
            let bare = plan.sections.iter().filter(|section| section.boxes.is_empty());
            let bare =
                bare.map(|section| (section.line, format!("the task '{}' has no box, so git-ralph cannot mark it as done", section.id)));
            plan.notes.iter().cloned().chain(bare).map(|(line, note)| format!("{}:{line}: {note}", page.name)).collect()
        },
    })
}

pub(super) fn marks(page: &Page) -> Result<Vec<Mark>, String> {
    let marks: Vec<Vec<Mark>> = take_apart(&page.text).sections.iter().map(|section| section.marks(page)).collect::<Result<_, _>>()?;
    Ok(marks.concat())
}

/// Reads a check list: each top-level box is a story, and the boxes nested below it are its tasks.
fn items(text: &str) -> Vec<Section<'_>> {
    let mut items: Vec<Section<'_>> = Vec::new();
    let mut ids = Ids::default();
    let mut top = None;
    for block in blocks(text) {
        let found = match block.kind {
            BlockKind::Box(found) if !found.fenced => found,
            // Text below a heading, or below a bullet without a box, does not belong to the previous box.
            BlockKind::Heading { .. } => {
                top = None;
                continue;
            }
            BlockKind::Text(line) => {
                let indent = line.len() - line.trim_start().len();
                let bullet = ["- ", "* ", "+ "].iter().any(|mark| line.trim_start().starts_with(mark));
                match items.last_mut() {
                    Some(item) if top.is_some_and(|level| indent > level) => {
                        item.text.push_str(line.trim());
                        item.text.push('\n');
                    }
                    _ if bullet => top = None,
                    _ => {}
                }
                continue;
            }
            BlockKind::Box(_) => continue,
        };
        let nested = top.is_some();
        let level = *top.get_or_insert(found.indent);
        match items.last_mut() {
            Some(item) if nested && found.indent > level => item.boxes.push(found),
            _ => {
                top = Some(found.indent.min(level));
                let mut item = Section::new(ids.next(name(found.text)), found.text, block.line);
                item.boxes.push(found);
                items.push(item);
            }
        }
    }
    items
}

/// The label at the start of a box's text, such as `1.2` or `T001`, or else a slug of the text.
fn name(text: &str) -> String {
    let first = text.split_whitespace().next().unwrap_or_default().trim_end_matches([':', '.', ')']);
    let numbered = first.chars().any(|c| c.is_ascii_digit())
        && first.len() <= 8
        && first.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-');
    if numbered { first.to_owned() } else { slug(text) }
}

pub(super) fn read_checklist(material: &Material) -> Result<Sourced, String> {
    let page = &material.main;
    let story = |item: &Section<'_>| {
        let mut story = item.story(page)?;
        // The story's own box is its title, not a task.
        story.tasks.remove(0);
        story.done = item.boxes.first().is_some_and(|own| own.done);
        Ok(story)
    };
    let title = blocks(&page.text).find_map(|block| match block.kind {
        BlockKind::Heading { level: 1, text } => Some(text.to_owned()),
        _ => None,
    });
    Ok(Sourced { title, stories: items(&page.text).iter().map(story).collect::<Result<_, String>>()?, ..Sourced::default() })
}

pub(super) fn checklist_marks(page: &Page) -> Result<Vec<Mark>, String> {
    let marks: Vec<Vec<Mark>> = items(&page.text).iter().map(|item| item.marks(page)).collect::<Result<_, _>>()?;
    Ok(marks.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::story::source::Kind;

    fn material(kind: Kind, text: &str) -> Material {
        Material { kind, main: Page { name: "plan.md".into(), text: text.into() }, beside: Vec::new() }
    }

    #[test]
    fn tasks_and_iterations_are_stories_and_validation_commands_gates() {
        let text = "# Plan: Greeter\n\n## Overview\nWords.\n\n## Validation Commands\n- `cargo test`\n- make lint\n\n## Implementation\n\n### Task 1: Set up\n\
                    Do it.\n- [x] a\n- [ ] b\n\n### Iteration 1: Again\n- [ ] c\n### Task 2.1 - Dashes\n- [x] d\n## Notes\n- [ ] later\n";
        let sourced = material(Kind::Plan, text).read().unwrap();
        assert_eq!(
            (sourced.title.as_deref(), sourced.context.as_deref()),
            (Some("Plan: Greeter"), Some("## Overview\nWords.\n\n## Implementation"))
        );
        assert_eq!(sourced.verify, ["cargo test", "make lint"]);
        let found: Vec<_> = sourced.stories.iter().map(|story| (story.id.as_str(), story.title.as_str(), story.done)).collect();
        assert_eq!(found, [("1", "Set up", false), ("iteration-1", "Again", false), ("2.1", "Dashes", true)]);
        assert_eq!(
            (sourced.stories[0].prompt.as_str(), &sourced.stories[0].tasks[..]),
            ("Do it.", &["a (done)".to_owned(), "b".to_owned()][..])
        );
        assert_eq!(sourced.notes, ["plan.md:22: the box 'later' belongs to no task, it is left alone"]);
    }

    #[test]
    fn a_heading_that_only_speaks_of_tasks_is_none() {
        for heading in ["Tasks", "Task list", "Task force", "Taskless 1: x", "Task 1 and 2"] {
            assert_eq!(task(heading), None, "{heading}");
        }
    }

    #[test]
    fn every_top_level_box_of_a_checklist_is_a_story() {
        let text = "- [ ] Add the parser\n  - [x] nested\n  - [ ] more\n- [x] 1.2 Numbered\n- [ ] Add the parser\n";
        let sourced = material(Kind::Checklist, text).read().unwrap();
        let found: Vec<_> = sourced.stories.iter().map(|story| (story.id.as_str(), story.done, story.tasks.len())).collect();
        assert_eq!(found, [("add-the-parser", false, 2), ("1.2", true, 0), ("add-the-parser-2", false, 0)]);
    }
}
