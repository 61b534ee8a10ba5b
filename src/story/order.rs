//! The order of stories, and its checks: `after` must name existing stories, without cycles.

use std::collections::{BTreeMap, BTreeSet};

use super::{Story, StoryId};

/// The order in which stories may start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Each story after the one before it.
    #[default]
    List,
    /// Each story as soon as those in its `after` are done.
    Graph,
}

impl Order {
    /// The default order: a graph if any story has an `after`, else a list.
    #[must_use]
    pub fn of(stories: &[Story]) -> Self {
        if stories.iter().any(|story| !story.after.is_empty()) { Order::Graph } else { Order::List }
    }
}

/// Whether two stories may change the same path, according to their patterns. Only the part of a pattern before its
/// first wildcard is compared, so patterns that might overlap count as overlapping.
#[must_use]
pub fn overlap(one: &Story, other: &Story) -> bool {
    one.touches.iter().any(|left| other.touches.iter().any(|right| patterns_overlap(left, right)))
}

fn patterns_overlap(left: &str, right: &str) -> bool {
    let (left, right) = (fixed_part(left), fixed_part(right));
    left.starts_with(right) || right.starts_with(left)
}

/// The path before the first wildcard, without slashes at the ends.
fn fixed_part(pattern: &str) -> &str {
    let end = pattern.find(['*', '?', '[']).unwrap_or(pattern.len());
    pattern[..end].trim_start_matches("./").trim_matches('/')
}

/// What is wrong with the order of stories.
#[derive(Debug, PartialEq, Eq)]
pub enum OrderProblem {
    /// Two stories have this id.
    Duplicate(StoryId),
    /// A story waits for one that does not exist.
    Unknown {
        /// The story that waits.
        story: StoryId,
        /// The missing story.
        after: StoryId,
    },
    /// These stories wait for each other, in this order.
    Circle(Vec<StoryId>),
}

/// Finds the first problem in the order of stories.
///
/// # Errors
/// The problem.
pub fn check(stories: &[Story]) -> Result<(), OrderProblem> {
    let mut known = BTreeMap::new();
    for story in stories {
        if known.insert(&story.id, story).is_some() {
            return Err(OrderProblem::Duplicate(story.id.clone()));
        }
    }
    for story in stories {
        if let Some(after) = story.after.iter().find(|after| !known.contains_key(after)) {
            return Err(OrderProblem::Unknown { story: story.id.clone(), after: after.clone() });
        }
    }
    let orderable = orderable(stories);
    match stories.iter().find(|story| !orderable.contains(&story.id)) {
        Some(stuck) => Err(OrderProblem::Circle(circle_from(stuck, &known, &orderable))),
        None => Ok(()),
    }
}

/// The stories that can be done in some order: all of them, unless there is a cycle.
fn orderable(stories: &[Story]) -> BTreeSet<&StoryId> {
    let mut waiting: BTreeMap<&StoryId, usize> = BTreeMap::new();
    let mut waiters: BTreeMap<&StoryId, Vec<&StoryId>> = BTreeMap::new();
    for story in stories {
        waiting.insert(&story.id, story.after.len());
        for after in &story.after {
            waiters.entry(after).or_default().push(&story.id);
        }
    }
    let mut ready: Vec<&StoryId> = waiting.iter().filter(|(_, count)| **count == 0).map(|(id, _)| *id).collect();
    let mut orderable = BTreeSet::new();
    while let Some(id) = ready.pop() {
        orderable.insert(id);
        for waiter in waiters.remove(id).unwrap_or_default() {
            if let Some(count) = waiting.get_mut(waiter) {
                *count -= 1;
                if *count == 0 {
                    ready.push(waiter);
                }
            }
        }
    }
    orderable
}

/// Follows unmet dependencies until a story repeats.
fn circle_from(stuck: &Story, known: &BTreeMap<&StoryId, &Story>, orderable: &BTreeSet<&StoryId>) -> Vec<StoryId> {
    let mut path: Vec<&StoryId> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut at = stuck;
    while seen.insert(&at.id) {
        path.push(&at.id);
        let Some(next) = at.after.iter().find(|after| !orderable.contains(after)).and_then(|after| known.get(after)) else { break };
        at = next;
    }
    let from = path.iter().position(|id| **id == at.id).unwrap_or_default();
    let mut circle: Vec<StoryId> = path.into_iter().skip(from).cloned().collect();
    circle.push(at.id.clone());
    circle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_of_very_many_stories_is_found_as_one_of_few_is() {
        for count in [1, 3, 50_000] {
            let ids: Vec<StoryId> = (0..count).map(|number| format!("s{number}").parse().unwrap()).collect();
            let mut stories: Vec<Story> = ids.iter().map(Story::stand_in).collect();
            for (at, story) in stories.iter_mut().enumerate() {
                story.after = vec![ids[(at + 1) % count].clone()];
            }
            let circle = ids.iter().chain([&ids[0]]).cloned().collect();
            assert_eq!(check(&stories), Err(OrderProblem::Circle(circle)));
        }
    }
}
