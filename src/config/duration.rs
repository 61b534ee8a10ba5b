//! Reads and displays durations: `45m`, `1h 30m`, `90s`, or plain seconds.

use std::time::Duration;

/// Longer durations are cut to this: it is as good as forever, and safe to add to the current time.
const LONGEST: Duration = Duration::from_secs(60 * 60 * 24 * 365);

/// Reads a duration; a bare number means seconds.
///
/// # Errors
/// A sentence that says what is expected.
pub fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let clamped = |duration: Duration| duration.min(LONGEST);
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(clamped(Duration::from_secs(seconds)));
    }
    let wrong = || format!("'{text}' is not a duration such as '45m', '1h 30m' or '90s'");
    let signed: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(signed).map(clamped).map_err(|_| wrong())
}

/// The duration in a form that `parse` can read.
pub fn shown(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        s if s % 3600 == 0 => format!("{}h", s / 3600),
        s if s % 60 == 0 => format!("{}m", s / 60),
        s => format!("{s}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, seconds) in [("45m", 2700), ("1h 30m", 5400), ("1h30m", 5400), ("90s", 90), ("7", 7), (" 2 min ", 120)] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(parse("18446744073709551615"), Ok(LONGEST));
        for text in ["", "soon", "-5s", "5 parsecs"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
