//! The table of configuration keys is the code's: what is read is documented, what is documented is read.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use git_ralph::config::KEYS;

fn read_by_the_code() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut dirs = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            if path.extension().is_none_or(|kind| kind != "rs") || path.ends_with("config/keys.rs") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            for rest in code.split("\"ralph.").skip(1) {
                let key = rest.split('"').next().unwrap();
                if !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '{' | '}')) {
                    found.insert(format!("ralph.{}", key.replace("{name}", "<name>")));
                }
            }
        }
    }
    found
}

#[test]
fn the_table_of_keys_and_the_code_know_the_same_ones() {
    let table: BTreeSet<String> = KEYS.iter().map(|key| key.name.to_owned()).collect();
    let read = read_by_the_code();
    assert!(read.len() > 10, "{read:?}");
    assert_eq!(table, read);
}

#[test]
fn every_key_has_a_sentence() {
    for key in KEYS {
        assert!(key.meaning.ends_with('.') && key.meaning.starts_with(char::is_uppercase), "{}", key.name);
        assert!(!key.value.is_empty() && !key.default.is_empty(), "{}", key.name);
    }
}
