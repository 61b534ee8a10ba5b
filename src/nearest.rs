//! "Did you mean": the candidate nearest to a mistyped word, if one is near at all.

/// The candidate that is most like the word.
pub fn to<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let allowed = length.div_ceil(3).max(1);
    // Letters of another case are nearer than other letters.
    let distance = |candidate: &str| {
        let (word, other) = (word.to_lowercase(), candidate.to_lowercase());
        strsim::damerau_levenshtein(&word, &other)
    };
    candidates
        // The distance of words of very different lengths is known to be long, and costly to measure.
        .filter(|candidate| length.abs_diff(candidate.chars().count()) <= allowed)
        .map(|candidate| ((distance(candidate), strsim::damerau_levenshtein(word, candidate)), candidate))
        .filter(|((distance, _), _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The end of a sentence about a word that is not known: "; did you mean …?", or nothing.
#[must_use]
pub fn suggestion<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    said(to(word, candidates))
}

/// The same about a word that was found already.
#[must_use]
pub fn said(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_what_is_near_is_suggested() {
        let known = || ["verify", "title", "after"].into_iter();
        assert_eq!(super::to("verfy", known()), Some("verify"));
        assert_eq!(super::to("tilte", known()), Some("title"));
        assert_eq!(super::to("verifyverify", known()), None);
        assert_eq!(super::to("B", ["a", "b"].into_iter()), Some("b"));
        assert_eq!(super::to(&"v".repeat(50_000_000), known()), None);
    }
}
