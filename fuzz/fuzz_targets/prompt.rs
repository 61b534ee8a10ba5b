//! Fuzzes prompts: every story gives a prompt, and no prompt contains a promise.
#![no_main]

use git_ralph::agent::{Feedback, Learnings, Prompt, Signal, TextReader};
use git_ralph::story::{Change, Order, Story};
use libfuzzer_sys::fuzz_target;

// One field per paragraph, so that seeds are plain text. Missing fields are empty.
fuzz_target!(|text: &str| {
    let mut fields = text.split("\n---\n").map(str::to_owned);
    let mut field = || fields.next().unwrap_or_default();
    let lines = |field: String| field.lines().map(str::to_owned).collect::<Vec<_>>();
    let mut story = Story::stand_in(&"s".parse().expect("a story id"));
    story.title = field();
    story.prompt = field();
    story.tasks = lines(field());
    story.acceptance = lines(field());
    let gates = lines(field());
    let feedback = feedback(field());
    let (title, context) = (field(), field());
    let learnings = Learnings { file: "learnings.md".to_owned(), text: field() };
    let name = "x".parse().expect("a change name");
    let change = Change { name, title: Some(title), context: Some(context), stories: vec![story], order: Order::List };
    let prompt = Prompt {
        change: &change,
        story: &change.stories[0],
        attempt: 2,
        gates: &gates,
        feedback: feedback.as_ref(),
        hints: &[],
        learnings: Some(&learnings),
        template: None,
    };
    let prompt = prompt.render().expect("a prompt");

    let one_word_a_line: String = prompt.split_whitespace().map(|word| format!("{word}\n")).collect();
    for echo in [prompt, one_word_a_line] {
        let mut reader = TextReader::default();
        reader.feed(echo.as_bytes());
        assert_eq!((Signal::of(&echo), reader.finish()), (Signal::Nothing, Signal::Nothing));
    }
});

/// The feedback on the previous attempt; the first line of the field selects its kind.
fn feedback(field: String) -> Option<Feedback> {
    let (kind, words) = field.split_once('\n')?;
    let words = words.to_owned();
    match kind {
        "failed" => Some(Feedback::Failed { reason: words }),
        "blocked" => Some(Feedback::Blocked { needs: words }),
        "gate" => Some(Feedback::Gate { command: words.clone(), output: words }),
        "abnormal" => Some(Feedback::Abnormal { how: words }),
        _ => None,
    }
}
