//! Tests that texts for users are plain English, by a list of words and phrases that must not occur, with exceptions.

use std::fs;
use std::path::{Path, PathBuf};

use regex_lite::Regex;

use crate::book::documents;
use crate::golden;

/// The words that must not occur, and what to write instead.
const WORDS: &[(&str, &str)] = &[
    (r"\bnobody\b", "name who does not do it"),
    (r"\bsomebody\b", "name who does it"),
    (r"\bwhoever\b", "name who does it"),
    (r"\band (said|told)\b", "\"and reported\", or name who tells whom"),
    (r"\b(is|are|was|be) said\b", "\"is reported\", \"is printed\""),
    (r"\bmend(s|ed|ing)?\b", "\"fix\""),
    (r"\bfor ever\b", "\"forever\""),
    (r"\b(he|his|him)\b", "\"they\", \"the user\""),
    (r"\bgates? (is |are |was |were )?(green|red)\b", "gates pass or fail"),
    (r"\b(green|red) gates?\b", "gates pass or fail"),
    (r"\bmakes? no sense\b", "\"usage error\", or say what is wrong"),
    (
        r"\b(one|two|\d+|cost|tokens|events?|pages?|tables?|processes) an? (line|story|command|attempt|run|event|page|process|byte)\b",
        "\"per\"",
    ),
    (r"\btaken out and\b", "\"saved work\""),
    (r"\b(is|are) heeded\b", "\"is respected\""),
    (r"\bcomplained about\b", "\"git-ralph warns\""),
];

/// The exceptions: the place, the words, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] =
    &[("src/agent/verdict.rs", "nothing nobody never", "words of agents that git-ralph recognises, and does not print")];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Markdown without code, because names of tests, commands and output are not prose.
fn prose(markdown: &str) -> String {
    let fences = Regex::new("(?s)```.*?```").unwrap();
    let spans = Regex::new("`[^`]*`").unwrap();
    let images = Regex::new(r"(?s)<svg.*?</svg>").unwrap();
    let text = fences.replace_all(markdown, " ");
    images.replace_all(&spans.replace_all(&text, "CODE"), " ").into_owned()
}

/// Roff without its escapes.
fn unescaped(roff: &str) -> String {
    let text = roff.replace("\\-", "-").replace("\\(aq", "'").replace("\\(lq", "\"").replace("\\(rq", "\"").replace("\\&", "");
    text.replace("\\fB", "").replace("\\fI", "").replace("\\fR", "").replace("\\fP", "")
}

/// The string literals of a source file, without its tests and comments.
fn literals(source: &str) -> String {
    let source = source.split("#[cfg(test)]").next().unwrap();
    let code: String = source.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect();
    let continued = Regex::new(r"\\\n\s*").unwrap().replace_all(&code, "").into_owned();
    let literal = Regex::new(r#""((?:[^"\\]|\\.)*)""#).unwrap();
    literal.captures_iter(&continued).map(|found| format!("{}\n", &found[1])).collect()
}

/// Every Rust file below a directory.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The forbidden words in a text on one line, each with its surroundings.
fn found(name: &str, text: &str, used: &mut Vec<usize>) -> Vec<String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut complaints = Vec::new();
    for (pattern, better) in WORDS {
        for hit in Regex::new(&format!("(?i){pattern}")).unwrap().find_iter(&text) {
            let from = (0..=hit.start().saturating_sub(60)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            let to = (hit.end() + 30..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
            let around = &text[from..to];
            match EXCEPTIONS.iter().position(|(place, words, _)| *place == name && around.contains(words)) {
                Some(at) => used.push(at),
                None => complaints.push(format!("{name}: …{around}…\n    better: {better}")),
            }
        }
    }
    complaints
}

/// Everything that users read, each text with its place.
fn texts() -> Vec<(String, String)> {
    let mut texts: Vec<(String, String)> = documents().into_iter().map(|(name, text)| (name, prose(&text))).collect();
    for (dir, clean) in [("tests/help", str::to_owned as fn(&str) -> String), ("man", unescaped)] {
        for name in golden::files(dir) {
            texts.push((format!("{dir}/{name}"), clean(&fs::read_to_string(root().join(dir).join(&name)).unwrap())));
        }
    }
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    for file in files {
        let name = file.strip_prefix(root()).unwrap().display().to_string();
        texts.push((name, literals(&fs::read_to_string(&file).unwrap())));
    }
    texts
}

#[test]
fn texts_for_users_are_plain_english() {
    let (mut complaints, mut used) = (Vec::new(), Vec::new());
    let texts = texts();
    assert!(texts.len() > 150, "documents, help, manual and messages: {}", texts.len());
    for (name, text) in texts {
        complaints.extend(found(&name, &text, &mut used));
    }
    assert!(complaints.is_empty(), "{} places:\n{}", complaints.len(), complaints.join("\n"));
    for (at, (place, words, _)) in EXCEPTIONS.iter().enumerate() {
        assert!(used.contains(&at), "the exception for '{words}' in {place} is not needed any more");
    }
}

#[test]
fn the_list_of_words_finds_the_words_it_lists() {
    for text in [
        "Nobody can answer",
        "left alone, and said",
        "say how to mend it",
        "he gets the work",
        "greet: gate green: make",
        "with a red gate",
        "one event a line",
        "a page a command",
        "The command line makes no sense.",
    ] {
        assert_eq!(found("x", text, &mut Vec::new()).len(), 1, "{text}");
    }
    for text in ["the header says so", "recommended", "a red light", "run one command a second time", "they said no", "amends the commit"] {
        assert!(found("x", text, &mut Vec::new()).is_empty(), "{text}");
    }
    assert_eq!(literals("// \"nobody\"\nlet a = \"one \\\n  line\";\n#[cfg(test)]\nmod tests { let b = \"he\"; }").trim(), "one line");
    assert_eq!(prose("a `nobody` b\n```sh\nhe\n```\nc").split_whitespace().collect::<Vec<_>>(), ["a", "CODE", "b", "c"]);
}
