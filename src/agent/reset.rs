//! Reads from a client's message when a usage limit resets: a time of day, a date, or a span. A time that is not
//! understood is unknown, never guessed. Pure.

use std::sync::LazyLock;

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan, Zoned};
use regex_lite::{Captures, Regex};

use super::zones::{Found, zone_at};

/// A time of day that passed less than this ago is not moved to tomorrow: the clocks may differ a little.
const JUST_PASSED: SignedDuration = SignedDuration::from_mins(10);
/// How long to wait in that case.
const A_MOMENT: SignedDuration = SignedDuration::from_secs(20);
/// A date without a year is in the next year if it is further back than this.
const LONG_AGO: SignedDuration = SignedDuration::from_hours(24);

/// The seconds from now until the given time; negative if it has passed.
pub fn seconds_until(then: Timestamp, now: &Zoned) -> i64 {
    then.duration_since(now.timestamp()).as_secs()
}

/// The reset time in a text, if there is one.
pub fn reset_in(text: &str, now: &Zoned) -> Option<Timestamp> {
    static MARKED: LazyLock<Regex> = LazyLock::new(|| pattern(r"limit reached\|(\d{9,13})\b"));
    let marked = MARKED.captures(text).and_then(|found| epoch(found[1].parse().ok()?));
    marked.or_else(|| announcements(text).find_map(|(word, behind)| announced(&word, behind, now)))
}

/// Compiles a pattern that is a constant of this program.
#[expect(clippy::expect_used, reason = "a pattern that is written here either always compiles or never")]
pub(super) fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

/// The phrases that announce a time: the preposition (may be empty), and the text after it.
fn announcements(text: &str) -> impl Iterator<Item = (String, &str)> {
    static KEYWORD: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r"(?i)\b(?:resets?(?: time)?|try again|retry|retrying|available again|renews|refreshes|regain access|until)\b",
            r"(?:[\s-]+(at|on|in|after)\b)?:?\s+"
        ))
    });
    KEYWORD.captures_iter(text).filter_map(|found| {
        let word = found.get(1).map_or(String::new(), |word| word.as_str().to_ascii_lowercase());
        Some((word, &text[found.get(0)?.end()..]))
    })
}

/// `at` and `on` announce a moment, `in` a span, `after` either. Only after `in` and `after` does a bare number mean seconds.
fn announced(word: &str, behind: &str, now: &Zoned) -> Option<Timestamp> {
    match word {
        "in" => span(behind, true, now),
        "after" => stamp(behind).or_else(|| span(behind, true, now)).or_else(|| moment(behind, now)),
        "at" | "on" => stamp(behind).or_else(|| moment(behind, now)),
        _ => stamp(behind).or_else(|| moment(behind, now)).or_else(|| span(behind, false, now)),
    }
}

/// Reads a Unix time: `1794900000`.
fn stamp(text: &str) -> Option<Timestamp> {
    static STAMP: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(\d{10}|\d{13})\b"));
    let found = STAMP.captures(text)?;
    epoch(found[1].parse().ok()?).filter(|_| ends_here(&text[found[1].len()..]))
}

fn epoch(number: i64) -> Option<Timestamp> {
    if number > 100_000_000_000 { Timestamp::from_millisecond(number).ok() } else { Timestamp::from_second(number).ok() }
}

/// The parts of a moment that have been read so far.
#[derive(Debug, Default)]
struct Moment {
    day: Option<Day>,
    weekday: Option<Weekday>,
    time: Option<Time>,
    zone: Option<TimeZone>,
}

#[derive(Clone, Copy, Debug)]
enum Day {
    Date(Date),
    /// Without a year.
    OfMonth {
        month: i8,
        day: i8,
    },
    Today,
    Tomorrow,
}

/// Reads a moment: `1:06am (UTC)`, `15:00 GMT+9`, `3am Europe/Berlin`, `Oct 6, 1pm`, `Dec 1`, `20 Nov 2026, 03:00`,
/// `Mon 3am`, `tomorrow at 3pm`, `2026-11-16T01:03:00Z`. The parts come in any order, each at most once.
fn moment(text: &str, now: &Zoned) -> Option<Timestamp> {
    let (mut moment, mut rest) = (Moment::default(), text);
    loop {
        let unread = skip_fillers(rest);
        rest = match moment.read(unread)? {
            Some(rest) => rest,
            None if moment.has_begun() && moment.zone.is_none() => match zone_at(unread, now) {
                Found::Zone(zone, rest) => {
                    moment.zone = Some(zone);
                    rest
                }
                Found::Unknown => return None,
                Found::Nothing => break,
            },
            None => break,
        };
    }
    moment.resolve(now)
}

/// Skips what may stand between two parts.
fn skip_fillers(text: &str) -> &str {
    static FILLERS: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?i)(?:[\s,]+(?:at|on)\b|[\s,]+|\bat\b)*\s*"));
    FILLERS.find(text).map_or(text, |found| &text[found.end()..])
}

impl Moment {
    fn has_begun(&self) -> bool {
        self.day.is_some() || self.weekday.is_some() || self.time.is_some()
    }

    /// Reads one part and returns the text after it. `Some(None)` means that there is no further part, `None` that a
    /// part is invalid.
    #[expect(clippy::option_option, reason = "there are three answers")]
    fn read<'a>(&mut self, text: &'a str) -> Option<Option<&'a str>> {
        if let (None, Some((weekday, rest))) = (self.weekday, weekday(text)) {
            self.weekday = Some(weekday);
            return Some(Some(rest));
        }
        if self.day.is_none()
            && let Some((day, rest)) = day(text)
        {
            self.day = Some(day?);
            return Some(Some(rest));
        }
        if self.time.is_none()
            && let Some((time, rest)) = time_of_day(text)
        {
            self.time = Some(time?);
            return Some(Some(rest));
        }
        Some(None)
    }

    fn resolve(self, now: &Zoned) -> Option<Timestamp> {
        let Moment { day, weekday, time, zone } = self;
        let here = now.with_time_zone(zone.unwrap_or_else(|| now.time_zone().clone()));
        let Some(day) = day else { return next_occurrence(weekday, time, &here) };
        let date = match day {
            Day::Date(date) => date,
            Day::OfMonth { month, day } => near_date(month, day, &here)?,
            Day::Today => here.date(),
            Day::Tomorrow => here.date().tomorrow().ok()?,
        };
        // If the weekday is not that of the date, one of them was misread.
        if weekday.is_some_and(|weekday| weekday != date.weekday()) {
            return None;
        }
        on(date, time, &here)
    }
}

/// A day without a time means its beginning. For today that is unknown, because it has already passed.
fn on(date: Date, time: Option<Time>, here: &Zoned) -> Option<Timestamp> {
    if time.is_none() && date == here.date() {
        return None;
    }
    let time = time.unwrap_or(Time::midnight());
    Some(date.to_datetime(time).to_zoned(here.time_zone().clone()).ok()?.timestamp())
}

/// The next date with this month and day: in December a date in January is in the next year.
fn near_date(month: i8, day: i8, here: &Zoned) -> Option<Date> {
    let this_year = Date::new(here.year(), month, day).ok();
    let yesterday = here.checked_sub(LONG_AGO).ok()?.date();
    this_year.filter(|date| *date >= yesterday).or_else(|| Date::new(here.year() + 1, month, day).ok())
}

/// The next occurrence of a time of day or a weekday.
fn next_occurrence(weekday: Option<Weekday>, time: Option<Time>, here: &Zoned) -> Option<Timestamp> {
    let days = weekday.map_or(0, |weekday| weekday.since(here.weekday()));
    let first = here.date().checked_add(i64::from(days).days()).ok()?;
    let then = on(first, time, here)?;
    let passed = here.timestamp().duration_since(then);
    if passed.is_negative() {
        Some(then)
    } else if passed <= JUST_PASSED {
        Some(here.timestamp() + A_MOMENT)
    } else {
        on(first.checked_add(if weekday.is_some() { 7.days() } else { 1.day() }).ok()?, time, here)
    }
}

fn behind<'a>(found: &Captures<'_>, text: &'a str) -> &'a str {
    found.get(0).map_or(text, |all| &text[all.end()..])
}

fn position<const N: usize>(names: [&str; N], name: &str) -> Option<i8> {
    let at = names.iter().position(|known| name.eq_ignore_ascii_case(known))?;
    i8::try_from(at + 1).ok()
}

/// Reads a weekday: `Mon`, `Thursday`.
fn weekday(text: &str) -> Option<(Weekday, &str)> {
    static WEEKDAY: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"^(?i)(mon|tue|wed|thu|fri|sat|sun)(?:s|rs?|day|sday|nesday|rsday|urday)?\b\.?"));
    let found = WEEKDAY.captures(text)?;
    let number = position(["mon", "tue", "wed", "thu", "fri", "sat", "sun"], &found[1])?;
    Some((Weekday::from_monday_one_offset(number).ok()?, behind(&found, text)))
}

/// Reads a date: `2026-11-20`, `Nov 20th, 2026`, `20 Nov`, `tomorrow`. A date that does not exist is `Some((None, _))`.
fn day(text: &str) -> Option<(Option<Day>, &str)> {
    const MONTH: &str =
        concat!(r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)", r"(?:uary|ruary|ch|il|e|y|ust|t|tember|ober|ember)?\b\.?");
    static ISO: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(\d{4})-(\d\d)-(\d\d)(?:[Tt]|\b)"));
    static MONTH_DAY: LazyLock<Regex> =
        LazyLock::new(|| pattern(&format!(r"^(?i){MONTH}\s+(\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(\d{{4}})\b)?")));
    static DAY_MONTH: LazyLock<Regex> =
        LazyLock::new(|| pattern(&format!(r"^(?i)(\d{{1,2}})(?:st|nd|rd|th)?\.?\s+(?:of\s+)?{MONTH}(?:,?\s+(\d{{4}})\b)?")));
    static RELATIVE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?i)(?:today|tonight|(tomorrow))\b"));
    if let Some(found) = ISO.captures(text) {
        let day = found[1].parse().ok().and_then(|year| Date::new(year, small(&found[2])?, small(&found[3])?).ok());
        return Some((day.map(Day::Date), behind(&found, text)));
    }
    if let Some(found) = MONTH_DAY.captures(text) {
        return Some((of_month(&found[1], &found[2], found.get(3).map(|year| year.as_str())), behind(&found, text)));
    }
    if let Some(found) = DAY_MONTH.captures(text) {
        return Some((of_month(&found[2], &found[1], found.get(3).map(|year| year.as_str())), behind(&found, text)));
    }
    let found = RELATIVE.captures(text)?;
    Some((Some(if found.get(1).is_some() { Day::Tomorrow } else { Day::Today }), behind(&found, text)))
}

fn small(digits: &str) -> Option<i8> {
    digits.parse().ok()
}

fn of_month(month: &str, day: &str, year: Option<&str>) -> Option<Day> {
    let month = position(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], month)?;
    let day = small(day)?;
    match year {
        Some(year) => Some(Day::Date(Date::new(year.parse().ok()?, month, day).ok()?)),
        // 2028 is a leap year, so February 29 is accepted.
        None => Date::new(2028, month, day).is_ok().then_some(Day::OfMonth { month, day }),
    }
}

/// Reads a time of day: `3pm`, `3:45 PM`, `15:00`, `01:03:00.5`, `midnight`. A bare number is not a time.
fn time_of_day(text: &str) -> Option<(Option<Time>, &str)> {
    static CLOCK: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"^(\d{1,2})(?::(\d\d)(?::(\d\d)(?:\.\d+)?)?)?(?:\s*([AaPp])(?:[Mm]\b|\.\s?[Mm]\b\.?))?"));
    static NAMED: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?i)(?:(noon)|midnight)\b"));
    if let Some(found) = NAMED.captures(text) {
        let hour = if found.get(1).is_some() { 12 } else { 0 };
        return Some((Time::new(hour, 0, 0, 0).ok(), behind(&found, text)));
    }
    let found = CLOCK.captures(text)?;
    if found.get(2).is_none() && found.get(4).is_none() {
        return None;
    }
    Some((clock(&found), behind(&found, text)))
}

fn clock(found: &Captures<'_>) -> Option<Time> {
    let number = |group: usize| found.get(group).map_or(Some(0), |digits| small(digits.as_str()));
    let hour = match (number(1)?, found.get(4).map(|half| half.as_str().to_ascii_lowercase())) {
        (hour, Some(_)) if !(1..=12).contains(&hour) => return None,
        (hour, Some(half)) => hour % 12 + if half == "p" { 12 } else { 0 },
        (hour, None) => hour,
    };
    Time::new(hour, number(2)?, number(3)?, 0).ok()
}

/// Reads a span: `3600s`, `1h30m`, `3 days 4 hours 12 minutes`, `about an hour`, `less than a minute`. A bare number
/// means seconds if `bare` is set.
fn span(text: &str, bare: bool, now: &Zoned) -> Option<Timestamp> {
    static VAGUE: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"^(?i)(?:about|approximately|approx\.?|around|less than|up to|another|~)\s*"));
    static ARTICLE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?i)(?:an?|one)\s+(second|minute|hour|day|week)\b"));
    let text = VAGUE.find(text).map_or(text, |found| &text[found.end()..]);
    let seconds = match ARTICLE.captures(text) {
        Some(found) => unit_seconds(&found[1].to_ascii_lowercase()),
        None => counted(text, bare)?,
    };
    now.timestamp().checked_add(SignedDuration::try_from_secs_f64(seconds).ok()?).ok()
}

/// The sum of numbers with their units.
fn counted(text: &str, bare: bool) -> Option<f64> {
    static PART: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"(?i)^(?:,|and\b|\s)*(\d+(?:\.\d+)?)\s*(ms|milliseconds?|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w)?",
        )
    });
    let (mut rest, mut seconds) = (text, None);
    while let Some(found) = PART.captures(rest) {
        let number: f64 = found[1].parse().ok()?;
        let unit = found.get(2).map_or(String::new(), |unit| unit.as_str().to_ascii_lowercase());
        if unit.is_empty() && seconds.is_some() {
            // Rejects `15h30`, but accepts the two hours in `in 2 hours, 3 stories are left`.
            return seconds.filter(|_| !rest.starts_with(|c: char| c.is_ascii_digit()));
        }
        rest = &rest[found.get(2).or_else(|| found.get(1))?.end()..];
        // The first letter of another word is not a unit, and a number before a word counts something else.
        if rest.starts_with(|c: char| c.is_alphabetic()) || (unit.is_empty() && !(bare && ends_here(rest))) {
            return None;
        }
        seconds = Some(seconds.unwrap_or(0.0) + number * unit_seconds(&unit));
        if unit.is_empty() {
            break;
        }
    }
    seconds
}

/// Whether a sentence or clause ends here.
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
        _ if unit.starts_with('w') => 7.0 * 86400.0,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, now: &str) -> Option<String> {
        reset_in(text, &now.parse().unwrap()).map(|reset| reset.to_string())
    }

    #[test]
    fn the_table_of_resets() {
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
            ("usage limit reached. It will reset in 2 hours 5 minutes. To continue", "2026-11-16T02:10:00Z"),
            ("usage limit reached. It will reset in less than a minute.", "2026-11-16T00:06:00Z"),
            ("try again in about an hour", "2026-11-16T01:05:00Z"),
            ("retry after 30", "2026-11-16T00:05:30Z"),
            ("Retry-After: 30", "2026-11-16T00:05:30Z"),
            ("You will regain access on 2026-12-01 at 00:00 UTC.", "2026-12-01T00:00:00Z"),
        ];
        for (text, expected) in table {
            assert_eq!(at(text, "2026-11-16T00:05:00[UTC]").as_deref(), Some(expected), "{text}");
        }
    }

    /// A time with a zone is the same moment wherever the machine is; one without is in the machine's zone.
    #[test]
    fn a_given_time_zone_is_never_lost_and_a_missing_one_is_that_of_the_machine() {
        // Tuesday evening in New York is Wednesday morning in Tokyo.
        let (new_york, tokyo) = ("2026-11-17T19:30:00[America/New_York]", "2026-11-18T09:30:00[Asia/Tokyo]");
        let same = [
            ("resets 15:00 UTC", "2026-11-18T15:00:00Z"),
            ("resets 15:00 GMT+9", "2026-11-18T06:00:00Z"),
            ("resets at 3:45 PM GMT+9", "2026-11-18T06:45:00Z"),
            ("resets 15:00 (UTC+2)", "2026-11-18T13:00:00Z"),
            ("resets 15:00 CET", "2026-11-18T14:00:00Z"),
            ("resets 3am Europe/Berlin", "2026-11-18T02:00:00Z"),
            ("resets 3am (Europe/Berlin)", "2026-11-18T02:00:00Z"),
            ("resets 5pm (PST)", "2026-11-18T01:00:00Z"),
            ("resets 5:00 PM PST", "2026-11-18T01:00:00Z"),
            ("resets 5:00 p.m. PST", "2026-11-18T01:00:00Z"),
            ("resets at midnight Pacific time", "2026-11-18T08:00:00Z"),
            ("resets Thursday, 3am (UTC)", "2026-11-19T03:00:00Z"),
            ("resets Wed, Nov 18, 3am UTC", "2026-11-18T03:00:00Z"),
            ("resets Dec 1 (UTC)", "2026-12-01T00:00:00Z"),
            ("resets 20 Nov 2026, 03:00 UTC", "2026-11-20T03:00:00Z"),
            ("resets 2026-11-20T03:00:00.000Z", "2026-11-20T03:00:00Z"),
            ("resets at 1794900000", "2026-11-17T07:20:00Z"),
            ("resets at 1794900000000", "2026-11-17T07:20:00Z"),
            ("resets tomorrow at 3pm UTC", "2026-11-19T15:00:00Z"),
        ];
        for (text, expected) in same {
            for now in [new_york, tokyo] {
                assert_eq!(at(text, now).as_deref(), Some(expected), "{text}, {now}");
            }
        }
        let local = [
            ("resets 3pm", "2026-11-18T20:00:00Z", "2026-11-18T06:00:00Z"),
            ("resets 15:00 local time", "2026-11-18T20:00:00Z", "2026-11-18T06:00:00Z"),
            ("resets Dec 1", "2026-12-01T05:00:00Z", "2026-11-30T15:00:00Z"),
            ("resets December 1st", "2026-12-01T05:00:00Z", "2026-11-30T15:00:00Z"),
            ("resets tomorrow at 3pm", "2026-11-18T20:00:00Z", "2026-11-19T06:00:00Z"),
            ("resets tomorrow", "2026-11-18T05:00:00Z", "2026-11-18T15:00:00Z"),
            ("resets Mon 3am", "2026-11-23T08:00:00Z", "2026-11-22T18:00:00Z"),
            ("resets Tue 3am", "2026-11-24T08:00:00Z", "2026-11-23T18:00:00Z"),
            ("resets 2026-11-20", "2026-11-20T05:00:00Z", "2026-11-19T15:00:00Z"),
            ("resets 20 Nov 2026, 03:00", "2026-11-20T08:00:00Z", "2026-11-19T18:00:00Z"),
            ("available again after 3:00 PM", "2026-11-18T20:00:00Z", "2026-11-18T06:00:00Z"),
        ];
        for (text, in_new_york, in_tokyo) in local {
            assert_eq!(at(text, new_york).as_deref(), Some(in_new_york), "{text} in New York");
            assert_eq!(at(text, tokyo).as_deref(), Some(in_tokyo), "{text} in Tokyo");
        }
    }

    #[test]
    fn a_time_that_is_not_understood_is_unknown_and_never_a_wrong_one() {
        for text in [
            "",
            "Please try again later.",
            "We will retry the request",
            "resets",
            "resets 25pm",
            "resets 24:30",
            "resets 15:00 XYZ",
            "resets 15:00 (Mars/Olympus)",
            "resets 15:00 Martian time",
            "resets 15:000",
            "resets 15:00 +2",
            "resets at 15",
            "resets 15",
            "resets 15h30",
            "resets 11/20/2026",
            "resets in December",
            "resets next Monday",
            "resets in a few minutes",
            "try again at the next full moon",
            "limit reached|12",
            "resets at 12345678901234567890",
            "resets Feb 31, 1pm",
            "resets 2026-02-31",
            "resets 2026-13-01 03:00",
            "resets Mon, Nov 20, 3am",
            // Whether the beginning or the end of today is meant is unclear.
            "resets Nov 17",
            "resets Tuesday",
            "resets today",
        ] {
            assert_eq!(at(text, "2026-11-17T19:30:00[America/New_York]"), None, "{text}");
        }
    }
}
