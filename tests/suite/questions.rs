//! Tests lists to choose from, on terminals of any width and after a resize.

use crate::screen::Screen;
use crate::support::{COMPLETE, World};

const DOWN: &str = "\u{1b}[B";
const UP: &str = "\u{1b}[A";
const ENTER: &str = "\r";

fn asked(columns: u16) -> (World, Screen) {
    let world = World::new();
    world.stories(1, "");
    let agent = world.agent(&format!("echo x >new; {COMPLETE}"));
    let screen = Screen::sized(&world, &["start", "work", "--", &agent], columns);
    screen.wait_for("❯ ");
    (world, screen)
}

/// How many rows begin with each of the answers.
fn answers(screen: &Screen) -> Vec<usize> {
    let rows = screen.rows();
    let count = |word: &str| rows.iter().filter(|row| row.trim_start_matches(['❯', ' ']).starts_with(word)).count();
    ["cleanup ", "keep ", "later "].map(count).to_vec()
}

#[test]
fn arrow_keys_repeat_no_line_at_any_width() {
    for columns in [20, 40, 80, 160] {
        let (world, mut screen) = asked(columns);
        for key in [DOWN, DOWN, UP, DOWN, UP] {
            let before = screen.raw().len();
            screen.press(key);
            world.wait_for("the answer to a key", || screen.raw().len() > before);
        }
        screen.wait_for("❯ keep");
        assert_eq!(answers(&screen), [1, 1, 1], "{columns} columns:\n{}", screen.text());
        screen.press(ENTER);
        assert_eq!(screen.end().0, 0);
        assert_eq!(world.branch(), "ralph/work");
    }
}

#[test]
fn a_question_is_redrawn_after_a_resize() {
    let (world, mut screen) = asked(100);
    for columns in [60, 20, 140] {
        let before = screen.raw().len();
        screen.resize(columns);
        world.wait_for("the question to be drawn", || screen.raw().len() > before);
        let before = screen.raw().len();
        screen.press(DOWN);
        world.wait_for("the answer to a key", || screen.raw().len() > before);
        world.wait_for("one line per answer", || answers(&screen) == [1, 1, 1]);
    }
    screen.press(DOWN);
    screen.press(ENTER);
    assert_eq!(screen.end().0, 0);
    assert_eq!(world.branch(), "ralph/work", "three steps down are the first answer again, and one more is keep");
}

#[test]
fn a_yes_or_no_that_does_not_fit_is_asked_below_its_text() {
    let (world, mut screen) = asked(100);
    screen.press(ENTER);
    assert_eq!(screen.end().0, 0);
    let mut screen = Screen::sized(&world, &["prune"], 20);
    screen.wait_for("Sure? (y/n)");
    screen.press("y");
    let (code, text) = screen.end();
    assert_eq!((code, text.matches("Sure?").count()), (0, 1), "{text}");
    assert!(!world.has_ref("refs/ralph/work/done"));
}
