//! Reads a spec-kit feature: the phases in `tasks.md` are stories, and their order and `[P]` marks determine `after`.

use super::markdown::{BlockKind, blocks};
use super::{Ids, Mark, Material, Page, Section, Sourced, carried, slug};
use crate::story::StoryId;

/// How many bytes of the specification and of the plan go into a prompt.
const LONGEST_PAGE: usize = 48 * 1024;

/// The number and title of a phase: `Phase 3: User Story 1 - Sign in (Priority: P1)`.
pub(super) fn phase(heading: &str) -> Option<(&str, &str)> {
    let behind = heading.get(..5).filter(|word| word.eq_ignore_ascii_case("phase")).map(|_| &heading[5..])?;
    let rest = behind.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len());
    let numbered = rest.starts_with(|c: char| c.is_ascii_digit()) || end == 1;
    if rest.len() == behind.len() || !numbered {
        return None;
    }
    let title = rest[end..].trim_start_matches([':', '-', '–', '—', ' ']).trim();
    (end > 0).then_some((&rest[..end], title))
}

/// The role of a phase, which determines its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Set-up and foundation: all later phases wait for it.
    Ground,
    /// A user story.
    User,
    /// Polish: waits for all phases before it.
    Rest,
}

struct Phase<'a> {
    section: Section<'a>,
    role: Role,
}

impl Phase<'_> {
    /// Whether the phase may run at the same time as the user story before it, because its first task is marked `[P]`.
    fn is_parallel(&self) -> bool {
        self.section.boxes.first().is_some_and(|first| first.text.contains("[P]"))
    }
}

/// The number of the user story, if the phase is one.
fn user_story(title: &str) -> Option<String> {
    let at = title.to_ascii_lowercase().find("user story ")?;
    let rest = &title[at + "user story ".len()..];
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    (!digits.is_empty()).then_some(digits)
}

fn phases(text: &str) -> Vec<Phase<'_>> {
    let mut phases: Vec<Phase<'_>> = Vec::new();
    let mut here = false;
    let mut ids = Ids::default();
    for block in blocks(text) {
        match block.kind {
            BlockKind::Heading { level: 2, text } => {
                here = phase(text).is_some();
                if let Some((number, title)) = phase(text) {
                    let users = phases.iter().any(|phase| phase.role == Role::User);
                    let (id, role) = match user_story(title) {
                        Some(story) => (format!("US{story}"), Role::User),
                        None if users => (format!("phase-{}", slug(number)), Role::Rest),
                        None => (format!("phase-{}", slug(number)), Role::Ground),
                    };
                    phases.push(Phase { section: Section::new(ids.next(id), title, block.line), role });
                }
            }
            BlockKind::Box(found) if here && !found.fenced => {
                if let Some(phase) = phases.last_mut() {
                    phase.section.boxes.push(found);
                }
            }
            BlockKind::Text(line) if here => {
                if let Some(phase) = phases.last_mut().filter(|_| line.trim() != "---") {
                    phase.section.text.push_str(line);
                    phase.section.text.push('\n');
                }
            }
            _ => {}
        }
    }
    phases
}

fn after(phases: &[Phase<'_>], at: usize) -> Vec<usize> {
    let before = |role: Role| (0..at).filter(move |other| phases[*other].role == role);
    match phases[at].role {
        Role::Ground => before(Role::Ground).next_back().into_iter().collect(),
        Role::User => {
            let previous = before(Role::User).next_back().filter(|_| !phases[at].is_parallel());
            before(Role::Ground).next_back().into_iter().chain(previous).collect()
        }
        Role::Rest => {
            let users: Vec<usize> = before(Role::User).collect();
            users.into_iter().chain(before(Role::Rest).next_back()).collect()
        }
    }
}

pub(super) fn read(material: &Material) -> Result<Sourced, String> {
    let page = &material.main;
    let all = phases(&page.text);
    let mut sourced = Sourced { title: title(&page.text), context: context(&material.beside), ..Sourced::default() };
    let empty: Vec<usize> = (0..all.len()).filter(|at| all[*at].section.boxes.is_empty()).collect();
    for at in &empty {
        let section = &all[*at].section;
        sourced.notes.push(format!("{}:{}: the phase '{}' has no tasks, it is left out", page.name, section.line, section.title));
    }
    let full: Vec<Phase<'_>> = all.into_iter().filter(|phase| !phase.section.boxes.is_empty()).collect();
    for (at, phase) in full.iter().enumerate() {
        let mut story = phase.section.story(page)?;
        let ids = after(&full, at).into_iter().map(|other| full[other].section.id.parse::<StoryId>());
        story.after = ids.collect::<Result<_, String>>()?;
        sourced.stories.push(story);
    }
    Ok(sourced)
}

pub(super) fn marks(page: &Page) -> Result<Vec<Mark>, String> {
    let marks: Vec<Vec<Mark>> = phases(&page.text).iter().map(|phase| phase.section.marks(page)).collect::<Result<_, _>>()?;
    Ok(marks.concat())
}

fn title(text: &str) -> Option<String> {
    let found = blocks(text).find_map(|block| match block.kind {
        BlockKind::Heading { level: 1, text } => Some(text),
        _ => None,
    })?;
    Some(found.strip_prefix("Tasks:").unwrap_or(found).trim().to_owned())
}

fn context(beside: &[Page]) -> Option<String> {
    let whole = |file: &str, title: &str| {
        let page = beside.iter().find(|page| page.name.ends_with(file))?;
        Some(format!("### {title} ({})\n\n{}", page.name, carried(page, LONGEST_PAGE)))
    };
    let mut parts: Vec<String> =
        [("/spec.md", "Specification"), ("/plan.md", "Plan")].iter().filter_map(|(file, title)| whole(file, title)).collect();
    let others: Vec<&str> =
        beside.iter().map(|page| page.name.as_str()).filter(|name| !name.ends_with("/spec.md") && !name.ends_with("/plan.md")).collect();
    if !others.is_empty() {
        parts.push(format!("See also: {}", others.join(", ")));
    }
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::story::source::Kind;

    #[test]
    fn phases_are_stories_and_their_order_becomes_after() {
        let text = "# Tasks: Photo albums\n## Format: `[ID] [P?] [Story]`\n- [ ] not a task of a phase\n\n## Phase 1: Setup (Shared Infrastructure)\n- [x] T001 Create it\n\
                    ## Phase 2: Foundational\n- [ ] T002 Base\n---\n## Phase 3: User Story 1 - Albums (Priority: P1) 🎯 MVP\n**Goal**: albums\n- [ ] T003 [US1] Model\n\
                    ## Phase 4: User Story 2 - Tags (Priority: P2)\n- [ ] T004 [P] [US2] Model\n## Phase 5: User Story 3 - Search\n- [ ] T005 [US3] Index\n\
                    ## Phase N: Polish\n- [ ] T006 Docs\n## Dependencies\n- [ ] not this either\n";
        let sourced =
            Material { kind: Kind::SpecKit, main: Page { name: "tasks.md".into(), text: text.into() }, beside: Vec::new() }.read().unwrap();
        let found: Vec<_> = sourced
            .stories
            .iter()
            .map(|story| (story.id.as_str(), story.done, story.after.iter().map(StoryId::as_str).collect::<Vec<_>>().join(" ")))
            .collect();
        let row = |id: &'static str, done, after: &str| (id, done, after.to_owned());
        assert_eq!(
            found,
            [
                row("phase-1", true, ""),
                row("phase-2", false, "phase-1"),
                row("US1", false, "phase-2"),
                row("US2", false, "phase-2"),
                row("US3", false, "phase-2 US2"),
                row("phase-n", false, "US1 US2 US3"),
            ]
        );
        assert_eq!((sourced.title.as_deref(), sourced.stories[2].prompt.as_str()), (Some("Photo albums"), "**Goal**: albums"));
    }
}
