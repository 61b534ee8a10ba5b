//! Tests `config`: each setting with its origin; and the output style set in git's configuration: colour, advice, pager.

use crate::screen::Screen;
use crate::support::{COMPLETE, World};

/// The value and the origin of a setting, from `config --json`.
fn setting(world: &World, args: &[&str], key: &str) -> (String, String) {
    let args: Vec<&str> = ["config", "--json"].into_iter().chain(args.iter().copied()).collect();
    let json: serde_json::Value = serde_json::from_str(&world.ralph(&args).code(0).stdout).unwrap();
    assert_eq!(json["schema"], 1);
    let found = json["settings"].as_array().unwrap().iter().find(|setting| setting["key"] == key).unwrap().clone();
    let origin = &found["origin"];
    let words: Vec<&str> = ["kind", "scope", "place"].iter().filter_map(|name| origin[*name].as_str()).collect();
    let values: Vec<&str> = found["values"].as_array().unwrap().iter().map(|value| value.as_str().unwrap()).collect();
    (values.join("|"), words.join(" "))
}

#[test]
fn config_names_the_strongest_layer_of_every_setting() {
    let world = World::new();
    world.stories(1, "max-retries = 4");
    let pair = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());
    assert_eq!(setting(&world, &[], "ralph.maxRetries"), pair("3", "default"));
    world.git(&["config", "--global", "ralph.maxRetries", "5"]);
    let home = world.outside("home");
    assert_eq!(setting(&world, &[], "ralph.maxRetries"), pair("5", &format!("git-config global file:{}/.gitconfig", home.display())));
    world.git(&["config", "ralph.maxRetries", "6"]);
    assert_eq!(setting(&world, &[], "ralph.maxRetries"), pair("6", "git-config local file:.git/config"));
    assert_eq!(setting(&world, &["work"], "ralph.maxRetries"), pair("4", "change-file .git/ralph/work.toml"));
    world.git(&["config", "ralph.verify", "make"]);
    world.git(&["config", "--add", "ralph.verify", "make lint"]);
    assert_eq!(setting(&world, &[], "ralph.verify").0, "make|make lint");
    let bare = setting(&world, &[], "ralph.maxCost");
    assert_eq!(bare, pair("", "default"));
    world.agent(&format!("echo x >x; {COMPLETE}"));
    world.git(&["config", "--unset-all", "ralph.verify"]);
    world.start(&["--max-retries", "7"]).code(0);
    assert_eq!(setting(&world, &[], "ralph.maxRetries"), pair("7", "option --max-retries"), "of the open run");
    let text = world.ralph(&["config"]).code(0).stdout;
    let line = text.lines().find(|line| line.starts_with("ralph.maxRetries")).unwrap();
    assert!(line.contains(" 7 ") && line.ends_with("option --max-retries"), "{line}");
}

#[test]
fn git_c_beats_the_change_file_and_is_named() {
    let mut world = World::new();
    world.stories(1, "max-retries = 4");
    world.set_env("GIT_CONFIG_PARAMETERS", "'ralph.maxRetries'='9'");
    assert_eq!(setting(&world, &["work"], "ralph.maxRetries"), ("9".to_owned(), "command".to_owned()));
}

#[test]
fn a_bad_value_is_an_error_that_names_its_file() {
    let world = World::new();
    for (key, value) in [("ralph.maxRetries", "many"), ("ralph.bell", "loud"), ("ralph.attemptTimeout", "soon"), ("color.ralph", "pink")] {
        world.git(&["config", key, value]);
        world.ralph(&["config"]).code(128).says(&format!("bad value for {key} in local git config (file:.git/config): '{value}'"));
        world.git(&["config", "--unset", key]);
    }
    world.git(&["config", "ralph.maxRetires", "3"]);
    world.ralph(&["config"]).code(0).says("is not a setting; did you mean 'ralph.maxRetries'?");
}

#[test]
fn bad_values_keep_no_other_setting_from_the_list() {
    let world = World::new();
    world.stories(1, "max-retries = 4");
    for (key, value) in [("ralph.bell", "loud"), ("ralph.gitTimeout", "soon"), ("color.ui", "pink"), ("ralph.jobs", "2")] {
        world.git(&["config", key, value]);
    }
    let output = world.ralph(&["config", "work"]).code(128);
    let line = |key: &str| output.stdout.lines().find(|line| line.split(' ').next() == Some(key)).unwrap().to_owned();
    assert!(line("ralph.jobs").contains(" 2 ") && line("ralph.maxRetries").contains(" 4 "), "{}", output.stdout);
    let bad = "local git config (file:.git/config), bad value";
    assert!(line("ralph.bell").contains(" loud ") && line("ralph.bell").ends_with(bad), "{}", output.stdout);
    assert_eq!(
        output.stderr,
        "error: bad value for ralph.gitTimeout in local git config (file:.git/config): 'soon' is not a duration such as '45m', '1h 30m' or '90s'\n\
         hint: git config --local --unset-all ralph.gitTimeout\n\
         error: bad value for ralph.bell in local git config (file:.git/config): 'loud' is not one of true, false, auto\n\
         hint: git config --local --unset-all ralph.bell\n\
         error: bad value for color.ui in local git config (file:.git/config): 'pink' is not one of always, never, auto\n\
         hint: git config --local --unset-all color.ui\n"
    );
    let json: serde_json::Value = serde_json::from_str(&world.ralph(&["config", "--json"]).code(128).stdout).unwrap();
    let settings = json["settings"].as_array().unwrap();
    let problem = |key: &str| settings.iter().find(|setting| setting["key"] == key).unwrap()["problem"].clone();
    assert_eq!((problem("ralph.bell"), problem("ralph.jobs")), ("'loud' is not one of true, false, auto".into(), serde_json::Value::Null));
    world.git(&["config", "--global", "ralph.sign", "perhaps"]);
    world.git(&["config", "ralph.sign", "true"]);
    assert!(!world.ralph(&["config"]).stderr.contains("ralph.sign"), "a value that does not count is no error");
}

#[test]
fn a_broken_change_file_keeps_no_other_setting_from_the_list() {
    let world = World::new();
    world.change("work", "jobs = 'many'\n[[story]]\nid = '1'\n");
    world.git(&["config", "ralph.maxRetries", "7"]);
    let output = world.ralph(&["config", "work"]).code(128).says("ralph.maxRetries        7");
    assert_eq!(output.stderr, "error: .git/ralph/work.toml:1: 'jobs' must be a whole number, not a string\n");
}

#[test]
fn list_shows_a_broken_change_file_as_broken_with_the_reason() {
    let world = World::new();
    world.stories(1, "");
    world.change("torn", "title = 'x'\nverify = [\n");
    world.change("wrong", "jobs = 0\n[[story]]\nid = '1'\n");
    let text = world.ralph(&["list"]).code(0).stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("torn   broken         0/?    .git/ralph/torn.toml:2: "), "{text}");
    assert_eq!(lines[1], "work   not started    0/1    ");
    assert_eq!(lines[2], "wrong  broken         0/?    .git/ralph/wrong.toml:1: 'jobs' must be a whole number from 1 to 4294967295");
    let json: serde_json::Value = serde_json::from_str(&world.ralph(&["list", "--json"]).code(0).stdout).unwrap();
    assert_eq!(json["changes"][0]["state"], "broken");
}

#[test]
fn all_settings_are_read_by_one_git_call() {
    let world = World::new();
    let log = world.outside("calls");
    world.fake_git(&format!("case \"$*\" in *'config -z'*|config*) echo \"$*\" >>{} ;; esac", log.display()));
    world.ralph(&["config"]).code(0);
    assert_eq!(std::fs::read_to_string(log).unwrap().lines().count(), 1);
}

#[test]
fn hints_can_be_switched_off_one_by_one_and_all_at_once() {
    let mut world = World::new();
    world.stories(1, "");
    world.agent(&format!("echo x >x; {COMPLETE}"));
    let hints = |text: &str| text.lines().filter(|line| line.starts_with("hint: ")).map(str::to_owned).collect::<Vec<_>>();
    let first = hints(&world.start(&[]).code(0).stderr);
    assert!(first.len() > 1, "{first:?}");
    assert_eq!(first.iter().filter(|hint| hint.contains("Disable")).count(), 1, "{first:?}");
    assert_eq!(first.last().unwrap(), "hint: Disable this message with \"git config advice.ralphNextStep false\"");
    let refused = hints(&world.start(&[]).code(2).stderr);
    assert!(!refused.is_empty() && !refused.iter().any(|hint| hint.contains("Disable")), "not behind an error: {refused:?}");
    world.git(&["config", "advice.ralphProblem", "false"]);
    let output = world.start(&[]).code(2).says("a run of 'work' is open");
    assert_eq!(hints(&output.stderr), [""; 0]);
    assert!(!hints(&world.ralph(&["resume"]).code(0).stderr).is_empty());
    world.set_env("GIT_ADVICE", "0");
    assert_eq!(hints(&world.ralph(&["resume"]).code(0).stderr), [""; 0]);
}

#[test]
fn colour_follows_git_and_no_color() {
    type Pairs = &'static [(&'static str, &'static str)];
    let cases: &[(Pairs, Pairs, bool)] = &[
        (&[], &[], true),
        (&[("color.ui", "never")], &[], false),
        (&[("color.ui", "never"), ("color.ralph", "auto")], &[], true),
        (&[("color.ralph", "false")], &[], false),
        (&[], &[("NO_COLOR", "1")], false),
        (&[("color.ralph", "always")], &[("NO_COLOR", "1")], true),
        (&[], &[("TERM", "dumb")], false),
    ];
    for (config, variables, colour) in cases {
        let mut world = World::new();
        for (key, value) in *config {
            world.git(&["config", key, value]);
        }
        for (name, value) in *variables {
            world.set_env(name, value);
        }
        let screen = Screen::new(&world, &["doctor"]);
        screen.wait_for("completion");
        let raw = screen.raw();
        screen.end();
        assert_eq!(raw.contains("\u{1b}[32mok"), *colour, "{config:?} {variables:?}: {raw:?}");
    }
    let world = World::new();
    assert!(!world.ralph(&["doctor"]).stdout.contains('\u{1b}'), "not into a pipe");
    world.git(&["config", "color.ralph", "always"]);
    assert!(world.ralph(&["doctor"]).stdout.contains('\u{1b}'));
}

#[test]
fn log_is_paged_on_a_terminal_and_nowhere_else() {
    let mut world = World::new();
    world.stories(1, "");
    world.agent(COMPLETE);
    world.start(&["--finish", "keep"]).code(0);
    world.program("pager", "sed 's/^/paged: /'; echo $LESS $LV $GIT_PAGER_IN_USE");
    world.git(&["config", "core.pager", "pager"]);
    let screen = Screen::new(&world, &["log"]);
    screen.wait_for("FRX -c 1");
    let (code, text) = screen.end();
    assert!(code == 0 && text.contains("paged: work, run 1: finished"), "{text}");
    assert!(!world.ralph(&["log"]).code(0).stdout.contains("paged"));
    let screen = Screen::new(&world, &["status"]);
    assert!(!screen.end().1.contains("paged"));
    world.git(&["config", "core.pager", "no-such-pager"]);
    assert!(Screen::new(&world, &["log"]).end().1.contains("work, run 1: finished"), "what the pager cannot show is shown");
    world.git(&["config", "core.pager", "pager"]);
    world.set_env("GIT_PAGER_IN_USE", "1");
    assert!(!Screen::new(&world, &["log"]).end().1.contains("paged"));
}
