//! Durations as people write them: `45m`, `1h 30m`, `90s`, or plain seconds.

use std::time::Duration;

/// Reads a duration; a bare number means seconds.
///
/// # Errors
/// A sentence that says what is expected.
pub fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    let wrong = || format!("'{text}' is not a duration such as '45m', '1h 30m' or '90s'");
    let signed: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(signed).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, seconds) in [("45m", 2700), ("1h 30m", 5400), ("1h30m", 5400), ("90s", 90), ("7", 7), (" 2 min ", 120)] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "soon", "-5s", "5 parsecs"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
