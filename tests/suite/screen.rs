//! Runs git-ralph on a pseudo-terminal, for tests of its screen and its keys.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::support::{LIMIT, World};

const ROWS: u16 = 30;

fn size(columns: u16) -> PtySize {
    PtySize { rows: ROWS, cols: columns, pixel_width: 0, pixel_height: 0 }
}

/// A program on a terminal, by default git-ralph on one of 100 by 30 cells.
pub struct Screen {
    parser: Arc<Mutex<vt100::Parser>>,
    raw: Arc<Mutex<Vec<u8>>>,
    pub child: Box<dyn Child + Send + Sync>,
    keys: Box<dyn Write + Send>,
    pub master: Box<dyn MasterPty + Send>,
}

impl Screen {
    pub fn new(world: &World, args: &[&str]) -> Self {
        Screen::sized(world, args, 100)
    }

    /// Starts git-ralph on a terminal with another number of columns.
    pub fn sized(world: &World, args: &[&str], columns: u16) -> Self {
        let program = [&[env!("CARGO_BIN_EXE_git-ralph")], args].concat();
        Screen::of(world, &program, columns)
    }

    /// Starts any program on a terminal with that many columns.
    pub fn of(world: &World, program: &[&str], columns: u16) -> Self {
        let pair = native_pty_system().openpty(size(columns)).unwrap();
        // For the same reason as `program_from_scratch`: the library resets the signal mask, but not every disposition.
        let mut command = CommandBuilder::new("env");
        command.arg("--default-signal");
        command.args(program);
        command.cwd(&world.repo);
        command.env_clear();
        for (name, value) in world.env() {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).unwrap();
        let parser = Arc::new(Mutex::new(vt100::Parser::new(ROWS.try_into().unwrap(), columns.try_into().unwrap(), 2000)));
        let mut reader = pair.master.try_clone_reader().unwrap();
        let raw = Arc::new(Mutex::new(Vec::new()));
        let (screen, bytes) = (Arc::clone(&parser), Arc::clone(&raw));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count) = reader.read(&mut buffer) {
                if count == 0 {
                    break;
                }
                bytes.lock().unwrap().extend_from_slice(&buffer[..count]);
                screen.lock().unwrap().process(&buffer[..count]);
            }
        });
        let keys = pair.master.take_writer().unwrap();
        Screen { parser, raw, child, keys, master: pair.master }
    }

    /// Makes the terminal wider or narrower while the program runs.
    pub fn resize(&self, columns: u16) {
        let mut parser = self.parser.lock().unwrap();
        parser.screen_mut().set_size(ROWS.try_into().unwrap(), columns.try_into().unwrap());
        self.master.resize(size(columns)).unwrap();
    }

    /// The rows of the screen, without blanks at their ends.
    pub fn rows(&self) -> Vec<String> {
        let parser = self.parser.lock().unwrap();
        let (_, columns) = parser.screen().size();
        parser.screen().rows(0, columns.into()).collect()
    }

    /// Whether the terminal echoes what is typed, which is its normal setting.
    pub fn echoes(&self) -> bool {
        let settings = self.master.get_termios().unwrap();
        let wanted = libc::ECHO | libc::ICANON | libc::ISIG;
        settings.local_flags.bits() & wanted == wanted
    }

    pub fn text(&self) -> String {
        self.parser.lock().unwrap().screen().contents()
    }

    #[track_caller]
    pub fn wait_for(&self, words: &str) {
        let started = Instant::now();
        while !self.text().contains(words) {
            assert!(started.elapsed() < LIMIT, "'{words}' is not on the screen:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Everything that was written to the terminal, byte for byte.
    pub fn raw(&self) -> String {
        String::from_utf8_lossy(&self.raw.lock().unwrap()).into_owned()
    }

    #[track_caller]
    pub fn wait_for_raw(&self, bytes: &str) {
        let started = Instant::now();
        while !self.raw().contains(bytes) {
            assert!(started.elapsed() < LIMIT, "{bytes:?} was not written: {:?}", self.raw());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    #[track_caller]
    pub fn end(mut self) -> (u32, String) {
        let started = Instant::now();
        let code = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status.exit_code();
            }
            assert!(started.elapsed() < LIMIT, "git-ralph hangs:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(10));
        };
        std::thread::sleep(Duration::from_millis(100));
        assert!(!self.parser.lock().unwrap().screen().hide_cursor(), "the cursor is visible again");
        assert!(self.echoes(), "the terminal has its own settings again");
        (code, self.text())
    }
}
