//! Masks secrets in text: keys and tokens of known clients and clouds, private keys, and values assigned to names such as
//! `API_KEY`. Pure; works line by line, so that a text of any length needs constant memory.

use std::borrow::Cow;
use std::ops::Range;

use super::words::count;

use Alphabet::{Alphanumeric, Any, Upper, Word};

/// Replaces the secret part.
pub const MASK: &str = "[masked]";

/// The characters that a secret consists of.
#[derive(Clone, Copy)]
enum Alphabet {
    /// `A-Z 0-9`
    Upper,
    /// Letters and digits.
    Alphanumeric,
    /// Letters, digits, `_` and `-`.
    Word,
    /// The same and `.`, `~`, `+`, `/`, `=`.
    Any,
}

impl Alphabet {
    fn has(self, byte: u8) -> bool {
        match self {
            Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Alphanumeric => byte.is_ascii_alphanumeric(),
            Word => byte.is_ascii_alphanumeric() || b"_-".contains(&byte),
            Any => byte.is_ascii_alphanumeric() || b"_-.~+/=".contains(&byte),
        }
    }

    fn run(self, bytes: &[u8]) -> usize {
        bytes.iter().take_while(|byte| self.has(**byte)).count()
    }
}

/// Secrets that are recognised by their beginning, with the minimum number of characters that follow.
const PREFIXES: &[(&str, Alphabet, usize)] = &[
    // Anthropic, OpenAI and others that use the same form; see `looks_random`.
    ("sk-ant-", Word, 16),
    ("sk-proj-", Word, 16),
    ("sk-svcacct-", Word, 16),
    ("sk-or-v1-", Word, 16),
    ("sk-", Word, 24),
    ("sess-", Alphanumeric, 32),
    // Google.
    ("AIza", Word, 30),
    ("ya29.", Word, 20),
    ("GOCSPX-", Word, 20),
    // GitHub.
    ("ghp_", Alphanumeric, 30),
    ("gho_", Alphanumeric, 30),
    ("ghu_", Alphanumeric, 30),
    ("ghs_", Alphanumeric, 30),
    ("ghr_", Alphanumeric, 30),
    ("github_pat_", Word, 22),
    // GitLab.
    ("glpat-", Word, 16),
    ("gldt-", Word, 16),
    ("glrt-", Word, 16),
    ("glptt-", Word, 16),
    ("glcbt-", Word, 16),
    ("glft-", Word, 16),
    ("glsoat-", Word, 16),
    ("glagent-", Word, 16),
    // AWS.
    ("AKIA", Upper, 16),
    ("ASIA", Upper, 16),
    ("ABIA", Upper, 16),
    ("ACCA", Upper, 16),
    // Slack.
    ("xoxa-", Word, 10),
    ("xoxb-", Word, 10),
    ("xoxe-", Word, 10),
    ("xoxe.", Any, 10),
    ("xoxp-", Word, 10),
    ("xoxr-", Word, 10),
    ("xoxs-", Word, 10),
    ("xapp-", Word, 10),
    ("hooks.slack.com/services/", Any, 20),
    // npm, PyPI, crates.io, Docker.
    ("npm_", Alphanumeric, 30),
    ("pypi-", Word, 40),
    ("cio", Alphanumeric, 32),
    ("dckr_pat_", Word, 20),
    // Model hosts.
    ("hf_", Alphanumeric, 30),
    ("gsk_", Alphanumeric, 30),
    ("xai-", Alphanumeric, 40),
    ("r8_", Alphanumeric, 30),
    ("pplx-", Alphanumeric, 30),
    ("fw_", Alphanumeric, 20),
    // Other services that agents often have access to.
    ("sk_live_", Alphanumeric, 16),
    ("sk_test_", Alphanumeric, 16),
    ("rk_live_", Alphanumeric, 16),
    ("whsec_", Any, 20),
    ("SG.", Any, 40),
    ("hvs.", Word, 20),
    ("dop_v1_", Alphanumeric, 40),
    ("dapi", Alphanumeric, 32),
    ("lin_api_", Alphanumeric, 30),
    ("ntn_", Alphanumeric, 30),
    ("AGE-SECRET-KEY-1", Upper, 40),
];

/// The first letters of secrets and of the words before one: most words need no closer look.
const FIRST: [bool; 256] = {
    let mut first = [false; 256];
    let mut at = 0;
    while at < PREFIXES.len() {
        first[PREFIXES[at].0.as_bytes()[0] as usize] = true;
        at += 1;
    }
    first[b'e' as usize] = true;
    (first[b'b' as usize], first[b'B' as usize]) = (true, true);
    first
};

/// Prefixes that ordinary words begin with, too, so the rest must look random.
const AMBIGUOUS: &[&str] = &["sk-", "sess-", "cio", "dapi", "fw_", "xapp-", "pypi-"];

/// Endings of the name of a secret before `=` or `:`, without separators and in lower case.
const NAMES: &[&str] = &[
    "apikey",
    "accesskey",
    "secretkey",
    "secretaccesskey",
    "accountkey",
    "sharedaccesskey",
    "privatekey",
    "encryptionkey",
    "secret",
    "token",
    "password",
    "passwd",
    "pwd",
    "credential",
    "credentials",
    "authorization",
    "sig",
];

/// The minimum length of a value after such a name.
const LEAST_VALUE: usize = 12;

const KEY_BEGINS: &str = "-----BEGIN ";
const KEY_ENDS: &str = "-----END ";
const KEY: &str = "PRIVATE KEY";

/// Masks the lines of texts and counts the masked secrets.
#[derive(Clone, Debug, Default)]
pub struct Mask {
    /// How many secrets were masked.
    pub count: usize,
    /// Whether the current line is inside a private key.
    in_key: bool,
}

impl Mask {
    /// Masks a text with any number of lines.
    pub fn text(&mut self, text: &str) -> String {
        self.begin();
        let lines: Vec<Cow<'_, str>> = text.split('\n').map(|line| self.line(line)).collect();
        self.begin();
        lines.join("\n")
    }

    /// Starts another text.
    pub fn begin(&mut self) {
        self.in_key = false;
    }

    /// Masks the next line of a text.
    pub fn line<'a>(&mut self, line: &'a str) -> Cow<'a, str> {
        if self.in_key {
            return self.key_line(line);
        }
        let mut secrets = self.found_in(line);
        if secrets.is_empty() {
            return Cow::Borrowed(line);
        }
        secrets.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
        let (mut masked, mut at) = (String::with_capacity(line.len()), 0);
        for secret in secrets.into_iter().filter(|range| !range.is_empty()) {
            if secret.start >= at {
                masked.push_str(&line[at..secret.start]);
                masked.push_str(MASK);
                self.count += 1;
            }
            at = at.max(secret.end);
        }
        masked.push_str(&line[at.min(line.len())..]);
        Cow::Owned(masked)
    }

    fn found_in(&mut self, line: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let bytes = line.as_bytes();
        for at in 0..bytes.len() {
            if FIRST[usize::from(bytes[at])] && begins_word(&bytes[..at]) {
                found.extend(by_prefix(line, at).or_else(|| web_token(line, at)).or_else(|| after_scheme(line, at)));
            }
            if matches!(bytes[at], b'=' | b':') {
                found.extend(assigned(line, at).or_else(|| in_address(line, at)));
            }
        }
        found.extend(self.private_key(line));
        found
    }

    /// The private key that begins in the line. It may also end there, with its line ends written as `\n`.
    fn private_key(&mut self, line: &str) -> Option<Range<usize>> {
        let begins = line.find(KEY_BEGINS)?;
        let head = &line[begins + KEY_BEGINS.len()..];
        let named = head.find("-----").filter(|end| head[..*end].contains(KEY))?;
        let body = begins + KEY_BEGINS.len() + named + 5;
        match line[body..].find(KEY_ENDS) {
            Some(end) => Some(body..body + end),
            None => {
                self.in_key = true;
                self.count += usize::from(body == line.len());
                Some(body..line.len())
            }
        }
    }

    /// Masks a line of a private key. The first line that cannot be part of the key ends it.
    fn key_line<'a>(&mut self, line: &'a str) -> Cow<'a, str> {
        // In a diff, a quotation or a log, something precedes the line.
        let start = line.find(|c: char| c.is_ascii_alphanumeric() || c == '/').unwrap_or(line.len());
        let (before, rest) = line.split_at(start);
        if line.contains(KEY_ENDS) || before.len() > 12 {
            self.in_key = false;
            return Cow::Borrowed(line);
        }
        let is_header = rest.split_once(": ").is_some_and(|(name, _)| name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-'));
        if rest.is_empty() || is_header || Any.run(rest.as_bytes()) == rest.trim_end().len() {
            return if rest.is_empty() { Cow::Borrowed(line) } else { Cow::Owned(format!("{before}{MASK}")) };
        }
        self.in_key = false;
        self.line(line)
    }
}

/// Masks the secrets in a text, and appends their number.
#[must_use]
pub fn masked_text(text: &str) -> String {
    match masked(text) {
        (text, 0) => text,
        (text, count) => format!("{text}{}\n", masked_words(count)),
    }
}

/// Masks the secrets in all strings of a document, and adds their number as `masked`.
#[must_use]
pub fn masked_document(document: &impl serde::Serialize) -> serde_json::Value {
    let mut mask = Mask::default();
    let mut document = serde_json::to_value(document).unwrap_or_default();
    mask_json(&mut document, &mut mask);
    if let Some(fields) = document.as_object_mut() {
        fields.insert("masked".to_owned(), mask.count.into());
    }
    document
}

/// The number of masked secrets, as a sentence.
#[must_use]
pub fn masked_words(masked: usize) -> String {
    let verb = if masked == 1 { "is" } else { "are" };
    format!("{} {verb} masked", count(masked, "secret"))
}

/// Masks the secrets in a text. Returns the text and their number.
#[must_use]
pub fn masked(text: &str) -> (String, usize) {
    let mut mask = Mask::default();
    let text = mask.text(text);
    (text, mask.count)
}

/// Masks the secrets in every string of a JSON document.
pub fn mask_json(document: &mut serde_json::Value, mask: &mut Mask) {
    match document {
        serde_json::Value::String(text) => *text = mask.text(text),
        serde_json::Value::Array(items) => items.iter_mut().for_each(|item| mask_json(item, mask)),
        serde_json::Value::Object(fields) => fields.values_mut().for_each(|value| mask_json(value, mask)),
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {}
    }
}

/// Whether a word can begin after these bytes, which may end with a colour sequence.
fn begins_word(before: &[u8]) -> bool {
    let Some(last) = before.last() else { return true };
    if !last.is_ascii_alphanumeric() && *last != b'_' {
        return true;
    }
    let numbers = |bytes: &[u8]| bytes.iter().rev().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
    before.strip_suffix(b"m").is_some_and(|rest| rest[..rest.len() - numbers(rest)].ends_with(b"\x1b["))
}

fn by_prefix(line: &str, at: usize) -> Option<Range<usize>> {
    let rest = &line[at..];
    let known = PREFIXES.iter().filter(|(prefix, ..)| rest.starts_with(prefix));
    known.into_iter().find_map(|(prefix, alphabet, least)| {
        let start = at + prefix.len();
        let length = alphabet.run(&line.as_bytes()[start..]);
        let secret = &line[start..start + length];
        let is_secret = length >= *least && (!AMBIGUOUS.contains(prefix) || looks_random(secret));
        is_secret.then_some(start..start + length)
    })
}

/// Whether a text mixes letters and digits as no ordinary word does.
fn looks_random(text: &str) -> bool {
    let count = |is: fn(&u8) -> bool| text.bytes().filter(is).count();
    let (digits, letters) = (count(u8::is_ascii_digit), count(u8::is_ascii_alphabetic));
    let upper = count(u8::is_ascii_uppercase);
    digits >= 2 && letters >= 2 && (upper >= 2 || digits * 6 >= text.len())
}

/// A JSON web token: three parts, of which the first two are objects.
fn web_token(line: &str, at: usize) -> Option<Range<usize>> {
    let bytes = line.as_bytes();
    if !line[at..].starts_with("eyJ") {
        return None;
    }
    let head = Word.run(&bytes[at..]);
    let body = at + head + 1;
    if head < 10 || bytes.get(at + head) != Some(&b'.') || !line.get(body..)?.starts_with("eyJ") {
        return None;
    }
    let end = body + Word.run(&bytes[body..]);
    let signature = if bytes.get(end) == Some(&b'.') { 1 + Word.run(&bytes[end + 1..]) } else { 0 };
    Some(at..end + signature)
}

/// The credential after `Bearer` or `Basic`.
fn after_scheme(line: &str, at: usize) -> Option<Range<usize>> {
    let scheme = ["bearer ", "basic "]
        .into_iter()
        .find(|scheme| line.get(at..at + scheme.len()).is_some_and(|word| word.eq_ignore_ascii_case(scheme)))?;
    let start = at + scheme.len();
    let length = Any.run(&line.as_bytes()[start..]);
    let secret = &line[start..start + length];
    let is_secret = length >= 16 && secret.bytes().any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    is_secret.then_some(start..start + length)
}

/// The value after a name that marks it as a secret.
fn assigned(line: &str, sign: usize) -> Option<Range<usize>> {
    let bytes = line.as_bytes();
    let before = line[..sign].trim_end_matches([' ', '"', '\'', '\\']);
    let begins = before.rfind(|c: char| !c.is_ascii_alphanumeric() && !"_-.".contains(c)).map_or(0, |at| before.ceil_char_boundary(at + 1));
    let name: String = before[begins..].chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    if !NAMES.iter().any(|known| name.ends_with(known)) {
        return None;
    }
    let skipped = bytes[sign + 1..].iter().take_while(|byte| b" \"'\\".contains(byte)).count();
    let start = sign + 1 + skipped;
    let length = Any.run(&bytes[start..]);
    let value = &line[start..start + length];
    let is_value = length >= LEAST_VALUE && looks_random(value) && !value.starts_with(MASK);
    is_value.then_some(start..start + length)
}

/// The password in `scheme://user:password@host`.
fn in_address(line: &str, colon: usize) -> Option<Range<usize>> {
    let before = &line[..colon];
    let user = before.rfind("://").map(|at| &before[at + 3..])?;
    if user.contains(['/', '@', ' ']) || !line[colon..].starts_with(':') {
        return None;
    }
    let rest = &line[colon + 1..];
    let end = rest.find(['@', '/', ' ', '"', '\'', '<', '>'])?;
    (rest[end..].starts_with('@') && end > 0 && !rest.starts_with(MASK)).then_some(colon + 1..colon + 1 + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a secret at run time, so that no scanner takes this file for a leak.
    fn secret(prefix: &str, length: usize) -> String {
        let body: String = "aB3dE5gH7jK9mN1pQ2sT4".chars().cycle().take(length).collect();
        format!("{prefix}{body}")
    }

    #[test]
    fn words_that_begin_like_a_secret_are_masked() {
        for (prefix, alphabet, least) in PREFIXES {
            let body = secret("", (*least).max(24));
            let body = if matches!(alphabet, Upper) { body.to_uppercase() } else { body };
            let line = format!("the key is {prefix}{body}, keep it");
            assert_eq!(masked(&line), (format!("the key is {prefix}{MASK}, keep it"), 1), "{prefix}");
        }
    }

    #[test]
    fn tokens_headers_addresses_and_assignments_are_masked() {
        let token = format!("{}.{}.{}", secret("eyJ", 20), secret("eyJ", 20), secret("", 20));
        let value = secret("", 20);
        let table = [
            (format!("jwt {token} end"), format!("jwt {MASK} end")),
            (format!("Authorization: Bearer {value}"), format!("Authorization: Bearer {MASK}")),
            (format!("export ANTHROPIC_API_KEY='{value}'"), format!("export ANTHROPIC_API_KEY='{MASK}'")),
            (format!("{{\"client_secret\": \"{value}\"}}"), format!("{{\"client_secret\": \"{MASK}\"}}")),
            (format!("AccountName=x;AccountKey={value}==;"), format!("AccountName=x;AccountKey={MASK};")),
            (format!("aws_secret_access_key = {value}"), format!("aws_secret_access_key = {MASK}")),
            (format!("https://me:{value}@example.com/x"), format!("https://me:{MASK}@example.com/x")),
        ];
        for (line, expected) in table {
            assert_eq!(masked(&line), (expected, 1), "{line}");
        }
    }

    #[test]
    fn a_private_key_is_masked_up_to_its_end_also_in_a_diff_or_in_one_line() {
        let body = secret("", 64);
        let block = format!("+-----BEGIN RSA PRIVATE KEY-----\n+{body}\n+{body}\n+-----END RSA PRIVATE KEY-----\n+after");
        let (text, count) = masked(&block);
        assert!(!text.contains(&body) && text.contains("+after") && text.contains("-----END RSA PRIVATE KEY-----"), "{text}");
        assert_eq!(count, 1);
        let (text, count) = masked(&format!("\"-----BEGIN PRIVATE KEY-----\\n{body}\\n-----END PRIVATE KEY-----\\n\""));
        assert_eq!((text.contains(&body), count), (false, 1), "{text}");
        let (text, _) = masked("-----BEGIN PRIVATE KEY-----\nis how one begins, says the manual\nmore text here");
        assert!(text.ends_with("is how one begins, says the manual\nmore text here"), "{text}");
    }

    #[test]
    fn a_secret_behind_a_colour_is_masked() {
        assert_eq!(masked(&secret("\u{1b}[1;31mghp_", 36)), ("\u{1b}[1;31mghp_[masked]".to_owned(), 1));
    }

    #[test]
    fn plain_text_stays_as_it_is() {
        for line in [
            "sk-learn-is-a-library-with-a-long-hyphenated-name-here",
            "tokens: 123456789012345",
            "the token = abcdefghijklmnop",
            "password: hunter2",
            "PASSWORD=$DB_PASSWORD_FROM_ENV",
            "npm_config_registry is set, and so is npm_lifecycle_event",
            "at 12:30:45 https://example.com:8080/path@2x.png",
            "commit 0123456789abcdef0123456789abcdef01234567",
            "basic knowledge, bearer of news",
            "data:text/plain;base64,AAAA",
            "ünïcödé: ghp_ist kein token",
            "let token = parse(input);",
        ] {
            assert_eq!(masked(line), (line.to_owned(), 0));
        }
    }

    #[test]
    fn every_string_of_a_document_is_masked() {
        let mut document = serde_json::json!({"a": [secret("ghp_", 36), 1], "b": {"c": "plain"}});
        let mut mask = Mask::default();
        mask_json(&mut document, &mut mask);
        assert_eq!((document["a"][0].as_str().unwrap(), mask.count), ("ghp_[masked]", 1));
    }
}
