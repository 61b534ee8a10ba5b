//! Fuzzes the journal: any bytes can either be replayed, folded and used for the next decision, or give an error.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use git_ralph::run::{Policy, RunState, replay};
use git_ralph::story::Story;
use libfuzzer_sys::fuzz_target;
use tempfile::NamedTempFile;

/// In memory if the system has such a directory: on a disk, most of the time would go into writing.
static FILE: LazyLock<NamedTempFile> =
    LazyLock::new(|| NamedTempFile::new_in("/dev/shm").or_else(|_| NamedTempFile::new()).expect("a temporary file"));

fuzz_target!(|bytes: &[u8]| {
    let path = FILE.path();
    fs::write(path, bytes).expect("a journal");
    let stories = stories();
    let policy = Policy { max_retries: 1, jobs: 2, limit: Some(2), ..Policy::default() };
    let mut state = RunState::default();
    let good = replay(path, None, |record| {
        state.apply(&record.event);
        let _ = state.next(&stories, &policy);
    });
    if let Ok(good) = good {
        assert!(good <= bytes.len() as u64 && (good == 0 || bytes[good as usize - 1] == b'\n'));
    }
});

/// Two stories; `a` waits for `b`.
fn stories() -> Vec<Story> {
    let mut stories = ["a", "b", "c"].map(|id| Story::stand_in(&id.parse().expect("a story id"))).to_vec();
    stories[0].after = vec![stories[1].id.clone()];
    stories
}
