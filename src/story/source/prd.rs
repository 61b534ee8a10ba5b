//! Reads a `prd.json`: its `userStories` by priority, of which those with `passes` are done.

use std::ops::Range;

use super::{Mark, Material, Page, Sourced};
use crate::json::{Json, Outline};
use crate::story::{Story, StoryId};

/// A string, or a number as a string.
fn word(value: Option<Json<'_>>) -> Option<String> {
    let value = value?;
    value.text().map(std::borrow::Cow::into_owned).or_else(|| value.number().map(|number| number.to_string()))
}

/// A list of strings; a single string is a list of one.
fn list(value: Option<Json<'_>>) -> Vec<String> {
    let mut items: Vec<String> = word(value).into_iter().collect();
    if let Some(value) = value {
        value.each(|item| items.extend(word(Some(item))));
    }
    items
}

/// Whether a user story passes. Some files have a string or a number here.
fn passes(story: Json<'_>) -> bool {
    story.at("passes").is_some_and(|value| value.is_true() || value.count() == Some(1) || value.text().is_some_and(|text| text == "true"))
}

/// One user story, with its line in the file.
struct UserStory<'a> {
    json: Json<'a>,
    id: StoryId,
    line: usize,
}

fn user_stories<'a>(page: &'a Page, outline: &'a mut Outline) -> Result<Vec<UserStory<'a>>, String> {
    let text = page.text.as_str();
    let Some(stories) = outline.parse(text).and_then(|root| root.at("userStories")).filter(|stories| stories.is_list()) else {
        return Err(match serde_json::from_str::<serde::de::IgnoredAny>(text.trim_start_matches('\u{feff}')) {
            Err(error) => format!("{}:{}: {error}", page.name, error.line()),
            Ok(_) => format!("{}: expected a list \"userStories\"", page.name),
        });
    };
    let (mut found, mut wrong) = (Vec::new(), None);
    let (mut line, mut at) = (1, 0);
    stories.each(|json| {
        let start = json.span_in(text).start;
        line += text[at..start].matches('\n').count();
        at = start;
        match word(json.at("id")).map(|id| id.parse::<StoryId>()) {
            Some(Ok(id)) => found.push(UserStory { json, id, line }),
            Some(Err(why)) => wrong = wrong.take().or(Some(format!("{}:{line}: {why}", page.name))),
            None => wrong = wrong.take().or(Some(format!("{}:{line}: expected an \"id\" in this user story", page.name))),
        }
    });
    wrong.map_or(Ok(found), Err)
}

pub(super) fn read(material: &Material) -> Result<Sourced, String> {
    let page = &material.main;
    let mut outline = Outline::default();
    let mut ranked: Vec<(f64, Story)> = Vec::new();
    for UserStory { json, id, line } in user_stories(page, &mut outline)? {
        let paragraph = |key: &str| word(json.at(key)).filter(|text| !text.trim().is_empty());
        let notes = paragraph("notes").map(|notes| format!("Notes: {notes}"));
        let parts: Vec<String> = paragraph("description").into_iter().chain(notes).collect();
        let after = list(json.at("dependsOn")).into_iter().map(|id| id.parse::<StoryId>());
        let story = Story {
            title: paragraph("title").unwrap_or_else(|| id.to_string()),
            prompt: parts.join("\n\n"),
            acceptance: list(json.at("acceptanceCriteria")),
            after: after.collect::<Result<_, _>>().map_err(|why: String| format!("{}:{line}: {why}", page.name))?,
            done: passes(json),
            ..Story::stand_in(&id)
        };
        let priority = json.at("priority").and_then(|value| value.number().or_else(|| value.text()?.trim().parse().ok()));
        ranked.push((priority.unwrap_or(f64::INFINITY), story));
    }
    ranked.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let root = outline.parse(&page.text);
    let said = |key: &str| word(root.and_then(|root| root.at(key))).filter(|text| !text.trim().is_empty());
    Ok(Sourced {
        title: said("project").or_else(|| said("title")).or_else(|| said("name")),
        context: said("description"),
        stories: ranked.into_iter().map(|(_, story)| story).collect(),
        ..Sourced::default()
    })
}

pub(super) fn marks(page: &Page) -> Result<Vec<Mark>, String> {
    let mark = |story: UserStory<'_>| {
        let (at, words): (Range<usize>, _) = match story.json.at("passes") {
            Some(passes) => (passes.span_in(&page.text), ("true", "false")),
            // A missing `passes` is inserted after the opening brace.
            None => {
                let start = story.json.span_in(&page.text).start + 1;
                (start..start, ("\"passes\": true, ", ""))
            }
        };
        Mark { done: passes(story.json), text: String::new(), story: story.id, at, words }
    };
    Ok(user_stories(page, &mut Outline::default())?.into_iter().map(mark).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::story::source::Kind;

    const TEXT: &str = "{\n  \"project\": \"Tasks\", \"description\": \"All of it.\",\n  \"userStories\": [\n    {\"id\": \"US-2\", \"title\": \"Second\", \"priority\": 2, \"passes\": false, \"dependsOn\": [\"US-1\"]},\n    {\"id\": \"US-1\", \"title\": \"First\", \"description\": \"As a user\", \"acceptanceCriteria\": [\"a\", \"b\"], \"priority\": 1, \"passes\": true, \"notes\": \"n\"},\n    {\"id\": 3, \"title\": \"Third\"}\n  ]\n}\n";

    fn material(text: &str) -> Material {
        Material { kind: Kind::Prd, main: Page { name: "prd.json".into(), text: text.into() }, beside: Vec::new() }
    }

    #[test]
    fn user_stories_come_by_priority() {
        let sourced = material(TEXT).read().unwrap();
        let found: Vec<_> = sourced.stories.iter().map(|story| (story.id.as_str(), story.done, story.after.len())).collect();
        assert_eq!(found, [("US-1", true, 0), ("US-2", false, 1), ("3", false, 0)]);
        assert_eq!((sourced.stories[0].prompt.as_str(), sourced.stories[0].acceptance.len()), ("As a user\n\nNotes: n", 2));
        assert_eq!((sourced.title.as_deref(), sourced.context.as_deref()), (Some("Tasks"), Some("All of it.")));
    }

    #[test]
    fn malformed_input_is_reported_with_its_line() {
        for (text, expected) in [
            ("{\n\"userStories\": [\n{\"title\": \"x\"}]}", "prd.json:3: expected an \"id\""),
            ("{\n\"userStories\": [\n{]}", "prd.json:3: "),
            ("{\"stories\": []}", "prd.json: expected a list \"userStories\""),
            ("{\"userStories\": []}", "prd.json: there is no task in it"),
            ("{\"userStories\": [{\"id\": \"a\", \"dependsOn\": [\"b\"]}]}", "prd.json: story 'a' depends on the unknown story 'b'"),
        ] {
            let error = material(text).read().unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
