//! Replays what real clients printed, from `tests/transcripts/`, and compares the verdicts with the table there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use git_ralph::agent::{AgentReport, CLIENTS, Class, Format, PROFILES, Profile, Reader, Said, Trouble};
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

/// The format of the client, even if it was asked for a different output.
fn format(name: &str) -> Format {
    let client = name.split('-').next().unwrap();
    let client = client.strip_suffix("text").or_else(|| client.strip_suffix("json")).unwrap_or(client);
    Profile::of(client).unwrap().format
}

fn exit(name: &str) -> Exit {
    match String::from_utf8(read(name, "code")).unwrap().trim().parse().unwrap() {
        0 => Exit::Success,
        // The recorder ended it because it had printed nothing for too long.
        signal if signal < 0 && (name.contains("stall") || name.contains("quota") || name.contains("429")) => Exit::Stalled { seconds: 60 },
        signal if signal < 0 => Exit::Signal { signal: -signal },
        code => Exit::Code { code },
    }
}

fn now() -> Zoned {
    "2026-11-16T00:05:00[UTC]".parse().unwrap()
}

fn hear(format: Format, stdout: &[u8], stderr: &[u8], exit: &Exit, piece: usize) -> (AgentReport, Vec<String>) {
    let mut reader = Reader::new(format);
    let mut said = Vec::new();
    for bytes in stdout.chunks(piece) {
        reader.feed(bytes, &mut |seen| {
            if let Said::Tool { name, target } = seen {
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
    let (report, said) = hear(format(name), &read(name, "stdout"), &read(name, "stderr"), &exit, 4096);
    let verdict = judge(&report.signal, &exit, report.trouble.as_ref(), &report.words);
    let usage = &report.usage;
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

/// What the model said in the recorded cases, whatever the client made of it.
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
        let (report, _) = hear(format(&name), &read(&name, "stdout"), &read(&name, "stderr"), &exit, 4096);
        let verdict = words(&judge(&report.signal, &exit, report.trouble.as_ref(), &report.words));
        let kind = verdict.split([':', ' ']).next().unwrap().to_owned();
        // One JSON document over many lines is not a stream; git-ralph finds no promise in it, which is correct.
        let unread = client == "geminijson";
        // This client repeats the request without a stream, and gets an answer.
        let said = match name.as_str() {
            "claude-drop" => "complete",
            // These wait for more input if their standard input is never closed.
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
        // Cuts off the line in which the client reports its end, and everything after it.
        let through = |line: &&[u8]| {
            let text = String::from_utf8_lossy(line);
            [r#""type":"result""#, r#""type":"turn.completed""#, r#""reason":"stop""#, r#""type":"complete""#]
                .iter()
                .any(|end| text.contains(end))
        };
        let end = lines.iter().position(through).unwrap_or(lines.len());
        for cut in 0..end {
            let report = hear(format(&name), &lines[..cut].concat(), b"", &Exit::Success, 4096).0;
            assert_ne!(
                judge(&report.signal, &Exit::Success, report.trouble.as_ref(), &report.words),
                Verdict::Promised,
                "{name} after line {cut}"
            );
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
        let report = reader.finish(&Exit::Success, &now());
        assert_eq!(judge(&report.signal, &Exit::Success, report.trouble.as_ref(), &report.words), Verdict::Promised, "{name}");
    }
}

/// Reads lines in a format and returns the kind of verdict.
fn verdict_on(format: Format, stdout: &str, stderr: &str, exit: &Exit) -> String {
    let report = hear(format, stdout.as_bytes(), stderr.as_bytes(), exit, 64).0;
    let words = words(&judge(&report.signal, exit, report.trouble.as_ref(), &report.words));
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

/// Builds lines of several clients from the text of a message.
mod made {
    pub fn claude(text: &str, more: &str) -> String {
        format!(r#"{{"type":"result","subtype":"success","is_error":false,"result":"{text}"{more}}}"#)
    }

    pub fn codex(text: &str) -> String {
        format!(r#"{{"type":"item.completed","item":{{"id":"m","type":"agent_message","text":"{text}"}}}}"#)
    }

    pub fn command(event: &str, id: &str) -> String {
        format!(r#"{{"type":"item.{event}","item":{{"id":"{id}","type":"command_execution","command":"x"}}}}"#)
    }

    pub fn opencode(session: &str, text: &str) -> String {
        let line = |kind: &str, part: &str| format!(r#"{{"type":"{kind}","sessionID":"{session}","part":{{{part}}}}}"#);
        [line("step_start", ""), line("text", &format!(r#""text":"{text}""#)), line("step_finish", r#""reason":"stop""#)].join("\n")
    }

    pub fn copilot(kind: &str, data: &str, agent: &str) -> String {
        format!(r#"{{"type":"{kind}","data":{{{data}}}{agent}}}"#)
    }

    pub fn gemini(text: &str) -> String {
        format!(r#"{{"type":"message","role":"assistant","content":"{text}","delta":true}}"#)
    }
}

const TURN: &str = r#"{"type":"turn.completed","usage":{}}"#;
const RESULT: &str = r#"{"type":"result","status":"success","exitCode":0}"#;
const DONE: &str = r"Done.\n<promise>COMPLETE</promise>";

#[expect(clippy::too_many_lines, reason = "a table")]
#[test]
fn the_words_of_helpers_tools_and_warnings_are_not_the_final_message() {
    let (ok, failed) = (Exit::Success, Exit::Code { code: 1 });
    let lines = |lines: &[&str]| lines.join("\n");
    let said = |text: &str| format!(r#""content":"{text}""#);
    let helper = r#","agentId":"a1""#;
    let system = r#"{"type":"system","subtype":"init","session_id":"s1"}"#;
    let warning = r#"{"type":"error","severity":"warning","message":"careful"}"#;
    let late = r#"{"type":"assistant","parent_tool_use_id":"t1","message":{"id":"h","content":[{"type":"text","text":"still at it"}]}}"#;
    let late_tool = r#"{"type":"user","parent_tool_use_id":"t1","message":{"content":[{"type":"tool_result","content":"x"}]}}"#;
    let tokens = "Tokens: 1k sent, 1 received.\n";
    let blanks = " ".repeat(1100);
    let main = made::opencode("s1", DONE);
    let table: Vec<(&str, Format, String, &Exit, &str)> = vec![
        (
            "a helper of copilot speaks last",
            Format::Copilot,
            lines(&[
                &made::copilot("assistant.message", &said("Not done."), ""),
                &made::copilot("assistant.message", &said(DONE), helper),
                RESULT,
            ]),
            &ok,
            "vanished",
        ),
        (
            "a helper of copilot speaks, works and errs after the last word",
            Format::Copilot,
            lines(&[
                &made::copilot("assistant.message", &said(DONE), ""),
                &made::copilot("assistant.turn_start", "", helper),
                &made::copilot("tool.execution_start", r#""toolName":"x""#, helper),
                &made::copilot("assistant.message", &said("more"), helper),
                &made::copilot("session.error", r#""message":"x""#, helper),
                RESULT,
            ]),
            &ok,
            "complete",
        ),
        (
            "a helper of opencode says that it is done",
            Format::Opencode,
            lines(&[&made::opencode("s1", "On it."), &made::opencode("s2", DONE)]),
            &ok,
            "vanished",
        ),
        ("a helper of opencode goes on", Format::Opencode, lines(&[&main, &made::opencode("s2", "more")]), &ok, "complete"),
        (
            "a command that ends after the message and was never begun",
            Format::Codex,
            lines(&[&made::codex(DONE), &made::command("completed", "c"), TURN]),
            &ok,
            "vanished",
        ),
        (
            "a command without an id",
            Format::Codex,
            lines(&[&made::codex(DONE), r#"{"type":"item.completed","item":{"type":"mcp_tool_call"}}"#, TURN]),
            &ok,
            "vanished",
        ),
        (
            "a command of an earlier turn by the same id",
            Format::Codex,
            lines(&[
                &made::command("started", "c"),
                TURN,
                r#"{"type":"turn.started"}"#,
                &made::codex(DONE),
                &made::command("completed", "c"),
                TURN,
            ]),
            &ok,
            "vanished",
        ),
        (
            "the message of another thread",
            Format::Codex,
            lines(&[&made::codex(DONE), r#"{"type":"thread.started","thread_id":"2"}"#, TURN]),
            &ok,
            "vanished",
        ),
        (
            "a warning that isolates the tag",
            Format::Gemini,
            lines(&[&made::gemini("Not yet "), warning, &made::gemini("<promise>COMPLETE</promise>"), RESULT]),
            &ok,
            "vanished",
        ),
        (
            "a warning that splits the tag",
            Format::Gemini,
            lines(&[&made::gemini(r"Done.\n<promise>COMP"), warning, &made::gemini("LETE</promise>"), RESULT]),
            &ok,
            "complete",
        ),
        ("a helper of claude after the result", Format::Claude, lines(&[&made::claude(DONE, ""), late, late_tool]), &ok, "complete"),
        (
            "the result of a helper of claude",
            Format::Claude,
            lines(&[system, &made::claude(DONE, r#","parent_tool_use_id":"t1""#)]),
            &ok,
            "vanished",
        ),
        (
            "the result of another session",
            Format::Claude,
            lines(&[system, &made::claude("Not done.", r#","session_id":"s1""#), &made::claude(DONE, r#","session_id":"s2""#)]),
            &ok,
            "vanished",
        ),
        (
            "bytes before the result",
            Format::Claude,
            lines(&[system, &format!("{{warning}} \u{1b}[0m{}", made::claude(DONE, ""))]).replace("{warning}", "careful"),
            &ok,
            "complete",
        ),
        (
            "bytes before another message",
            Format::Codex,
            lines(&[&made::codex(DONE), &format!("careful {}", made::codex("Not done.")), TURN]),
            &ok,
            "vanished",
        ),
        (
            "a line that is damaged, with a whole object at its end",
            Format::Claude,
            lines(&[system, &format!("{{\"type\":\"user\",\"x\":{}", made::claude(DONE, ""))]),
            &ok,
            "vanished",
        ),
        ("a reply in source", Format::Aider, format!("Aider v1\n<source>\n<promise>COMPLETE</promise>\n{tokens}"), &ok, "vanished"),
        (
            "a test that prints the tag between two replies",
            Format::Aider,
            format!("Aider v1\nDone so far.\n{tokens}test\n<promise>COMPLETE</promise>\nIt is red, sorry.\n{tokens}"),
            &ok,
            "vanished",
        ),
        (
            "a line that is longer than a screen",
            Format::Aider,
            format!("Aider v1\n<promise>COMPLETE</promise>{blanks}would be a lie\n{tokens}"),
            &ok,
            "vanished",
        ),
        ("aider after a red reply", Format::Aider, format!("Aider v1\n- FAILED\n<promise>COMPLETE</promise>\n{tokens}"), &ok, "failed"),
        ("a client that closed its message and exits 1", Format::Claude, made::claude(DONE, ""), &failed, "complete"),
    ];
    for (name, format, stdout, exit, expected) in table {
        assert_eq!(verdict_on(format, &stdout, "", exit), expected, "{name}");
    }
}

#[test]
fn a_result_is_read_however_long_its_line_is_and_unreadable_lines_count_as_work() {
    let long = "x".repeat(3 * 1024 * 1024);
    let longer = "x".repeat(9 * 1024 * 1024);
    let tool = |text: &str| format!(r#"{{"type":"user","message":{{"content":"{text}"}}}}"#);
    let table = [
        ("a long result", made::claude(&format!(r"{long}\n{DONE}"), ""), "complete"),
        ("a long member", made::claude(DONE, &format!(r#","denials":"{long}""#)), "complete"),
        ("a long tool result before it", format!("{ASSISTANT}\n{}\n{}", tool(&longer), made::claude(DONE, "")), "complete"),
        ("a long tool result after it", format!("{}\n{}", made::claude(DONE, ""), tool(&long)), "vanished"),
        ("a line that is too long after it", format!("{}\n{}", made::claude(DONE, ""), made::claude(&longer, "")), "vanished"),
    ];
    for (name, stdout, expected) in table {
        for piece in [64 * 1024, usize::MAX] {
            let report = hear(Format::Claude, stdout.as_bytes(), b"", &Exit::Success, piece).0;
            let verdict = words(&judge(&report.signal, &Exit::Success, report.trouble.as_ref(), &report.words));
            assert_eq!(verdict, expected, "{name}, in pieces of {piece}");
        }
    }
}

#[test]
fn the_promise_of_a_plain_command_counts_if_it_ends_the_output_and_the_command_succeeds() {
    let (ok, failed, killed) = (Exit::Success, Exit::Code { code: 1 }, Exit::Code { code: 137 });
    let tag = "<promise>COMPLETE</promise>";
    let table: Vec<(&str, String, &Exit, &str)> = vec![
        ("the tag at the end", format!("work\n{tag}\n"), &ok, "complete"),
        ("lingering after it", format!("work\n{tag}"), &Exit::Lingered, "complete"),
        ("documents that were printed", format!("$ cat docs/ralph.md\nsay\n{tag}\nwhen done\nNow I begin.\n"), &ok, "vanished"),
        ("an answer that goes on", format!("{tag}\nThe work is not finished.\n"), &ok, "vanished"),
        ("a traceback and exit 1", format!("{tag}\nTraceback (most recent call last):\n"), &failed, "abnormal"),
        ("exit 1 after it", format!("{tag}\n"), &failed, "abnormal"),
        ("killed behind a shell", format!("{tag}\n"), &killed, "abnormal"),
        ("failed and exit 1", "<promise>FAILED: red</promise>\n".to_owned(), &failed, "failed"),
        ("blocked", "<promise>blocked: a key</promise>\n".to_owned(), &ok, "blocked"),
        ("a question", "Shall I use tabs or blanks?\n".to_owned(), &ok, "vanished"),
    ];
    for (name, stdout, exit, expected) in &table {
        for format in [Format::Text, Format::Codex] {
            assert_eq!(verdict_on(format, stdout, "", exit), *expected, "{name}, {}", format.name());
        }
    }
    for (format, stdout) in [(Format::Claude, made::claude(DONE, "")), (Format::Codex, format!("{}\n{TURN}", made::codex(DONE)))] {
        assert_eq!(verdict_on(format, &stdout, "", &killed), "abnormal", "killed behind a shell, {}", format.name());
    }
}

/// Each case is a text around a tag, and whether the message counts as a success.
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn no_message_of_any_client_that_takes_its_promise_back_is_a_success() {
    let tag = "<promise>COMPLETE</promise>";
    let doubts = [
        format!("{tag}\nbut 3 tests are still red"),
        format!("{tag}\n\nVerdict: <promise>FAILED: red</promise>"),
        format!("Verdict: <promise>FAILED…\n{tag}"),
        format!("- FAILED\n{tag}"),
        format!("{tag}\n- FAILED"),
        format!("**FAILED**\n\n{tag}"),
        format!("<promise>failed: red</promise>\n{tag}"),
        format!("<promise>Blocked: a key</promise>\n{tag}"),
        format!("<!--\n{tag}\n-->"),
        format!("<!--\n{tag}"),
        format!("> {tag}"),
        format!("```md\n```sh\nx\n```\n{tag}\n```"),
        format!("```md\n```sh\nx\n```\n{tag}"),
        format!("<think>\n{tag}"),
        format!("<think>\n{tag}\n</think>\nNot yet."),
        format!("{tag}{}really?", " ".repeat(40_000)),
        format!("~~{tag}~~"),
        format!("All stories are implemented.\n\nTests: FAILED\n\n{tag}"),
        format!("- **Build:** failed\n{tag}"),
        format!("FAILED\n{tag}"),
        format!("Verdict: FAILED\n{tag}"),
        format!("2 tests FAILED\n{tag}"),
        format!("| check | result |\n|---|---|\n| tests | FAILED |\n\n{tag}"),
    ];
    let honest = [
        "0 tests FAILED",
        "Fixed the FAILED test",
        "Tests before the fix: FAILED",
        "3 tests failed before, all pass now.",
        "Jobs in state FAILED or BLOCKED are shown.",
        "- passed: 12\n- failed: 0",
        "Port 22: blocked",
    ];
    let mut oks: Vec<String> = honest.iter().map(|words| format!("{words}\n\n{tag}")).collect();
    oks.extend([
        format!("**{tag}**"),
        format!("- {tag}"),
        format!("\u{200b}{tag}\u{200b}"),
        format!("`{tag}`."),
        format!("x\n\n{tag}\n\n"),
    ]);
    let (mut accepted, mut rejected) = (Vec::new(), Vec::new());
    let messages = doubts.iter().map(|text| (text, false)).chain(oks.iter().map(|text| (text, true)));
    for (text, success) in messages {
        let json = serde_json::to_string(text).unwrap();
        let json = &json[1..json.len() - 1];
        let streams = [
            (Format::Text, text.clone()),
            (Format::Aider, format!("Aider v1\n{text}\nTokens: 1k sent, 1 received.\n")),
            (Format::Claude, made::claude(json, "")),
            (Format::Codex, format!("{}\n{TURN}", made::codex(json))),
            (Format::Opencode, made::opencode("s", json)),
            (Format::Gemini, format!("{}\n{RESULT}", made::gemini(json))),
            (
                Format::Goose,
                format!(
                    r#"{{"type":"message","message":{{"id":"m","role":"assistant","content":[{{"type":"text","text":"{json}"}}]}}}}
{{"type":"complete","total_tokens":1}}"#
                ),
            ),
            (Format::Copilot, format!("{}\n{RESULT}", made::copilot("assistant.message", &format!(r#""content":"{json}""#), ""))),
        ];
        for (format, stdout) in streams {
            let verdict = verdict_on(format, &stdout, "", &Exit::Success);
            if (verdict == "complete") != success {
                let row = format!("{}: {verdict}: {}", format.name(), &text[..text.floor_char_boundary(80)]);
                if success { rejected.push(row) } else { accepted.push(row) }
            }
        }
    }
    println!("false COMPLETE: {}, false rejections: {}", accepted.len(), rejected.len());
    assert!(accepted.is_empty() && rejected.is_empty(), "accepted: {accepted:#?}\nrejected: {rejected:#?}");
}

#[test]
fn the_last_words_of_an_agent_without_a_promise_are_known() {
    let question = r"I have two ways.\n\nShall I go on?";
    let streams = [
        (Format::Text, "working\nI have two ways.\n\nShall I go on?".to_owned()),
        (Format::Claude, made::claude(question, "")),
        (Format::Codex, format!("{}\n{TURN}", made::codex(question))),
        (Format::Opencode, made::opencode("s", question)),
        (Format::Aider, "Aider v1\nI have two ways.\nShall I go on?\nTokens: 1 sent, 1 received.\nApplied edit to x\n".to_owned()),
    ];
    for (format, stdout) in streams {
        let words = hear(format, stdout.as_bytes(), b"", &Exit::Success, 64).0.words;
        assert!(words.ends_with("I have two ways.\nShall I go on?"), "{}: {words}", format.name());
    }
}

#[test]
fn the_usage_of_a_message_is_counted_once_however_its_parts_are_mixed() {
    let other = ASSISTANT.replace("\"m1\"", "\"m2\"");
    let lines: Vec<&str> = (0..20).map(|n| if n % 2 == 0 { ASSISTANT } else { &other }).collect();
    let report = hear(Format::Claude, lines.join("\n").as_bytes(), b"", &Exit::Code { code: 1 }, 4096).0;
    assert_eq!(report.usage.input, 2000);
}

/// The lines that a client of the format prints when it gives up with this message.
fn gives_up(format: Format, message: &str) -> String {
    let quoted = serde_json::to_string(message).unwrap();
    match format {
        Format::Text => message.to_owned(),
        Format::Aider => format!("Aider v1\n{}{message}\n", if message.starts_with("litellm.") { "" } else { "litellm.APIError: " }),
        Format::Claude => format!(r#"{{"type":"result","subtype":"success","is_error":true,"result":{quoted}}}"#),
        Format::Codex => format!(r#"{{"type":"turn.failed","error":{{"message":{quoted}}}}}"#),
        Format::Opencode => format!(r#"{{"type":"error","error":{{"name":"UnknownError","data":{{"message":{quoted}}}}}}}"#),
        Format::Gemini => format!(r#"{{"type":"result","status":"error","error":{{"message":{quoted}}}}}"#),
        Format::Goose => format!(r#"{{"type":"error","error":{quoted}}}"#),
        Format::Copilot => format!(r#"{{"type":"session.error","data":{{"message":{quoted}}}}}"#),
    }
}

#[test]
fn a_client_that_only_mentions_a_limit_is_not_waited_for_and_a_misconfigured_one_costs_no_retries() {
    let messages = [
        ("API Error: Server is temporarily limiting requests (not your usage limit)", "unavailable"),
        ("Selected model is at capacity. Please try a different model.", "unavailable"),
        ("Opus is experiencing high load, please use /model to switch to Sonnet", "unavailable"),
        ("agent thread limit reached", "abnormal"),
        ("connection limit reached", "unavailable"),
        ("maximum turn limit reached", "abnormal"),
        ("image limit reached", "abnormal"),
        ("Context limit reached · /compact or /clear to continue", "misconfigured"),
        ("Login expired · Please run /login", "misconfigured"),
        ("Your organization has disabled Claude subscription access for Claude Code", "misconfigured"),
        ("Usage is paused for your organization. For help, please contact support.", "misconfigured"),
        ("Your workspace is out of credits. Add credits to continue.", "misconfigured"),
        ("You hit your spend cap set by the owner of your workspace.", "misconfigured"),
        ("You\u{2019}ve hit your team's shared budget. /model to switch models.", "misconfigured"),
        ("Model not found: anthropic/claude-nope. Did you mean: claude-opus?", "misconfigured"),
        ("Your access token could not be refreshed. Please log out and sign in again.", "misconfigured"),
        ("OpenAI API key is missing. Pass it using the 'apiKey' parameter.", "misconfigured"),
        ("You\u{2019}ve hit your usage limit. Try again at 3:00 PM.", "limited"),
        ("You've hit your Opus limit · resets Nov 20, 8am (Europe/Paris)", "limited"),
        ("Usage limit reached. It will reset in 2 hours 5 minutes.", "limited"),
    ];
    let structured = Format::NAMES.iter().filter(|(name, format)| *name == format.name() && format.is_structured());
    let mut wrong = Vec::new();
    for (name, format) in structured {
        for (message, expected) in messages {
            let verdict = verdict_on(*format, &gives_up(*format, message), "", &Exit::Code { code: 1 });
            if verdict != expected {
                wrong.push(format!("{name}: {message}: {verdict} instead of {expected}"));
            }
        }
    }
    // This client reports these errors by name, with any message.
    for name in ["ProviderAuthError", "ProviderModelNotFoundError"] {
        let line = gives_up(Format::Opencode, "it did not work").replace("UnknownError", name);
        assert_eq!(verdict_on(Format::Opencode, &line, "", &Exit::Code { code: 1 }), "misconfigured", "{name}");
    }
    let false_limits = wrong.iter().filter(|row| row.contains(": limited instead")).count();
    println!("false limits: {false_limits}, false verdicts: {}", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every sentence of the table, in the format of the client that prints it; those of model providers in every format.
#[test]
fn every_sentence_of_the_table_is_judged_by_its_class_when_its_own_client_gives_up_with_it() {
    let (mut wrong, mut judged) = (Vec::new(), 0);
    for client in CLIENTS {
        for Profile { name, format, .. } in PROFILES.iter().filter(|profile| client.name == "api" || client.name == profile.name) {
            for (sentence, class) in client.says {
                let expected = match class {
                    Class::Limit => "limited",
                    Class::Money | Class::Configuration | Class::Request => "misconfigured",
                    Class::Unavailable => "unavailable",
                    Class::Other => "abnormal",
                };
                let verdict = verdict_on(*format, &gives_up(*format, &sentence.replace('*', "own")), "", &Exit::Code { code: 1 });
                judged += 1;
                if verdict != expected {
                    wrong.push(format!("{name} {}: {sentence}: {verdict} instead of {expected}", client.version));
                }
            }
        }
    }
    println!("sentences judged: {judged}, wrong: {}", wrong.len());
    assert!(judged > CLIENTS.iter().map(|client| client.says.len()).sum::<usize>() && wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What can go wrong on the side of an account or a model has a sentence of every client that has one.
#[test]
fn every_client_has_its_sentence_for_a_login_a_model_credits_and_load() {
    let table: &[(&str, &str, &str)] = &[
        ("claude", "Login expired · Please run /login", "misconfigured"),
        ("claude", "Your organization has disabled Claude subscription access", "misconfigured"),
        ("claude", "Usage is paused for your organization. For help, contact support.", "misconfigured"),
        ("claude", "You're out of usage credits. /model to switch models.", "misconfigured"),
        ("claude", "You've hit your org's monthly spend limit", "misconfigured"),
        ("claude", "You've hit your team's shared budget. /model to switch models.", "misconfigured"),
        ("claude", "There's an issue with the selected model (x). It may not exist or you may not have access to it.", "misconfigured"),
        ("claude", "AWS authentication failed · run aws sso login", "misconfigured"),
        ("claude", "The API is at capacity", "unavailable"),
        ("claude", "Opus is experiencing high load, please use /model to switch to Sonnet", "unavailable"),
        ("codex", "Your access token could not be refreshed because your refresh token was revoked.", "misconfigured"),
        ("codex", "You're out of credits. Add credits to continue.", "misconfigured"),
        ("codex", "Your workspace is out of credits. Add credits to continue.", "misconfigured"),
        ("codex", "You hit your spend cap set in your workspace.", "misconfigured"),
        ("codex", "The 'x' model is not supported when using Codex with a ChatGPT account.", "misconfigured"),
        ("codex", "Your session has expired. Please reauthenticate.", "misconfigured"),
        ("codex", "Selected model is at capacity. Please try a different model.", "unavailable"),
        ("codex", "Codex is currently experiencing high load.", "unavailable"),
        ("gemini", "Please re-authenticate with the correct type.", "misconfigured"),
        ("gemini", "Model \"x\" was not found or is invalid. /model to switch models.", "misconfigured"),
        ("gemini", "This model is not available for personal accounts.", "misconfigured"),
        ("gemini", "We are currently experiencing high demand.", "unavailable"),
        ("opencode", "Model not found: a/b. Did you mean: c?", "misconfigured"),
        ("opencode", "Provider not found: a", "misconfigured"),
        ("opencode", "OAuth token has expired and no refresh token is available", "misconfigured"),
        ("opencode", "Free usage exceeded, add credits", "misconfigured"),
        ("opencode", "Provider is overloaded", "unavailable"),
        ("qwen", "Qwen OAuth credentials expired. Please use /auth to re-authenticate with qwen-oauth.", "misconfigured"),
        ("qwen", "Free allocated quota exceeded.", "misconfigured"),
        ("goose", "Credits exhausted", "misconfigured"),
        ("goose", "Authentication error: no key", "misconfigured"),
        ("goose", "Model 'x' is not available for provider 'y'", "misconfigured"),
        ("goose", "Vertex AI Provider API is temporarily overloaded.", "unavailable"),
        ("copilot", "Authentication failed with provider x", "misconfigured"),
        ("copilot", "Failed to get response from the AI model", "unavailable"),
        ("aider", "litellm.NotFoundError: OpenAIException - no such model", "misconfigured"),
        ("aider", "litellm.BudgetExceededError: Budget has been exceeded! Current cost: 2, Max budget: 1", "misconfigured"),
        (
            "aider",
            "litellm.AuthenticationError: no key\nThe API provider is not able to authenticate you. Check your API key.",
            "misconfigured",
        ),
        ("aider", "litellm.APIError: APIError: Insufficient credits. Add more", "misconfigured"),
        ("aider", "litellm.ServiceUnavailableError: x\nThe API provider's servers are down or overloaded.", "unavailable"),
        ("aider", "litellm.BadRequestError: LLM Provider NOT provided.", "misconfigured"),
    ];
    for (client, message, expected) in table {
        let format = Profile::of(client).unwrap().format;
        assert_eq!(verdict_on(format, &gives_up(format, message), "", &Exit::Code { code: 1 }), *expected, "{client}: {message}");
    }
}

/// The forms in which clients have been seen to give a reset, on machines in two zones.
#[test]
fn every_form_of_a_reset_time_is_understood_wherever_the_machine_is() {
    let here = ["2026-11-16T07:00:00[America/New_York]", "2026-11-16T21:00:00[Asia/Tokyo]"];
    let table = [
        ("15:00 UTC", ["2026-11-16T15:00:00Z"; 2]),
        ("15:00 GMT+9", ["2026-11-17T06:00:00Z"; 2]),
        ("15:00 CET", ["2026-11-16T14:00:00Z"; 2]),
        ("3am Europe/Berlin", ["2026-11-17T02:00:00Z"; 2]),
        ("Dec 1", ["2026-12-01T05:00:00Z", "2026-11-30T15:00:00Z"]),
        ("5pm (PST)", ["2026-11-17T01:00:00Z"; 2]),
        ("5:00 PM PST", ["2026-11-17T01:00:00Z"; 2]),
        ("tomorrow at 3pm", ["2026-11-17T20:00:00Z", "2026-11-17T06:00:00Z"]),
        ("Mon 3am", ["2026-11-23T08:00:00Z", "2026-11-22T18:00:00Z"]),
        ("Thursday, 3am (UTC)", ["2026-11-19T03:00:00Z"; 2]),
        ("2026-11-20", ["2026-11-20T05:00:00Z", "2026-11-19T15:00:00Z"]),
        ("20 Nov 2026, 03:00", ["2026-11-20T08:00:00Z", "2026-11-19T18:00:00Z"]),
        ("at 1794900000", ["2026-11-17T07:20:00Z"; 2]),
    ];
    for (words, expected) in table {
        for (now, expected) in here.iter().zip(expected) {
            for format in [Format::Claude, Format::Codex, Format::Opencode, Format::Goose] {
                let mut reader = Reader::new(format);
                reader.feed(gives_up(format, &format!("You've hit your limit · resets {words}")).as_bytes(), &mut |_| {});
                let report = reader.finish(&Exit::Code { code: 1 }, &now.parse().unwrap());
                let Some(Trouble::Limit { resets: Some(resets), .. }) = report.trouble else { panic!("{words}: {:?}", report.trouble) };
                assert_eq!(resets.to_string(), expected, "{words}, {now}, {}", format.name());
            }
        }
    }
}

#[test]
fn a_reset_is_the_same_moment_wherever_the_machine_is() {
    let moments = ["2026-11-17T19:30:00[America/New_York]", "2026-11-18T09:30:00[Asia/Tokyo]", "2026-11-18T00:30:00[UTC]"];
    for (words, expected) in [
        ("15:00 UTC", Some("2026-11-18T15:00:00Z")),
        ("15:00 GMT+9", Some("2026-11-18T06:00:00Z")),
        ("15:00 CET", Some("2026-11-18T14:00:00Z")),
        ("3am Europe/Berlin", Some("2026-11-18T02:00:00Z")),
        ("5pm (PST)", Some("2026-11-18T01:00:00Z")),
        ("Thursday, 3am (UTC)", Some("2026-11-19T03:00:00Z")),
        ("at 1795000000", Some("2026-11-18T11:06:40Z")),
        ("15:00 XYZ", None),
        ("when the moon is full", None),
    ] {
        for now in moments {
            let mut reader = Reader::new(Format::Claude);
            let line = gives_up(Format::Claude, &format!("You've hit your limit · resets {words}"));
            reader.feed(line.as_bytes(), &mut |_| {});
            let report = reader.finish(&Exit::Code { code: 1 }, &now.parse().unwrap());
            let Some(Trouble::Limit { resets, .. }) = report.trouble else { panic!("{words}: {:?}", report.trouble) };
            assert_eq!(resets.map(|reset| reset.to_string()).as_deref(), expected, "{words}, {now}");
        }
    }
}

/// If another version of a client is tested, the table must be read from that version again.
#[test]
fn the_table_of_sentences_is_of_the_versions_that_the_real_agents_are_tried_in() {
    let script = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real-agents")).unwrap();
    for profile in PROFILES {
        let read = CLIENTS.iter().filter(|client| client.name == profile.name).map(|client| client.version);
        let pinned = |version: &str| script.contains(&format!("@{version}\"")) || script.contains(&format!("=={version}\""));
        assert!(read.clone().any(pinned), "{}: {:?} is not pinned in tests/real-agents", profile.name, read.collect::<Vec<_>>());
    }
}
