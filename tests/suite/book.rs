//! Tests the pages in docs/: the output they show is real, the things they list are those in the code, and their links work.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::document::{Page, typed};
use crate::golden;
use crate::support::World;

/// An agent that prints what claude prints, for the stories of the tutorial; the first attempt at `name` fails.
const CLAUDE: &str = r#"test "$1" = --version && exit
cat >/dev/null
result() { printf '{"type":"result","subtype":"success","result":"%s"}\n' "$1"; }
case $RALPH_STORY$RALPH_ATTEMPT in
greet1) echo "echo 'Hello, world'" >greet.sh ;;
name1) echo 'echo "Hello, $1"' >greet.sh; result '<promise>FAILED: without an argument the world must still be greeted</promise>'; exit ;;
*) echo 'echo "Hello, ${1:-world}"' >greet.sh ;;
esac
result '<promise>COMPLETE</promise>'"#;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_tutorial_goes_as_it_is_shown() {
    let mut world = World::empty();
    world.program("claude", CLAUDE);
    for setting in [["user.name", "Ada"], ["user.email", "ada@example.org"], ["init.defaultBranch", "main"]] {
        world.git(&["config", "--global", setting[0], setting[1]]);
    }
    Page::read("docs/tutorial.md").play(&mut world);
    assert_eq!((world.branch(), world.git(&["status", "--short"])), ("main".to_owned(), String::new()));
    assert_eq!(world.git(&["for-each-ref", "refs/ralph", "refs/heads/ralph"]), "");
}

#[test]
fn the_commands_that_recover_work_can_be_typed_in_their_order() {
    let mut world = World::new();
    world.set_env("EDITOR", "true");
    world.change("greeter", "max-retries = 1\n[[story]]\nid = \"name\"\n");
    let agent = "cat >/dev/null; echo $RALPH_ATTEMPT >greet.sh; test $RALPH_ATTEMPT = 1 && exit 1; echo '<promise>COMPLETE</promise>'";
    world.ralph(&["start", "greeter", "--", "sh", "-c", agent]).code(0);
    let page = Page::read("docs/recover.md");
    let rows = page.text().lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").nth(1));
    // A leftover branch comes from another run; tests/suite/endings.rs tests it.
    let commands =
        rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).filter(|code| code.starts_with("git ") && !code.contains("leftover"));
    let mut seen = 0;
    for line in commands {
        let line = line.replace("<change>", "greeter").replace("<story>", "name").replace("<n>", "1").replace("<path>", "greet.sh");
        let said = typed(&world, &line);
        match line.as_str() {
            "git diff ralph/greeter refs/ralph/greeter/attempts/name/1" => assert!(said.contains("+1\n"), "{said}"),
            "git restore --source=refs/ralph/greeter/attempts/name/1 -- greet.sh" => assert_eq!(world.read("greet.sh"), "1\n"),
            "git ralph undo" | "git ralph abort" => assert!(!world.exists("greet.sh"), "{line}"),
            "git branch mine refs/ralph/greeter/undone/1" => assert_eq!(world.git(&["show", "mine~1:greet.sh"]), "2"),
            _ => {}
        }
        if line.starts_with("git branch mine") {
            world.git(&["branch", "-D", "mine"]);
        }
        seen += 1;
    }
    assert!(seen > 8, "{seen}");
    assert!(world.has_ref("refs/heads/ralph/greeter"), "the run is back after the abort");
}

/// The kinds of refs in `src/names.rs`, each with how long it is needed, from the text of the table there.
fn kinds_of_refs() -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("src/names.rs")).unwrap();
    let table = text.split("const KINDS").nth(1).unwrap().split("];").next().unwrap().to_owned();
    let rows = table.lines().filter(|line| line.contains("RefKind::") && line.contains("Needed::"));
    rows.map(|line| (line.split('"').nth(1).unwrap().to_owned(), line.rsplit("Needed::").next().unwrap().replace("),", ""))).collect()
}

#[test]
fn the_page_of_refs_has_every_kind_of_ref() {
    let page = Page::read("docs/refs.md");
    let rows: Vec<(String, String)> = page
        .text()
        .lines()
        .filter_map(|line| line.strip_prefix("| `refs/ralph/<change>/"))
        .map(|row| {
            let (name, rest) = row.split_once('`').unwrap();
            (name.split('/').next().unwrap().to_owned(), rest.trim_end_matches(" |").rsplit("| ").next().unwrap().to_owned())
        })
        .collect();
    let words = [("WhileOpen", "while the run is open"), ("UntilPruned", "until pruned"), ("AcrossRuns", "until pruned by name")];
    let expected: Vec<(String, String)> = kinds_of_refs()
        .into_iter()
        .map(|(word, needed)| (word, words.iter().find(|(name, _)| *name == needed).unwrap().1.to_owned()))
        .collect();
    assert!(expected.len() > 10);
    assert_eq!(rows, expected, "docs/refs.md has the kinds of src/names.rs, in order");
}

/// Whether a path matches a row of the page of files, in which `<…>` is any one component and `…` is anything.
fn fits(row: &str, path: &str) -> bool {
    let (mut parts, mut row) = (path.split('/'), row.split('/').peekable());
    while let Some(pattern) = row.next() {
        if pattern == "…" {
            return true;
        }
        let Some(part) = parts.next() else { return row.peek().is_none() && pattern.is_empty() };
        let (before, after) = match pattern.split_once('<') {
            Some((before, rest)) => (before, rest.split_once('>').unwrap().1),
            None if part == pattern => continue,
            None => return false,
        };
        if part.len() < before.len() + after.len() || !part.starts_with(before) || !part.ends_with(after) {
            return false;
        }
    }
    parts.next().is_none()
}

/// Collects every file below a directory, with its path relative to that directory.
fn files_below(dir: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().map(Result::unwrap) {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type().unwrap().is_dir() {
            files_below(&entry.path(), &format!("{name}/"), found);
        } else {
            found.insert(name);
        }
    }
}

#[test]
fn the_page_of_files_has_every_file_that_runs_leave() {
    let world = World::new();
    world.write(".gitignore", ".env\n");
    world.write(".env", "SECRET\n");
    world.write("staged", "1\n");
    world.git(&["add", "staged"]);
    world.ralph(&["new", "fresh"]).code(0);
    world.change("work", "verify = [\"true\"]\nmax-retries = 1\n[[story]]\nid = \"a\"\n[[story]]\nid = \"b\"\n");
    let agent = "cat >/dev/null; echo $RALPH_STORY$RALPH_ATTEMPT >work; echo x >.env; mkfifo pipe; echo '# note' >>\"$RALPH_LEARNINGS\"
        test $RALPH_STORY$RALPH_ATTEMPT = a1 && exit 3; rm -f pipe; echo '<promise>COMPLETE</promise>'";
    world.ralph(&["start", "work", "--", "sh", "-c", agent]).code(0);
    world.change("apart", "setup = [\"true\"]\nisolate = true\n[[story]]\nid = \"a\"\n");
    world.ralph(&["start", "apart", "--", "sh", "-c", agent]).code(0);
    let mut found = BTreeSet::new();
    for top in ["ralph", "ralph-spare"] {
        files_below(&world.path(".git").join(top), &format!("{top}/"), &mut found);
    }
    assert!(found.len() > 20, "{found:?}");
    let page = Page::read("docs/files.md");
    let rows: Vec<&str> = page.text().lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let unknown: Vec<&String> = found.iter().filter(|path| !rows.iter().any(|row| fits(row, path))).collect();
    assert!(unknown.is_empty(), "docs/files.md does not name {unknown:#?}");
}

/// The anchors that GitHub generates for the headings of a page.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter_map(|line| line.strip_prefix('#')).map(|line| line.trim_start_matches('#').trim());
    headings
        .map(|heading| {
            let kept = heading.to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>();
            kept.replace(' ', "-")
        })
        .collect()
}

/// Every document with its path in the repository.
pub fn documents() -> Vec<(String, String)> {
    let top = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].map(str::to_owned);
    let pages = golden::files("docs").into_iter().filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}"));
    top.into_iter().chain(pages).map(|name| (name.clone(), fs::read_to_string(root().join(name)).unwrap())).collect()
}

#[test]
fn every_link_leads_to_a_page_and_a_heading() {
    let link = regex_lite::Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let mut seen = 0;
    for (name, text) in documents() {
        for target in link.captures_iter(&text).map(|found| found[1].to_owned()).filter(|target| !target.contains("://")) {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = if file.is_empty() { root().join(&name) } else { root().join(&name).parent().unwrap().join(file) };
            assert!(path.exists(), "{name} links to {target}, which is not there");
            if !anchor.is_empty() {
                let there = anchors(&fs::read_to_string(&path).unwrap());
                assert!(there.contains(&anchor.to_owned()), "{name} links to {target}, which has no such heading: {there:?}");
            }
            seen += 1;
        }
    }
    assert!(seen > 40, "{seen}");
}

#[test]
fn every_page_is_in_the_index() {
    let index = Page::read("docs/README.md");
    for name in golden::files("docs").iter().filter(|name| name.ends_with(".md") && *name != "README.md") {
        assert!(index.text().contains(&format!("]({name})")), "docs/README.md does not link to {name}");
    }
}
