//! Classifies a client's error message: by the table of known sentences, else by its HTTP status, else by single words. Pure.

use jiff::{Timestamp, Zoned};

use super::Trouble;
use super::reset::{reset_in, seconds_until};
use super::sentences::{Class, ERROR_OPENINGS, OPENINGS, begins_with_a_known_sentence, class_of};
use crate::process::Exit;

/// A longer error message is cut.
const LONGEST_MESSAGE: usize = 1024;
/// From this wait (in seconds) on, a refusal means a used-up usage limit rather than too many requests at once.
const LONG_WAIT: i64 = 60;
/// A reset time further away than this (in seconds) was misread,
const TOO_FAR: i64 = 40 * 24 * 3600;
/// and one that is further in the past is not the one to wait for.
const LONG_PAST: i64 = -600;

/// An error as the client reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    status: Option<u16>,
    message: String,
}

/// What else is known about an error.
#[derive(Clone, Debug)]
pub struct Clues {
    /// How often the client had already retried by itself.
    pub retries: u32,
    /// When the usage limit resets, if the client said so in structured output.
    pub resets: Option<Timestamp>,
    /// Whether the model had answered before the error.
    pub worked: bool,
}

impl Fault {
    /// Creates a fault from the error message, and from the HTTP status if it is known.
    pub fn new(status: Option<u16>, message: &str) -> Self {
        let message = message.trim();
        Fault { status, message: message[..message.floor_char_boundary(LONGEST_MESSAGE)].to_owned() }
    }

    /// Classifies the error: by a known sentence, else the client's structured event, else the HTTP status, else single words.
    pub fn trouble(&self, clues: &Clues, now: &Zoned) -> Trouble {
        let believable = |reset: &Timestamp| (LONG_PAST..TOO_FAR).contains(&seconds_until(*reset, now));
        let resets = clues.resets.or_else(|| reset_in(&self.message, now)).filter(believable);
        let words = self.message.to_lowercase();
        let status = self.status.or_else(|| status_in(&words));
        let message = self.in_words(status);
        match class_of(&self.message) {
            Some(Class::Limit) => Trouble::Limit { message, resets },
            Some(Class::Money) if resets.is_some() => Trouble::Limit { message, resets },
            Some(Class::Money | Class::Configuration) => Trouble::Configuration { message },
            Some(Class::Request) if !clues.worked => Trouble::Configuration { message },
            Some(Class::Unavailable) => Trouble::Unavailable { message },
            Some(Class::Request | Class::Other) => Trouble::Other { message },
            None if clues.resets.is_some() => Trouble::Limit { message, resets },
            None => by_status(status, &words, message, resets, clues, now),
        }
    }

    fn in_words(&self, status: Option<u16>) -> String {
        match (self.message.is_empty(), status) {
            (true, Some(status)) => format!("the model's API answered with status {status}"),
            (true, None) => "ended with an error".to_owned(),
            (false, _) => self.message.clone(),
        }
    }
}

/// Classifies an error that is not in the table of sentences.
fn by_status(status: Option<u16>, words: &str, message: String, resets: Option<Timestamp>, clues: &Clues, now: &Zoned) -> Trouble {
    let has = |any: &[&str]| any.iter().any(|word| words.contains(word));
    // A client that does not even retry a 429 was told to wait for a long time.
    let gave_up = status == Some(429) && clues.retries == 0;
    let long = resets.map_or(gave_up, |reset| seconds_until(reset, now) >= LONG_WAIT);
    match status.or_else(|| words.contains("rate limit").then_some(429)) {
        Some(500..) => Trouble::Unavailable { message },
        // A bad request after successful ones comes from this conversation, and the next attempt starts a new one.
        Some(400) if clues.worked => Trouble::Other { message },
        _ if has(REFUSED) => Trouble::Configuration { message },
        Some(429) if long => Trouble::Limit { message, resets },
        Some(408 | 409 | 425 | 429) => Trouble::Unavailable { message },
        Some(400..) => Trouble::Configuration { message },
        _ if has(UNAVAILABLE) => Trouble::Unavailable { message },
        _ => Trouble::Other { message },
    }
}

/// Words of a request that would be refused again.
const REFUSED: &[&str] = &["authentication_error", "authentication failed", "authentication_failed", "unauthorized"];
/// Words of an error that says that the model cannot be reached at the moment.
const UNAVAILABLE: &[&str] = &[
    "overloaded",
    "high demand",
    "timed out",
    "timeout",
    "disconnect",
    "connect",
    "network",
    "econn",
    "enotfound",
    "fetch failed",
    "stream ended",
    "stream closed",
    "socket",
    "server error",
    "unavailable",
    "empty response",
    "failed to get response",
    "cut off",
    "try again later",
];

/// The HTTP status that an error message contains.
fn status_in(words: &str) -> Option<u16> {
    const BEFORE: [&str; 9] =
        ["status", "status:", "status code", "http", "api error:", "\"code\":", "last error:", "server error", "request rejected"];
    let digits = |at: usize| words.get(at..at + 3).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let starts = words.match_indices(['4', '5']).map(|(at, _)| at);
    let whole = |at: usize| {
        !words[..at].ends_with(|c: char| c.is_ascii_alphanumeric()) && !words[at + 3..].starts_with(|c: char| c.is_ascii_alphanumeric())
    };
    let named = |at: usize| {
        let before = words[..at].trim_end_matches([' ', '(']);
        BEFORE.iter().any(|word| before.ends_with(word))
    };
    starts.filter(|at| digits(*at).is_some() && whole(*at) && named(*at)).find_map(|at| digits(at)?.parse().ok())
}

/// How many lines the client may print after an error, such as advice.
const ADVICE: usize = 12;

/// The client's error at the end of its standard error.
pub fn from_errors(text: &str, exit: &Exit, now: &Zoned) -> Option<Trouble> {
    let last: Vec<&str> = text.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(ADVICE).collect();
    let complaint = last.iter().find(|line| ERROR_OPENINGS.iter().any(|opening| line.starts_with(opening)))?;
    matches!(exit, Exit::Code { .. }).then(|| complaint_of(complaint, now))
}

fn complaint_of(line: &str, now: &Zoned) -> Trouble {
    Fault::new(None, line).trouble(&Clues { retries: 1, resets: None, worked: false }, now)
}

/// The client's error at the end of its plain text output. Text that only resembles an error does not count.
pub fn from_words(text: &str, exit: &Exit, now: &Zoned) -> Option<Trouble> {
    let failed = matches!(exit, Exit::Code { .. });
    let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let complaint = last
        .filter(|line| OPENINGS.iter().any(|opening| line.starts_with(opening)) || begins_with_a_known_sentence(line))
        // goose exits with 0 even after this error.
        .filter(|line| failed || line.starts_with("Ran into this error"))?;
    Some(complaint_of(complaint, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: Option<u16>, message: &str, retries: u32) -> &'static str {
        let now: Zoned = "2026-11-16T00:05:00[UTC]".parse().unwrap();
        match Fault::new(status, message).trouble(&Clues { retries, resets: None, worked: message.starts_with("later: ") }, &now) {
            Trouble::Configuration { .. } => "configuration",
            Trouble::Limit { resets: Some(_), .. } => "limit with a time",
            Trouble::Limit { .. } => "limit",
            Trouble::Unavailable { .. } => "unavailable",
            Trouble::Other { .. } => "other",
        }
    }

    #[test]
    fn the_table_of_complaints() {
        let table = [
            (Some(401), "Invalid API key · Fix external API key", 10, "configuration"),
            (Some(400), "Prompt is too long", 0, "configuration"),
            (Some(404), "model: nope", 0, "configuration"),
            (None, "Not logged in · Please run /login", 0, "configuration"),
            (None, "unexpected status 401 Unauthorized: invalid x-api-key, url: http://127.0.0.1:4291/v1", 5, "configuration"),
            (None, r#"[API Error: {"error":{"code":403,"message":"denied"}}]"#, 0, "configuration"),
            (Some(429), "API Error: Request rejected (429) · This request would exceed your rate limit.", 10, "unavailable"),
            (Some(429), "API Error: Request rejected (429) · This request would exceed your rate limit.", 0, "limit"),
            (None, "exceeded retry limit, last status: 429 Too Many Requests", 5, "unavailable"),
            (Some(429), "Rate limit reached for m. Please try again in 1s.", 5, "unavailable"),
            (Some(429), "Rate limit reached for m. Please try again in 3600s.", 5, "limit with a time"),
            (None, "Rate limit exceeded: Please try again in 1s.", 0, "unavailable"),
            (None, "You've hit your limit · resets 1:06am (UTC)", 0, "limit with a time"),
            (None, "You’ve hit your usage limit. Upgrade or try again at 1:03 AM.", 0, "limit with a time"),
            (None, "5-hour limit reached ∙ resets 3pm", 0, "limit with a time"),
            (None, "[API Error: You have exhausted your daily quota on this model.]", 0, "limit"),
            (Some(500), "Internal server error", 10, "unavailable"),
            (Some(529), "Overloaded", 10, "unavailable"),
            (None, "Server error: Server error (529 <unknown status code>): Overloaded.", 0, "unavailable"),
            (None, "stream disconnected before completion: stream closed before response.completed", 5, "unavailable"),
            (None, "Request timed out", 1, "unavailable"),
            (None, "You've hit your session limit · resets 7:10pm (America/Los_Angeles)", 0, "limit with a time"),
            (None, "You've hit your weekly limit · resets Nov 20, 8am (Europe/Paris)", 0, "limit with a time"),
            (Some(400), "later: API Error: 400 due to tool use concurrency issues.", 0, "other"),
            (Some(503), "Authentication service temporarily unavailable", 3, "unavailable"),
            (None, "error_max_turns", 0, "other"),
            (None, "line 429 of the file has a bug", 0, "other"),
            // Without a reset time, a spend limit needs a person to raise it.
            (None, "You've hit your monthly spend limit. See Usage in Settings", 0, "configuration"),
            (None, "You've hit your org's monthly spend limit · your weekly limit resets 3pm (UTC)", 0, "limit with a time"),
            (Some(429), "API Error: Request rejected (429) · spend limit reached · resets Dec 1", 0, "limit with a time"),
            (None, "You're out of usage credits · resets 3pm (UTC) · progress saved", 0, "limit with a time"),
            (None, "You're out of usage credits. /model to switch models.", 0, "configuration"),
            (Some(400), "later: Prompt is too long", 0, "other"),
            (Some(500), "litellm.APIError: Insufficient credits. Add more", 0, "configuration"),
            // A reset time that is long past or months away was misread.
            (None, "You've hit your limit · resets 2026-11-14", 0, "limit"),
            (None, "You've hit your limit · resets 2027-06-01", 0, "limit"),
        ];
        for (status, message, retries, expected) in table {
            assert_eq!(kind(status, message, retries), expected, "{message}");
        }
    }

    /// git-ralph must not wait for any of these: a wait costs no retry.
    #[test]
    fn text_that_only_sounds_like_a_usage_limit_is_none() {
        let table = [
            (Some(429), "API Error: Server is temporarily limiting requests (not your usage limit)", "unavailable"),
            (None, "API Error: Server is temporarily limiting requests (not your usage limit) · Rate limited", "unavailable"),
            (None, "Context limit reached · /compact or /clear to continue", "configuration"),
            (None, "later: Context limit reached · /compact or /clear to continue", "other"),
            (None, "agent thread limit reached", "other"),
            (None, "Shadow stream limit reached, dropping oldest", "other"),
            (None, "connection limit reached", "unavailable"),
            (None, "maximum turn limit reached", "other"),
            (None, "Image limit reached: at most 100 images per request", "other"),
            (None, "An image in the conversation exceeds the dimension limit for many-image requests", "other"),
            (None, "Your group's usage limit is set to $0 · ask your admin for a higher limit", "configuration"),
            (None, "the usage limit of this tool is not documented", "other"),
            (None, "Login reached its time limit · Please run /login", "configuration"),
            (None, "the rate limit test failed", "unavailable"),
            (None, "could not write: Disk quota exceeded (os error 122)", "other"),
        ];
        for (status, message, expected) in table {
            assert_eq!(kind(status, message, 0), expected, "{message}");
        }
    }

    #[test]
    fn the_event_of_a_client_decides_unless_its_sentence_says_otherwise() {
        let now: Zoned = "2026-11-16T00:05:00[UTC]".parse().unwrap();
        let clues = Clues { retries: 0, resets: Some("2026-11-16T03:00:00Z".parse().unwrap()), worked: true };
        let is_limit = |message: &str| matches!(Fault::new(None, message).trouble(&clues, &now), Trouble::Limit { resets: Some(_), .. });
        assert!(is_limit("something new") && is_limit("You're out of usage credits. /model to switch models."));
        assert!(!is_limit("Usage is paused for your organization. For help, please contact support."));
        assert!(!is_limit("API Error: Server is temporarily limiting requests (not your usage limit)"));
    }

    #[test]
    fn text_that_only_speaks_of_a_limit_is_no_complaint() {
        let now = Zoned::now();
        let failed = Exit::Code { code: 1 };
        for text in [
            "the docs say: You've hit your limit · resets 1am",
            "error: usage limit",
            "API error handling is done",
            "Quota exceeded",
            "Model not found: x",
        ] {
            assert_eq!(from_words(text, &failed, &now), None, "{text}");
        }
        assert_eq!(from_words("You've hit your limit · resets 1am", &Exit::Success, &now), None);
        for text in ["Login expired · Please run /login", "There's an issue with the selected model (x). It may not exist"] {
            assert!(matches!(from_words(text, &failed, &now), Some(Trouble::Configuration { .. })), "{text}");
        }
        assert!(matches!(from_words("You've hit your limit · resets 1am\n", &failed, &now), Some(Trouble::Limit { resets: Some(_), .. })));
    }
}
