//! Fuzzes change files: any text either parses into stories or gives an error that names the file.
#![no_main]

use git_ralph::config::parse_change_file;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match parse_change_file(text, "x.toml") {
        Ok(file) => assert!(!file.stories.is_empty()),
        Err(error) => assert!(error.starts_with("x.toml:"), "{error}"),
    }
});
