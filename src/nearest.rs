//! Suggests what the user may have meant: the known word nearest to a mistyped one, if one is near enough.

/// The candidate that is most similar to the word, if one is near enough.
pub fn to<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let allowed = length.div_ceil(3).max(1);
    // A different case counts less than a different letter.
    let distance = |candidate: &str| {
        let (word, other) = (word.to_lowercase(), candidate.to_lowercase());
        strsim::damerau_levenshtein(&word, &other)
    };
    candidates
        // Words of very different lengths are always too far apart, and their distance is expensive to compute.
        .filter(|candidate| length.abs_diff(candidate.chars().count()) <= allowed)
        .map(|candidate| ((distance(candidate), strsim::damerau_levenshtein(word, candidate)), candidate))
        .filter(|((distance, _), _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The end of a sentence about an unknown word: "; did you mean …?", or an empty string.
#[must_use]
pub fn suggestion<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    said(to(word, candidates))
}

/// The same for a word that was already found.
#[must_use]
pub fn said(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_similar_names_are_suggested() {
        let known = || ["verify", "title", "after"].into_iter();
        assert_eq!(super::to("verfy", known()), Some("verify"));
        assert_eq!(super::to("tilte", known()), Some("title"));
        assert_eq!(super::to("verifyverify", known()), None);
        assert_eq!(super::to("B", ["a", "b"].into_iter()), Some("b"));
        assert_eq!(super::to(&"v".repeat(50_000_000), known()), None);
    }
}
