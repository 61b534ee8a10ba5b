//! The demo's built-in agent: does a fixed thing per story and attempt, and prints the output of a real client.

use std::fs;
use std::io::Read;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::config::Environment;
use crate::error::ExitStatus;
use crate::report::output;

const GREET: &str = "echo \"Hello, world\"\n";
const NAME: &str = "echo \"Hello, ${1:-world}\"\n";
const HALF_NAME: &str = "echo \"Hello, $1\"\n";
const WRONG_SHOUT: &str = "if [ \"$1\" = --shout ]; then shift; echo \"HELLO, $1\"; else echo \"Hello, ${1:-world}\"; fi\n";
const SHOUT: &str =
    "if [ \"$1\" = --shout ]; then shift; echo \"Hello, $1\" | tr '[:lower:]' '[:upper:]'; else echo \"Hello, ${1:-world}\"; fi\n";
const COMPLETE: &str = "<promise>COMPLETE</promise>";

/// How long a step takes in a demo that is watched.
const SLOW: Duration = Duration::from_millis(1200);
/// How long a step takes with `--fast`.
const FAST: Duration = Duration::from_millis(20);

/// One scripted agent run.
struct Scene {
    says: &'static [&'static str],
    file: &'static str,
    writes: &'static str,
    promise: &'static str,
}

fn scene(story: &str, attempt: &str) -> Option<Scene> {
    let greeter = |says, writes, promise| Scene { says, file: "greet.sh", writes, promise };
    let language = |says, file, writes| Scene { says, file, writes, promise: COMPLETE };
    Some(match (story, attempt) {
        ("greet", _) => greeter(&["I write greet.sh.", "It prints the greeting."], GREET, COMPLETE),
        ("name", "1") => greeter(
            &["I read greet.sh.", "A call without a name prints 'Hello, ' now; that is not what was asked for."],
            HALF_NAME,
            "<promise>FAILED: greet.sh must still say 'world' when no name is given</promise>",
        ),
        ("name", _) => greeter(&["The last attempt forgot the default.", "I add it."], NAME, COMPLETE),
        ("shout", "1") => greeter(&["Capitals for the greeting.", "That should do."], WRONG_SHOUT, COMPLETE),
        ("shout", _) => greeter(&["The gate wants the name in capitals too.", "I pipe all of it through tr."], SHOUT, COMPLETE),
        ("french", _) => language(&["I look up the greeting.", "Short and friendly."], "hello.fr", "Bonjour\n"),
        ("german", _) => language(&["I compare it with the English one.", "That is how people say it."], "hello.de", "Hallo\n"),
        ("spanish", _) => language(&["I check the accents.", "There are none."], "hello.es", "Hola\n"),
        _ => return None,
    })
}

/// Plays the scene of this story and attempt.
pub async fn run(environment: &Environment, slowly: bool) -> Result<ExitStatus> {
    let variable = |name: &str| environment.get(name).map(|value| value.to_string_lossy().into_owned()).unwrap_or_default();
    let (story, attempt) = (variable("RALPH_STORY"), variable("RALPH_ATTEMPT"));
    let Some(scene) = scene(&story, &attempt) else { bail!("the demo's agent has no scene for story '{story}'") };
    let mut prompt = String::new();
    std::io::stdin().read_to_string(&mut prompt).context("cannot read the prompt")?;
    let pause = if slowly { SLOW } else { FAST };
    let mut steps: Vec<_> = scene.says.iter().map(|text| json!({"type": "text", "text": text})).collect();
    steps.insert(1, json!({"type": "tool_use", "name": "Write", "input": {"file_path": environment.cwd.join(scene.file)}}));
    for (number, step) in steps.iter().enumerate() {
        let usage = json!({"input_tokens": 900, "output_tokens": 120});
        say(&json!({"type": "assistant", "message": {"id": number.to_string(), "content": [step], "usage": usage}}));
        tokio::time::sleep(pause).await;
    }
    fs::write(scene.file, scene.writes).with_context(|| format!("cannot write {}", scene.file))?;
    let usage = json!({"input_tokens": 900 * steps.len(), "output_tokens": 120 * steps.len()});
    say(&json!({"type": "result", "subtype": "success", "result": scene.promise, "total_cost_usd": 0.012, "usage": usage}));
    Ok(ExitStatus::Done)
}

fn say(line: &serde_json::Value) {
    output::data(&format!("{line}\n"));
}
