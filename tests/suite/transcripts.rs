//! What real clients printed, replayed through the readers to its verdict: `tests/transcripts/`, one row of the table each.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use git_ralph::agent::{Format, Heard, Profile, Reader, Said};
use git_ralph::process::Exit;
use git_ralph::run::{Outcome, Verdict, judge};
use jiff::Zoned;

const TABLE: &str = "tests/transcripts/verdicts.tsv";

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str, kind: &str) -> Vec<u8> {
    fs::read(path("tests/transcripts").join(format!("{name}.{kind}"))).unwrap()
}

/// Every recorded run, by the name of its files.
fn names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(path("tests/transcripts"))
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".stdout")?.to_owned()))
        .collect();
    names.sort();
    names
}

/// A client that is asked for another output is read all the same.
fn format(name: &str) -> Format {
    let client = name.split('-').next().unwrap();
    let client = client.strip_suffix("text").or_else(|| client.strip_suffix("json")).unwrap_or(client);
    Profile::of(client).unwrap().format
}

fn exit(name: &str) -> Exit {
    match String::from_utf8(read(name, "code")).unwrap().trim().parse().unwrap() {
        0 => Exit::Success,
        // The recorder ended it because it had not said anything for long.
        signal if signal < 0 && (name.contains("stall") || name.contains("quota") || name.contains("429")) => Exit::Stalled { seconds: 60 },
        signal if signal < 0 => Exit::Signal { signal: -signal },
        code => Exit::Code { code },
    }
}

fn now() -> Zoned {
    "2026-11-16T00:05:00[UTC]".parse().unwrap()
}

fn hear(format: Format, stdout: &[u8], stderr: &[u8], exit: &Exit, piece: usize) -> (Heard, Vec<String>) {
    let mut reader = Reader::new(format);
    let mut said = Vec::new();
    for bytes in stdout.chunks(piece) {
        reader.feed(bytes, &mut |heard| {
            if let Said::Tool { name, target } = heard {
                said.push(format!("{name} {target}"));
            }
        });
    }
    reader.feed_stderr(stderr);
    (reader.finish(exit, &now()), said)
}

fn words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Promised => "complete".to_owned(),
        Verdict::Rejected(Outcome::Limited { resets, .. }) => {
            format!("limited{}", resets.map(|resets| format!(" until {resets}")).unwrap_or_default())
        }
        Verdict::Rejected(Outcome::Failed { reason }) => format!("failed: {reason}"),
        Verdict::Rejected(Outcome::Abnormal { exit, .. }) => format!("abnormal: {}", git_ralph::run::abnormal(exit)),
        Verdict::Rejected(outcome) => {
            let text = serde_json::to_value(outcome).unwrap();
            text["outcome"].as_str().unwrap().to_owned()
        }
    }
}

fn row(name: &str) -> String {
    let exit = exit(name);
    let (heard, said) = hear(format(name), &read(name, "stdout"), &read(name, "stderr"), &exit, 4096);
    let verdict = judge(&heard.signal, &exit, heard.trouble.as_ref());
    let usage = &heard.usage;
    let cost = usage.cost.map(|cost| cost.to_string()).unwrap_or_default();
    format!("{name}\t{}\t{}\t{}\t{}\t{cost}\t{}", format(name).name(), words(&verdict), usage.input, usage.output, said.join("; "))
}

#[test]
fn every_transcript_is_judged_as_the_table_says() {
    let head = "transcript\tformat\tverdict\tinput tokens\toutput tokens\tcost\ttools\n".to_owned();
    let table = names().iter().fold(head, |table, name| table + &row(name).replace('\n', "\\n") + "\n");
    if std::env::var_os("RALPH_BLESS").is_some() {
        fs::write(path(TABLE), &table).unwrap();
    }
    let expected = fs::read_to_string(path(TABLE)).unwrap();
    let wrong: Vec<String> = table.lines().filter(|row| !expected.lines().any(|known| known == *row)).map(str::to_owned).collect();
    assert!(wrong.is_empty() && table == expected, "RALPH_BLESS=1 writes {TABLE} anew:\n{}", wrong.join("\n"));
}

/// What the model was made to say in the recorded cases, whatever the client made of it.
fn model_said(case: &str) -> &'static str {
    match case {
        "success"
        | "bgsleep"
        | "commit"
        | "retry-ok"
        | "appendsys"
        | "appendsysfile"
        | "holdstdin"
        | "nested"
        | "offline"
        | "clean"
        | "gitignore"
        | "success-unknown-model" => "complete",
        "failed" => "failed",
        _ => "nothing",
    }
}

#[test]
fn no_verdict_on_a_real_client_is_false() {
    let mut count: BTreeMap<String, u32> = BTreeMap::new();
    let mut wrong = Vec::new();
    for name in names() {
        let (client, case) = name.split_once('-').unwrap();
        let exit = exit(&name);
        let (heard, _) = hear(format(&name), &read(&name, "stdout"), &read(&name, "stderr"), &exit, 4096);
        let verdict = words(&judge(&heard.signal, &exit, heard.trouble.as_ref()));
        let kind = verdict.split([':', ' ']).next().unwrap().to_owned();
        // One document over many lines is no stream: nothing is believed of it, which is not wrong.
        let unread = client == "geminijson";
        // This client asks again without a stream, and is answered.
        let said = match name.as_str() {
            "claude-drop" => "complete",
            // With a standard input that is never closed these wait for more of it.
            "codex-holdstdin" | "opencode-holdstdin" => "nothing",
            _ => model_said(case),
        };
        let right = match said {
            "complete" => kind == "complete" || unread,
            "failed" => kind == "failed" || unread,
            _ => kind != "complete" && kind != "failed",
        };
        let text = client.ends_with("text") || unread;
        let right = right
            && match case {
                "401" | "400" | "nokey" | "root-refused" | "nologin" => kind == "misconfigured" || text,
                "429" | "429-fast" if !matches!(exit, Exit::Stalled { .. }) => kind == "unavailable",
                "500" | "500-fast" | "529" => kind == "unavailable",
                "429-retry3600" => kind == "limited",
                "quota" | "quota-oauth" if !matches!(exit, Exit::Stalled { .. }) => kind == "limited" || text,
                _ => true,
            };
        if !right {
            wrong.push(format!("{name}: {verdict}"));
        }
        *count.entry(kind).or_default() += 1;
    }
    println!("{} transcripts, false verdicts: {}, {count:?}", count.values().sum::<u32>(), wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count["complete"] > 40 && count["misconfigured"] > 10, "{count:?}");
}

#[test]
fn a_transcript_means_the_same_however_it_is_cut_into_pieces() {
    for name in
        ["claude-success", "codex-retry-ok", "opencode-failed", "gemini-decoy", "goose-401", "copilot-success", "qwen-500", "aider-quota"]
    {
        let (stdout, stderr, exit) = (read(name, "stdout"), read(name, "stderr"), exit(name));
        let whole = hear(format(name), &stdout, &stderr, &exit, usize::MAX).0;
        for piece in [1, 7, 1000] {
            assert_eq!(hear(format(name), &stdout, &stderr, &exit, piece).0, whole, "{name} in pieces of {piece}");
        }
    }
}

#[test]
fn no_transcript_that_is_cut_off_is_a_success_before_its_end() {
    for name in names() {
        if name.split('-').next().unwrap().ends_with("text") || format(&name) == Format::Aider {
            continue;
        }
        let stdout = read(&name, "stdout");
        let lines: Vec<&[u8]> = stdout.split_inclusive(|byte| *byte == b'\n').collect();
        // Without the line in which the client says that it is through, whatever else may follow it.
        let through = |line: &&[u8]| {
            let text = String::from_utf8_lossy(line);
            [r#""type":"result""#, r#""type":"turn.completed""#, r#""reason":"stop""#, r#""type":"complete""#]
                .iter()
                .any(|end| text.contains(end))
        };
        let end = lines.iter().position(through).unwrap_or(lines.len());
        for cut in 0..end {
            let heard = hear(format(&name), &lines[..cut].concat(), b"", &Exit::Success, 4096).0;
            assert_ne!(judge(&heard.signal, &Exit::Success, heard.trouble.as_ref()), Verdict::Promised, "{name} after line {cut}");
        }
    }
}

#[test]
fn a_line_without_end_and_lines_of_garbage_do_not_break_a_reader() {
    for (name, format) in Format::NAMES {
        let stdout = read(&format!("{}-success", if name == "text" { "claudetext" } else { name }), "stdout");
        let mut reader = Reader::new(format);
        for garbage in
            [&b"\xff\xfe{\"type\":\n"[..], b"{\"type\":\"result\",\"is_error\":\n", b"[[[[[[\n", b"null\n{}\n[]\n\n", b"\"text\"\n"]
        {
            reader.feed(garbage, &mut |_| {});
        }
        for _ in 0..300 {
            reader.feed(&[b'x'; 64 * 1024], &mut |_| {});
        }
        reader.feed(b"\n", &mut |_| {});
        reader.feed(&stdout, &mut |_| {});
        let heard = reader.finish(&Exit::Success, &now());
        assert_eq!(judge(&heard.signal, &Exit::Success, heard.trouble.as_ref()), Verdict::Promised, "{name}");
    }
}

/// Reads lines in a format to the kind of verdict.
fn verdict_on(format: Format, stdout: &str, stderr: &str, exit: &Exit) -> String {
    let heard = hear(format, stdout.as_bytes(), stderr.as_bytes(), exit, 64).0;
    let words = words(&judge(&heard.signal, exit, heard.trouble.as_ref()));
    words.split([':', ' ']).next().unwrap().to_owned()
}

const ASSISTANT: &str = r#"{"type":"assistant","message":{"id":"m1","model":"x","content":[{"type":"tool_use","name":"Bash","input":{}}],"usage":{"input_tokens":1000}}}"#;
const RETRY_429: &str = r#"{"type":"system","subtype":"api_retry","error_status":429,"error":"rate_limit"}"#;
const RETRY_401: &str = r#"{"type":"system","subtype":"api_retry","error_status":401,"error":"authentication_failed"}"#;

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn streams_that_are_easily_misread_are_not() {
    let done = r#"Done.\n<promise>COMPLETE</promise>"#;
    let message = format!(r#"{{"type":"item.completed","item":{{"id":"i2","type":"agent_message","text":"{done}"}}}}"#);
    let todo = |event: &str| format!(r#"{{"type":"item.{event}","item":{{"id":"i1","type":"todo_list","items":[]}}}}"#);
    let command = |event: &str| format!(r#"{{"type":"item.{event}","item":{{"id":"i0","type":"command_execution","command":"x"}}}}"#);
    let turn = r#"{"type":"turn.completed","usage":{}}"#;
    let edit = "x\n<<<<<<< SEARCH\n>>>>>>> REPLACE\n<promise>COMPLETE</promise>\nTokens: 1k sent, 1 received.\n";
    let step = |text: &str| {
        format!(
            "{{\"type\":\"step_start\",\"part\":{{}}}}\n{{\"type\":\"text\",\"part\":{{\"text\":\"{text}\"}}}}\n{{\"type\":\"step_finish\",\"part\":{{\"reason\":\"stop\"}}}}\n"
        )
    };
    let overflow = r#"{"type":"error","error":{"name":"ContextOverflowError","data":{"message":"too long"}}}"#;
    let helper = |extra: &str| format!(r#"{{"type":"assistant.message","data":{{"content":"{done}"{extra}}}}}"#);
    let result = |text: &str, more: &str| format!(r#"{{"type":"result","subtype":"success","is_error":{more},"result":"{text}"}}"#);
    let (ok, failed, stalled) = (Exit::Success, Exit::Code { code: 1 }, Exit::Stalled { seconds: 9 });
    let overage = r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1794812201}}"#;
    let table: Vec<(&str, Format, String, &str, &Exit, &str)> = vec![
        (
            "a to-do list closed at the end of a turn",
            Format::Codex,
            [todo("started").as_str(), message.as_str(), todo("completed").as_str(), turn].join("\n"),
            "",
            &ok,
            "complete",
        ),
        (
            "a command closed at the end of a turn",
            Format::Codex,
            [command("started").as_str(), message.as_str(), command("completed").as_str(), turn].join("\n"),
            "",
            &ok,
            "complete",
        ),
        (
            "a command begun after the promise",
            Format::Codex,
            [message.as_str(), command("started").as_str(), command("completed").as_str(), turn].join("\n"),
            "",
            &ok,
            "vanished",
        ),
        (
            "a second reply without a promise",
            Format::Aider,
            format!(
                "{edit}# 1 SEARCH/REPLACE block failed to match!\nThe story is not done.\nTokens: 1k sent, 1 received.\nOnly 3 reflections allowed, stopping.\n"
            ),
            "",
            &ok,
            "vanished",
        ),
        (
            "an edit that could not be made",
            Format::Aider,
            format!("{edit}# 1 SEARCH/REPLACE block failed to match!\n"),
            "",
            &ok,
            "abnormal",
        ),
        (
            "an error after the promise",
            Format::Aider,
            format!("{edit}litellm.AuthenticationError: OpenAIException - invalid key\n"),
            "",
            &ok,
            "misconfigured",
        ),
        ("an answer of aider without its end", Format::Aider, "Aider v0.86.2\n<promise>COMPLETE</promise>\n".into(), "", &ok, "vanished"),
        ("a hang after a hitch that was got over", Format::Claude, [RETRY_429, ASSISTANT].join("\n"), "", &stalled, "abnormal"),
        ("a hang in a hitch", Format::Claude, [ASSISTANT, RETRY_429].join("\n"), "", &stalled, "limited"),
        ("an end after a hitch that was got over", Format::Claude, [RETRY_401, ASSISTANT].join("\n"), "", &failed, "abnormal"),
        (
            "a limit that was got over",
            Format::Claude,
            [overage, ASSISTANT, r#"{"type":"result","subtype":"error_max_turns","is_error":true}"#].join("\n"),
            "",
            &failed,
            "abnormal",
        ),
        ("an error that is worked around", Format::Opencode, format!("{overflow}\n{}", step(done)), "", &ok, "complete"),
        ("an error that is not", Format::Opencode, format!("{}{overflow}\n", step("x")), "", &failed, "abnormal"),
        ("an error at once", Format::Opencode, overflow.to_owned(), "", &failed, "misconfigured"),
        (
            "a conversation gone wrong",
            Format::Claude,
            [ASSISTANT, &result("API Error: 400 due to tool use concurrency issues.", "true")].join("\n"),
            "",
            &failed,
            "abnormal",
        ),
        ("a test that speaks of keys", Format::Codex, String::new(), "running tests\nInvalid API key\nfailed\n", &failed, "abnormal"),
        (
            "a helper's word after the last one",
            Format::Copilot,
            format!("{}\n{}\n{{\"type\":\"result\",\"exitCode\":0}}", helper(""), helper(r#","parentToolCallId":"c""#)),
            "",
            &ok,
            "complete",
        ),
        (
            "a helper's word alone",
            Format::Copilot,
            format!("{}\n{{\"type\":\"result\",\"exitCode\":0}}", helper(r#","parentToolCallId":"c""#)),
            "",
            &ok,
            "vanished",
        ),
        ("the model speaks of a limit", Format::Claude, result("You've hit your limit · resets 3pm", "false"), "", &ok, "vanished"),
        (
            "two results, the last one counts",
            Format::Claude,
            [result(done, "false"), result("More to do.", "false")].join("\n"),
            "",
            &ok,
            "vanished",
        ),
        (
            "a promise in the middle of the work",
            Format::Claude,
            [result(done, "false").as_str(), ASSISTANT].join("\n"),
            "",
            &ok,
            "vanished",
        ),
    ];
    for (name, format, stdout, stderr, exit, expected) in table {
        assert_eq!(verdict_on(format, &stdout, stderr, exit), expected, "{name}");
    }
}

#[test]
fn the_usage_of_a_message_is_counted_once_however_its_parts_are_mixed() {
    let other = ASSISTANT.replace("\"m1\"", "\"m2\"");
    let lines: Vec<&str> = (0..20).map(|n| if n % 2 == 0 { ASSISTANT } else { &other }).collect();
    let heard = hear(Format::Claude, lines.join("\n").as_bytes(), b"", &Exit::Code { code: 1 }, 4096).0;
    assert_eq!(heard.usage.input, 2000);
}
