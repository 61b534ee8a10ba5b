//! The facts about a process in `/proc/<pid>/stat`: its state, its parent and its start time.

use std::fs;

/// One reading of that file.
pub(super) struct Stat {
    state: char,
    /// The id of its parent.
    pub parent: u32,
    /// Its start time, in clock ticks since the machine started.
    pub born: u64,
}

impl Stat {
    /// The process that has this id now; none if there is no such process.
    pub fn of(pid: u32) -> Option<Self> {
        // The name of the program need not be valid text.
        Self::parse(&String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?))
    }

    /// Whether it has ended and only waits for its parent to notice.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    fn parse(text: &str) -> Option<Self> {
        // The name in parentheses may contain anything, so we count from the last parenthesis: state, parent, …, start time.
        let mut fields = text.rsplit_once(") ")?.1.split(' ');
        let (state, parent) = (fields.next()?.chars().next()?, fields.next()?.parse().ok()?);
        Some(Stat { state, parent, born: fields.nth(17)?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_program_confuses_nobody() {
        for name in ["sh", "a b", "(x) S 1 2", ")", "x) Z 7"] {
            let line = format!("12 ({name}) S 34 12 12 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 5678 9 10 11\n");
            let stat = Stat::parse(&line).unwrap();
            assert_eq!((stat.parent, stat.born, stat.has_ended()), (34, 5678, false), "{name}");
        }
        assert!(Stat::parse("12 (sh) Z 34 12 12 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 5678 9").unwrap().has_ended());
        assert!(Stat::parse("").is_none() && Stat::parse("12 (sh) S").is_none());
    }

    #[test]
    fn we_are_the_child_of_our_parent_and_alive() {
        let stat = Stat::of(std::process::id()).unwrap();
        assert_eq!((stat.parent, stat.has_ended()), (std::os::unix::process::parent_id(), false));
    }
}
