//! Pays for the row `output: stream-json` (1.83 with it, 2.32 with serde's `RawValue` in its place, target 2): reads values from a line of
//! JSON.
//!
//! The parser builds no values. One pass records where each value starts and ends, and lookups use these positions.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer as _, IgnoredAny, Visitor};
use serde_json::Deserializer;

/// The positions of all values in a line. Reusing one outline for many lines avoids new allocations.
#[derive(Debug, Default)]
pub struct Outline(Vec<Node>);

/// The position of a value or of a member's name. The nodes inside an object or a list follow directly after its own node.
#[derive(Clone, Copy, Debug)]
struct Node {
    start: u32,
    end: u32,
}

impl Outline {
    /// Parses a line that consists of one object or list.
    pub fn parse<'a>(&'a mut self, line: &'a str) -> Option<Json<'a>> {
        let text = line.trim_start_matches('\u{feff}').trim();
        let sound = text.starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_ok();
        (sound && self.draw(text.as_bytes()).is_some()).then_some(Json { text, nodes: &self.0 })
    }

    /// Whether a line starts with `beginning`, and no later member has the same name as the first one (the last of several would win).
    ///
    /// The line is not checked to be valid JSON. Callers use this only where invalid JSON would give the same answer.
    pub fn keeps_to(&mut self, beginning: &[u8], line: &[u8]) -> bool {
        if !line.starts_with(beginning) || self.draw(line).is_none() {
            return false;
        }
        let members = Parts(self.0.get(1..).unwrap_or_default());
        let mut names = members.step_by(2).filter_map(<[Node]>::first).map(|name| &line[name.start as usize..name.end as usize]);
        let first = names.next();
        // A name with an escape sequence could decode to any name.
        names.all(|name| Some(name) != first && !name.contains(&b'\\'))
    }

    /// Records the positions of all values up to the end of the first one. `None` if that one has no end.
    ///
    /// The text must be valid JSON. For other text the positions are meaningless.
    fn draw(&mut self, text: &[u8]) -> Option<()> {
        // Valid JSON has no more values than this. The limit bounds the memory that other text can use.
        let most = text.len().div_ceil(2);
        let nodes = &mut self.0;
        nodes.clear();
        let mut at = 0;
        // The innermost open container. Its end is not known yet, so its `end` field holds the position of the container around it
        // meanwhile.
        let mut open = u32::MAX;
        loop {
            let start = u32::try_from(at).ok()?;
            let length = match *text.get(at)? {
                b'"' => string(&text[at..])?,
                b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' => {
                    at += 1;
                    continue;
                }
                b'{' | b'[' if nodes.len() < most => {
                    let around = std::mem::replace(&mut open, u32::try_from(nodes.len()).ok()?);
                    nodes.push(Node { start, end: around });
                    at += 1;
                    continue;
                }
                b'{' | b'[' => return None,
                b'}' | b']' => {
                    at += 1;
                    open = std::mem::replace(&mut nodes.get_mut(open as usize)?.end, start + 1);
                    if open == u32::MAX {
                        return Some(());
                    }
                    continue;
                }
                _ => word(&text[at..])?,
            };
            at += length;
            nodes.push(Node { start, end: u32::try_from(at).ok()? });
            // A comma or a colon almost always follows. Skipping it here is faster than another pass through the match above.
            at += usize::from(matches!(text.get(at), Some(b',' | b':')));
        }
    }
}

/// A value inside a line. Lookups never fail: a value that is missing or of another type gives `None`, 0, `false` or no items.
#[derive(Clone, Copy, Debug)]
pub struct Json<'a> {
    text: &'a str,
    nodes: &'a [Node],
}

impl<'a> Json<'a> {
    /// A member of an object. If several members have the same name, the last one counts.
    pub fn at(self, key: &str) -> Option<Json<'a>> {
        let [found] = self.take([key]);
        found
    }

    /// Several members of an object, found in one pass.
    pub fn take<const N: usize>(self, keys: [&str; N]) -> [Option<Json<'a>>; N] {
        let mut found = [None; N];
        let mut parts = self.parts('{');
        while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
            let name = name.text();
            if let Some(at) = keys.iter().position(|key| name.as_deref() == Some(key)) {
                found[at] = Some(value);
            }
        }
        found
    }

    /// A string inside nested objects.
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

    /// Whether a member is this string.
    pub fn is(self, key: &str, word: &str) -> bool {
        self.text_at(&[key]).is_some_and(|text| text == word)
    }

    /// The decoded string. An unpaired surrogate becomes a replacement character.
    pub fn text(self) -> Option<Cow<'a, str>> {
        let raw = self.raw();
        let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
        if find(b'\\', inner.as_bytes()).is_none() {
            return Some(Cow::Borrowed(inner));
        }
        Deserializer::from_str(raw).deserialize_bytes(Text).ok()
    }

    /// A non-negative whole number.
    pub fn count(self) -> Option<u64> {
        self.raw().parse().ok()
    }

    /// Any number.
    pub fn number(self) -> Option<f64> {
        self.raw().parse().ok()
    }

    /// Whether it is `true`.
    pub fn is_true(self) -> bool {
        self.raw() == "true"
    }

    /// Calls `show` with every item of a list. A value that is not a list has no items.
    pub fn each(self, show: impl FnMut(Json<'a>)) {
        self.parts('[').for_each(show);
    }

    /// The range of bytes that the value takes up in the text it was parsed from.
    pub fn span_in(self, text: &str) -> std::ops::Range<usize> {
        let raw = self.raw();
        let start = (raw.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        start..start + raw.len()
    }

    /// Whether it is a list.
    pub fn is_list(self) -> bool {
        self.raw().starts_with('[')
    }

    /// Whether it is a list with at least one item.
    pub fn has_items(self) -> bool {
        self.parts('[').next().is_some()
    }

    /// The value as it is written in the line.
    fn raw(self) -> &'a str {
        self.nodes.first().and_then(|node| self.text.get(node.start as usize..node.end as usize)).unwrap_or_default()
    }

    /// The items of a list, or the names and values of an object in turn.
    fn parts(self, open: char) -> impl Iterator<Item = Json<'a>> {
        let inside = self.nodes.get(1..).filter(|_| self.raw().starts_with(open));
        Parts(inside.unwrap_or_default()).map(move |nodes| Json { nodes, ..self })
    }
}

/// Iterates over the remaining parts of an object or a list.
struct Parts<'a>(&'a [Node]);

impl<'a> Iterator for Parts<'a> {
    type Item = &'a [Node];

    fn next(&mut self) -> Option<Self::Item> {
        let end = self.0.first()?.end;
        let inside = self.0[1..].iter().take_while(|node| node.start < end).count();
        let (part, rest) = self.0.split_at(1 + inside);
        self.0 = rest;
        Some(part)
    }
}

/// The length of the string that begins here.
fn string(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        let end = at + find(b'"', bytes.get(at..)?)?;
        // A quote is escaped only if an odd number of backslashes precede it.
        let slashes = bytes[..end].iter().rev().take_while(|byte| **byte == b'\\').count();
        at = end + 1;
        if slashes % 2 == 0 {
            return Some(at);
        }
    }
}

/// The length of the number, or of the `true`, `false` or `null`, that begins here.
fn word(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n'))
}

/// How many words of eight bytes are checked before `memchr` is used.
const SHORT: usize = 4;

/// The position of a byte. Most strings are short, so `memchr`, which has a setup cost, is used only for longer ones.
fn find(byte: u8, bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let (words, _) = bytes.as_chunks();
    for (at, word) in words.iter().take(SHORT).enumerate() {
        // Bytes that match become zero. The lowest high bit that is then set belongs to the first zero byte.
        let others = u64::from_le_bytes(*word) ^ (ONES * u64::from(byte));
        let zeros = others.wrapping_sub(ONES) & !others & (ONES << 7);
        if zeros != 0 {
            return Some(at * 8 + zeros.trailing_zeros() as usize / 8);
        }
    }
    let seen = words.len().min(SHORT) * 8;
    let rest = &bytes[seen..];
    let found = if rest.len() < 8 { rest.iter().position(|other| *other == byte) } else { memchr::memchr(byte, rest) };
    found.map(|at| seen + at)
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
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::{Index, select};
    use serde_json::Value;

    use super::*;

    #[test]
    fn existing_entries_are_found_and_missing_ones_are_not() {
        let mut outline = Outline::default();
        let line = outline.parse(r#" {"a":{"b":"x\ny","n":12,"l":[1,"two",{}],"t":true},"a2":[],"dup":1,"dup":2} "#).unwrap();
        assert_eq!(line.text_at(&["a", "b"]).as_deref(), Some("x\ny"));
        assert_eq!((line.count_at(&["a", "n"]), line.count_at(&["a", "b"]), line.count_at(&["dup"])), (12, 0, 2));
        assert_eq!(line.text_at(&["a", "n"]), None);
        assert!(line.find(&["a", "t"]).unwrap().is_true());
        assert!(line.find(&["a", "l"]).unwrap().has_items() && !line.at("a2").unwrap().has_items());
        assert!(line.at("a").unwrap().at("b").unwrap().at("c").is_none());
    }

    #[test]
    fn several_members_are_found_in_one_go() {
        let mut outline = Outline::default();
        let line = outline.parse(r#"{"a":1,"b":{"a":2},"\u0063":3,"a":4}"#).unwrap();
        assert_eq!(
            line.take(["c", "a", "x", "b"]).map(|found| found.map(|value| value.raw())),
            [Some("3"), Some("4"), None, Some(r#"{"a":2}"#)]
        );
    }

    #[test]
    fn unwanted_members_are_skipped_whatever_they_hold() {
        let line =
            " [ {\"a\" : \"}]\\\"{\" , \"b\":[[\"]\"],{\"a\":1}] ,\"\\u0061c\":-1.5e3,\"d\":null , \"e\" : { } },[ ],true , \"x\" ] ";
        let mut items = Vec::new();
        let mut outline = Outline::default();
        outline.parse(line).unwrap().each(|item| items.push(item));
        assert_eq!(items.iter().map(|item| item.raw()).collect::<Vec<_>>()[1..], ["[ ]", "true", "\"x\""]);
        assert_eq!(items[0].text_at(&["a"]).as_deref(), Some("}]\"{"));
        assert_eq!(items[0].at("b").map(|list| list.raw()), Some("[[\"]\"],{\"a\":1}]"));
        assert_eq!(items[0].at("ac").and_then(Json::number), Some(-1500.0));
        assert_eq!((items[0].at("d").unwrap().raw(), items[0].at("e").unwrap().raw()), ("null", "{ }"));
        assert!(items[0].at("e").unwrap().at("x").is_none() && !items[1].has_items() && items[0].at("x").is_none());
    }

    #[test]
    fn a_line_that_is_no_json_is_none() {
        for line in ["", "text", "{", r#"{"a":}"#, r#"{"a":1} tail"#, "\"word\"", "12", "null"] {
            assert!(Outline::default().parse(line).is_none(), "{line}");
        }
    }

    #[test]
    fn half_a_character_does_not_lose_the_text() {
        let mut outline = Outline::default();
        let line = outline.parse(r#"{"a":"ok \ud83d\n<b>","c":"\ud83d\ude00"}"#).unwrap();
        assert!(line.text_at(&["a"]).unwrap().ends_with("\n<b>"));
        assert_eq!(line.text_at(&["c"]).as_deref(), Some("😀"));
    }

    #[test]
    fn depth_is_no_reason_to_overflow() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        if let Some(line) = Outline::default().parse(&deep) {
            assert!(line.text_at(&["a"]).is_none());
        }
    }

    /// A quoted string in which any character may be written as an escape.
    fn string() -> impl Strategy<Value = String> {
        let short = select(vec!["type", "message", "user", "a", "", "\"", "\\", "}]{[:,", "ä😀\n\u{1}"]).prop_map(str::to_owned);
        let text = prop_oneof![4 => short, 1 => "[a-z\"\\\\]{0,80}", 1 => any::<String>()];
        (text, any::<u64>()).prop_map(|(text, escapes)| {
            let write = |(at, c): (usize, char)| match c {
                c if escapes.rotate_right(u32::try_from(at % 64).unwrap()) & 7 == 0 => {
                    c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
                }
                '"' | '\\' => format!("\\{c}"),
                c if c < ' ' => format!("\\u{:04X}", u32::from(c)),
                c => c.to_string(),
            };
            format!("\"{}\"", text.chars().enumerate().map(write).collect::<String>())
        })
    }

    /// A random value: repeated names, the same names at every depth, blanks anywhere.
    fn value() -> impl Strategy<Value = String> {
        let blank = || select(vec!["", "", "", " ", "\t\r\n "]);
        let word = select(vec!["0", "-1.5e3", "12", "18446744073709551615", "1E+2", "true", "false", "null"]).prop_map(str::to_owned);
        prop_oneof![word, string()].prop_recursive(6, 60, 6, move |inner| {
            let member =
                (string(), blank(), blank(), inner.clone()).prop_map(|(name, one, two, value)| format!("{name}{one}:{two}{value}"));
            let object = (vec(member, 0..6), blank(), blank()).prop_map(|(all, one, two)| format!("{{{one}{}{two}}}", all.join(",")));
            let list = (vec(inner, 0..6), blank()).prop_map(|(all, one)| format!("[{one}{}]", all.join(&format!("{one},"))));
            prop_oneof![object, list]
        })
    }

    /// A random line, often damaged.
    fn line() -> impl Strategy<Value = String> {
        let damage = (any::<Index>(), 0..3_usize, "[]{}\\[\",:\\\\ 0a\u{1}ä-]{0,3}");
        (select(vec!["", r#"{"type":"user","#]), value(), proptest::option::of(damage)).prop_map(|(begin, value, damage)| {
            let line = if begin.is_empty() { value } else { format!("{begin}\"x\":{value},{}", value.strip_prefix('{').unwrap_or("}")) };
            let Some((at, gone, put)) = damage else { return line };
            let mut chars: Vec<char> = line.chars().collect();
            let from = at.index(chars.len() + 1);
            chars.splice(from..chars.len().min(from + gone), put.chars());
            chars.into_iter().collect()
        })
    }

    fn is_same(json: Json<'_>, value: &Value) -> bool {
        let mut items = Vec::new();
        json.each(|item| items.push(item));
        let alike =
            |items: &[Json<'_>], values: &[Value]| items.len() == values.len() && items.iter().zip(values).all(|(a, b)| is_same(*a, b));
        match value {
            Value::Null => json.raw() == "null",
            Value::Bool(value) => json.is_true() == *value,
            Value::Number(number) => {
                // serde does not round very long numbers to the nearest float.
                let near = |(one, two): (f64, f64)| (one - two).abs() <= two.abs() * 1e-12;
                json.number().zip(number.as_f64()).is_some_and(near) && json.count() == number.as_u64()
            }
            Value::String(text) => json.text().as_deref() == Some(text),
            Value::Array(values) => json.is_list() && json.has_items() != values.is_empty() && alike(&items, values),
            Value::Object(members) => {
                let all = members.iter().all(|(key, value)| json.at(key).is_some_and(|found| is_same(found, value)));
                let [one, two] = json.take(["type", "message"]);
                let known = |key, found: Option<Json<'_>>| {
                    found.map(Json::raw) == json.at(key).map(Json::raw) && found.is_some() == members.contains_key(key)
                };
                all && items.is_empty() && known("type", one) && known("message", two) && json.at("no such").is_none()
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_found_is_what_serde_finds(lines in vec(line(), 1..4)) {
            // One outline for all lines, to show that a line leaves nothing behind for the next one.
            let mut outline = Outline::default();
            for line in lines {
                let value = serde_json::from_str::<Value>(&line).ok().filter(|value| value.is_object() || value.is_array());
                let found = outline.parse(&line);
                // serde rejects unpaired surrogates.
                prop_assert!(value.is_none() || found.is_some(), "{line}");
                prop_assert!(found.is_none() || serde_json::from_str::<IgnoredAny>(&line).is_ok(), "{line}");
                if let (Some(found), Some(value)) = (found, &value) {
                    prop_assert!(is_same(found, value), "{line}");
                    prop_assert_eq!(found.span_in(&line), line.len() - line.trim_start().len()..line.trim_end().len());
                }
                let kept = outline.keeps_to(br#"{"type":"user""#, line.as_bytes());
                prop_assert!(!kept || value.is_none_or(|value| value["type"] == "user"), "{line}");
            }
        }
    }

    #[test]
    fn a_beginning_counts_if_nothing_takes_it_back() {
        let keeps = |line: &str| Outline::default().keeps_to(br#"{"type":"user""#, line.as_bytes());
        assert!(keeps(r#"{"type":"user"}"#) && keeps(r#"{"type":"user","message":{"type":"result"},"x":"type"}"#));
        assert!(!keeps(r#"{"type":"user","type":"result"}"#) && !keeps(r#"{"type":"user","\u0074ype":"result"}"#));
        assert!(!keeps(r#"{"type":"user""#) && !keeps(r#"{"type":"users"}"#) && !keeps(r#" {"type":"user"}"#));
    }

    #[test]
    fn text_that_is_no_json_needs_no_more_memory_than_json() {
        let mut outline = Outline::default();
        assert!(!outline.keeps_to(b"[", &[b'['; 10_000]) && outline.0.len() <= 5_000);
        let line = format!("[{}1]", "1,".repeat(5_000));
        assert!(outline.parse(&line).is_some() && outline.0.len() == 5_002);
    }
}
