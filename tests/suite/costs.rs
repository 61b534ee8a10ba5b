//! Tests costs that do not depend on time: git processes, walks of the tree, memory. Times are measured in `benches/`.

use std::fs;

use rustix::fs::inotify;

use crate::support::{COMPLETE, World};

/// The git commands that look at every file.
const WALKS: [&str; 6] = ["add", "status", "ls-files", "diff-files", "commit", "stash"];

/// Makes git log every call, in the file in which the agent logs its start and its end.
fn counting(world: &World) {
    world.fake_git(&format!("echo \"git $*\" >>{}", world.outside("calls").display()));
}

fn calls(world: &World) -> Vec<String> {
    let text = fs::read_to_string(world.outside("calls")).unwrap_or_default();
    let _ = fs::remove_file(world.outside("calls"));
    text.lines().map(str::to_owned).collect()
}

/// Whether a call looks at every file.
fn is_walk(call: &str) -> bool {
    let mut words = call.split(' ').skip(1).skip_while(|word| *word == "-c" || word.contains('=') || word.starts_with("--"));
    words.next().is_some_and(|word| WALKS.contains(&word))
}

#[test]
fn between_two_agents_are_at_most_six_git_processes_and_one_walk_of_the_tree() {
    let world = World::new();
    // Creates ORIG_HEAD, which most repositories have and which is not a commit of the agent.
    world.git(&["reset", "-q", "--hard"]);
    world.stories(4, "");
    let log = world.outside("calls").display().to_string();
    world.agent(&format!("echo start >>{log}; echo $RALPH_STORY >>f; {COMPLETE}; echo end >>{log}"));
    counting(&world);
    world.start(&[]).code(0);
    let calls = calls(&world);
    let gaps: Vec<&[String]> = calls.split(|line| line == "start").skip(1).collect();
    assert_eq!(gaps.len(), 4);
    for gap in &gaps[..3] {
        let between: Vec<&String> = gap.iter().skip_while(|line| *line != "end").skip(1).collect();
        assert!(between.len() <= 6, "{between:#?}");
        assert_eq!(between.iter().filter(|line| is_walk(line)).count(), 1, "{between:#?}");
    }
}

#[test]
fn status_and_list_need_two_git_processes_and_resume_few_more_before_its_first_story() {
    let world = World::new();
    world.stories(2, "");
    let log = world.outside("calls").display().to_string();
    world.agent(&format!("echo start >>{log}; {COMPLETE}"));
    world.start(&["--limit", "1"]).code(0);
    counting(&world);
    // A resume that is slow lists the refs again, which is one more call.
    for (args, most) in [(&["status"][..], 2), (&["list"], 2), (&["resume"], 9)] {
        let _ = calls(&world);
        world.ralph(args).code(0);
        let calls = calls(&world);
        let before = calls.iter().take_while(|line| *line != "start").count();
        assert!(before <= most, "{args:?}: {calls:#?}");
    }
}

#[test]
fn start_and_landing_walk_the_tree_once_and_a_cleanup_not_at_all() {
    let world = World::new();
    world.stories(1, "");
    let log = world.outside("calls").display().to_string();
    world.agent(&format!("echo start >>{log}; echo x >loop; {COMPLETE}; echo end >>{log}"));
    counting(&world);
    let walks = |calls: &[String]| calls.iter().filter(|line| is_walk(line) && !line.contains(" ls-files -")).count();
    world.start(&[]).code(0);
    let first = calls(&world);
    let (start, landing) = first.split_at(first.iter().position(|line| line == "start").unwrap());
    assert_eq!((walks(start), walks(landing)), (1, 1), "{first:#?}");
    // Rewrites the index, with the times that git has refreshed meanwhile.
    world.git(&["update-index", "--force-write-index"]);
    let _ = calls(&world);
    world.ralph(&["finish", "--cleanup"]).code(0);
    let finish = calls(&world);
    assert_eq!(walks(&finish), 0, "{finish:#?}");
    assert_eq!(world.git(&["status", "--porcelain"]), "?? loop");
    world.git(&["clean", "-qfd"]);
    world.start(&["--restart", "--finish", "cleanup"]).code(0);
    let all = calls(&world);
    let behind = all.iter().position(|line| line == "end").unwrap();
    assert_eq!(walks(&all[behind..]), 1, "the landing's own: {all:#?}");
    assert_eq!(world.git(&["status", "--porcelain"]), "?? loop");
}

#[test]
fn output_of_any_size_and_shape_needs_little_memory() {
    let json = r#"{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"working"}],"usage":{"output_tokens":1}}}"#;
    let last = r#"{"type":"result","subtype":"success","is_error":false,"result":"<promise>COMPLETE</promise>"}"#;
    for (format, script) in [
        ("text", format!("yes 'a line of text' | head -c 100000000; echo; {COMPLETE}")),
        ("text", format!("head -c 100000000 /dev/zero | tr '\\0' x; echo; {COMPLETE}")),
        ("claude", format!("yes '{json}' | head -n 500000; echo '{last}'")),
        ("claude", format!("head -c 100000000 /dev/zero | tr '\\0' x; echo; echo '{last}'")),
    ] {
        let world = World::new();
        world.stories(1, "");
        let agent = world.agent(&script);
        world.git(&["config", "ralph.pour.cmd", &agent]);
        world.git(&["config", "ralph.pour.format", format]);
        let (output, peak) = world.spawn(&["start", "work", "-q", "--agent", "pour"]).finish_and_measure();
        output.code(0);
        assert!(peak <= 16 * 1024, "{peak} kB for {format}: {script}");
    }
}

#[test]
fn the_change_file_is_opened_once_by_a_start_twice_before_an_attempt_once_after_it_and_once_for_the_summary() {
    let world = World::new();
    world.stories(1, "");
    world.agent(COMPLETE);
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&watch, world.path(".git/ralph/work.toml"), inotify::WatchFlags::OPEN | inotify::WatchFlags::CLOSE_NOWRITE).unwrap();
    world.start(&[]).code(0);
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(&watch, &mut buffer);
    let mut opened = 0;
    // The kernel merges consecutive events of the same kind, so CLOSE events are watched too: they separate two OPEN events.
    while let Ok(event) = events.next() {
        opened += usize::from(event.events().contains(inotify::ReadFlags::OPEN));
    }
    // The file is opened at the start; to find the next story, to record its text and to compare that; to find that no story is left; and
    // to count the stories for the summary.
    assert_eq!(opened, 6);
}
