//! When an allowance comes back, read from a client's own words: a time of day, a date, a span. Pure.

use std::sync::LazyLock;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan, Zoned};
use regex_lite::{Captures, Regex};

/// A time of day that has just passed is the one that was meant: its minute may not be over where it was measured.
const JUST_PASSED: SignedDuration = SignedDuration::from_mins(10);
/// How long to wait then.
const A_MOMENT: SignedDuration = SignedDuration::from_secs(20);

/// The seconds from now until then; negative if it has passed.
pub fn seconds_until(then: Timestamp, now: &Zoned) -> i64 {
    then.duration_since(now.timestamp()).as_secs()
}

/// The reset that a text tells, if it tells one.
pub fn reset_in(text: &str, now: &Zoned) -> Option<Timestamp> {
    let announced = |behind: &str| iso(behind, now).or_else(|| clock(behind, now)).or_else(|| span(behind, now));
    epoch(text).or_else(|| behind_keywords(text).find_map(announced))
}

/// Compiles a pattern that is part of the program.
#[expect(clippy::expect_used, reason = "a pattern that is written here either always compiles or never")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

/// `usage limit reached|1749924000`.
fn epoch(text: &str) -> Option<Timestamp> {
    static EPOCH: LazyLock<Regex> = LazyLock::new(|| pattern(r"limit reached\|(\d{9,13})\b"));
    let number: i64 = EPOCH.captures(text)?[1].parse().ok()?;
    if number > 100_000_000_000 { Timestamp::from_millisecond(number).ok() } else { Timestamp::from_second(number).ok() }
}

/// What stands behind the words that announce a time.
fn behind_keywords(text: &str) -> impl Iterator<Item = &str> {
    static KEYWORD: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"(?i)\b(?:resets?|try again|retry|retrying|available again|renews)\b(?:\s+(?:at|on|in|after))?:?\s+"));
    KEYWORD.find_iter(text).map(|found| &text[found.end()..])
}

/// `2026-11-16T01:03:00Z`, `2026-11-16 01:03 UTC`.
fn iso(text: &str, now: &Zoned) -> Option<Timestamp> {
    static ISO: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"(?i)^(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?\s*(Z|UTC|GMT|[+-]\d\d:?\d\d)?"));
    let found = ISO.captures(text)?;
    let number = |group: usize| found.get(group).map_or(Some(0), |digits| digits.as_str().parse::<i16>().ok());
    let small = |group: usize| number(group).and_then(|number| i8::try_from(number).ok());
    let date = Date::new(number(1)?, small(2)?, small(3)?).ok()?;
    let time = Time::new(small(4)?, small(5)?, small(6)?, 0).ok()?;
    let zone = match found.get(7).map(|zone| zone.as_str()) {
        None => now.time_zone().clone(),
        Some(name) => offset(name)?,
    };
    Some(date.to_datetime(time).to_zoned(zone).ok()?.timestamp())
}

fn offset(name: &str) -> Option<TimeZone> {
    if !name.starts_with(['+', '-']) {
        return Some(TimeZone::UTC);
    }
    let digits: String = name.chars().filter(char::is_ascii_digit).collect();
    let (hours, minutes): (i32, i32) = (digits[..2].parse().ok()?, digits[2..].parse().ok()?);
    let seconds = (hours * 60 + minutes) * 60 * if name.starts_with('-') { -1 } else { 1 };
    Some(jiff::tz::Offset::from_seconds(seconds).ok()?.to_time_zone())
}

/// `1:06am (UTC)`, `3pm (Europe/Berlin)`, `1:03 AM`, `Oct 6, 1pm`, `Oct 5th, 2026 1:03 AM`.
fn clock(text: &str, now: &Zoned) -> Option<Timestamp> {
    static CLOCK: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r"^(?i:(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(?:(\d{4}),?\s+)?(?:at\s+)?)?",
            r"(\d{1,2})(?::(\d\d))?\s*(?i:([ap])\.?m\b\.?)?(?:\s*\(([^)]*)\)|\s+([A-Z]{2,5}(?:[+-]\d{1,2}(?::?\d\d)?)?)(?:[^A-Za-z]|$))?"
        ))
    });
    let found = CLOCK.captures(text)?;
    let (month, afternoon) = (found.get(1), found.get(6));
    // A bare number is no time of day.
    if found.get(5).is_none() && afternoon.is_none() {
        return None;
    }
    let zone = match found.get(7).or_else(|| found.get(8)) {
        // The time of a zone that nobody knows is no time.
        Some(name) => zone(name.as_str().trim())?,
        None => now.time_zone().clone(),
    };
    let here = now.with_time_zone(zone.clone());
    let time = time_of_day(&found)?;
    let Some(month) = month else { return next_occurrence(time, &here) };
    let month = month_number(month.as_str())?;
    let day: i8 = found[2].parse().ok()?;
    let year = found.get(3).map_or(Some(here.year()), |year| year.as_str().parse().ok())?;
    let date = Date::new(year, month, day).ok()?;
    let moment = |date: Date| Some(DateTime::from_parts(date, time).to_zoned(zone.clone()).ok()?.timestamp());
    let then = moment(date)?;
    // In December a date in January is next year's.
    let long_ago = then < here.timestamp() - SignedDuration::from_hours(24);
    if long_ago && found.get(3).is_none() { moment(date.checked_add(1.year()).ok()?) } else { Some(then) }
}

fn time_of_day(found: &Captures<'_>) -> Option<Time> {
    let hour: i8 = found[4].parse().ok()?;
    let minute: i8 = found.get(5).map_or(Some(0), |minute| minute.as_str().parse().ok())?;
    let hour = match found.get(6).map(|half| half.as_str().to_ascii_lowercase()) {
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some(half) => hour % 12 + if half == "p" { 12 } else { 0 },
        None => hour,
    };
    Time::new(hour, minute, 0, 0).ok()
}

fn next_occurrence(time: Time, here: &Zoned) -> Option<Timestamp> {
    let on = |date: Date| Some(DateTime::from_parts(date, time).to_zoned(here.time_zone().clone()).ok()?.timestamp());
    let today = on(here.date())?;
    let passed = here.timestamp().duration_since(today);
    if passed.is_negative() {
        // Just before midnight, a time just after it on the clock of an hour ago.
        Some(today)
    } else if passed <= JUST_PASSED {
        Some(here.timestamp() + A_MOMENT)
    } else {
        on(here.date().checked_add(1.day()).ok()?)
    }
}

fn month_number(name: &str) -> Option<i8> {
    const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let at = MONTHS.iter().position(|month| name.eq_ignore_ascii_case(month))?;
    i8::try_from(at + 1).ok()
}

fn zone(name: &str) -> Option<TimeZone> {
    let upper = name.to_ascii_uppercase();
    match upper.strip_prefix("UTC").or_else(|| upper.strip_prefix("GMT")) {
        Some("") => Some(TimeZone::UTC),
        Some(hours) => offset(&padded(hours)?),
        None if upper == "Z" => Some(TimeZone::UTC),
        None if name.contains('/') => TimeZone::get(name).ok(),
        None => None,
    }
}

/// `+9` as `+09:00`.
fn padded(text: &str) -> Option<String> {
    let sign = text.chars().next().filter(|sign| matches!(sign, '+' | '-'))?;
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    match digits.len() {
        1 => Some(format!("{sign}0{digits}:00")),
        2 => Some(format!("{sign}{digits}:00")),
        4 => Some(format!("{sign}{digits}")),
        _ => None,
    }
}

/// `3600s`, `1h30m`, `3 days 4 hours 12 minutes`, `20 minutes`; a bare number is seconds.
fn span(text: &str, now: &Zoned) -> Option<Timestamp> {
    static PART: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"(?i)^(?:,|and\b|\s)*(\d+(?:\.\d+)?)\s*(ms|milliseconds?|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)?")
    });
    let (mut rest, mut seconds, mut any) = (text, 0.0, false);
    while let Some(found) = PART.captures(rest) {
        let number: f64 = found[1].parse().ok()?;
        let unit = found.get(2).map_or(String::new(), |unit| unit.as_str().to_ascii_lowercase());
        if unit.is_empty() && any {
            break;
        }
        seconds += number * unit_seconds(&unit);
        any = true;
        let end = found.get(2).or_else(|| found.get(1)).map_or(rest.len(), |last| last.end());
        rest = &rest[end..];
        // The beginning of another word is no unit, and a number before a word counts something else.
        if rest.starts_with(|c: char| c.is_alphabetic()) || (unit.is_empty() && !ends_here(rest)) {
            return None;
        }
        if unit.is_empty() {
            break;
        }
    }
    let duration = SignedDuration::try_from_secs_f64(seconds).ok().filter(|_| any)?;
    now.timestamp().checked_add(duration).ok()
}

/// Whether a sentence ends.
fn ends_here(rest: &str) -> bool {
    let rest = rest.trim_start();
    rest.is_empty() || rest.starts_with(['.', ',', ';', ')', ']'])
}

fn unit_seconds(unit: &str) -> f64 {
    match unit {
        "ms" | "millisecond" | "milliseconds" => 0.001,
        _ if unit.starts_with('m') => 60.0,
        _ if unit.starts_with('h') => 3600.0,
        _ if unit.starts_with('d') => 86400.0,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_resets() {
        let now: Zoned = "2026-11-16T00:05:00[UTC]".parse().unwrap();
        let table = [
            ("You've hit your limit · resets 1:06am (UTC)", "2026-11-16T01:06:00Z"),
            ("You've hit your limit · resets 3pm (Europe/Berlin)", "2026-11-16T14:00:00Z"),
            ("5-hour limit reached ∙ resets 3pm", "2026-11-16T15:00:00Z"),
            ("Weekly limit reached ∙ resets Nov 20, 1pm (UTC)", "2026-11-20T13:00:00Z"),
            ("limit reached, resets Jan 2, 9am", "2027-01-02T09:00:00Z"),
            ("Claude AI usage limit reached|1794790000", "2026-11-16T00:46:40Z"),
            ("purchase more credits or try again at 1:03 AM.", "2026-11-16T01:03:00Z"),
            ("try again at Nov 18th, 2026 1:03 AM.", "2026-11-18T01:03:00Z"),
            ("try again at 12:00 AM.", "2026-11-16T00:05:20Z"),
            ("try again at 11:40 PM.", "2026-11-16T23:40:00Z"),
            ("try again in 3 days 4 hours 12 minutes.", "2026-11-19T04:17:00Z"),
            ("Rate limit reached. Please try again in 3600s.", "2026-11-16T01:05:00Z"),
            ("Please try again in 1m30.5s.", "2026-11-16T00:06:30.5Z"),
            ("[API Error: Please try again later.\nSuggested retry after 3600s.]", "2026-11-16T01:05:00Z"),
            ("Your quota will reset after 18h31m10s.", "2026-11-16T18:36:10Z"),
            ("slow down (retry after 120s)", "2026-11-16T00:07:00Z"),
            ("resets at 2026-11-16T02:00:00Z", "2026-11-16T02:00:00Z"),
            ("resets at 2026-11-16 02:00 +02:00", "2026-11-16T00:00:00Z"),
            ("try again in 20 minutes", "2026-11-16T00:25:00Z"),
            ("resets at 3:45 PM GMT+9", "2026-11-16T06:45:00Z"),
            ("resets 15:00 (UTC+2)", "2026-11-16T13:00:00Z"),
            ("resets 15:00 UTC", "2026-11-16T15:00:00Z"),
            ("retry after 30", "2026-11-16T00:05:30Z"),
        ];
        for (text, expected) in table {
            let expected: Timestamp = expected.parse().unwrap();
            assert_eq!(reset_in(text, &now), Some(expected), "{text}");
        }
    }

    #[test]
    fn words_without_a_time_tell_none() {
        let now = Zoned::now();
        for text in [
            "",
            "Please try again later.",
            "We will retry the request",
            "resets",
            "resets 25pm",
            "try again at the next full moon",
            "limit reached|12",
            "resets Feb 31, 1pm",
            "Try again at 20 Nov 2026 1:03 AM",
            "resets 5:00 PM PST",
        ] {
            assert_eq!(reset_in(text, &now), None, "{text}");
        }
    }
}
