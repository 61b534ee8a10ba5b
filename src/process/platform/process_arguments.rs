//! Parses the macOS kernel's answer to a request for the arguments of a process (`KERN_PROCARGS2`).

/// The environment entries in such an answer. The answer consists of the number of arguments, the path of the
/// executable, padding, the arguments, and the environment. Each entry ends with a zero byte, and an empty entry ends the environment.
pub fn environment(answer: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (count, rest) = answer.split_first_chunk::<4>().map_or((0, &[][..]), |(count, rest)| (i32::from_ne_bytes(*count), rest));
    let after_path = rest.iter().position(|byte| *byte == 0).map_or(&[][..], |end| &rest[end..]);
    let padding = after_path.iter().take_while(|byte| **byte == 0).count();
    let words = after_path[padding..].split(|byte| *byte == 0);
    words.skip(usize::try_from(count).unwrap_or(0)).take_while(|entry| !entry.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(count: i32, rest: &[u8]) -> Vec<u8> {
        [&count.to_ne_bytes(), rest].concat()
    }

    #[test]
    fn the_environment_follows_the_arguments() {
        let asked = answer(2, b"/bin/sh\0\0\0\0sh\0-c\0A=1\0RALPH_RUN=7/x\0\0ptr_munge=\0");
        assert_eq!(environment(&asked).collect::<Vec<_>>(), [&b"A=1"[..], b"RALPH_RUN=7/x"]);
    }

    #[test]
    fn an_argument_that_looks_like_an_entry_is_none() {
        let asked = answer(3, b"/bin/sh\0sh\0RALPH_RUN=7/x\0\0A=1\0\0");
        assert_eq!(environment(&asked).collect::<Vec<_>>(), [b"A=1"]);
    }

    #[test]
    fn a_hidden_environment_and_a_broken_answer_have_no_entries() {
        for asked in
            [answer(1, b"/bin/sleep\0\0sleep\0"), answer(1, b""), answer(-5, b"x"), answer(9, b"/a\0b\0"), b"ab".to_vec(), Vec::new()]
        {
            assert_eq!(environment(&asked).count(), 0, "{asked:?}");
        }
    }
}
