//! Tests properties that hold for any input: change files, the journal, story ids, promises, durations.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use git_ralph::agent::{AgentReport, Format, Reader, Signal, TextReader, disarmed};
use git_ralph::config::{parse_change_file, parse_duration};
use git_ralph::process::Exit;
use git_ralph::run::{Event, Journal, OpenedJournal, Policy, Record, RunState, replay};
use git_ralph::story::Story;
use git_ralph::story::source::{Edit, Kind, Mark, Material, Page, apply, kind_of, mark_landed, marks};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::generated::{Written, change_file, event, output, stories, story_id, stream, text};
use crate::support::{program_from_scratch, which};

fn cases(cases: u32) -> ProptestConfig {
    // A failure prints its smallest input; that input then becomes a named test.
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 2000, ..ProptestConfig::default() }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn records(journal: &Path) -> (Vec<Record>, u64) {
    let mut records = Vec::new();
    let good = replay(journal, None, |record| records.push(record.clone())).unwrap();
    (records, good)
}

fn fold(records: &[Record]) -> RunState {
    let mut state = RunState::default();
    records.iter().for_each(|record| state.apply(&record.event));
    state
}

fn write_journal(path: &Path, events: Vec<Event>) -> Vec<Record> {
    let mut journal = Journal::create(path, None).unwrap();
    block_on(async {
        let mut written = Vec::new();
        for event in events {
            written.push(journal.append(event).await.unwrap());
        }
        written
    })
}

/// The position of the end of every line.
fn line_ends(text: &[u8]) -> Vec<usize> {
    text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect()
}

fn signal_in_pieces(text: &[u8], cuts: &[Index]) -> (String, Signal) {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
    cuts.sort_unstable();
    let mut reader = TextReader::default();
    let mut from = 0;
    for cut in cuts.into_iter().chain([text.len()]) {
        reader.feed(&text[from..cut]);
        from = cut;
    }
    (reader.last_line().into_owned(), reader.finish())
}

fn heard(stream: &str, exit: &Exit) -> AgentReport {
    let mut reader = Reader::new(Format::Claude);
    reader.feed(stream.as_bytes(), &mut |_| {});
    let report = reader.finish(exit, &"2026-11-16T00:05:00[UTC]".parse().unwrap());
    AgentReport { words: String::new(), ..report }
}

fn one_word_a_line(text: &str) -> String {
    text.split_whitespace().map(|word| format!("{word}\n")).collect()
}

/// The id that was escaped as this component.
fn unescaped(component: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = component;
    while let Some((before, behind)) = rest.split_once('%') {
        let (code, more) = behind.split_at(2);
        bytes.extend_from_slice(before.as_bytes());
        bytes.push(u8::from_str_radix(code, 16).unwrap());
        rest = more;
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).unwrap()
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn any_text_is_a_change_file_or_an_error_that_begins_with_its_name(text in text()) {
        if let Err(error) = parse_change_file(&text, "x.toml") {
            prop_assert!(error.starts_with("x.toml:"), "{error}");
        }
    }

    #[test]
    fn a_damaged_change_file_is_read_or_refused_by_name(stories in stories(), at in any::<Index>(), gone in 0..9_usize, put in text()) {
        let mut chars: Vec<char> = change_file(&stories).chars().collect();
        let from = at.index(chars.len());
        let to = chars.len().min(from + gone);
        chars.splice(from..to, put.chars());
        let damaged: String = chars.into_iter().collect();
        match parse_change_file(&damaged, "x.toml") {
            Ok(file) => prop_assert!(!file.stories.is_empty()),
            Err(error) => prop_assert!(error.starts_with("x.toml:"), "{error}"),
        }
    }

    #[test]
    fn a_change_file_is_read_back_as_it_was_written(stories in stories()) {
        let file = parse_change_file(&change_file(&stories), "x.toml").unwrap();
        prop_assert_eq!(file.stories.len(), stories.len());
        for (read, Written { id, title, prompt, after }) in file.stories.iter().zip(&stories) {
            prop_assert_eq!((&read.id, &read.after, &read.prompt), (id, after, prompt));
            prop_assert_eq!(&read.title, title.as_deref().unwrap_or(id.as_str()));
        }
    }

    #[test]
    fn the_component_of_a_story_id_tells_which_id_it_was(id in story_id()) {
        prop_assert_eq!(unescaped(&id.as_component()), id.as_str());
    }

    #[test]
    fn two_story_ids_never_share_a_component(ids in vec(story_id(), 2..40)) {
        let mut known = BTreeMap::new();
        for id in ids {
            let before = known.insert(id.as_component(), id.clone());
            prop_assert!(before.as_ref().is_none_or(|before| *before == id), "{before:?} and {id:?}");
        }
    }

    #[test]
    fn what_an_agent_says_does_not_depend_on_how_its_output_is_cut(output in output(), cuts in vec(any::<Index>(), 0..6)) {
        prop_assert_eq!(signal_in_pieces(&output, &cuts), signal_in_pieces(&output, &[]));
    }

    #[test]
    fn a_stream_says_the_same_whether_or_not_all_of_it_had_to_be_checked(lines in vec(stream(), 0..9)) {
        // The blank before the first key makes the reader parse every line in full.
        let checked: Vec<String> = lines.iter().map(|line| line.replacen('{', "{ ", 1)).collect();
        for exit in [Exit::Success, Exit::Code { code: 1 }, Exit::Stalled { seconds: 9 }] {
            prop_assert_eq!(heard(&lines.join("\n"), &exit), heard(&checked.join("\n"), &exit));
        }
    }

    #[test]
    fn plain_output_says_what_its_whole_text_says(output in output()) {
        let text = String::from_utf8_lossy(&output);
        let plain = !text.contains(['\u{1b}', '\u{9b}']) && text.split('\n').all(|line| line.len() < 32 * 1024);
        prop_assume!(plain);
        prop_assert_eq!(signal_in_pieces(&output, &[]).1, Signal::of(&text));
    }

    #[test]
    fn an_agent_that_has_concluded_has_said_something(output in output()) {
        let mut reader = TextReader::default();
        reader.feed(&output);
        prop_assert!(!reader.concluded() || reader.finish() != Signal::Nothing);
    }

    #[test]
    fn a_disarmed_text_says_nothing_to_any_reader(output in output()) {
        let safe = disarmed(&String::from_utf8_lossy(&output));
        for text in [&safe, &one_word_a_line(&safe)] {
            prop_assert_eq!(Signal::of(text), Signal::Nothing);
            prop_assert_eq!(signal_in_pieces(text.as_bytes(), &[]).1, Signal::Nothing);
        }
    }

    #[test]
    fn disarming_twice_is_disarming_once(output in output()) {
        let safe = disarmed(&String::from_utf8_lossy(&output));
        prop_assert_eq!(disarmed(&safe), safe);
    }

    #[test]
    fn any_text_is_a_duration_of_at_most_a_year_or_an_error(text in prop_oneof![text(), r"[-+]?[0-9]{0,22}[.,]?[0-9]{0,3} ?(ns|ms|s|m|h|d|w|y|PT)?"]) {
        if let Ok(duration) = parse_duration(&text) {
            prop_assert!(duration <= Duration::from_secs(365 * 24 * 60 * 60), "{duration:?}");
        }
    }

    #[test]
    fn hours_minutes_and_seconds_add_up(hours in 0..100_u64, minutes in 0..100_u64, seconds in 0..100_u64) {
        let sum = Duration::from_secs((hours * 60 + minutes) * 60 + seconds);
        prop_assert_eq!(parse_duration(&format!("{hours}h {minutes}m {seconds}s")), Ok(sum));
    }

    #[test]
    fn any_events_in_any_order_leave_a_state_that_knows_what_is_next(events in vec(event(), 0..40), after in any::<bool>()) {
        let mut stories: Vec<Story> = ["a", "b", "c"].iter().map(|id| Story::stand_in(&id.parse().unwrap())).collect();
        if after {
            stories[0].after = vec![stories[1].id.clone()];
        }
        let mut state = RunState::default();
        for event in &events {
            state.apply(event);
            let policy = Policy { max_retries: 1, jobs: 2, limit: Some(2), ..Policy::default() };
            let left: Vec<Story> = stories.iter().filter(|story| !state.is_done(story)).cloned().collect();
            prop_assert_eq!(state.next(&stories, &policy), state.next(&left, &policy), "those that are done may be left out");
        }
    }
}

proptest! {
    #![proptest_config(cases(8))]

    #[test]
    fn a_journal_cut_anywhere_holds_the_events_before_the_cut(events in vec(event(), 1..7)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let written = write_journal(&path, events);
        prop_assert_eq!(&records(&path).0, &written);
        let ends = line_ends(&fs::read(&path).unwrap());
        prop_assert_eq!(ends.len(), written.len());
        let file = fs::File::options().write(true).open(&path).unwrap();
        for cut in (0..=ends.last().copied().unwrap_or_default()).rev() {
            file.set_len(cut as u64).unwrap();
            let whole = ends.iter().filter(|end| **end <= cut).count();
            let (read, good) = records(&path);
            prop_assert_eq!(&read[..], &written[..whole], "cut at {}", cut);
            prop_assert_eq!(good, ends[..whole].last().copied().unwrap_or_default() as u64);
            prop_assert_eq!(fold(&read), fold(&written[..whole]));
        }
    }

    #[test]
    fn a_journal_cut_anywhere_can_be_taken_up_again(events in vec(event(), 1..7), cut in any::<Index>(), next in event()) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let mut expected = write_journal(&path, events);
        let ends = line_ends(&fs::read(&path).unwrap());
        let cut = cut.index(ends.last().unwrap() + 1);
        fs::File::options().write(true).open(&path).unwrap().set_len(cut as u64).unwrap();
        expected.truncate(ends.iter().filter(|end| **end <= cut).count());
        let OpenedJournal { mut journal, state, .. } = Journal::open(&path, None).unwrap();
        prop_assert_eq!(state, fold(&expected));
        let appended = block_on(journal.append(next)).unwrap();
        prop_assert_eq!(appended.seq, expected.len() as u64 + 1);
        expected.push(appended);
        prop_assert_eq!(records(&path).0, expected);
    }
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn git_accepts_the_component_of_any_story_id_in_a_ref(id in story_id()) {
        let name = format!("refs/ralph/x/attempts/{}/1", id.as_component());
        let status = program_from_scratch(which("git")).args(["check-ref-format", &name]).status().unwrap();
        prop_assert!(status.success(), "{name}");
    }
}

/// A Markdown file of tasks with difficult syntax.
fn task_file() -> impl Strategy<Value = String> {
    let end = prop::sample::select(&["\n", "\r\n"][..]);
    let line = prop_oneof![
        4 => ("[ \\t]{0,4}", "([-*+]|[0-9]{1,2}[.)])", "\\[[ xX~-]{0,2}\\]", "[ a-zA-Z0-9`(]{0,12}").prop_map(|(indent, bullet, brackets, text)| format!("{indent}{bullet} {brackets}{text}")),
        2 => (1..4_usize, "[0-9]{1,2}\\. [a-z]{0,6}|Task [0-9]{1,2}: [a-z]{0,6}|Phase [0-9]: [a-z]{0,4}|User Story [0-9]|[a-z ]{0,9}").prop_map(|(level, text)| format!("{} {text}", "#".repeat(level))),
        1 => prop::sample::select(&["```", "~~~", "", "text", "````", "- plain", "<!-- -->"][..]).prop_map(str::to_owned),
        1 => any::<String>().prop_map(|text| text.replace(['\n', '\r'], " ")),
    ];
    (vec((line, end), 0..25), any::<bool>(), any::<bool>()).prop_map(|(lines, bom, cut)| {
        let text: String = lines.into_iter().map(|(line, end)| line + end).collect();
        let text = if cut { text.trim_end_matches(['\n', '\r']).to_owned() } else { text };
        if bom { format!("\u{feff}{text}") } else { text }
    })
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn landing_a_story_changes_its_marks_and_not_another_byte(text in task_file(), pick in any::<Index>(), cheat in any::<bool>()) {
        let page = |text: &str| Page { name: "tasks.md".into(), text: text.into() };
        for kind in [Kind::OpenSpec, Kind::SpecKit, Kind::Plan, Kind::Checklist] {
            let Ok(before) = marks(kind, &page(&text)) else { continue };
            if before.is_empty() {
                continue;
            }
            let story = before[pick.index(before.len())].story.clone();
            // Simulates an agent that ticks every box.
            let all: Vec<Edit> = before.iter().filter(|mark| !mark.done).map(|mark| Edit { at: mark.at.clone(), with: "x" }).collect();
            let now = if cheat { apply(&text, &all) } else { text.clone() };
            let marking = mark_landed(kind, &page(&text), &page(&now), &story).unwrap();
            let landed = apply(&now, &marking.edits);
            let after = marks(kind, &page(&landed)).unwrap();
            prop_assert_eq!(after.len(), before.len());
            for (was, is) in before.iter().zip(&after) {
                prop_assert_eq!((&was.story, &was.text), (&is.story, &is.text));
                prop_assert_eq!(is.done, was.done || is.story == story, "{:?}", is);
            }
            let bare = |text: &str, marks: &[Mark]| {
                let edits: Vec<Edit> = marks.iter().map(|mark| Edit { at: mark.at.clone(), with: "" }).collect();
                apply(text, &edits)
            };
            prop_assert_eq!(bare(&text, &before), bare(&landed, &after), "every byte but the marks");
            // Landing it again changes nothing.
            prop_assert_eq!(mark_landed(kind, &page(&landed), &page(&landed), &story).unwrap().edits, vec![]);
        }
    }

    #[test]
    fn any_text_is_read_as_a_source_or_refused_with_its_name(text in prop_oneof![task_file(), any::<String>(), "[{}\\[\\]\":,a-z0-9 \n]{0,60}"]) {
        let page = Page { name: "tasks.md".into(), text };
        for kind in [Kind::OpenSpec, Kind::SpecKit, Kind::Plan, Kind::Checklist, Kind::Prd] {
            match (Material { kind, main: page.clone(), beside: vec![page.clone()] }).read() {
                Ok(sourced) => prop_assert!(!sourced.stories.is_empty()),
                Err(error) => prop_assert!(error.starts_with("tasks.md"), "{}", error),
            }
        }
        let _ = kind_of(&page);
    }
}
