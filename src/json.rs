//! Looking into one line of JSON without building it: what is asked for is found, the rest is skipped.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Deserializer;
use serde_json::value::RawValue;

/// A value inside a line. Nothing that is asked of it fails: what is missing or of another kind is just not there.
#[derive(Clone, Copy, Debug)]
pub struct Json<'a>(&'a RawValue);

impl<'a> Json<'a> {
    /// The value that a line consists of, if it is an object or a list.
    pub fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim_start_matches('\u{feff}').trim();
        line.starts_with(['{', '[']).then(|| serde_json::from_str(line).ok().map(Json)).flatten()
    }

    /// A member of an object.
    pub fn at(self, key: &str) -> Option<Json<'a>> {
        Deserializer::from_str(self.0.get()).deserialize_map(Member(key)).ok().flatten().map(Json)
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
        Deserializer::from_str(self.0.get()).deserialize_bytes(Text).ok()
    }

    /// A whole number that is not negative.
    pub fn count(self) -> Option<u64> {
        self.0.get().parse().ok()
    }

    /// Any number.
    pub fn number(self) -> Option<f64> {
        self.0.get().parse().ok()
    }

    /// Whether it is `true`.
    pub fn is_true(self) -> bool {
        self.0.get() == "true"
    }

    /// Shows every item of a list.
    pub fn each(self, show: impl FnMut(Json<'a>)) {
        // What is not a list has no items.
        let _ = Deserializer::from_str(self.0.get()).deserialize_seq(Items(show));
    }

    /// Its bytes in the text that it was parsed from.
    pub fn span_in(self, text: &str) -> std::ops::Range<usize> {
        let start = (self.0.get().as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        start..start + self.0.get().len()
    }

    /// Whether it is a list.
    pub fn is_list(self) -> bool {
        self.0.get().starts_with('[')
    }

    /// Whether it is a list with anything in it.
    pub fn has_items(self) -> bool {
        let mut any = false;
        self.each(|_| any = true);
        any
    }
}

/// Finds one member; of several of the same name the last one counts.
struct Member<'k>(&'k str);

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<Key<'de>>()? {
            if key.0 == self.0 {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

struct Items<F>(F);

impl<'de, F: FnMut(Json<'de>)> Visitor<'de> for Items<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element()? {
            (self.0)(Json(item));
        }
        Ok(())
    }
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
