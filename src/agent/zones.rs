//! Reads time zones as clients write them: `UTC`, `GMT+9`, `PST`, `Europe/Berlin`, `(Asia/Tokyo)`, `Pacific time`. Pure.

use std::sync::LazyLock;

use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Zoned};
use regex_lite::Regex;

use super::reset::pattern;

/// What was found where a zone may stand.
#[derive(Debug, PartialEq)]
pub enum Found<'a> {
    /// A zone, and the text after it.
    Zone(TimeZone, &'a str),
    /// Something that looks like an unknown zone, so the time before it cannot be understood.
    Unknown,
    /// Something else.
    Nothing,
}

/// Abbreviations with their offset in minutes. An ambiguous one has its most common meaning here, but the machine's own
/// zone is tried first, because clients format times for that.
const ABBREVIATIONS: &[(&str, i32)] = &[
    ("HST", -600),
    ("AKST", -540),
    ("AKDT", -480),
    ("PST", -480),
    ("PDT", -420),
    ("MST", -420),
    ("MDT", -360),
    ("CST", -360),
    ("CDT", -300),
    ("EST", -300),
    ("EDT", -240),
    ("BRT", -180),
    ("WET", 0),
    ("WEST", 60),
    ("BST", 60),
    ("CET", 60),
    ("CEST", 120),
    ("SAST", 120),
    ("EET", 120),
    ("EEST", 180),
    ("MSK", 180),
    ("PKT", 300),
    ("IST", 330),
    ("ICT", 420),
    ("WIB", 420),
    ("SGT", 480),
    ("HKT", 480),
    ("AWST", 480),
    ("JST", 540),
    ("KST", 540),
    ("ACST", 570),
    ("ACDT", 630),
    ("AEST", 600),
    ("AEDT", 660),
    ("NZST", 720),
    ("NZDT", 780),
];

/// Names of zones whose offset depends on the date; the short names must be in capitals.
const REGIONS: &[(&str, &str, &str)] = &[
    ("pacific", "PT", "America/Los_Angeles"),
    ("mountain", "MT", "America/Denver"),
    ("central", "CT", "America/Chicago"),
    ("eastern", "ET", "America/New_York"),
];

/// Half a year later or earlier, a zone with summer time has its other offset.
const HALF_A_YEAR: SignedDuration = SignedDuration::from_hours(182 * 24);

/// Reads the zone at the beginning of a text.
pub fn zone_at<'a>(text: &'a str, now: &Zoned) -> Found<'a> {
    let Some(inner) = text.strip_prefix(['(', '[']) else { return bare(text, now) };
    let Some((name, rest)) = inner.split_once([')', ']']) else { return Found::Unknown };
    match bare(name.trim(), now) {
        Found::Zone(zone, "") => Found::Zone(zone, rest),
        _ => Found::Unknown,
    }
}

fn bare<'a>(text: &'a str, now: &Zoned) -> Found<'a> {
    let word = &text[..text.find(|c: char| !is_part_of_name(c)).unwrap_or(text.len())];
    offset_at(text).or_else(|| described(text, now)).unwrap_or_else(|| named(word, &text[word.len()..], now))
}

fn is_part_of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '/' | '_' | '+' | '-')
}

/// Reads an offset: `Z`, `UTC`, `GMT+9`, `UTC +02:00`, `-0530`.
fn offset_at(text: &str) -> Option<Found<'_>> {
    static OFFSET: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"^(?:(?i:utc|gmt|z)\b(?:\s?([+\-−])(\d{1,2})(?::?(\d\d))?\b)?|([+\-−])(\d\d)(?::?(\d\d))?\b)"));
    let found = OFFSET.captures(text)?;
    let rest = &text[found.get(0)?.end()..];
    if rest.starts_with(['/', '+', '-', ':']) {
        return None;
    }
    let group = |first: usize| found.get(first).or_else(|| found.get(first + 3)).map(|part| part.as_str());
    let number = |first: usize| group(first).map_or(Some(0), |digits| digits.parse::<i32>().ok());
    let minutes = number(2)? * 60 + number(3).filter(|minutes| *minutes < 60)?;
    Some(
        fixed(if group(1).is_some_and(|sign| sign != "+") { -minutes } else { minutes })
            .map_or(Found::Unknown, |zone| Found::Zone(zone, rest)),
    )
}

fn fixed(minutes: i32) -> Option<TimeZone> {
    Some(Offset::from_seconds(minutes * 60).ok()?.to_time_zone())
}

/// Reads a described zone: `Pacific time`, `Eastern Standard Time`, `your local time`.
fn described<'a>(text: &'a str, now: &Zoned) -> Option<Found<'a>> {
    static DESCRIBED: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?i)(?:your\s+)?([a-z]+)(?:\s+(standard|daylight|summer))?\s+time\b"));
    let found = DESCRIBED.captures(text)?;
    let rest = &text[found.get(0)?.end()..];
    let name = found[1].to_ascii_lowercase();
    if matches!(name.as_str(), "local" | "your") {
        return Some(Found::Zone(now.time_zone().clone(), rest));
    }
    let region = REGIONS.iter().find(|(long, ..)| name == *long);
    let zone = match (region, found.get(2).map(|kind| kind.as_str().to_ascii_lowercase())) {
        (Some((.., city)), None) => TimeZone::get(city).ok(),
        (Some((_, short, _)), Some(kind)) => {
            let letter = if kind == "standard" { "S" } else { "D" };
            abbreviation(&format!("{}{letter}T", &short[..1]), now)
        }
        (None, _) => None,
    };
    Some(zone.map_or(Found::Unknown, |zone| Found::Zone(zone, rest)))
}

fn named<'a>(word: &'a str, rest: &'a str, now: &Zoned) -> Found<'a> {
    let short = (2..=5).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    let zone = match REGIONS.iter().find(|(_, short, _)| word == *short) {
        Some((.., city)) => TimeZone::get(city).ok(),
        None if word.contains('/') => TimeZone::get(word).ok(),
        None if short => abbreviation(&word.to_ascii_uppercase(), now),
        None => None,
    };
    // A word in capitals after a time is most likely a zone; so is one with digits, `/` or `+`.
    let capitals = short && word.bytes().all(|byte| byte.is_ascii_uppercase());
    let digits = word.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit());
    match zone {
        Some(zone) => Found::Zone(zone, rest),
        None if capitals || digits || word.contains(['/', '+']) => Found::Unknown,
        None => Found::Nothing,
    }
}

fn abbreviation(name: &str, now: &Zoned) -> Option<TimeZone> {
    let here = now.time_zone();
    let seasons = [Some(now.timestamp()), now.timestamp().checked_add(HALF_A_YEAR).ok()];
    let own = seasons.into_iter().flatten().map(|moment| here.to_offset_info(moment)).find(|info| info.abbreviation() == name);
    match own {
        Some(info) => Some(info.offset().to_time_zone()),
        None => ABBREVIATIONS.iter().find(|(known, _)| *known == name).and_then(|(_, minutes)| fixed(*minutes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset_in(text: &str, now: &str) -> Option<i32> {
        let now: Zoned = now.parse().unwrap();
        match zone_at(text, &now) {
            Found::Zone(zone, _) => Some(zone.to_offset(now.timestamp()).seconds() / 60),
            Found::Unknown | Found::Nothing => None,
        }
    }

    #[test]
    fn the_table_of_zones() {
        let now = "2026-11-16T00:05:00[America/New_York]";
        let table = [
            ("UTC", 0),
            ("utc.", 0),
            ("Z", 0),
            ("GMT+9", 540),
            ("UTC+5:30, then", 330),
            ("UTC -5", -300),
            ("UTC−5", -300),
            ("+02:00", 120),
            ("-0530", -330),
            ("(UTC+2)", 120),
            ("PST", -480),
            ("(PDT)", -420),
            ("pst", -480),
            ("CEST", 120),
            ("JST", 540),
            ("IST", 330),
            ("ET", -300),
            ("Europe/Berlin.", 60),
            ("(America/Argentina/Buenos_Aires)", -180),
            ("Pacific time", -480),
            ("Eastern Daylight Time", -240),
            ("local time", -300),
            ("(your local time)", -300),
        ];
        for (text, minutes) in table {
            assert_eq!(offset_in(text, now), Some(minutes), "{text}");
        }
    }

    #[test]
    fn time_zones_and_ordinary_words_are_not_mistaken_for_each_other() {
        let now: Zoned = "2026-11-16T00:05:00[Asia/Tokyo]".parse().unwrap();
        for text in ["XYZ", "(Mars/Olympus)", "(soon", "(weekly limit)", "Nowhere/Else", "Martian time", "GMT+99", "7", "UTC+2+3"] {
            assert_eq!(zone_at(text, &now), Found::Unknown, "{text}");
        }
        for text in ["", "or upgrade", "· progress saved", ". Upgrade", "please wait", "- upgrade"] {
            assert_eq!(zone_at(text, &now), Found::Nothing, "{text}");
        }
    }

    #[test]
    fn an_abbreviation_means_what_it_means_where_the_machine_is() {
        assert_eq!(offset_in("CST", "2026-11-16T00:05:00[Asia/Shanghai]"), Some(480));
        assert_eq!(offset_in("IST", "2026-11-16T00:05:00[Asia/Jerusalem]"), Some(120));
        assert_eq!(offset_in("CST", "2026-11-16T00:05:00[Europe/Berlin]"), Some(-360));
        assert_eq!(offset_in("PDT", "2026-11-16T00:05:00[America/Los_Angeles]"), Some(-420));
    }
}
