//! The demo's agent: part of the program, does a fixed thing for each story and attempt, says so as real ones do.

use std::fs;
use std::io::Read;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::config::Environment;
use crate::error::ExitStatus;
use crate::report::output;

const GREET: &str = "echo \"Hello, world\"\n";
const NAME: &str = "echo \"Hello, ${1:-world}\"\n";
const HALF_NAME: &str = "echo \"Hello, $1\"\n";
const WRONG_SHOUT: &str = "if [ \"$1\" = --shout ]; then shift; echo \"HELLO, $1\"; else echo \"Hello, ${1:-world}\"; fi\n";
const SHOUT: &str =
    "if [ \"$1\" = --shout ]; then shift; echo \"Hello, $1\" | tr '[:lower:]' '[:upper:]'; else echo \"Hello, ${1:-world}\"; fi\n";

/// One scripted run of an agent.
struct Scene {
    says: &'static [&'static str],
    writes: &'static str,
    promise: &'static str,
}

fn scene(story: &str, attempt: &str) -> Option<Scene> {
    const COMPLETE: &str = "<promise>COMPLETE</promise>";
    Some(match (story, attempt) {
        ("greet", _) => Scene { says: &["Writing greet.sh.", "It prints the greeting."], writes: GREET, promise: COMPLETE },
        ("name", "1") => Scene {
            says: &["Reading greet.sh.", "A call without a name prints 'Hello, ' now; that is not what was asked for."],
            writes: HALF_NAME,
            promise: "<promise>FAILED: greet.sh must still say 'world' when no name is given</promise>",
        },
        ("name", _) => Scene { says: &["The last attempt forgot the default.", "Adding it."], writes: NAME, promise: COMPLETE },
        ("shout", "1") => Scene { says: &["Capitals for the greeting.", "That should do."], writes: WRONG_SHOUT, promise: COMPLETE },
        ("shout", _) => {
            Scene { says: &["The gate wants the name in capitals too.", "Piping all of it through tr."], writes: SHOUT, promise: COMPLETE }
        }
        _ => return None,
    })
}

/// Plays the scene of this story and attempt.
pub async fn run(environment: &Environment) -> Result<ExitStatus> {
    let variable = |name: &str| environment.get(name).map(|value| value.to_string_lossy().into_owned()).unwrap_or_default();
    let (story, attempt) = (variable("RALPH_STORY"), variable("RALPH_ATTEMPT"));
    let Some(scene) = scene(&story, &attempt) else { bail!("the demo's agent has no scene for story '{story}'") };
    let mut prompt = String::new();
    std::io::stdin().read_to_string(&mut prompt).context("cannot read the prompt")?;
    for line in scene.says {
        output::data(&format!("{line}\n"));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    fs::write("greet.sh", scene.writes).context("cannot write greet.sh")?;
    output::data(&format!("\n{}\n", scene.promise));
    Ok(ExitStatus::Done)
}
