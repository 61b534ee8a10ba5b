//! Generates arbitrary events, change files and agent output for the property tests.

use git_ralph::agent::{Signal, Trouble, Usage};
use git_ralph::config::{AgentChoice, Finish, Flags, KEYS, Key};
use git_ralph::cost::Cost;
use git_ralph::git::{Head, Oid};
use git_ralph::process::Exit;
use git_ralph::run::{
    Budget, Conditions, Defeat, DefeatCause, Edits, End, Event, Gates, Opening, Outcome, Outline, SettingUsed, StopKind, Why,
};
use git_ralph::story::{ChangeName, StoryId};
use git_ralph::workspace::Notice;
use jiff::Timestamp;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

/// Any text, often with characters that are difficult in a line-based file.
pub fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[a-z \"\\\\\n\r\t{}<>\u{0}\u{1b}ä…]{0,20}"]
}

/// A story id, often with characters that must be escaped in a ref.
pub fn story_id() -> impl Strategy<Value = StoryId> {
    let text = prop_oneof!["[a-c]", r"[-.%/@{}~^:\\*\[ 2Ea]{1,8}", r"[a.]{0,3}\.lock", r"\PC{1,12}"];
    text.prop_filter_map("a valid story id", |id| id.parse().ok())
}

/// A number, often at its limit.
fn number<T: Arbitrary + Copy>(limit: T) -> impl Strategy<Value = T> {
    prop_oneof![3 => any::<T>(), 1 => Just(limit)]
}

fn oid() -> impl Strategy<Value = Oid> {
    prop_oneof!["[0-9a-f]{40}", "[0-9a-f]{64}"].prop_map(|text| text.parse().unwrap())
}

fn change_name() -> impl Strategy<Value = ChangeName> {
    "[a-z][a-z0-9_-]{0,9}".prop_map(|name| name.parse().unwrap())
}

fn finish() -> impl Strategy<Value = Finish> {
    prop_oneof![Just(Finish::Ask), Just(Finish::Cleanup), Just(Finish::Keep)]
}

fn cost() -> impl Strategy<Value = Cost> {
    (0..1_000_000_000_u32).prop_map(|micros| Cost::dollars(f64::from(micros) / 1e6).unwrap())
}

fn usage() -> impl Strategy<Value = Usage> {
    (number(u64::MAX), number(u64::MAX), number(u64::MAX), option::of(any::<u64>()), option::of(cost()))
        .prop_map(|(input, cached, output, turns, cost)| Usage { input, cached, output, turns, cost })
}

fn time() -> impl Strategy<Value = Timestamp> {
    (0..4_000_000_000_i64).prop_map(|seconds| Timestamp::from_second(seconds).unwrap())
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        text().prop_map(|message| Trouble::Configuration { message }),
        (text(), option::of(time())).prop_map(|(message, resets)| Trouble::Limit { message, resets }),
        text().prop_map(|message| Trouble::Unavailable { message }),
        text().prop_map(|message| Trouble::Other { message }),
    ]
}

/// A value for an option, sometimes random text. The table of settings decides which texts are valid.
fn option_value(key: &'static Key) -> impl Strategy<Value = String> {
    let common = ["0", "1", "3000000000", "90s", "1h 30m", "0.017", "500k", "make test"].into_iter();
    let values: Vec<String> = common.chain(key.words.iter().map(|(word, _)| *word)).map(str::to_owned).collect();
    let values: Vec<String> = values.into_iter().filter(|value| key.check_option(value).is_ok()).collect();
    let otherwise = values[0].clone();
    let random = prop_oneof![text(), any::<u64>().prop_map(|number| number.to_string())];
    prop_oneof![
        proptest::sample::select(values),
        random.prop_map(move |text| if key.check_option(&text).is_ok() { text } else { otherwise.clone() })
    ]
}

fn flags() -> impl Strategy<Value = Flags> {
    let options = KEYS.iter().filter(|key| key.option.is_some());
    let given: Vec<_> = options.map(|key| option::of(vec(option_value(key), 1..3)).prop_map(|values| (key.id, values))).collect();
    (given, option::of(vec(text(), 1..3)), vec(text(), 0..3)).prop_map(|(given, command, only)| {
        let values = |id: &str| given.iter().find(|(known, _)| *known == id).and_then(|(_, values)| values.clone());
        let flags = Flags { only, ..Flags::read(values).unwrap() };
        let agent = command.map(AgentChoice::Command).or(flags.agent);
        Flags { agent, ..flags }
    })
}

fn opening() -> impl Strategy<Value = Opening> {
    let original = prop_oneof![
        (text(), oid()).prop_map(|(name, oid)| Head::Branch { name, oid }),
        oid().prop_map(|oid| Head::Detached { oid }),
        text().prop_map(|name| Head::Unborn { name }),
    ];
    let workspaces = option::of(text().prop_map(std::path::PathBuf::from));
    (any::<u32>(), text(), change_name(), original, text(), workspaces, flags(), text()).prop_map(
        |(run, id, change, original, worktree, workspaces, flags, version)| Opening {
            inbox: None,
            run,
            id,
            change,
            original,
            worktree,
            workspaces,
            flags,
            version,
        },
    )
}

fn exit() -> impl Strategy<Value = Exit> {
    prop_oneof![
        Just(Exit::Success),
        any::<i32>().prop_map(|code| Exit::Code { code }),
        any::<i32>().prop_map(|signal| Exit::Signal { signal }),
        any::<u64>().prop_map(|seconds| Exit::TimedOut { seconds }),
        any::<u64>().prop_map(|seconds| Exit::Stalled { seconds }),
        Just(Exit::Lingered),
        Just(Exit::Interrupted),
        text().prop_map(|error| Exit::CouldNotStart { error }),
        text().prop_map(|message| Exit::NotStarted { message }),
        text().prop_map(|message| Exit::Lost { message }),
    ]
}

fn signal() -> impl Strategy<Value = Signal> {
    prop_oneof![
        Just(Signal::Complete),
        text().prop_map(|reason| Signal::Failed { reason }),
        text().prop_map(|needs| Signal::Blocked { needs }),
        Just(Signal::Nothing)
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        text().prop_map(|reason| Outcome::Failed { reason }),
        (text(), exit(), text()).prop_map(|(command, exit, output)| Outcome::GateFailed { command, exit, output }),
        text().prop_map(|words| Outcome::Vanished { words }),
        (exit(), option::of(text())).prop_map(|(exit, message)| Outcome::Abnormal { exit, message }),
        text().prop_map(|message| Outcome::Misconfigured { message }),
        (text(), option::of(time())).prop_map(|(message, resets)| Outcome::Limited { message, resets }),
        text().prop_map(|message| Outcome::Unavailable { message }),
        text().prop_map(|message| Outcome::Lost { message }),
        text().prop_map(|message| Outcome::NotStarted { message }),
        text().prop_map(|reason| Outcome::Unlandable { reason }),
        text().prop_map(|needs| Outcome::Blocked { needs }),
        Just(Outcome::Interrupted),
    ]
}

fn notice() -> impl Strategy<Value = Notice> {
    prop_oneof![
        (vec(text(), 0..3), text()).prop_map(|(files, to)| Notice::OperationMoved { files, to }),
        text().prop_map(|from| Notice::HeadReattached { from }),
        text().prop_map(|from| Notice::BroughtOver { from }),
        text().prop_map(|path| Notice::NestedLeftOut { path }),
        (text(), text()).prop_map(|(path, to)| Notice::NestedMoved { path, to }),
        (text(), text()).prop_map(|(path, to)| Notice::ObstacleMoved { path, to }),
        (text(), text()).prop_map(|(path, to)| Notice::HiddenMoved { path, to }),
        text().prop_map(|error| Notice::Unkept { error }),
        (text(), text()).prop_map(|(path, to)| Notice::UnkeptMoved { path, to }),
        text().prop_map(|error| Notice::Unconverted { error }),
        vec(text(), 0..3).prop_map(|paths| Notice::Unfiltered { paths }),
        text().prop_map(|name| Notice::RefBroken { name }),
        text().prop_map(|from| Notice::GitDirRestored { from }),
        text().prop_map(|from| Notice::WorkTreeRestored { from }),
        vec(text(), 0..3).prop_map(|paths| Notice::OpenedUp { paths }),
        text().prop_map(|kept| Notice::NotStagedAgain { kept }),
        (vec(text(), 0..9), text()).prop_map(|(paths, kept)| Notice::IgnoredPutBack { paths, kept }),
        (vec(text(), 0..9), text()).prop_map(|(paths, copies)| Notice::IgnoredEdited { paths, copies }),
        vec(text(), 0..9).prop_map(|paths| Notice::IgnoredNotRestored { paths }),
        text().prop_map(|kept| Notice::StagedKept { kept }),
        text().prop_map(|path| Notice::NestedUncopied { path }),
        (text(), option::of(text())).prop_map(|(path, kept)| Notice::NestedRestored { path, kept }),
        (text(), text()).prop_map(|(path, copy)| Notice::NestedEdited { path, copy }),
        text().prop_map(|path| Notice::NestedLost { path }),
        text().prop_map(|path| Notice::NestedStays { path }),
        (text(), text()).prop_map(|(path, to)| Notice::LateEdit { path, to }),
        (0..3_usize).prop_map(|entries| Notice::StashLeft { entries }),
        (story_id(), text(), vec(text(), 0..3), text()).prop_map(|(story, name, keys, kept)| Notice::SettingsRestored {
            story,
            name,
            keys,
            kept
        }),
        (story_id(), text(), option::of(text())).prop_map(|(story, file, kept)| Notice::EditSetAside { story, file, kept }),
        (story_id(), text(), text()).prop_map(|(story, gate, path)| Notice::GateFileChanged { story, gate, path }),
        (story_id(), text(), text()).prop_map(|(story, gate, path)| Notice::GateFileIgnored { story, gate, path }),
        (story_id(), text()).prop_map(|(story, path)| Notice::SettingsFileChanged { story, path }),
        story_id().prop_map(|story| Notice::EmptyCheckpoint { story }),
        story_id().prop_map(|story| Notice::EmptyByHand { story }),
        (story_id(), text()).prop_map(|(story, runner)| Notice::MayStillRun { story, runner }),
    ]
}

fn why() -> impl Strategy<Value = Why> {
    prop_oneof![Just(Why::Limit), Just(Why::Unavailable), Just(Why::Runner)]
}

fn stop_kind() -> impl Strategy<Value = StopKind> {
    prop_oneof![Just(StopKind::AfterAttempt), Just(StopKind::Now), Just(StopKind::Interrupt), Just(StopKind::Terminate)]
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        Just(End::AllDone),
        Just(End::SelectionDone),
        Just(End::LimitReached),
        story_id().prop_map(|story| End::RetriesSpent { story }),
        story_id().prop_map(|story| End::Blocked { story }),
        (story_id(), text()).prop_map(|(story, needs)| End::NeedsUser { story, needs }),
        (cost(), cost()).prop_map(|(used, most)| End::BudgetSpent { spent: Budget::Cost { used, most } }),
        (any::<u64>(), any::<u64>()).prop_map(|(used, most)| End::BudgetSpent { spent: Budget::Tokens { used, most } }),
        text().prop_map(|message| End::Misconfigured { message }),
        option::of(time()).prop_map(|resets| End::UsageLimit { resets }),
        (any::<u32>(), option::of(time())).prop_map(|(waits, resets)| End::StillLimited { waits, resets }),
        (any::<u32>(), text()).prop_map(|(times, message)| End::RunnerFailed { times, message }),
        Just(End::Stopped),
        stop_kind().prop_map(|how| End::Interrupted { how }),
    ]
}

/// Any event, in any order, because the journal does not check the order.
pub fn event() -> impl Strategy<Value = Event> {
    prop_oneof![4 => of_the_run(), 4 => of_an_attempt(), 1 => of_the_user()]
}

fn of_the_user() -> impl Strategy<Value = Event> {
    prop_oneof![
        (text(), option::of(story_id()), text(), any::<bool>()).prop_map(|(request, story, text, now)| Event::HintGiven {
            request,
            story,
            text,
            now
        }),
        (text(), story_id(), vec(story_id(), 0..3)).prop_map(|(request, story, also)| Event::StorySkipped { request, story, also }),
        (text(), story_id()).prop_map(|(request, story)| Event::StoryRetried { request, story }),
        (text(), story_id(), number(u32::MAX), option::of(text()), option::of((oid(), oid()))).prop_map(
            |(request, story, attempt, text, edits)| {
                let edits = edits.map(|(commit, checkout)| Edits { commit, checkout });
                Event::DoneByHand { request, story, attempt, text, edits }
            }
        ),
        text().prop_map(|request| Event::ChangeEdited { request }),
        (text(), text()).prop_map(|(request, reason)| Event::RequestRefused { request, reason }),
    ]
}

fn of_the_run() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => opening().prop_map(|opening| Event::RunStarting { opening }),
        1 => (text(), oid()).prop_map(|(rescue, commit)| Event::LeftoverKept { rescue, commit }),
        1 => (oid(), text()).prop_map(|(initial, branch)| Event::RunStarted { initial, branch }),
        1 => Just(Event::RunResumed {}),
        1 => oid().prop_map(|checkpoint| Event::CommitsAdopted { checkpoint }),
        1 => (oid(), oid(), any::<usize>()).prop_map(|(checkpoint, base, files)| Event::EditsAdopted { checkpoint, base, files }),
        1 => Just(Event::IdentityMissing {}),
        1 => text().prop_map(|error| Event::SourceUnreadable { error }),
        1 => notice().prop_map(|notice| Event::Noticed { notice }),
        1 => stop_kind().prop_map(|how| Event::StopRequested { how }),
        1 => conditions().prop_map(|conditions| Event::LoopStarted { conditions }),
        1 => end().prop_map(|end| Event::LoopEnded { end }),
        1 => finish().prop_map(|mode| Event::FinishStarted { mode }),
        1 => (finish(), option::of(text())).prop_map(|(mode, kept)| Event::Finished { mode, kept }),
        1 => Just(Event::AbortStarted {}),
        1 => (option::of(text()), option::of(oid()), any::<bool>(), option::of(oid())).prop_map(|(kept, moved_to, incomplete, put_back)| Event::Aborted { kept, moved_to, incomplete, put_back }),
    ]
}

fn defeat() -> impl Strategy<Value = Defeat> {
    let cause = prop_oneof![
        (vec(text(), 0..3), text()).prop_map(|(paths, hunks)| DefeatCause::Conflict { paths, hunks }),
        (text(), text()).prop_map(|(command, output)| DefeatCause::Gate { command, output }),
    ];
    (oid(), cause).prop_map(|(tip, cause)| Defeat { tip, cause })
}

fn outline() -> impl Strategy<Value = Outline> {
    (story_id(), text(), vec(text(), 0..3), vec(text(), 0..3), vec(story_id(), 0..2))
        .prop_map(|(id, title, tasks, acceptance, after)| Outline { id, title, tasks, acceptance, after })
}

fn conditions() -> impl Strategy<Value = Conditions> {
    let setting = || (text(), vec(text(), 0..3), option::of(text())).prop_map(|(key, values, origin)| SettingUsed { key, values, origin });
    (text(), option::of(text()), any::<i32>(), vec(outline(), 0..3), vec(setting(), 0..3)).prop_map(
        |(agent, model, clock_offset, stories, settings)| Conditions {
            agent,
            model,
            clock_offset,
            stories,
            settings,
            ..Conditions::default()
        },
    )
}

fn agent_ended() -> impl Strategy<Value = Event> {
    let attempt = || (story_id(), number(u32::MAX));
    (
        attempt(),
        exit(),
        signal(),
        option::of(trouble()),
        usage(),
        number(u64::MAX),
        vec(text(), 0..3),
        text(),
        btree_map(text(), any::<u32>(), 0..3),
    )
        .prop_map(|((story, attempt), exit, signal, trouble, usage, milliseconds, survivors, words, tools)| Event::AgentEnded {
            story,
            attempt,
            exit,
            signal,
            trouble,
            usage,
            milliseconds,
            waited_milliseconds: milliseconds / 2,
            survivors,
            words,
            tools,
        })
}

fn of_an_attempt() -> impl Strategy<Value = Event> {
    let attempt = || (story_id(), number(u32::MAX));
    prop_oneof![
        (attempt(), text(), text(), option::of((vec(text(), 0..3), any::<bool>())), option::of(oid()), number(u32::MAX)).prop_map(
            |((story, attempt), title, agent, gates, base, slot)| {
                let gates = gates.map(|(commands, hooks)| Gates { sandbox: hooks, runner: commands.clone(), commands, hooks });
                Event::AttemptStarted { story, attempt, title, agent, gates, base, slot }
            }
        ),
        (attempt(), oid(), 0..9usize).prop_map(|((story, attempt), commit, files)| Event::AttemptQueued { story, attempt, commit, files }),
        (attempt(), defeat(), text()).prop_map(|((story, attempt), defeat, kept)| Event::AttemptBeaten { story, attempt, defeat, kept }),
        (vec(story_id(), 0..3), text()).prop_map(|(stories, command)| Event::BatchFailed { stories, command }),
        (number(u32::MAX), text(), 0..9usize, number(u64::MAX)).prop_map(|(slot, path, files, bytes)| Event::WorkspaceReady {
            slot,
            path,
            files,
            bytes
        }),
        agent_ended(),
        (attempt(), text(), exit(), any::<u64>(), text()).prop_map(|((story, attempt), command, exit, milliseconds, output)| {
            Event::GateEnded { story, attempt, command, exit, milliseconds, output }
        }),
        (story_id(), time(), why()).prop_map(|(story, until, why)| Event::PauseStarted { story, until, why }),
        story_id().prop_map(|story| Event::PauseEnded { story }),
        (attempt(), usage()).prop_map(|((story, attempt), usage)| Event::UsageFound { story, attempt, usage }),
        (vec(story_id(), 0..3), vec(story_id(), 0..3), vec(outline(), 0..3)).prop_map(|(added, removed, stories)| Event::StoriesChanged {
            added,
            removed,
            stories
        }),
        (story_id(), vec(story_id(), 0..3)).prop_map(|(story, others)| Event::StrayMarks { story, others }),
        (story_id(), text()).prop_map(|(story, error)| Event::MarksNotSet { story, error }),
        attempt().prop_map(|(story, attempt)| Event::AttemptAccepted { story, attempt }),
        (attempt(), outcome()).prop_map(|((story, attempt), outcome)| Event::AttemptRejected { story, attempt, outcome }),
        (attempt(), oid(), any::<usize>()).prop_map(|((story, attempt), commit, files)| Event::CheckpointLanded {
            story,
            attempt,
            commit,
            files
        }),
        (attempt(), text(), any::<usize>()).prop_map(|((story, attempt), rescue, files)| Event::AttemptRolledBack {
            story,
            attempt,
            rescue,
            files
        }),
        (attempt(), option::of(outcome())).prop_map(|((story, attempts), outcome)| Event::StoryFailed { story, attempts, outcome }),
    ]
}

/// A story of a generated change file.
#[derive(Clone, Debug)]
pub struct Written {
    pub id: StoryId,
    pub title: Option<String>,
    pub prompt: String,
    pub after: Vec<StoryId>,
}

/// Stories with `after` and without a cycle, written in any order.
pub fn stories() -> impl Strategy<Value = Vec<Written>> {
    let story = (story_id(), option::of(text()), text(), vec(any::<prop::sample::Index>(), 0..3));
    vec(story, 1..7)
        .prop_map(|parts| {
            let mut written: Vec<Written> = Vec::new();
            for (id, title, prompt, picks) in parts {
                if written.iter().all(|story| story.id != id) {
                    let after = picks.iter().filter(|_| !written.is_empty()).map(|pick| pick.get(&written).id.clone()).collect();
                    written.push(Written { id, title, prompt, after });
                }
            }
            written
        })
        .prop_shuffle()
}

/// The change file with these stories.
pub fn change_file(stories: &[Written]) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let table = |story: &Written| {
        let title = story.title.as_deref().map(|title| format!("title = {}\n", quoted(title))).unwrap_or_default();
        let after: Vec<String> = story.after.iter().map(|id| quoted(id.as_str())).collect();
        let (id, prompt) = (quoted(story.id.as_str()), quoted(&story.prompt));
        format!("[[story]]\nid = {id}\n{title}prompt = {prompt}\nafter = [{}]\n", after.join(", "))
    };
    stories.iter().map(table).collect()
}

const PIECES: &[&[u8]] = &[
    b"<promise>",
    b"</promise>",
    b"COMPLETE",
    b"FAILED",
    b"blocked",
    b"- FAILED: no",
    b"Status ",
    b"1. ",
    b"\x0b",
    "\u{a0}".as_bytes(),
    b"- ",
    b"**",
    b"<!--",
    b"-->",
    b"<think>",
    "\u{200b}".as_bytes(),
    b"<promise>COMPLETE</promise>",
    b"<promise>FAILED: ",
    b"WORD",
    b":",
    b"\n",
    b"\n\n",
    b"\r",
    b" ",
    b"    ",
    b"\t",
    b"```",
    b"~~~",
    b"\x1b[0m",
    b"\x1b>",
    b"\x1b]0;",
    b"\x1b",
    "\u{9b}".as_bytes(),
    "\u{feff}".as_bytes(),
    "ä".as_bytes(),
    b"\xff",
    b"\xc3",
];

/// Output of an agent: mostly parts of promises, code and terminal escape sequences.
pub fn output() -> impl Strategy<Value = Vec<u8>> {
    let long = (prop::sample::select(&b"x< "[..]), 32_700..32_900_usize).prop_map(|(byte, count)| vec![byte; count]);
    let tag =
        prop::sample::select(&["<promise>COMPLETE</promise>\n", "<promise>FAILED: no</promise>\n", "<Promise>blocked: no</promise>\n"][..]);
    let piece = || prop::sample::select(PIECES).prop_map(<[u8]>::to_vec);
    let spoilt = (tag, piece(), any::<prop::sample::Index>()).prop_map(|(tag, piece, at)| {
        let (before, behind) = tag.as_bytes().split_at(at.index(tag.len()));
        [before, &piece, behind].concat()
    });
    let piece = prop_oneof![
        30 => piece(),
        9 => spoilt,
        3 => vec(any::<u8>(), 0..6),
        1 => long,
    ];
    vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

/// A line of a structured stream. Many lines are not JSON, or have a key twice.
pub fn stream() -> impl Strategy<Value = String> {
    let kind =
        prop_oneof![3 => Just("user"), 2 => Just("assistant"), 2 => Just("result"), 1 => Just("rate_limit_event"), 1 => Just("system")];
    let member = prop::sample::select(vec![
        r#""message":{"id":"m","type":"result","content":[{"type":"text","text":"on it"}],"usage":{"input_tokens":3}}"#,
        r#""message":{"content":[{"type":"tool_result","content":"<promise>COMPLETE</promise>\\n"}]}"#,
        r#""message":{"content":[{"type":"text","text":"[API Error: 429]"}]}"#,
        r#""subtype":"success","result":"<promise>COMPLETE</promise>","usage":{"input_tokens":1}"#,
        r#""subtype":"success","is_error":true,"api_error_status":429,"result":"no""#,
        r#""subtype":"api_retry","error_status":529,"error":"overloaded""#,
        r#""rate_limit_info":{"status":"rejected","resetsAt":1800000000}"#,
        r#""type":"result""#,
        r#""\u0074ype":"result""#,
        r#""type":7"#,
    ]);
    let end = prop_oneof![5 => Just("}"), 1 => Just(",}"), 1 => Just(""), 1 => Just("}}"), 1 => Just(",\"x\":\"\\x\"}"), 1 => Just(",\"x\":tru}")];
    (kind, vec(member, 0..4), end).prop_map(|(kind, members, end)| {
        let members: String = members.iter().map(|member| format!(",{member}")).collect();
        format!("{{\"type\":\"{kind}\"{members}{end}")
    })
}
