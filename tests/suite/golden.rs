//! Compares committed files with what tests generate; `RALPH_BLESS=1 cargo test` rewrites them.

use std::fs;
use std::path::Path;

/// Compares a committed file with its expected content.
#[track_caller]
pub fn compare(name: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if std::env::var_os("RALPH_BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, expected).unwrap();
        return;
    }
    let found = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}; RALPH_BLESS=1 cargo test writes it"));
    let mut lines = found.lines().zip(expected.lines()).enumerate();
    let first = lines.find(|(_, (is, should))| is != should);
    let first = first.map(|(n, (is, should))| format!("\nline {}\n  is:     {is}\n  should: {should}", n + 1)).unwrap_or_default();
    assert!(found == expected, "{name} is out of date, RALPH_BLESS=1 cargo test writes it anew{first}");
}

/// The names of the files in a directory of the repository.
pub fn files(dir: &str) -> Vec<String> {
    let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(dir)).unwrap().map(Result::unwrap);
    let mut names: Vec<String> =
        entries.filter(|entry| entry.path().is_file()).map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
