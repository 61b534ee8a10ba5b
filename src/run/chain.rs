//! The chain of a journal: every line ends with a keyed digest of itself and the previous digest. Without the key, a process cannot add,
//! change or remove a line unnoticed.

use crate::vault::Key;

const FIELD: &[u8] = b",\"mac\":\"";
const END: &[u8] = b"\"}\n";
const DIGITS: usize = 32;

/// A digest in the form that it has in a line.
pub type Mac = [u8; DIGITS];

/// The state of the chain after the lines that were read or written so far.
#[derive(Clone, Debug)]
pub struct Chain {
    key: Key,
    last: Mac,
}

impl Chain {
    /// A chain before its first line.
    #[must_use]
    pub fn new(key: Key) -> Self {
        Chain { key, last: [b'0'; DIGITS] }
    }

    /// The chain after a line with this digest. `None` means before the first line.
    #[must_use]
    pub fn from(self, last: Option<Mac>) -> Self {
        Chain { last: last.unwrap_or([b'0'; DIGITS]), ..self }
    }

    fn digest(&self, json: &[u8]) -> Mac {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&self.last).update(json);
        let mut mac = [0; DIGITS];
        mac.copy_from_slice(&hasher.finalize().to_hex().as_bytes()[..DIGITS]);
        mac
    }

    /// Makes the next line of the journal from an event in JSON.
    #[must_use]
    pub fn line(&mut self, mut json: Vec<u8>) -> Vec<u8> {
        self.last = self.digest(&json);
        json.pop();
        [&json, FIELD, &self.last, END].concat()
    }

    /// Whether this is the next line of the chain: an event in JSON, and the digest from the end of its line.
    #[must_use]
    pub fn is_next(&mut self, json: &[u8], mac: Option<&Mac>) -> bool {
        self.last = self.digest(json);
        mac == Some(&self.last)
    }
}

/// Removes the digest from a line, if it has one. The rest is the event in JSON.
pub fn take_mac(line: &mut Vec<u8>) -> Option<Mac> {
    let start = line.len().checked_sub(FIELD.len() + DIGITS + END.len())?;
    let mac = line[start..].strip_prefix(FIELD)?.strip_suffix(END)?.try_into().ok()?;
    line.truncate(start);
    line.push(b'}');
    Some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(key: Key, texts: &[&str]) -> Vec<Vec<u8>> {
        let mut chain = Chain::new(key);
        texts.iter().map(|text| chain.line(text.as_bytes().to_vec())).collect()
    }

    fn accepted_lines(key: Key, lines: &[Vec<u8>]) -> usize {
        let mut chain = Chain::new(key);
        let is_next = |line: &&Vec<u8>| {
            let mut json = (*line).clone();
            let mac = take_mac(&mut json);
            chain.is_next(&json, mac.as_ref())
        };
        lines.iter().take_while(is_next).count()
    }

    const TEXTS: [&str; 3] = ["{\"seq\":1}", "{\"seq\":2}", "{\"seq\":3}"];

    #[test]
    fn lines_are_accepted_in_their_order_only() {
        let all = lines([7; 32], &TEXTS);
        assert_eq!(all[0].iter().filter(|byte| **byte == b'\n').count(), 1);
        assert_eq!(accepted_lines([7; 32], &all), 3);
        assert_eq!(accepted_lines([8; 32], &all), 0, "another key");
        assert_eq!(accepted_lines([7; 32], &[all[0].clone(), all[2].clone()]), 1, "one left out");
        assert_eq!(accepted_lines([7; 32], &[all[0].clone(), all[0].clone()]), 1, "one repeated");
        assert_eq!(accepted_lines([7; 32], &[all[0].clone(), b"{\"seq\":2}\n".to_vec()]), 1, "one without a digest");
        let forged = String::from_utf8(all[1].clone()).unwrap().replace("\"seq\":2", "\"seq\":9").into_bytes();
        assert_eq!(accepted_lines([7; 32], &[all[0].clone(), forged]), 1, "one changed");
    }

    #[test]
    fn a_line_without_its_digest_is_the_event() {
        let mut line = lines([1; 32], &["{\"a\":\"b\"}"]).remove(0);
        assert!(take_mac(&mut line).is_some());
        assert_eq!(line, b"{\"a\":\"b\"}");
        let mut plain = b"{\"a\":\"b\"}\n".to_vec();
        assert!(take_mac(&mut plain).is_none());
        assert_eq!(plain, b"{\"a\":\"b\"}\n");
    }
}
