//! Tests notifications: commands that receive the event, the terminal bell, and the desktop notification.

use std::fs;

use crate::screen::Screen;
use crate::support::{COMPLETE, World};

const ASKED: &str = "\u{1b}[?1004h";
const NOTIFIED: &str = "\u{1b}]9;git ralph: all stories of work are done\u{7}\u{7}";

fn told(world: &World, name: &str) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(world.outside(name)).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn commands_get_the_event_of_each_story_and_of_the_end_on_stdin() {
    let world = World::new();
    world.stories(2, "max-retries = 0");
    world.agent(&format!("test $RALPH_STORY = 1 && {{ {COMPLETE}; exit; }}; echo '<promise>FAILED: no</promise>'"));
    world.git(&["config", "ralph.onStory", "cat >>../story; echo $RALPH_CHANGE >>../change"]);
    world.git(&["config", "ralph.onFinish", "cat >>../end"]);
    world.start(&[]).code(1);
    let stories = told(&world, "story");
    let names: Vec<_> = stories.iter().map(|event| (event["event"].as_str().unwrap(), event["story"].as_str().unwrap())).collect();
    assert_eq!(names, [("checkpoint-landed", "1"), ("story-failed", "2")]);
    assert_eq!(fs::read_to_string(world.outside("change")).unwrap(), "work\nwork\n");
    let end = told(&world, "end");
    assert_eq!((end.len(), &end[0]["event"], &end[0]["end"]["why"]), (1, &"loop-ended".into(), &"retries-spent".into()));
    let journal = world.events();
    assert!(stories.iter().chain(&end).all(|event| journal.contains(event)), "as they are in the journal");
}

#[test]
fn a_command_that_fails_is_a_warning_and_changes_nothing() {
    let world = World::new();
    world.stories(1, "");
    world.agent(COMPLETE);
    world.git(&["config", "ralph.onStory", "echo no network >&2; exit 3"]);
    world.git(&["config", "ralph.onFinish", "kill -9 $$"]);
    let output = world.start(&["-q", "--finish", "cleanup"]).code(0);
    let output = output.says("warning: the command 'echo no network >&2; exit 3' ended with exit status 3: no network");
    output.says("warning: the command 'kill -9 $$' was killed by signal 9");
    assert_eq!(world.count("finished"), 1);
}

fn at_the_terminal(bell: &str, answer: Option<&str>) -> String {
    let world = World::new();
    world.stories(1, "");
    world.agent(COMPLETE);
    world.git(&["config", "ralph.bell", bell]);
    let agent = world.outside("bin/agent");
    let mut screen = Screen::new(&world, &["start", "work", "--finish", "cleanup", "--", agent.to_str().unwrap()]);
    if let Some(answer) = answer {
        screen.wait_for_raw(ASKED);
        screen.press(answer);
    }
    screen.wait_for("back on main");
    let raw = screen.raw();
    assert_eq!(screen.end().0, 0);
    raw
}

#[test]
fn the_bell_rings_unless_the_terminal_reports_that_it_has_the_focus() {
    assert!(at_the_terminal("auto", Some("\u{1b}[O")).contains(NOTIFIED), "looked away");
    assert!(!at_the_terminal("auto", Some("\u{1b}[I")).contains('\u{7}'), "looked at");
    let raw = at_the_terminal("auto", None);
    assert!(raw.contains(ASKED) && raw.contains("\u{1b}[?1004l") && raw.contains(NOTIFIED), "it does not say");
}

#[test]
fn ralph_bell_rings_always_or_never_without_asking() {
    let raw = at_the_terminal("true", None);
    assert!(raw.contains(NOTIFIED) && !raw.contains(ASKED));
    let raw = at_the_terminal("false", None);
    assert!(!raw.contains('\u{7}') && !raw.contains(ASKED));
}

#[test]
fn nothing_rings_where_there_is_no_terminal() {
    let world = World::new();
    world.stories(1, "");
    world.agent(COMPLETE);
    world.git(&["config", "ralph.bell", "true"]);
    let output = world.start(&["--finish", "cleanup"]).code(0);
    assert!(!output.stderr.contains('\u{7}') && !output.stdout.contains('\u{7}'));
}
