//! The reporter for a terminal: prints events as lines, with the live view below them, which is redrawn at short intervals.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use jiff::Timestamp;

use super::block::{Block, Size};
use super::keyboard::{Key, Keyboard, is_background};
use super::lines::said_text;
use super::live_view::LiveView;
use super::words::activity_lines;
use super::{Line, Tone, Verbosity, event_lines, output};
use crate::run::{Activity, Live, Record, Reporter, RunState};

/// Reports events on a terminal.
#[derive(Clone, Debug)]
pub struct Terminal(Rc<RefCell<Drawn>>);

#[derive(Debug)]
struct Drawn {
    verbosity: Verbosity,
    view: LiveView,
    block: Block,
    keyboard: Option<Keyboard>,
    /// The agent's line that was printed last.
    said: String,
    /// Whether the loop has ended, so that nothing is drawn any more.
    over: bool,
}

impl Terminal {
    /// Creates a reporter with the given verbosity.
    #[must_use]
    pub fn new(verbosity: Verbosity) -> Self {
        let view = LiveView::new(Instant::now());
        let drawn = Drawn { verbosity, view, block: Block::default(), keyboard: None, said: String::new(), over: false };
        Terminal(Rc::new(RefCell::new(drawn)))
    }
}

impl Drawn {
    fn say(&self, line: &Line) {
        self.block.print(&output::prefixed(line));
    }

    fn draw(&mut self) {
        if !self.over && !self.view.is_empty() && !is_background() {
            let size = Size::now();
            self.view.hears_keys = self.keyboard.is_some();
            self.block.draw(size, self.view.lines(size, Instant::now(), Timestamp::now()));
        }
    }

    fn step_aside(&mut self) {
        self.block.erase();
        self.keyboard = None;
    }
}

impl Reporter for Terminal {
    fn event(&self, record: &Record, state: &RunState) {
        let mut drawn = self.0.borrow_mut();
        drawn.view.event(&record.event, state, Instant::now());
        for line in event_lines(&record.event, state) {
            drawn.say(&line);
        }
        drawn.draw();
    }

    fn activity(&self, activity: &Activity<'_>) {
        let mut drawn = self.0.borrow_mut();
        drawn.view.activity(activity, Instant::now());
        // The set-up of a workspace has its own row in the live view. Other activities with a message are printed.
        if !matches!(activity, Activity::SettingUp { .. }) {
            for line in activity_lines(activity) {
                drawn.say(&line);
            }
        }
        if let Some(text) = said_text(activity).filter(|text| drawn.verbosity == Verbosity::Verbose && *text != drawn.said) {
            drawn.say(&Line::new(Tone::Plain, text.clone()));
            drawn.said = text;
        }
    }

    fn rest(&self) {
        let mut drawn = self.0.borrow_mut();
        drawn.over = true;
        drawn.step_aside();
    }

    fn live(&self) -> Option<Rc<dyn Live>> {
        Some(Rc::new(self.clone()))
    }
}

impl Live for Terminal {
    fn beat(&self) -> bool {
        let mut drawn = self.0.borrow_mut();
        if drawn.over {
            return false;
        }
        if drawn.keyboard.is_none() {
            drawn.keyboard = Keyboard::open();
        }
        drawn.draw();
        drawn.keyboard.as_ref().is_some_and(|keyboard| keyboard.typed().contains(&Key::Char('q')))
    }

    fn step_aside(&self) {
        self.0.borrow_mut().step_aside();
    }
}
