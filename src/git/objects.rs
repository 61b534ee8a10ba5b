//! Objects by their ids, from one git that stays: asking it costs no process.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::sync::Mutex;

use super::Git;
use crate::process::Dialogue;

/// A larger tree than any; what claims to be larger is no tree.
const LARGEST: usize = 1 << 30;
/// So many questions fit into a pipe whatever its size, so that nobody waits for the other to read.
const AT_ONCE: usize = 16;

/// The git that stays, once it was needed; whoever has a copy asks the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct Library(Arc<Mutex<Option<Dialogue>>>);

impl Library {
    /// The contents of these trees, each named in a way that git understands; nothing for one that is not there.
    ///
    /// # Errors
    /// If git cannot be asked in this way now. It is not kept then, and the next question begins with a new one.
    pub(super) async fn trees(&self, git: &Git, names: &[String], limit: Option<Duration>) -> Result<Vec<Option<Vec<u8>>>> {
        let mut place = self.0.lock().await;
        // Taken out: one that fails half-way through an answer is not to be asked again.
        let mut dialogue = match place.take() {
            Some(dialogue) => dialogue,
            None => Dialogue::begin(git.call(["cat-file", "--batch"]).program()).context("cannot run git")?,
        };
        let mut trees = Vec::with_capacity(names.len());
        for names in names.chunks(AT_ONCE) {
            let answers = ask(&mut dialogue, names);
            let answers = match limit {
                Some(limit) => tokio::time::timeout(limit, answers).await.context("git cat-file does not answer")?,
                None => answers.await,
            };
            trees.extend(answers.context("git cat-file")?);
        }
        *place = Some(dialogue);
        Ok(trees)
    }
}

async fn ask(dialogue: &mut Dialogue, names: &[String]) -> Result<Vec<Option<Vec<u8>>>> {
    let questions: String = names.iter().map(|name| format!("{name}\n")).collect();
    dialogue.say(questions.as_bytes()).await?;
    let mut trees = Vec::with_capacity(names.len());
    for _ in names {
        trees.push(tree(dialogue).await?);
    }
    Ok(trees)
}

async fn tree(dialogue: &mut Dialogue) -> Result<Option<Vec<u8>>> {
    let head = String::from_utf8_lossy(&dialogue.line().await?).into_owned();
    let words: Vec<&str> = head.split(' ').collect();
    match words.as_slice() {
        [_, "missing"] => Ok(None),
        [_, kind, size] => {
            let size: usize = size.parse().ok().filter(|size| *size < LARGEST).context("answered in an unknown form")?;
            let mut bytes = dialogue.bytes(size + 1).await?;
            if bytes.pop() != Some(b'\n') {
                bail!(io::Error::from(io::ErrorKind::InvalidData));
            }
            Ok(Some(bytes).filter(|_| *kind == "tree"))
        }
        _ => bail!("answered in an unknown form: {head}"),
    }
}
