//! The table of error sentences that clients print: the meaning of each, and the client version that it was read from.
//! Pure.
//!
//! Messages are compared with this table before a status or single words are considered, because "usage limit" also
//! occurs in "(not your usage limit)". To add a sentence, add it to its client, specific sentences before general ones.
//! `*` stands for a few words within a sentence.

/// What a sentence means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A usage limit that resets by itself is used up.
    Limit,
    /// Money or a budget is used up. If the message has a time, the limit resets then; if not, a person must pay or
    /// raise the budget.
    Money,
    /// A person must fix a login, an organisation, a key or a model name.
    Configuration,
    /// The request itself was refused. If it was the first one, the configuration is wrong; otherwise the conversation
    /// has gone wrong.
    Request,
    /// The model cannot be reached or is overloaded at the moment.
    Unavailable,
    /// The sentence only resembles one of the above.
    Other,
}

/// A client with its sentences.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// The name of the client; `api` stands for sentences of model providers, whatever the client.
    pub name: &'static str,
    /// The package version of the client that the sentences were read from.
    pub version: &'static str,
    /// Whether the sentence is the last line of the client's plain text output.
    pub in_plain_text: bool,
    /// Each sentence in the client's own words, with its meaning.
    pub says: &'static [(&'static str, Class)],
}

use Class::{Configuration, Limit, Money, Other, Request, Unavailable};

/// All known clients.
pub const CLIENTS: &[Client] = &[
    Client {
        name: "claude",
        version: "2.1.325",
        in_plain_text: true,
        says: &[
            ("Server is temporarily limiting requests (not your usage limit)", Unavailable),
            ("this may be a temporary capacity issue", Unavailable),
            ("is experiencing high load", Unavailable),
            ("The API is at capacity", Unavailable),
            ("Repeated 529 Overloaded errors", Unavailable),
            ("Connection to the API was lost", Unavailable),
            ("Authentication error · This may be a temporary network issue", Unavailable),
            ("another Claude Code process is refreshing it", Unavailable),
            ("spend limit unavailable", Unavailable),
            ("Usage is paused for your organization", Configuration),
            ("Your seat type doesn't include usage", Configuration),
            ("This service is disabled for your org", Configuration),
            ("Your usage allocation has been disabled by your admin", Configuration),
            ("Your group's usage limit is set to $0", Configuration),
            ("Your organization has disabled", Configuration),
            ("belongs to a disabled organization", Configuration),
            ("organization has been disabled", Configuration),
            ("Your account is on hold", Configuration),
            ("Not logged in", Configuration),
            ("Login expired", Configuration),
            ("Login reached its time limit", Configuration),
            ("profile login expired", Configuration),
            ("OAuth token revoked", Configuration),
            ("Please run /login", Configuration),
            ("Failed to authenticate", Configuration),
            ("Authentication required · Sign in again", Configuration),
            ("Failed to refresh OAuth token", Configuration),
            ("Could not refresh your login", Configuration),
            ("Invalid API key", Configuration),
            ("Invalid auth token", Configuration),
            ("Invalid ANTHROPIC_CUSTOM_HEADERS", Configuration),
            ("Invalid request header from the environment", Configuration),
            ("Your apiKeyHelper script is failing", Configuration),
            ("AWS credentials expired or invalid", Configuration),
            ("AWS authentication failed", Configuration),
            ("Google Cloud credentials expired or invalid", Configuration),
            ("Google Cloud authentication failed", Configuration),
            ("Microsoft Foundry authentication failed", Configuration),
            ("Could not load * credentials", Configuration),
            ("Request blocked before it reached Anthropic's API", Configuration),
            ("There's an issue with the selected model", Configuration),
            ("is not available on your * deployment", Configuration),
            ("is not available with the Claude Pro plan", Configuration),
            ("Usage credits required for 1M context", Configuration),
            ("requires usage credits", Configuration),
            ("--dangerously-skip-permissions cannot be used with root/sudo privileges", Configuration),
            ("Credit balance is too low", Configuration),
            ("Credit balance too low", Configuration),
            ("You've hit your * spend limit", Money),
            ("You've hit your org's monthly usage limit", Money),
            ("You've hit your channel's monthly usage limit", Money),
            ("You've hit your individual usage limit", Money),
            ("You've hit your usage limit · contact your admin", Money),
            ("You've hit your team's shared budget", Money),
            ("You're out of usage credits", Money),
            ("You're out of extra usage", Money),
            ("organization is out of usage credits", Money),
            ("Your org is out of usage", Money),
            ("spend limit reached", Money),
            ("reached your specified * usage limits", Money),
            ("Prompt is too long", Request),
            ("Context limit reached", Request),
            ("You've hit your limit", Limit),
            ("You've hit your * limit", Limit),
        ],
    },
    Client {
        name: "claude",
        version: "1.0, 2.0",
        in_plain_text: true,
        says: &[
            ("Claude AI usage limit reached", Limit),
            ("Claude usage limit reached", Limit),
            ("5-hour limit reached", Limit),
            ("Weekly limit reached", Limit),
            ("Session limit reached ∙ resets", Limit),
        ],
    },
    Client {
        name: "codex",
        version: "0.166.0",
        in_plain_text: false,
        says: &[
            ("Selected model is at capacity", Unavailable),
            ("Policy-restricted capacity is unavailable", Unavailable),
            ("Flex capacity unavailable", Unavailable),
            ("currently experiencing high demand", Unavailable),
            ("currently experiencing high load", Unavailable),
            ("stream disconnected before completion", Unavailable),
            ("You're out of credits", Configuration),
            ("Your workspace is out of credits", Configuration),
            ("You hit your spend cap", Configuration),
            ("Quota exceeded. Check your plan and billing details", Configuration),
            ("To use Codex with your ChatGPT plan, upgrade", Configuration),
            ("Your access token could not be refreshed", Configuration),
            ("Your authentication session could not be refreshed", Configuration),
            ("Your session has expired. Please reauthenticate", Configuration),
            ("token has expired and cannot be refreshed", Configuration),
            ("Login is restricted to workspace", Configuration),
            ("Not signed in. Please run 'codex login'", Configuration),
            ("Missing environment variable: `", Configuration),
            ("Codex ran out of room in the model's context window", Request),
            ("agent thread limit reached", Other),
            ("shared rollout token budget exhausted", Other),
            ("You've hit your usage limit", Limit),
        ],
    },
    Client {
        name: "gemini",
        version: "0.61.0",
        in_plain_text: false,
        says: &[
            ("Please set an Auth method", Configuration),
            ("you must specify the GEMINI_API_KEY", Configuration),
            ("When using Vertex AI, you must specify either", Configuration),
            ("Gemini API key is missing or not configured", Configuration),
            ("Please re-authenticate with the correct type", Configuration),
            ("is enforced, but no authentication is configured", Configuration),
            ("Authentication consent could not be obtained", Configuration),
            ("Manual authorization is required but the current session is non-interactive", Configuration),
            ("Could not load the default credentials", Configuration),
            ("was not found or is invalid. /model to switch models", Configuration),
            ("is not available in region", Configuration),
            ("This model is not available for personal accounts", Configuration),
            ("We are currently experiencing high demand", Unavailable),
            ("You have exhausted your daily quota", Limit),
            ("exhausted your capacity on this model", Limit),
            ("Your quota will reset after", Limit),
            ("Usage limit reached for", Limit),
        ],
    },
    Client {
        name: "opencode",
        version: "1.18.33",
        in_plain_text: false,
        says: &[
            ("Model not found:", Configuration),
            ("Provider not found:", Configuration),
            ("API key is missing. Pass it", Configuration),
            ("Re-authenticate with 'opencode auth login", Configuration),
            ("OAuth token has expired and no refresh token is available", Configuration),
            ("Provider is overloaded", Unavailable),
            ("Free usage exceeded", Money),
            ("Usage limit reached. It will reset in", Limit),
        ],
    },
    Client {
        name: "qwen",
        version: "0.24.4",
        in_plain_text: false,
        says: &[
            ("Qwen OAuth free tier has been discontinued", Configuration),
            ("Qwen OAuth credentials expired", Configuration),
            ("Refresh token expired or invalid", Configuration),
            ("OAuth token expired (over", Configuration),
            ("Free allocated quota exceeded", Configuration),
            ("Qwen OAuth quota exceeded:", Limit),
            ("Quota exhausted:", Limit),
        ],
    },
    Client {
        name: "goose",
        version: "0.20.1",
        in_plain_text: false,
        says: &[
            ("Credits exhausted", Configuration),
            ("Please add credits to your account", Configuration),
            ("check your account with your provider to add more credits", Configuration),
            ("Authentication error:", Configuration),
            ("Endpoint not found (404)", Configuration),
            ("Model not found — the model name may be wrong", Configuration),
            ("is not available for provider", Configuration),
            ("Provider API is temporarily overloaded", Unavailable),
            ("No provider configured. Run 'goose configure'", Configuration),
            ("No model configured. Run 'goose configure'", Configuration),
            ("Context length exceeded", Request),
            ("context limit exceeded even after", Request),
            ("Context limit still exceeded after compaction", Request),
        ],
    },
    Client {
        name: "copilot",
        version: "1.0.102",
        in_plain_text: false,
        says: &[
            ("Error: No authentication information found", Configuration),
            ("Authentication failed with provider", Configuration),
            ("rejected the prompt as too long", Request),
            ("exceeded the model's context limit", Request),
            ("Failed to get response from the AI model", Unavailable),
        ],
    },
    Client {
        name: "aider",
        version: "0.86.2",
        in_plain_text: false,
        says: &[
            ("Insufficient credits", Configuration),
            ("Budget has been exceeded", Money),
            ("LLM Provider NOT provided", Configuration),
            ("litellm.NotFoundError", Configuration),
            ("not able to authenticate you. Check your API key", Configuration),
            ("servers are down or overloaded", Unavailable),
        ],
    },
    Client {
        name: "api",
        version: "2026-11",
        in_plain_text: false,
        says: &[
            ("invalid x-api-key", Configuration),
            ("Incorrect API key", Configuration),
            ("API key not valid", Configuration),
            ("API key not found", Configuration),
            ("API key expired", Configuration),
            ("does not exist or you do not have access to it", Configuration),
            ("is not found for API version", Configuration),
            ("model is not supported when using Codex", Configuration),
            ("Insufficient balance", Configuration),
            ("No capacity available for model", Unavailable),
            ("MODEL_CAPACITY_EXHAUSTED", Unavailable),
            ("maximum context length", Request),
            ("context_length_exceeded", Request),
            ("invalid_request_error", Request),
            ("exceeded your current quota", Limit),
            ("insufficient_quota", Limit),
            ("Disk quota exceeded", Other),
            ("Quota exceeded", Limit),
        ],
    },
];

/// Beginnings of the plain text error messages of clients, in addition to the sentences above.
pub const OPENINGS: &[&str] = &["API Error:", "[API Error:", "Ran into this error"];

/// Beginnings of error messages on standard error. Tools write there too, so none of these may be something that a test would print.
pub const ERROR_OPENINGS: &[&str] = &[
    "API Error:",
    "[API Error:",
    "Authentication failed with provider",
    "Error: No authentication information found",
    "Please set an Auth method",
    "When using Gemini API, you must specify the GEMINI_API_KEY",
    "Error: No provider configured. Run 'goose configure'",
    "No provider configured. Run 'goose configure'",
    "--dangerously-skip-permissions cannot be used with root/sudo privileges",
];

/// The meaning of a message, if it contains a known sentence.
pub fn class_of(message: &str) -> Option<Class> {
    let message = plain(message);
    known().find(|(sentence, _)| holds(&message, &plain(sentence))).map(|(_, class)| *class)
}

/// Whether a line of plain text begins with a known sentence about a limit or a configuration error. Only sentences of
/// clients that end their plain text with them count, because the line may also be ordinary text.
pub fn begins_with_a_known_sentence(line: &str) -> bool {
    let line = plain(line);
    let says = CLIENTS.iter().filter(|client| client.in_plain_text).flat_map(|client| client.says);
    says.filter(|(_, class)| matches!(class, Limit | Money | Configuration)).any(|(sentence, _)| {
        let sentence = plain(sentence);
        let first = sentence.split('*').next().unwrap_or_default();
        line.starts_with(first) && holds(&line, &sentence)
    })
}

fn known() -> impl Iterator<Item = &'static (&'static str, Class)> {
    CLIENTS.iter().flat_map(|client| client.says)
}

/// Normalises a text for comparison: lines may be wrapped anywhere, and there are two kinds of apostrophe.
fn plain(text: &str) -> String {
    let text = text.to_lowercase().replace('\u{2019}', "'");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A `*` matches at most this many bytes.
const LONGEST_GAP: usize = 40;

/// Whether the parts of a sentence follow each other closely in a text.
fn holds(text: &str, sentence: &str) -> bool {
    let Some((first, rest)) = sentence.split_once('*') else { return text.contains(sentence) };
    text.match_indices(first).any(|(at, _)| follows(&text[at + first.len()..], rest))
}

fn follows(text: &str, rest: &str) -> bool {
    let (part, more) = rest.split_once('*').map_or((rest, None), |(part, more)| (part, Some(more)));
    let near = text.match_indices(part).take_while(|(at, _)| *at <= LONGEST_GAP && !text[..*at].contains(". "));
    near.map(|(at, _)| &text[at + part.len()..]).any(|behind| more.is_none_or(|more| follows(behind, more)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_sentence_of_the_table_means_what_the_table_says_and_is_there_once_per_client() {
        let mut seen = BTreeSet::new();
        for Client { name, version, says, .. } in CLIENTS {
            assert!(version.starts_with(|c: char| c.is_ascii_digit()), "{name} {version}");
            for (sentence, class) in *says {
                assert!(seen.insert((*name, *sentence)), "{name} says '{sentence}' twice");
                let said = sentence.replace('*', "own");
                let ways = [said.clone(), said.to_uppercase(), said.replace('\'', "\u{2019}"), format!("API Error: {said} · and more.")];
                for way in ways.iter().chain([&said.replace(' ', "\n")]) {
                    assert_eq!(class_of(way), Some(*class), "{name} {version}: {way}");
                }
            }
        }
    }

    #[test]
    fn a_star_matches_only_short_text_within_the_sentence() {
        assert_eq!(class_of("You've hit your Opus limit · resets 3pm"), Some(Limit));
        assert_eq!(class_of("You've hit your head. There is no limit to what can go wrong"), None);
        assert_eq!(class_of(&format!("You've hit your {} limit", "very ".repeat(10))), None);
    }
}
