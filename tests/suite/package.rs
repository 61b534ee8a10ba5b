//! Tests the package: its files, its metadata, and the licences and sources of its dependencies.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::program_from_scratch;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The output of a cargo command.
fn cargo(args: &[&str]) -> String {
    let mut cargo = program_from_scratch(env!("CARGO"));
    let output = cargo.args(args).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn files_below(dir: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(root().join(dir)).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{dir}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() { found.extend(files_below(&name)) } else { found.extend([name]) }
    }
    found
}

#[test]
fn the_package_contains_what_a_build_needs_and_nothing_else() {
    let listed: BTreeSet<String> = cargo(&["package", "--list", "--allow-dirty", "--offline"]).lines().map(str::to_owned).collect();
    let mut needed = files_below("src");
    needed.extend(files_below("completions"));
    needed.extend(files_below("man").into_iter().filter(|page| !page.starts_with("man/sections/")));
    let top = ["Cargo.toml", "Cargo.toml.orig", "Cargo.lock", "README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];
    needed.extend(top.map(str::to_owned));
    // cargo adds this file in a clean repository.
    let listed: BTreeSet<String> = listed.into_iter().filter(|file| file != ".cargo_vcs_info.json").collect();
    assert_eq!(listed, needed);
}

fn manifest() -> toml::Table {
    fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap()
}

#[test]
fn the_metadata_for_the_registry_is_complete() {
    let package = manifest()["package"].as_table().unwrap().clone();
    for field in ["description", "license", "readme", "keywords", "categories", "rust-version"] {
        assert!(package.contains_key(field), "{field} is missing");
    }
    // The registry accepts at most five of each.
    assert!(package["keywords"].as_array().unwrap().len() <= 5 && package["categories"].as_array().unwrap().len() <= 5);
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        assert!(root().join(licence).is_file(), "{licence}");
    }
}

/// The Debian package must install every file that `setup` would install, and no other.
#[test]
fn the_debian_package_has_every_page_and_every_completion() {
    let assets = manifest()["package"]["metadata"]["deb"]["assets"].as_array().unwrap().clone();
    let sources: Vec<String> = assets.iter().map(|asset| asset[0].as_str().unwrap().to_owned()).collect();
    for file in files_below("completions") {
        assert!(sources.contains(&file), "{file}");
    }
    for page in files_below("man").into_iter().filter(|page| !page.starts_with("man/sections/")) {
        let pattern = format!("man/*.{}", page.rsplit('.').next().unwrap());
        assert!(sources.contains(&pattern), "{page}");
    }
}

fn strings(value: &toml::Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// Whether the allowed licences satisfy a licence expression.
fn is_met(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let met = alternatives(&words, &mut at, allowed);
    assert_eq!(at, words.len(), "cannot read '{expression}'");
    met
}

fn alternatives(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut met = demands(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= demands(words, at, allowed);
    }
    met
}

fn demands(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut met = licence(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= licence(words, at, allowed);
    }
    met
}

fn licence(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut name = words[*at].to_owned();
    *at += 1;
    if name == "(" {
        let met = alternatives(words, at, allowed);
        assert_eq!(words.get(*at), Some(&")"));
        *at += 1;
        return met;
    }
    if words.get(*at) == Some(&"WITH") {
        name = format!("{name} WITH {}", words[*at + 1]);
        *at += 2;
    }
    allowed.contains(&name)
}

#[test]
fn licences_are_read_as_they_are_written() {
    let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"].map(str::to_owned);
    for yes in ["MIT", "GPL-3.0 OR MIT", "MIT/GPL-3.0", "(MIT OR GPL-3.0) AND Unicode-3.0", "LGPL-2.1-or-later OR (MIT AND Apache-2.0)"] {
        assert!(is_met(yes, &allowed), "{yes}");
    }
    for no in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Apache-2.0) AND GPL-3.0", "Apache-2.0 WITH LLVM-exception"] {
        assert!(!is_met(no, &allowed), "{no}");
    }
}

/// Checks the part of `deny.toml` that needs no network, without cargo-deny. The workflow runs cargo-deny itself.
#[test]
fn every_dependency_has_a_licence_and_a_source_that_deny_toml_allows_and_a_compiler_that_we_support() {
    let deny: toml::Table = fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap();
    let allowed = strings(&deny["licenses"]["allow"]);
    let banned: Vec<&str> = deny["bans"]["deny"].as_array().unwrap().iter().map(|ban| ban["name"].as_str().unwrap()).collect();
    let host = cargo(&["-vV"]);
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let told: Value =
        serde_json::from_str(&cargo(&["metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", host])).unwrap();
    let packages = told["packages"].as_array().unwrap();
    assert!(packages.len() > 50, "only {} packages", packages.len());
    let number = |version: &str| -> Vec<u32> { version.split('.').map(|number| number.parse().unwrap()).take(2).collect() };
    let oldest = number(manifest()["package"]["rust-version"].as_str().unwrap());
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let licence = package["license"].as_str().unwrap_or_else(|| panic!("{name} has no licence"));
        assert!(is_met(licence, &allowed), "{name}: {licence}");
        assert!(!banned.contains(&name), "{name} is banned");
        let source = package["source"].as_str();
        assert!(source.is_none_or(|source| source.starts_with("registry+")) || name == "git-ralph", "{name}: {source:?}");
        let wanted = package["rust_version"].as_str().map_or(Vec::new(), number);
        assert!(wanted <= oldest, "{name} needs Rust {wanted:?}, and we promise {oldest:?}");
    }
}
