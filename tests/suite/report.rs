//! Tests the page of a run: reproducible, for a run in any state, in every format, for any agent output, and without secrets.

use std::fs;
use std::path::Path;

use crate::support::{COMPLETE, World};

const FAILED: &str = "echo '<promise>FAILED: not today</promise>'";

/// A run in which one story fails once and then lands, and another one fails for good.
fn world() -> World {
    let world = World::new();
    world.change(
        "work",
        "title = 'A change'\nmax-retries = 1\nverify = ['echo all is well']\n[[story]]\nid = 'one'\ntitle = 'First'\ntasks = ['write it']\n\
         acceptance = ['it is there']\n[[story]]\nid = 'two'\ntitle = 'Second'\nafter = ['one']\n",
    );
    world.agent(&format!(
        "case $RALPH_STORY$RALPH_ATTEMPT in one1) echo half >half; {FAILED};; one2) seq 1 1000 >work; {COMPLETE};; *) echo no >no; {FAILED};; esac"
    ));
    world
}

fn page(world: &World, args: &[&str]) -> String {
    let all: Vec<&str> = ["report", "-o", "-"].into_iter().chain(args.iter().copied()).collect();
    world.ralph(&all).code(0).stdout
}

/// How often a text occurs.
fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

#[test]
fn the_page_shows_verdict_figures_timeline_failures_stories_saved_work_settings_and_versions_in_this_order() {
    let world = world();
    world.start(&[]).code(1);
    let html = page(&world, &[]);
    let parts = [
        "Stopped: story &#39;two&#39; failed 2 times and has no retries left",
        "git ralph retry two &amp;&amp; git ralph resume work",
        "stories done",
        "id=\"timeline\"",
        "id=\"failures\"",
        "id=\"stories\"",
        "id=\"saved\"",
        "id=\"settings\"",
        "ralph.maxRetries",
    ];
    let places: Vec<usize> = parts.iter().map(|part| html.find(part).unwrap_or_else(|| panic!("{part} is not in\n{html}"))).collect();
    assert!(places.is_sorted(), "{places:?}");
    for part in [
        "A change",
        "1 of 2",
        "it is there",
        "write it",
        "failed: not today",
        "all is well",
        "refs/ralph/work/attempts/one/1",
        "git restore --source=refs/ralph/work/attempts/one/1 -- :/half",
        ".git/ralph/work.toml",
        env!("CARGO_PKG_VERSION"),
    ] {
        assert!(html.contains(part), "{part} is not in\n{html}");
    }
    assert_eq!(count(&html, "class=\"g "), 4, "a group per attempt");
    assert!(html.contains("more lines: <code class=\"cmd\">git diff "), "a long diff is cut, with the command for the rest");
    assert!(html.contains("default-src 'none'") && !html.contains("<script"));
}

#[test]
fn the_page_of_a_finished_run_has_the_same_bytes_again_whatever_has_changed_since() {
    let mut world = world();
    world.start(&[]).code(1);
    world.ralph(&["finish", "--cleanup"]).code(0);
    let formats = ["html", "markdown", "junit"];
    let before: Vec<String> = formats.iter().map(|format| page(&world, &["work", "--format", format])).collect();
    world.write("later", "x\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "later"]);
    world.git(&["branch", "ralph/work"]);
    world.git(&["config", "ralph.maxRetries", "9"]);
    world.change("work", "[[story]]\nid = 'other'\n");
    world.set_env("TZ", "Asia/Tokyo");
    let after: Vec<String> = formats.iter().map(|format| page(&world, &["work", "--format", format])).collect();
    assert_eq!(before, after);
}

#[test]
fn a_run_that_is_at_work_and_one_that_was_killed_have_a_page() {
    let world = World::new();
    world.stories(1, "");
    world.agent("touch at-work; sleep 60");
    let running = world.spawn_start(&[]);
    world.wait_for("the agent", || world.exists("at-work") || fs::exists(world.outside("repo.ralph/work/1/at-work")).unwrap());
    let html = page(&world, &[]);
    assert!(html.contains("The loop is running") && html.contains("is under way") && html.contains("git ralph stop work"), "{html}");
    running.signal("KILL");
    running.finish();
    let html = page(&world, &[]);
    assert!(
        html.contains("The loop was interrupted") && html.matches("was interrupted").count() > 1 && html.contains("git ralph resume work"),
        "{html}"
    );
    world.ralph(&["abort"]).code(0);
    assert!(page(&world, &["work"]).contains("The run was aborted"));
}

#[test]
fn whatever_an_agent_prints_is_text_and_takes_little_room() {
    let world = World::new();
    world.change(
        "work",
        "max-retries = 0\nverify = ['head -c 100000000 /dev/zero | tr \"\\\\0\" x; printf \"<script>alert(1)</script>\\\\033[2J\"; exit 1']\n\
         [[story]]\nid = 'one'\ntitle = '<img src=x onerror=alert(1)> \u{202e}evil'\n",
    );
    world.agent(&format!(
        "echo '</pre><script>alert(2)</script>' >'<b>.html'; printf '\\033]0;title\\007'; head -c 10000000 /dev/zero | tr '\\0' y; echo; {COMPLETE}"
    ));
    world.start(&[]).code(1);
    for format in ["html", "markdown", "junit"] {
        let text = page(&world, &["--format", format, "--with-transcripts"]);
        assert!(text.len() < 300_000, "{format}: {}", text.len());
        assert!(!text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'), "{format}");
        if format != "markdown" {
            assert!(!text.contains("<script") && !text.contains("<img") && !text.contains("<b>.html"), "{format}: {text}");
            assert!(text.contains("&lt;script&gt;"), "{format}");
        }
    }
    let markdown = page(&world, &["--format", "markdown"]);
    let outside_code: String = markdown.split('`').step_by(2).collect();
    assert!(!outside_code.contains("<script") && !outside_code.contains("<img"), "{markdown}");
}

#[test]
fn secrets_are_masked_in_every_format_and_in_the_log_and_counted() {
    let world = World::new();
    world.stories(1, "max-retries = 0\nverify = ['cat key; exit 1']");
    let token = format!("ghp_{}", "aB3dE5gH7jK9".repeat(3));
    world.agent(&format!("echo use {token} now >key; echo I use {token}; {COMPLETE}"));
    world.start(&[]).code(1);
    for args in [
        &["report", "-o", "-", "--with-transcripts"][..],
        &["report", "--format", "markdown"],
        &["report", "--format", "junit"],
        &["log"],
        &["log", "--json"],
        &["log", "1", "--attempt", "1"],
        &["log", "1", "--attempt", "1", "--json"],
        &["log", "--follow"],
        &["log", "--follow", "--json"],
    ] {
        let said = world.ralph(args).code(0);
        let text = said.stdout + &said.stderr;
        assert!(!text.contains(&token), "{args:?}: {text}");
        if args != ["log"] && args != ["log", "--json"] {
            assert!(text.contains("ghp_[masked]"), "{args:?}: {text}");
            let counts =
                ["masked.</p>", "are masked", "is masked", "\"masked\": 3", "\"masked\": 2", "name=\"masked secrets\" value=\"2\""];
            assert!(args.contains(&"--follow") || counts.iter().any(|words| text.contains(words)), "{args:?}: {text}");
        }
    }
    let raw = world.ralph(&["log", "1", "--attempt", "1", "--raw"]).code(0).stdout;
    assert!(raw.contains(&token), "--raw is byte for byte");
}

#[test]
fn with_report_always_the_page_is_written_reported_passed_to_on_finish_and_renewed() {
    let world = world();
    world.git(&["config", "ralph.report", "always"]);
    let told = world.outside("told");
    world.git(&[
        "config",
        "ralph.onFinish",
        &format!("echo \"$RALPH_REPORT\" >{0}; head -c 15 \"$RALPH_REPORT\" >>{0}; cat >>{0}", told.display()),
    ]);
    world.start(&[]).code(1).says("  report    .git/ralph/runs/work/1/report.html");
    let path = world.run_dir().join("report.html");
    let told = fs::read_to_string(told).unwrap();
    assert!(told.starts_with(&format!("{}\n<!DOCTYPE html>", path.display())), "{told}");
    assert!(told.contains(&format!("\"report\":\"{}\"", path.display())), "{told}");
    let html = fs::read_to_string(&path).unwrap();
    assert!(
        html.contains("Stopped: story &#39;two&#39; failed 2 times and has no retries left")
            && html.contains("<span class=\"chip bad\">open</span>"),
        "{html}"
    );
    world.ralph(&["finish", "--keep"]).code(0);
    let html = fs::read_to_string(&path).unwrap();
    assert!(html.contains("<span class=\"chip bad\">finished</span>"), "{html}");
    assert_eq!(html, page(&world, &["work"]), "it is what report makes");
}

#[test]
fn without_the_setting_no_page_is_written() {
    let world = world();
    world.start(&[]).code(1);
    assert!(!world.run_dir().join("report.html").exists());
}

#[test]
fn a_file_that_is_no_page_of_ours_is_not_overwritten() {
    let world = world();
    world.start(&[]).code(1);
    world.write("notes.html", "<p>mine</p>\n");
    world.ralph(&["report", "-o", "notes.html"]).code(2).says("is not overwritten").says("hint: rm ");
    assert_eq!(fs::read_to_string(world.path("notes.html")).unwrap(), "<p>mine</p>\n");
    for (format, name) in [("html", "a.html"), ("markdown", "a.md"), ("junit", "a.xml")] {
        for _ in 0..2 {
            assert_eq!(world.ralph(&["report", "--format", format, "-o", name]).code(0).stdout, format!("{name}\n"));
        }
    }
    assert_eq!(world.ralph(&["report"]).code(0).stdout, ".git/ralph/runs/work/1/report.html\n");
    world.ralph(&["report", "-o", "missing/a.html"]).code(128).says("cannot write");
    world.ralph(&["report", "nothing"]).code(128).says("there is no change");
    world.ralph(&["report", "--run", "7"]).code(128).says("has no run 7");
    world.ralph(&["report", "--open", "-o", "-"]).code(129);
}

#[test]
fn open_starts_the_browser_with_the_page() {
    let mut world = world();
    world.start(&[]).code(1);
    let opened = world.outside("opened");
    world.program("my-browser", &format!("echo \"$1\" >{}", opened.display()));
    world.set_env("BROWSER", "missing-browser:my-browser %s");
    world.ralph(&["report", "--open"]).code(0);
    let path = fs::read_to_string(opened).unwrap();
    assert_eq!(Path::new(path.trim()), world.run_dir().join("report.html"));
}

#[test]
fn an_earlier_run_has_its_page_with_the_names_that_its_refs_have_now() {
    let world = world();
    world.start(&[]).code(1);
    world.ralph(&["finish", "--cleanup"]).code(0);
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "result"]);
    world.agent(COMPLETE);
    world.start(&["--restart", "--finish", "keep"]).code(0);
    let earlier = page(&world, &["work", "--run", "1"]);
    assert!(earlier.contains("work, run 1") && earlier.contains("refs/ralph/work/runs/1/attempts/one/1"), "{earlier}");
    assert!(earlier.contains("+half"), "the diff of a saved attempt is found under its new name");
    let last = page(&world, &["work"]);
    assert!(last.contains("work, run 2") && !last.contains("refs/ralph/work/runs/1/"), "{last}");
    assert!(last.contains("nothing has changed"), "warnings are told: {last}");
}

#[test]
fn junit_has_a_case_per_story_and_earlier_attempts_as_reruns() {
    let world = world();
    world.start(&[]).code(1);
    let xml = page(&world, &["--format", "junit"]);
    assert!(xml.contains("<testsuite name=\"work\" tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\""), "{xml}");
    assert_eq!(
        (count(&xml, "<testcase "), count(&xml, "<flakyFailure "), count(&xml, "<rerunFailure "), count(&xml, "<failure ")),
        (2, 1, 1, 1),
        "{xml}"
    );
}

#[test]
fn markdown_has_a_row_per_story_and_folds_the_rest() {
    let world = world();
    world.start(&[]).code(1);
    let text = world.ralph(&["report", "--format", "markdown"]).code(0).stdout;
    assert!(text.contains("| `one` `First` | ✅ done | 2 |") && text.contains("| `two` `Second` | ❌ failed | 2 |"), "{text}");
    assert_eq!(count(&text, "<details>"), count(&text, "</details>"));
    assert!(text.contains("Next: `git ralph retry two && git ralph resume work`"), "{text}");
    assert!(text.len() < 5000);
}

#[test]
fn log_stat_draws_the_timeline_of_attempts() {
    let world = world();
    world.start(&[]).code(1);
    let text = world.ralph(&["log", "--stat"]).code(0).stdout;
    let lane = text.lines().find(|line| line.trim_start().starts_with("checkout")).unwrap_or_else(|| panic!("{text}"));
    assert!(lane.contains('█') && lane.contains('✗') && lane.chars().count() <= 80, "{text}");
    assert!(text.contains("█ agent") && text.contains("in all"), "{text}");
    assert!(!world.ralph(&["log"]).code(0).stdout.contains("timeline"));
}

/// Runs a git command with a text on its standard input.
fn git_reads(world: &World, command: &str, text: &str) {
    fs::write(world.outside("input"), text).unwrap();
    let output = world.command("sh", &["-c", &format!("git {command} <{}", world.outside("input").display())]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Makes that many commits, each with its own file.
fn commits(world: &World, number: usize) -> Vec<String> {
    let commit = |number: usize| {
        let body = format!("story {number}\n").repeat(200);
        let head = format!("commit refs/heads/many\ncommitter T <t@example.com> {} +0000\ndata 1\nx\n", 1_800_000_000 + number);
        format!("{head}M 100644 inline file-{number}\ndata {}\n{body}\n", body.len())
    };
    git_reads(world, "fast-import --quiet", &(1..=number).map(commit).collect::<String>());
    world.git(&["rev-list", "--reverse", "many"]).lines().map(str::to_owned).collect()
}

/// The events of a story with two failed attempts and one that lands, each with the seconds since the previous event.
fn events_of_story(number: usize, commit: &str) -> Vec<(i64, String)> {
    let said = "a line of output of this gate\\n".repeat(10);
    let gate = "\"command\":\"cargo test --workspace\"";
    let mut events = Vec::new();
    for attempt in 1..=3 {
        let of = format!("\"story\":\"story-{number}\",\"attempt\":{attempt}");
        let mut add = |seconds: i64, name: &str, more: &str| events.push((seconds, format!("\"event\":\"{name}\",{of}{more}")));
        add(1, "attempt-started", &format!(",\"title\":\"The story number {number} of many\",\"agent\":\"claude\""));
        let ended = ",\"exit\":{\"kind\":\"success\"},\"signal\":{\"said\":\"complete\"},\"milliseconds\":40000,\"survivors\":[]";
        let used = ",\"tools\":{\"Bash\":7,\"Edit\":3},\"usage\":{\"input\":1000,\"cached\":500,\"output\":100}";
        add(40, "agent-ended", &format!("{ended}{used}"));
        let exit = if attempt < 3 { "\"exit\":{\"kind\":\"code\",\"code\":1}" } else { "\"exit\":{\"kind\":\"success\"}" };
        add(2, "gate-ended", &format!(",{gate},{exit},\"milliseconds\":2000,\"output\":\"{said}\""));
        if attempt < 3 {
            add(0, "attempt-rejected", &format!(",\"outcome\":{{\"outcome\":\"gate-red\",{gate},{exit},\"output\":\"{said}\"}}"));
            let rescue = format!("refs/ralph/work/attempts/story-{number}/{attempt}");
            add(1, "attempt-rolled-back", &format!(",\"rescue\":\"{rescue}\",\"files\":1"));
        } else {
            add(0, "attempt-accepted", "");
            add(1, "checkpoint-landed", &format!(",\"commit\":\"{commit}\",\"files\":1"));
        }
    }
    events
}

/// Replaces the journal by that of a run with many stories, each with two failed attempts and one landed on an existing commit.
fn big_journal(world: &World, stories: usize) {
    let commits = commits(world, stories + 1);
    let mut events = vec![(0, format!("\"event\":\"commits-adopted\",\"checkpoint\":\"{}\"", commits[0]))];
    events.extend((1..=stories).flat_map(|number| events_of_story(number, &commits[number])));
    events.push((0, "\"event\":\"loop-ended\",\"end\":{\"why\":\"all-done\"}".to_owned()));
    events.push((0, "\"event\":\"finished\",\"mode\":\"keep\",\"kept\":null".to_owned()));
    let path = world.run_dir().join("journal.jsonl");
    let mut lines: Vec<String> = fs::read_to_string(&path).unwrap().lines().take(2).map(str::to_owned).collect();
    let mut second = 1_800_000_000;
    for (seconds, event) in events {
        second += seconds;
        let at = jiff::Timestamp::from_second(second).unwrap();
        lines.push(format!("{{\"seq\":{},\"at\":\"{at}\",{event}}}", lines.len() + 1));
    }
    fs::write(path, lines.join("\n") + "\n").unwrap();
    let saved = (1..=stories).flat_map(|number| [1, 2].map(|attempt| (number, attempt)));
    let refs = saved.map(|(number, attempt)| format!("create refs/ralph/work/attempts/story-{number}/{attempt} {}\n", commits[number]));
    git_reads(world, "update-ref --stdin", &refs.collect::<String>());
}

#[test]
fn a_thousand_stories_with_three_attempts_each_make_a_page_of_at_most_five_megabytes_with_few_processes() {
    let world = World::new();
    world.stories(1, "");
    world.agent(COMPLETE);
    world.start(&["--finish", "keep"]).code(0);
    big_journal(&world, 1000);
    world.fake_git(&format!("echo x >>{}", world.outside("calls").display()));
    let file = world.outside("page.html");
    let (output, peak) = world.spawn(&["report", "work", "-o", file.to_str().unwrap()]).finish_and_measure();
    output.code(0);
    let html = fs::read_to_string(&file).unwrap();
    assert!(html.len() <= 5_000_000, "{} bytes", html.len());
    assert_eq!(
        (count(&html, "<details class=\"card story\""), count(&html, "<article class=\"attempt ")),
        (1001, 3000),
        "the story of the change file was never begun"
    );
    assert_eq!(count(&html, "class=\"g "), 3000);
    let calls = fs::read_to_string(world.outside("calls")).unwrap().lines().count();
    assert!(calls <= 10, "{calls} git processes");
    assert!(peak < 400 * 1024, "{peak} kB");
    println!("{} bytes, {peak} kB, {calls} git processes", html.len());
    for format in ["markdown", "junit"] {
        let text = page(&world, &["work", "--format", format]);
        assert!(text.len() < 5_000_000, "{format}: {}", text.len());
    }
}
