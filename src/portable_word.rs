//! Encodes words so that they pass through any number of shells unchanged: `ssh` joins its arguments, and the remote shell splits them
//! again.
//!
//! Every byte that could be special to a shell is written as `%XX`. An empty word is written as a single `%`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

const EMPTY: &str = "%";

/// Encodes a word.
#[must_use]
pub fn encoded(word: &OsStr) -> String {
    if word.is_empty() {
        return EMPTY.to_owned();
    }
    let plain = |at: usize, byte: u8| byte.is_ascii_alphanumeric() || b"_-./:@,".contains(&byte) || (byte == b'=' && at > 0);
    let piece = |(at, byte): (usize, &u8)| if plain(at, *byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    word.as_bytes().iter().enumerate().map(piece).collect()
}

/// Decodes a word.
///
/// # Errors
/// If a `%` is not followed by two hexadecimal digits.
pub fn decoded(word: &OsStr) -> Result<OsString, String> {
    if word == EMPTY {
        return Ok(OsString::new());
    }
    let mut parts = word.as_bytes().split(|byte| *byte == b'%');
    let mut bytes = parts.next().unwrap_or_default().to_vec();
    for part in parts {
        let digits = part.get(..2).and_then(|digits| str::from_utf8(digits).ok());
        let byte =
            digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit())).map(|digits| u8::from_str_radix(digits, 16));
        let Some(Ok(byte)) = byte else {
            return Err(format!("'{}' is not an encoded word: '%' needs two hexadecimal digits", word.display()));
        };
        bytes.push(byte);
        bytes.extend_from_slice(&part[2..]);
    }
    Ok(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_word_comes_back_and_holds_nothing_that_a_shell_looks_at() {
        let all: Vec<u8> = (1..=255).collect();
        let words: [&[u8]; 8] = [b"", b"%", b"plain", b"it's \"two\" words", b"$(reboot) `x` ~ * ? # ; & |", b"=ls", b"a=b", &all];
        for word in words {
            let (word, shown) = (OsStr::from_bytes(word), encoded(OsStr::from_bytes(word)));
            assert!(!shown.is_empty() && shown.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./:@,=%".contains(&byte)), "{shown}");
            assert!(!shown.starts_with('='), "{shown}");
            assert_eq!(decoded(shown.as_ref()).as_deref(), Ok(word));
        }
        assert_eq!(encoded("a b".as_ref()), "a%20b");
    }

    #[test]
    fn text_that_is_not_encoded_is_refused() {
        for word in ["%2", "a%", "%zz", "%+1"] {
            assert!(decoded(word.as_ref()).is_err(), "{word}");
        }
    }
}
