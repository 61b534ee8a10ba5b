//! Tests sources of stories: they are read, worked through, and marked in the same checkpoint.

use std::fs;

use crate::support::{COMPLETE, World};

const TASKS: &str = "# Tasks\r\n\r\n## 1. Set up\r\n\r\n- [ ] 1.1 Create the column\r\n  - [ ] nested\r\n- [x] 1.2 Done before\r\n\r\n```\r\n- [ ] an example\r\n```\r\n\r\n## 2. Show it\r\n- [ ] 2.1 In the list";
const PRD: &str = "{\n\t\"project\": \"Demo\",\n\t\"userStories\": [\n\t\t{\"id\": \"US-2\", \"title\": \"Second\", \"priority\": 2, \"passes\": false},\n\t\t{ \"id\": \"US-1\", \"title\": \"First\", \"acceptanceCriteria\": [\"it works\"], \"priority\": 1, \"passes\" : false }\n\t]\n}";
const PLAN: &str = "# Plan\n\n## Validation Commands\n- `test -e README`\n\n### Task 1: One\n- [ ] a\n- [ ] b\n### Task 2: Two\n* [ ] c\n";
const SPECKIT: &str = "# Tasks: Albums\n\n## Phase 1: Setup\n- [ ] T001 Create\n\n## Phase 2: User Story 1 - Albums (Priority: P1)\n- [ ] T002 [P] [US1] Model\n- [ ] T003 [US1] View\n\n## Phase 3: Polish\n- [ ] T004 Docs\n";
const CHECKLIST: &str = "- [ ] first thing\n    - [ ] a part\n- [ ] second thing\n";

/// The content of a file in a commit.
fn at(world: &World, rev: &str, file: &str) -> String {
    world.git(&["cat-file", "-p", &format!("{rev}:{file}")])
}

fn openspec(world: &World, name: &str) {
    let folder = format!("openspec/changes/{name}");
    world.write(&format!("{folder}/tasks.md"), TASKS);
    world.write(&format!("{folder}/proposal.md"), "## Why\nBecause of priorities.\n");
    world.write(&format!("{folder}/design.md"), "A column.\n");
    let spec = "## ADDED Requirements\n### Requirement: Column\nThe system SHALL have one.\n#### Scenario: Default column\n- **WHEN** created\n- **THEN** it is empty\n### Requirement: Export\nx\n#### Scenario: File\n- **WHEN** exported\n- **THEN** a file\n";
    world.write(&format!("{folder}/specs/tasks/spec.md"), spec);
    world.git(&["add", "-A"]);
    world.git(&["commit", "-q", "-m", "specs"]);
}

#[test]
fn an_openspec_change_needs_no_change_file_and_is_ticked_as_its_stories_land() {
    let world = World::new();
    openspec(&world, "work");
    world.agent(&format!("cat > /dev/null; echo x > \"made-$RALPH_STORY\"; {COMPLETE}"));
    world.ralph(&["list"]).code(0).says("work  not started    0/2");
    world.start(&["--finish", "keep"]).code(0);
    let tasks = "openspec/changes/work/tasks.md";
    let first = TASKS.replace("[ ] 1.1", "[x] 1.1").replace("[ ] nested", "[x] nested");
    let second = first.replace("[ ] 2.1", "[x] 2.1");
    assert_eq!(at(&world, "ralph/work~1", tasks), first, "in the same commit, and nothing but the marks");
    assert_eq!(at(&world, "ralph/work", tasks), second);
    assert_eq!(fs::read(world.path(tasks)).unwrap(), second.as_bytes());
    let prompt = world.prompt("1", 1);
    for part in [
        "Because of priorities.",
        "A column.",
        "#### Scenario: Default column",
        "1.1 Create the column",
        "1.2 Done before (done)",
        "specs/tasks/spec.md",
    ] {
        assert!(prompt.contains(part), "{part} is missing in\n{prompt}");
    }
    assert!(!prompt.contains("Scenario: File"), "{prompt}");
    world.ralph(&["list"]).code(0).says("finished       2/2");
    world.git(&["checkout", "-q", "-B", "main"]);
    world.start(&["--finish", "keep"]).code(0).says("all stories of work are done");
}

#[test]
fn every_kind_of_source_runs_from_new_to_the_last_mark() {
    let table: [(&str, &str, &str, &[&str]); 4] = [
        ("prd.json", PRD, "prd.json", &["US-1", "US-2"]),
        ("plans/plan.md", PLAN, "Markdown plan", &["1", "2"]),
        ("specs/001-albums/tasks.md", SPECKIT, "spec-kit feature", &["phase-1", "US1", "phase-3"]),
        ("TODO.md", CHECKLIST, "checklist", &["first-thing", "second-thing"]),
    ];
    for (file, text, kind, ids) in table {
        let world = World::new();
        world.write(file, text);
        world.git(&["add", "-A"]);
        world.git(&["commit", "-q", "-m", "source"]);
        let from = file.strip_suffix("/tasks.md").unwrap_or(file);
        let output = world.ralph(&["new", "work", "--from", from]).code(0).says(kind);
        for id in ids {
            assert!(output.stdout.contains(&format!("[ ] {id}")), "{id}: {}", output.stdout);
        }
        world.agent(&format!("cat > /dev/null; {COMPLETE}"));
        world.start(&["--finish", "keep"]).code(0);
        let landed: Vec<String> = world
            .subjects("ralph/work")
            .into_iter()
            .filter_map(|subject| subject.strip_prefix("checkpoint: ").map(str::to_owned))
            .collect();
        assert_eq!(landed, ids.iter().rev().map(|id| (*id).to_owned()).collect::<Vec<_>>(), "{file}");
        let after =
            text.replace("[ ]", "[x]").replace("\"passes\": false", "\"passes\": true").replace("\"passes\" : false", "\"passes\" : true");
        assert_eq!(world.read(file), after, "{file}");
        assert_eq!(world.git(&["status", "--porcelain"]), "", "{file}");
        assert_eq!(
            world.events().iter().filter(|event| event["event"] == "gate-ended").count(),
            if kind == "Markdown plan" { 2 } else { 0 }
        );
    }
}

#[test]
fn boxes_of_other_stories_that_an_agent_ticks_make_nothing_done() {
    let world = World::new();
    openspec(&world, "work");
    world.agent(&format!(
        "cat > /dev/null; echo \"$RALPH_STORY\" >> ../ran; sed -i 's/\\[ \\]/[x]/' openspec/changes/work/tasks.md; {COMPLETE}"
    ));
    world.start(&["--finish", "keep"]).code(0).says("the agent marked other stories as done (2); git-ralph has removed those marks");
    assert_eq!(fs::read_to_string(world.outside("ran")).unwrap(), "1\n2\n");
    assert!(at(&world, "ralph/work~1", "openspec/changes/work/tasks.md").contains("- [ ] 2.1"));
}

#[test]
fn ticks_of_a_killed_attempt_make_nothing_done() {
    let world = World::new();
    openspec(&world, "work");
    world.agent(&format!(
        "cat > /dev/null; sed -i 's/\\[ \\]/[x]/' openspec/changes/work/tasks.md; if mkdir ../seen; then kill -9 $PPID; sleep 5; fi; {COMPLETE}"
    ));
    world.start(&[]).code(-9);
    world.ralph(&["resume", "--finish", "keep"]).code(0);
    assert_eq!(world.subjects("ralph/work")[..2], ["checkpoint: 2", "checkpoint: 1"]);
}

#[test]
fn a_source_that_is_edited_during_the_run_is_followed() {
    let world = World::new();
    world.write("TODO.md", "- [ ] 1 one\n- [ ] 2 two\n- [ ] 3 three\n");
    world.ralph(&["new", "work", "--from", "TODO.md"]).code(0);
    let edit = r#"printf '%s\n' '- [ ] 4 four' '- [ ] 3 three' '- [ ] 1 one' > TODO.md"#;
    world.agent(&format!("cat > /dev/null; [ \"$RALPH_STORY\" = 1 ] && {edit}; {COMPLETE}"));
    world.start(&["--finish", "keep"]).code(0).says("the source has new stories: 4").says("no longer in the source, skipped: 2");
    assert_eq!(world.subjects("ralph/work")[..3], ["checkpoint: 3", "checkpoint: 4", "checkpoint: 1"]);
    assert_eq!(world.read("TODO.md"), "- [x] 4 four\n- [x] 3 three\n- [x] 1 one\n");
}

#[test]
fn a_failed_attempt_ticks_nothing_and_a_rollback_takes_its_ticks_back() {
    let world = World::new();
    openspec(&world, "work");
    world.agent("cat > /dev/null; sed -i 's/\\[ \\]/[x]/' openspec/changes/work/tasks.md; echo '<promise>FAILED: no</promise>'");
    world.start(&["--max-retries", "0"]).code(1);
    assert_eq!(world.read("openspec/changes/work/tasks.md"), TASKS);
}

#[test]
fn malformed_sources_are_reported_with_file_and_line_and_nothing_is_touched() {
    let world = World::new();
    world.agent(COMPLETE);
    for (file, text, expected) in [
        ("prd.json", "{\"userStories\": [\n{\"title\": \"x\"}]}", "prd.json:2: expected an \"id\""),
        ("prd.json", "{\"userStories\": [\n{]", "prd.json:2: key must be a string"),
        ("plan.md", "# Nothing\n", "plan.md: expected boxes"),
        ("plan.md", "### Task 1: a\n### Task 1: b\n### Task 1: c\n", "plan.md: two stories have the id 'task-1'"),
    ] {
        world.write(file, text);
        world.ralph(&["new", "work", "--from", file]).code(128).says(expected);
        assert!(!world.exists(".git/ralph/work.toml"), "{expected}");
        world.change("work", &format!("source = '{file}'\n"));
        world.start(&[]).code(128).says(expected);
        fs::remove_file(world.path(".git/ralph/work.toml")).unwrap();
    }
    world.change("work", "source = 'gone.md'\n");
    world.start(&[]).code(128).says("the source gone.md does not exist");
    world.change("work", "source = 'plan.md'\n[[story]]\nid = '1'\n");
    world.start(&[]).code(128).says("work.toml:2: it has both stories and a 'source'");
    fs::write(world.path("bad.md"), b"- [ ] a\n\xff\n").unwrap();
    world.change("work", "source = 'bad.md'\n");
    world.start(&[]).code(128).says("bad.md:2: expected UTF-8");
    assert_eq!(world.branch(), "main");
}

#[test]
fn changes_without_tasks_and_archived_changes_are_reported() {
    let world = World::new();
    world.agent(COMPLETE);
    world.write("openspec/changes/empty/proposal.md", "x\n");
    world.ralph(&["start", "empty"]).code(128).says("expected a tasks.md");
    world.write("openspec/changes/empty/tasks.md", "# Tasks\n");
    world.ralph(&["start", "empty"]).code(128).says("openspec/changes/empty/tasks.md: there is no task in it");
    world.write("openspec/changes/archive/2026-01-02-old/tasks.md", "- [x] a\n");
    world.ralph(&["start", "old"]).code(2).says("archived in openspec/changes/archive/2026-01-02-old");
    world.ralph(&["start", "empti"]).code(128).says("did you mean 'empty'?");
    world.write("openspec/changes/loose/tasks.md", "- [ ] a\n- [ ] b\n");
    world.ralph(&["new", "loose", "--from", "openspec/changes/loose"]).code(0).says("tasks without a group are the story 'tasks'");
}

#[test]
fn commands_in_a_source_run_only_when_the_change_file_has_them() {
    let world = World::new();
    world.write("plan.md", &PLAN.replace("test -e README", "touch ../ran"));
    world.change("work", "source = 'plan.md'\n");
    world.agent(&format!("cat > /dev/null; {COMPLETE}"));
    world.start(&["--finish", "cleanup"]).code(0);
    assert!(!world.outside("ran").exists(), "what comes by clone or from an agent is not run");
    fs::remove_file(world.path(".git/ralph/work.toml")).unwrap();
    world.write("plan.md", &PLAN.replace("test -e README", "touch ../ran"));
    world.ralph(&["new", "work", "--from", "plan.md"]).code(0).says("gate: touch ../ran");
    world.start(&["--restart", "--finish", "cleanup"]).code(0);
    assert!(world.outside("ran").exists());
}

/// The stories for which agents were started, in order.
fn ran(world: &World) -> Vec<String> {
    let started = |event: &serde_json::Value| Some(event["story"].as_str()?.to_owned());
    world.events().iter().filter(|event| event["event"] == "attempt-started").filter_map(started).collect()
}

/// A run over a checklist of three stories, with an agent that runs `before` first.
fn three(world: &World, before: &str, agent: &str, options: &[&str]) -> crate::support::Output {
    world.write("TODO.md", "- [ ] 1 a\n- [ ] 2 b\n- [ ] 3 c\n");
    world.ralph(&["new", "work", "--from", "TODO.md"]).code(0);
    if !before.is_empty() {
        world.write(".gitignore", before);
    }
    world.agent(&format!("cat > /dev/null; {agent}\n{COMPLETE}"));
    world.start(options)
}

#[test]
fn a_source_that_git_does_not_keep_makes_nothing_done_either() {
    let world = World::new();
    let cheat =
        "sed -i 's/\\[ \\]/[x]/' TODO.md; [ \"$RALPH_STORY.$RALPH_ATTEMPT\" = 1.1 ] && echo '<promise>FAILED: no</promise>' && exit";
    three(&world, "TODO.md\n", cheat, &["--finish", "keep"])
        .code(0)
        .says("git does not track TODO.md, so abort and undo do not remove its marks");
    assert_eq!(ran(&world), ["1", "1", "2", "3"]);
    assert_eq!(world.read("TODO.md"), "- [x] 1 a\n- [x] 2 b\n- [x] 3 c\n");
    let world = World::new();
    three(&world, "TODO.md\n", "", &["--limit", "2"]).code(0);
    world.ralph(&["undo", "work"]).code(0);
    world.ralph(&["resume", "--finish", "keep"]).code(0);
    assert_eq!(ran(&world), ["1", "2", "2", "3"]);
}

#[test]
fn the_format_of_a_source_is_detected_once_per_run() {
    for addition in ["## Phase 2 ideas\\n- [ ] later", "### Task 9: x\\n- [ ] y", "## 1. Later\\n- [ ] z"] {
        let world = World::new();
        let agent = format!("[ $RALPH_STORY = 1 ] && printf '\\n{addition}\\n' >> TODO.md");
        three(&world, "", &agent, &["--finish", "keep"]).code(0);
        assert_eq!(ran(&world)[..3], ["1", "2", "3"], "{addition}");
        assert!(world.read("TODO.md").starts_with("- [x] 1 a\n- [x] 2 b\n- [x] 3 c\n"), "{}", world.read("TODO.md"));
    }
}

#[test]
fn a_source_that_the_agent_deletes_or_rewrites_is_put_back() {
    for agent in ["rm TODO.md", "sed -i \"s/^- . . $RALPH_STORY .*/- [x] ${RALPH_STORY}0 done by me/\" TODO.md", "echo gone > TODO.md"] {
        let world = World::new();
        three(&world, "", agent, &["--finish", "keep", "--limit", "6"]).code(0).says("it is restored, and the agent's version is in");
        assert_eq!(ran(&world), ["1", "2", "3"], "{agent}");
        assert_eq!(world.read("TODO.md"), "- [x] 1 a\n- [x] 2 b\n- [x] 3 c\n", "{agent}");
    }
}

#[test]
fn an_agent_that_breaks_or_empties_other_files_of_the_source_makes_no_story_done() {
    let world = World::new();
    openspec(&world, "work");
    let cheat = "printf 'caf\\351\\n' > openspec/changes/work/design.md; sed -i 's/\\[ \\]/[x]/' openspec/changes/work/tasks.md";
    world.agent(&format!("cat > /dev/null; [ $RALPH_STORY = 1 ] && {{ {cheat}; }}\n{COMPLETE}"));
    world.start(&["--finish", "keep"]).code(0);
    assert_eq!(ran(&world), ["1", "2"]);
    let world = World::new();
    let tick = |done: &str| format!("## 1. A\n- [ ] a\n## 2. B\n- [x] b\n{done}");
    world.write("openspec/changes/work/tasks.md", &tick("- [ ] b2\n"));
    world.agent(&format!("cat > /dev/null; [ $RALPH_STORY = 1 ] && sed -i '/b2/d' openspec/changes/work/tasks.md\n{COMPLETE}"));
    world.start(&["--finish", "keep"]).code(0);
    assert_eq!(ran(&world), ["1", "2"], "a story whose open boxes an agent deletes is not done");
}

#[test]
fn a_finished_story_stays_done_when_its_text_is_edited() {
    let world = World::new();
    world.write("openspec/changes/work/tasks.md", "## 1. A\n- [x] 1.1 teh thing\n## 2. B\n- [ ] b\n");
    world.agent(&format!("cat > /dev/null; sed -i s/teh/the/ openspec/changes/work/tasks.md\n{COMPLETE}"));
    world.start(&["--finish", "keep"]).code(0);
    assert_eq!((ran(&world), world.count("stray-marks")), (vec!["2".to_owned()], 0));
    assert_eq!(world.read("openspec/changes/work/tasks.md"), "## 1. A\n- [x] 1.1 the thing\n## 2. B\n- [x] b\n");
}

#[test]
fn boxes_that_the_user_ticks_between_stop_and_resume_count() {
    let world = World::new();
    three(&world, "", "", &["--limit", "1"]).code(0);
    world.write("TODO.md", "- [x] 1 a\n- [ ] 2 b\n- [x] 3 c\n- [ ] 4 d\n");
    world.ralph(&["resume", "--finish", "keep"]).code(0);
    assert_eq!(ran(&world), ["1", "2", "4"]);
}

#[test]
fn a_run_that_was_killed_with_its_source_deleted_is_resumed() {
    let world = World::new();
    three(&world, "", "if mkdir ../seen; then rm TODO.md; kill -9 $PPID; sleep 5; fi", &[]).code(-9);
    world.ralph(&["status"]).code(0).says("0 of 3 stories done");
    world.ralph(&["resume", "--finish", "keep"]).code(0);
    assert_eq!(world.subjects("ralph/work")[..3], ["checkpoint: 3", "checkpoint: 2", "checkpoint: 1"]);
}

#[test]
fn realistic_files_are_read_as_they_are_meant() {
    let table: &[(&str, &str, &[&str])] = &[
        (
            "prd.json",
            r#"{"userStories": [{"id": "c", "priority": "3"}, {"id": "a", "priority": "1"}, {"id": "b", "priority": 2, "dependsOn": "a", "passes": "true"}]}"#,
            &["[ ] a", "[x] b", "[ ] c"],
        ),
        ("TODO.md", "[![ci](x)](y)\n\n- [ ] 1 a\n", &["[ ] 1"]),
        ("TODO.md", "- ```bash\n  - [ ] no\n  ```\n- [ ] 1 a\n<!--\n- [ ] hidden\n-->\n- [1] a reference\n", &["[ ] 1"]),
        (
            "TODO.md",
            "- [ ] Setup\n- Backend\n  - [ ] API\n  - [ ] DB\n\n## Docs\n\n  - [ ] Write docs\n",
            &["[ ] setup", "[ ] api", "[ ] db", "[ ] write-docs"],
        ),
        ("TODO.md", "## Phases of the moon\n- [ ] 1 a\n## Other\n- [ ] 2 b\n", &["[ ] 1", "[ ] 2"]),
        ("TODO.md", "- [ ] 解析器\n- [ ] 测试\n", &["[ ] 解析器", "[ ] 测试"]),
        ("plan.md", "### Task 1. A\n- [ ] a\n### Task 5 (optional): e\n- [ ] b\n", &["[ ] 1  A", "[ ] 5  e"]),
    ];
    for (file, text, expected) in table {
        let world = World::new();
        world.write(file, text);
        let output = world.ralph(&["new", "work", "--from", file]).code(0);
        let rows: Vec<String> = output.stdout.lines().filter_map(|line| line.strip_prefix("  ")).map(str::to_owned).collect();
        assert_eq!(rows.len(), expected.len(), "{text}\n{}", output.stdout);
        for (row, start) in rows.iter().zip(*expected) {
            assert!(row.starts_with(start), "{row} is not {start}");
        }
    }
}
