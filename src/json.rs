//! Looking into one line of JSON without building it: what is asked for is found, the rest is skipped.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer as _, Visitor};
use serde_json::Deserializer;
use serde_json::value::RawValue;

/// A value inside a line. Nothing that is asked of it fails: what is missing or of another kind is just not there.
///
/// The line was checked when it was parsed, so that what is not asked for is skipped without a look at what it says.
#[derive(Clone, Copy, Debug)]
pub struct Json<'a>(&'a str);

impl<'a> Json<'a> {
    /// The value that a line consists of, if it is an object or a list.
    pub fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim_start_matches('\u{feff}').trim();
        let checked = || serde_json::from_str::<&RawValue>(line).ok();
        line.starts_with(['{', '[']).then(checked).flatten().map(|value| Json(value.get()))
    }

    /// A member of an object; of several of the same name the last one counts.
    pub fn at(self, key: &str) -> Option<Json<'a>> {
        let [found] = self.take([key]);
        found
    }

    /// Whether an object has a member of that name.
    pub fn has(self, key: &str) -> bool {
        self.parts(b'{').any(|(name, _)| name.text().is_some_and(|name| name == key))
    }

    /// Several members of an object, found in one go.
    pub fn take<const N: usize>(self, keys: [&str; N]) -> [Option<Json<'a>>; N] {
        let mut found = [None; N];
        for (name, value) in self.parts(b'{') {
            // A name that is written with escapes is rare, but it is a name.
            let plain = name.0.len() >= 2 && memchr::memchr(b'\\', name.0.as_bytes()).is_none();
            let at = if plain {
                let name = &name.0[1..name.0.len() - 1];
                keys.iter().position(|key| *key == name)
            } else {
                name.text().and_then(|name| keys.iter().position(|key| *key == name))
            };
            if let Some(at) = at {
                found[at] = Some(value);
            }
        }
        found
    }

    /// A text inside nested objects.
    pub fn text_at(self, path: &[&str]) -> Option<Cow<'a, str>> {
        self.find(path)?.text()
    }

    /// A number inside nested objects; 0 if there is none.
    pub fn count_at(self, path: &[&str]) -> u64 {
        self.find(path).and_then(Json::count).unwrap_or(0)
    }

    /// A value inside nested objects.
    pub fn find(self, path: &[&str]) -> Option<Json<'a>> {
        path.iter().try_fold(self, |value, key| value.at(key))
    }

    /// Whether the member is that word.
    pub fn is(self, key: &str, word: &str) -> bool {
        self.text_at(&[key]).is_some_and(|text| text == word)
    }

    /// A text; half of a character outside of the basic plane becomes a replacement character.
    pub fn text(self) -> Option<Cow<'a, str>> {
        let inner = self.0.strip_prefix('"')?.strip_suffix('"')?;
        if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
            return Some(Cow::Borrowed(inner));
        }
        Deserializer::from_str(self.0).deserialize_bytes(Text).ok()
    }

    /// A whole number that is not negative.
    pub fn count(self) -> Option<u64> {
        self.0.parse().ok()
    }

    /// Any number.
    pub fn number(self) -> Option<f64> {
        self.0.parse().ok()
    }

    /// Whether it is `true`.
    pub fn is_true(self) -> bool {
        self.0 == "true"
    }

    /// Shows every item of a list; what is not a list has no items.
    pub fn each(self, mut show: impl FnMut(Json<'a>)) {
        self.parts(b'[').for_each(|(_, item)| show(item));
    }

    /// Its bytes in the text that it was parsed from.
    pub fn span_in(self, text: &str) -> std::ops::Range<usize> {
        let start = (self.0.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        start..start + self.0.len()
    }

    /// Whether it is a list.
    pub fn is_list(self) -> bool {
        self.0.starts_with('[')
    }

    /// Whether it is a list with anything in it.
    pub fn has_items(self) -> bool {
        self.parts(b'[').next().is_some()
    }

    fn parts(self, open: u8) -> Parts<'a> {
        let fits = self.0.as_bytes().first() == Some(&open);
        Parts { text: if fits { self.0 } else { "" }, at: 1, named: open == b'{' }
    }
}

/// What an object or a list that was checked consists of, with the names of members.
struct Parts<'a> {
    text: &'a str,
    at: usize,
    named: bool,
}

impl<'a> Parts<'a> {
    /// Goes over blanks and what stands between parts.
    fn skip(&mut self) {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',' | b':')).count();
    }

    fn value(&mut self) -> Option<Json<'a>> {
        self.skip();
        let rest = self.text.get(self.at..)?;
        let length = length_of(rest.as_bytes());
        self.at += length;
        rest.get(..length).filter(|value| !value.is_empty()).map(Json)
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = (Json<'a>, Json<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.value()?;
        Some((first, if self.named { self.value()? } else { first }))
    }
}

/// How long the value is that begins here; 0 behind the last one.
fn length_of(bytes: &[u8]) -> usize {
    match bytes.first() {
        Some(b'"') => string(bytes),
        Some(b'{') => container(bytes, b'{', b'}'),
        Some(b'[') => container(bytes, b'[', b']'),
        _ => bytes.iter().position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n')).unwrap_or(bytes.len()),
    }
}

fn string(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr(b'"', rest)) {
        let end = at + found;
        // Only an odd number of backslashes makes the quote part of the text; other escapes are many, and no matter here.
        let slashes = bytes[..end].iter().rev().take_while(|byte| **byte == b'\\').count();
        if slashes % 2 == 0 {
            return end + 1;
        }
        at = end + 1;
    }
    bytes.len()
}

fn container(bytes: &[u8], open: u8, close: u8) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr3(b'"', open, close, rest)) {
        at += found;
        if bytes[at] == b'"' {
            at += string(&bytes[at..]);
            continue;
        }
        depth = if bytes[at] == open { depth + 1 } else { depth.saturating_sub(1) };
        at += 1;
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

struct Text;

impl<'de> Visitor<'de> for Text {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        Ok(String::from_utf8_lossy(bytes))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Ok(Cow::Owned(String::from_utf8_lossy(bytes).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_found_and_what_is_not_is_not() {
        let line = Json::parse(r#" {"a":{"b":"x\ny","n":12,"l":[1,"two",{}],"t":true},"a2":[],"dup":1,"dup":2} "#).unwrap();
        assert_eq!(line.text_at(&["a", "b"]).as_deref(), Some("x\ny"));
        assert_eq!((line.count_at(&["a", "n"]), line.count_at(&["a", "b"]), line.count_at(&["dup"])), (12, 0, 2));
        assert_eq!(line.text_at(&["a", "n"]), None);
        assert!(line.find(&["a", "t"]).unwrap().is_true());
        assert!(line.find(&["a", "l"]).unwrap().has_items() && !line.at("a2").unwrap().has_items());
        assert!(line.at("a").unwrap().at("b").unwrap().at("c").is_none());
    }

    #[test]
    fn several_members_are_found_in_one_go() {
        let line = Json::parse(r#"{"a":1,"b":{"a":2},"\u0063":3,"a":4}"#).unwrap();
        assert_eq!(
            line.take(["c", "a", "x", "b"]).map(|found| found.map(|value| value.0)),
            [Some("3"), Some("4"), None, Some(r#"{"a":2}"#)]
        );
    }

    #[test]
    fn what_is_not_asked_for_is_skipped_whatever_it_holds() {
        let line =
            " [ {\"a\" : \"}]\\\"{\" , \"b\":[[\"]\"],{\"a\":1}] ,\"\\u0061c\":-1.5e3,\"d\":null , \"e\" : { } },[ ],true , \"x\" ] ";
        let mut items = Vec::new();
        Json::parse(line).unwrap().each(|item| items.push(item));
        assert_eq!(items.iter().map(|item| item.0).collect::<Vec<_>>()[1..], ["[ ]", "true", "\"x\""]);
        assert_eq!(items[0].text_at(&["a"]).as_deref(), Some("}]\"{"));
        assert_eq!(items[0].at("b").map(|list| list.0), Some("[[\"]\"],{\"a\":1}]"));
        assert_eq!(items[0].at("ac").and_then(Json::number), Some(-1500.0));
        assert_eq!((items[0].at("d").unwrap().0, items[0].at("e").unwrap().0), ("null", "{ }"));
        assert!(items[0].at("e").unwrap().at("x").is_none() && !items[1].has_items() && items[0].at("x").is_none());
    }

    #[test]
    fn a_line_that_is_no_json_is_none() {
        for line in ["", "text", "{", r#"{"a":}"#, r#"{"a":1} tail"#, "\"word\"", "12", "null"] {
            assert!(Json::parse(line).is_none(), "{line}");
        }
    }

    #[test]
    fn half_a_character_does_not_lose_the_text() {
        let line = Json::parse(r#"{"a":"ok \ud83d\n<b>","c":"\ud83d\ude00"}"#).unwrap();
        assert!(line.text_at(&["a"]).unwrap().ends_with("\n<b>"));
        assert_eq!(line.text_at(&["c"]).as_deref(), Some("😀"));
    }

    #[test]
    fn depth_is_no_reason_to_overflow() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        if let Some(line) = Json::parse(&deep) {
            assert!(line.text_at(&["a"]).is_none());
        }
    }
}
