//! Settings whose value is one of a few words, each defined once with its meaning.

use serde::{Deserialize, Serialize};

use super::git_config::boolean;
use super::setting_type::SettingType;
use crate::sandbox_program::{SANDBOX, SandboxProgram};

/// Defines an enum as the type of a setting. `bare` is the meaning of its option without a value; `else` names a
/// function that reads further spellings.
macro_rules! choice {
    ($(#[$about:meta])* $name:ident {
        $word:literal => $variant:ident $meaning:literal
        $(, $more_words:literal => $more_variants:ident $more_meanings:literal)* $(,)?
    } $(bare $bare:ident)? $(else $otherwise:ident)?) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name {
            #[doc = $meaning]
            #[serde(rename = $word)]
            $variant,
            $(
                #[doc = $more_meanings]
                #[serde(rename = $more_words)]
                $more_variants,
            )*
        }

        impl SettingType for $name {
            type Value = Self;
            const FORM: &'static str = concat!($word $(, "|", $more_words)*);
            const WORDS: &'static [(&'static str, &'static str)] = &[($word, $meaning) $(, ($more_words, $more_meanings))*];

            $(const BARE: Option<&'static str> = Some($bare);)?

            fn from_text(text: &str) -> Result<Self, String> {
                match text {
                    $word => Ok(Self::$variant),
                    $($more_words => Ok(Self::$more_variants),)*
                    _ => None $(.or_else(|| $otherwise(text)))?.ok_or_else(|| not_one_of(text, Self::WORDS)),
                }
            }

            fn shown(value: &Self) -> Vec<String> {
                let word = match value {
                    Self::$variant => $word,
                    $(Self::$more_variants => $more_words,)*
                };
                vec![word.to_owned()]
            }
        }
    };
}

fn not_one_of(text: &str, words: &[(&str, &str)]) -> String {
    let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    format!("'{text}' is not one of {}", words.join(", "))
}

choice! {
    /// What happens at the end of the loop.
    Finish {
        "ask" => Ask "ask on a terminal, otherwise leave the run open",
        "cleanup" => Cleanup "return to the original branch, with everything uncommitted",
        "keep" => Keep "stay on the run's branch",
    }
}

choice! {
    /// What happens when the agent has used up a usage limit.
    LimitWait {
        "wait" => Wait "wait until it resets",
        "stop" => Stop "end the loop; the run stays open",
    }
}

choice! {
    /// What happens to an attempt that reports success without changing anything.
    EmptyDiff {
        "warn" => Warn "the story lands, with a warning",
        "fail" => Fail "the attempt has failed",
    }
}

choice! {
    /// When the gates run again after an attempt was merged with stories that have landed since it began.
    MergeGates {
        "always" => Always "always",
        "overlap" => Overlap "only if both have changed the same files",
    }
}

choice! {
    /// When the HTML page of a run is written.
    ReportWhen {
        "never" => Never "only on demand",
        "always" => Always "whenever a loop ends",
    }
}

choice! {
    /// Whether the terminal notifies the user at the end of the loop.
    Bell {
        "true" => Ring "always",
        "false" => Silent "never",
        "auto" => Auto "unless the terminal reports that it has the focus",
    } else bell_by_boolean
}

choice! {
    /// Whether agents, gates and setup commands run in a sandbox.
    SandboxMode {
        "off" => Off "no sandbox",
        "auto" => Auto "the sandbox of this system if it works here, otherwise none",
        "bwrap" => Bwrap "bubblewrap, on Linux; an error if it does not work here",
        "sandbox-exec" => SandboxExec "sandbox-exec, on macOS; an error if it does not work here",
    } bare SANDBOX_OF_THIS_SYSTEM
}

const SANDBOX_OF_THIS_SYSTEM: &str = match SANDBOX {
    SandboxProgram::Bubblewrap => "bwrap",
    SandboxProgram::SandboxExec => "sandbox-exec",
};

impl SandboxMode {
    /// The setting that requires this program.
    #[must_use]
    pub const fn requiring(program: SandboxProgram) -> Self {
        match program {
            SandboxProgram::Bubblewrap => SandboxMode::Bwrap,
            SandboxProgram::SandboxExec => SandboxMode::SandboxExec,
        }
    }

    /// Whether commands must run in a sandbox.
    #[must_use]
    pub const fn is_required(self) -> bool {
        matches!(self, SandboxMode::Bwrap | SandboxMode::SandboxExec)
    }

    /// The program of the sandbox: the one that the setting names, or else that of this system.
    #[must_use]
    pub const fn program(self) -> SandboxProgram {
        match self {
            SandboxMode::Off | SandboxMode::Auto => SANDBOX,
            SandboxMode::Bwrap => SandboxProgram::Bubblewrap,
            SandboxMode::SandboxExec => SandboxProgram::SandboxExec,
        }
    }
}

/// Reads `yes`, `off` and the other booleans of git.
fn bell_by_boolean(text: &str) -> Option<Bell> {
    boolean(text).ok().map(|rings| if rings { Bell::Ring } else { Bell::Silent })
}
