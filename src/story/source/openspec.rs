//! Reads an OpenSpec change: the groups in `tasks.md` are stories; proposal, design and scenarios go into their prompts.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::markdown::{BlockKind, blocks};
use super::{Ids, Mark, Material, Page, Section, Sourced, carried, slug};
use crate::story::Story;

/// How many bytes of the proposal and of the design go into a prompt.
const LONGEST_PAGE: usize = 48 * 1024;
/// How many bytes of scenarios go into a prompt.
const LONGEST_SCENARIOS: usize = 24 * 1024;

/// The number and title of a group: `1. Set up`.
pub(super) fn group(heading: &str) -> Option<(&str, &str)> {
    let digits = heading.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(heading.len());
    let number = heading[..digits].trim_end_matches('.');
    let title = heading[digits..].trim_start_matches([')', ':', '-']).trim();
    let numbered = number.starts_with(|c: char| c.is_ascii_digit()) && !number.contains("..");
    (numbered && !(title.is_empty() && digits < heading.len())).then_some((number, title))
}

/// The number of checked boxes and of all boxes, counted like `openspec`: under any heading, and even in code fences.
#[must_use]
pub fn count(text: &str) -> (usize, usize) {
    blocks(text).fold((0, 0), |(done, all), block| match block.kind {
        BlockKind::Box(found) => (done + usize::from(found.done), all + 1),
        _ => (done, all),
    })
}

fn sections(text: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    let mut ids = Ids::default();
    for block in blocks(text) {
        match block.kind {
            BlockKind::Heading { level: 2, text } => {
                let (id, title) = group(text).map_or_else(|| (slug(text), text), |(number, title)| (number.to_owned(), title));
                sections.push(Section::new(ids.next(id), title, block.line));
            }
            BlockKind::Box(found) if !found.fenced => {
                if sections.is_empty() {
                    sections.push(Section::new(ids.next("tasks".to_owned()), "Tasks without a group", block.line));
                }
                if let Some(section) = sections.last_mut() {
                    section.boxes.push(found);
                }
            }
            BlockKind::Text(line) => {
                if let Some(section) = sections.last_mut() {
                    section.text.push_str(line);
                    section.text.push('\n');
                }
            }
            BlockKind::Heading { level: 3.., text } => {
                if let Some(section) = sections.last_mut() {
                    section.text.push_str(&format!("### {text}\n"));
                }
            }
            _ => {}
        }
    }
    sections
}

pub(super) fn marks(page: &Page) -> Result<Vec<Mark>, String> {
    let marks: Vec<Vec<Mark>> = sections(&page.text).iter().map(|section| section.marks(page)).collect::<Result<_, _>>()?;
    Ok(marks.concat())
}

pub(super) fn read(material: &Material) -> Result<Sourced, String> {
    let page = &material.main;
    let mut sourced = Sourced { context: context(&material.beside), ..Sourced::default() };
    let scenarios = scenarios(&material.beside);
    for section in sections(&page.text) {
        if section.boxes.is_empty() {
            sourced.notes.push(format!("{}:{}: the group '{}' has no tasks, it is left out", page.name, section.line, section.title));
            continue;
        }
        if section.id == "tasks" && section.title == "Tasks without a group" {
            sourced.notes.push(format!("{}:{}: tasks without a group are the story 'tasks'", page.name, section.line));
        }
        let mut story = section.story(page)?;
        story.prompt = prompt(&story, &scenarios);
        sourced.stories.push(story);
    }
    Ok(sourced)
}

fn context(beside: &[Page]) -> Option<String> {
    let part = |file: &str, title: &str| {
        let page = beside.iter().find(|page| page.name.ends_with(file))?;
        let text = carried(page, LONGEST_PAGE);
        (!text.is_empty()).then(|| format!("### {title} ({})\n\n{text}", page.name))
    };
    let parts: Vec<String> =
        [("/proposal.md", "Proposal"), ("/design.md", "Design")].iter().filter_map(|(file, title)| part(file, title)).collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// A scenario of a specification, with the requirement that it belongs to.
struct Scenario {
    file: String,
    requirement: String,
    text: String,
    words: BTreeSet<String>,
}

fn scenarios(beside: &[Page]) -> Vec<Scenario> {
    let mut found: Vec<Scenario> = Vec::new();
    for page in beside.iter().filter(|page| page.name.ends_with("/spec.md")) {
        let mut requirement = String::new();
        let mut open = false;
        for line in page.text.lines() {
            if let Some(title) = line.trim().strip_prefix("### Requirement:") {
                title.trim().clone_into(&mut requirement);
                open = false;
            } else if line.trim().starts_with("#### Scenario:") {
                let text = format!("{}\n", line.trim());
                found.push(Scenario { file: page.name.clone(), requirement: requirement.clone(), text, words: BTreeSet::new() });
                open = true;
            } else if line.starts_with("## ") || line.starts_with("### ") {
                open = false;
            } else if let Some(scenario) = found.last_mut().filter(|_| open) {
                scenario.text.push_str(line);
                scenario.text.push('\n');
            }
        }
    }
    for scenario in &mut found {
        scenario.words = words(&scenario.requirement).union(&words(&scenario.text)).cloned().collect();
    }
    found
}

/// The significant words of a text.
fn words(text: &str) -> BTreeSet<String> {
    const COMMON: [&str; 24] = [
        "with",
        "when",
        "then",
        "that",
        "this",
        "from",
        "into",
        "given",
        "shall",
        "must",
        "should",
        "scenario",
        "requirement",
        "test",
        "tests",
        "task",
        "tasks",
        "implement",
        "create",
        "update",
        "write",
        "have",
        "does",
        "user",
    ];
    text.split(|c: char| !c.is_alphanumeric())
        .map(str::to_lowercase)
        .filter(|word| word.chars().count() > 3 && !COMMON.contains(&word.as_str()))
        // Cut to six letters, so that "priority" matches "priorities" and "filtered" matches "filter".
        .map(|word| word.chars().take(6).collect())
        .collect()
}

/// The scenarios that share words with a story's tasks, best match first, and where to find the rest.
fn prompt(story: &Story, scenarios: &[Scenario]) -> String {
    let about = words(&format!("{} {}", story.title, story.tasks.join(" ")));
    let mut touched: Vec<(usize, &Scenario)> =
        scenarios.iter().map(|scenario| (scenario.words.intersection(&about).count(), scenario)).filter(|(score, _)| *score > 0).collect();
    touched.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    let mut text = story.prompt.clone();
    let mut carried = 0;
    let mut last = "";
    for (_, scenario) in &touched {
        if carried + scenario.text.len() > LONGEST_SCENARIOS {
            continue;
        }
        if carried == 0 {
            text.push_str("\n\nScenarios that this story touches:\n");
        }
        if last != scenario.requirement {
            let _ = write!(text, "\n### Requirement: {}\n", scenario.requirement);
            last = &scenario.requirement;
        }
        let _ = write!(text, "\n{}\n", scenario.text.trim_end());
        carried += scenario.text.len();
    }
    let files: BTreeSet<&str> = scenarios.iter().map(|scenario| scenario.file.as_str()).collect();
    if !files.is_empty() {
        let _ = write!(text, "\n\nAll requirements and scenarios: {}", files.into_iter().collect::<Vec<_>>().join(", "));
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::story::source::Kind;

    fn page(name: &str, text: &str) -> Page {
        Page { name: name.into(), text: text.into() }
    }

    #[test]
    fn groups_are_stories_and_boxes_their_tasks() {
        let tasks = "# Tasks\n## 1. Set up\n- [x] 1.1 a\n- [ ] 1.2 b\n  - [ ] nested\n\n## 2. Build\nSome words.\n- [x] 2.1 c\n## Later\n- [ ] d\n## 4. Empty\n";
        let sourced = Material { kind: Kind::OpenSpec, main: page("t/tasks.md", tasks), beside: Vec::new() }.read().unwrap();
        let found: Vec<_> = sourced.stories.iter().map(|story| (story.id.as_str(), story.title.as_str(), story.done)).collect();
        assert_eq!(found, [("1", "Set up", false), ("2", "Build", true), ("later", "Later", false)]);
        assert_eq!(sourced.stories[0].tasks, ["1.1 a (done)", "1.2 b", "  nested"]);
        assert_eq!(sourced.stories[1].prompt, "Some words.");
        assert_eq!(sourced.notes, ["t/tasks.md:12: the group 'Empty' has no tasks, it is left out"]);
    }

    #[test]
    fn tasks_without_a_group_are_a_story_and_reported() {
        let sourced = Material { kind: Kind::OpenSpec, main: page("t/tasks.md", "- [ ] a\n- [ ] b\n"), beside: Vec::new() }.read().unwrap();
        assert_eq!((sourced.stories.len(), sourced.stories[0].id.as_str()), (1, "tasks"));
        assert!(sourced.notes[0].contains("tasks without a group"), "{:?}", sourced.notes);
        let none = Material { kind: Kind::OpenSpec, main: page("t/tasks.md", "# Tasks\n"), beside: Vec::new() }.read();
        assert_eq!(none, Err("t/tasks.md: there is no task in it".to_owned()));
    }

    #[test]
    fn touched_scenarios_come_first_and_the_rest_by_reference() {
        let spec = "## ADDED Requirements\n### Requirement: Task Priority\nText.\n#### Scenario: Default priority\n- WHEN a task is added\n- THEN its priority is medium\n\
                    ### Requirement: Export\n#### Scenario: CSV file\n- WHEN exported\n- THEN a CSV file\n";
        let beside = vec![page("c/proposal.md", "Why."), page("c/design.md", "How."), page("c/specs/tasks/spec.md", spec)];
        let sourced = Material { kind: Kind::OpenSpec, main: page("c/tasks.md", "## 1. Priority column\n- [ ] 1.1 add it\n"), beside }
            .read()
            .unwrap();
        let prompt = &sourced.stories[0].prompt;
        assert!(
            prompt.contains("#### Scenario: Default priority\n- WHEN a task is added") && prompt.contains("### Requirement: Task Priority"),
            "{prompt}"
        );
        assert!(!prompt.contains("CSV") && prompt.ends_with("c/specs/tasks/spec.md"), "{prompt}");
        let context = sourced.context.unwrap();
        assert!(context.contains("### Proposal (c/proposal.md)\n\nWhy.") && context.contains("How."), "{context}");
    }

    #[test]
    fn the_count_is_that_of_openspec() {
        let text = "## 1. A\n- [x] a\n* [X] b\n1. [ ] c\n2) [ ] d\n```\n- [ ] e\n```\n- [~] f\n- [] g\n- [ x] h\n- [x](u) no\n";
        assert_eq!(count(text), (3, 8));
    }
}
