//! Tests whether the sandbox works on this machine, with the command line that attempts use, and suggests a remedy if it does not.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::{Sandbox, SandboxPlace};
use crate::process::{Captured, Exit, Program, capture};
use crate::sandbox_program::{SANDBOX, SandboxProgram};

/// The time limit of the test. A sandbox normally starts within milliseconds.
const LIMIT: Duration = Duration::from_secs(20);

/// The remedy on a system without a sandbox.
const VIRTUAL: &str = "run git-ralph in a container or a virtual machine";
/// Shows whether `sandbox-exec` works at all.
const ALLOWING: &str = "sandbox-exec -p '(version 1) (allow default)' true   to see whether sandbox-exec works at all";

/// Tries to write a file, and removes it if that was possible.
const WRITE: &str = r#"{ : >"$1"; } 2>/dev/null || exit 0; rm -f -- "$1"; echo "a command can write $1 in it" >&2; exit 1"#;

/// Why the sandbox does not work, and how to make it work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSandbox {
    /// The problem.
    pub why: String,
    /// The remedy: a command or a sentence.
    pub remedy: String,
}

impl NoSandbox {
    fn new(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        NoSandbox { why: why.into(), remedy: remedy.into() }
    }
}

/// Whether the kernel allows user namespaces.
#[derive(Clone, Copy, Debug, Default)]
struct Kernel {
    /// AppArmor forbids programs to create user namespaces, as on Ubuntu.
    apparmor_restricts: bool,
    /// The limit for the number of user namespaces is 0.
    no_namespaces: bool,
    /// The switch for unprivileged user namespaces that Debian's kernels have is off.
    switched_off: bool,
    /// This is a container.
    in_container: bool,
}

impl Kernel {
    fn look() -> Self {
        let reads = |path: &str, value: &str| fs::read_to_string(path).is_ok_and(|text| text.trim() == value);
        Kernel {
            apparmor_restricts: reads("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
            no_namespaces: reads("/proc/sys/user/max_user_namespaces", "0"),
            switched_off: reads("/proc/sys/kernel/unprivileged_userns_clone", "0"),
            in_container: Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists(),
        }
    }
}

/// Starts `command` in the sandbox, with the command line of an attempt.
///
/// # Errors
/// The reason if that does not work.
pub async fn probe(sandbox: &Sandbox, command: Program, at: &SandboxPlace<'_>) -> Result<(), NoSandbox> {
    if let Some(reason) = unsuitable(sandbox.program(), SANDBOX) {
        return Err(reason);
    }
    if !sandbox.is_installed() {
        return Err(match sandbox.program() {
            SandboxProgram::Bubblewrap => {
                NoSandbox::new("bubblewrap (bwrap) is not installed", "sudo apt install bubblewrap   (or: dnf, pacman, zypper, apk)")
            }
            SandboxProgram::SandboxExec => NoSandbox::new("this macOS has no /usr/bin/sandbox-exec", VIRTUAL),
        });
    }
    if let Some(path) = sandbox.missing().next() {
        return Err(NoSandbox::new(
            format!("ralph.sandboxWrite names {}, which does not exist", path.display()),
            "git config --show-origin --get-all ralph.sandboxWrite",
        ));
    }
    start(sandbox, command.clone(), at).await?;
    if sandbox.program() == SandboxProgram::SandboxExec {
        // The language of profiles has no documentation, so we also check that the sandbox refuses something.
        let file = at.common_dir.join("ralph-sandbox-trial").into_os_string();
        start(sandbox, Program { program: "sh".into(), args: ["-c".into(), WRITE.into(), "sh".into(), file].to_vec(), ..command }, at)
            .await?;
    }
    Ok(())
}

async fn start(sandbox: &Sandbox, command: Program, at: &SandboxPlace<'_>) -> Result<(), NoSandbox> {
    let ran = capture(&sandbox.wrap(command, at), None, Some(LIMIT)).await;
    match (ran, sandbox.program()) {
        (Ok(Captured { exit: Exit::Success, .. }), _) => Ok(()),
        (Ok(ran), SandboxProgram::Bubblewrap) => Err(diagnosis(&said(&ran), Kernel::look())),
        (Ok(ran), SandboxProgram::SandboxExec) => Err(refusal(said(&ran))),
        (Err(error), SandboxProgram::Bubblewrap) => {
            Err(NoSandbox::new(format!("bubblewrap cannot be started: {error}"), "bwrap --ro-bind / / true"))
        }
        (Err(error), SandboxProgram::SandboxExec) => Err(NoSandbox::new(format!("sandbox-exec cannot be started: {error}"), ALLOWING)),
    }
}

/// Why this program cannot make the sandbox on a system that has `own`.
fn unsuitable(program: SandboxProgram, own: SandboxProgram) -> Option<NoSandbox> {
    match (program, own) {
        (SandboxProgram::Bubblewrap, SandboxProgram::SandboxExec) => {
            Some(NoSandbox::new("bubblewrap needs Linux", "git ralph start --sandbox=sandbox-exec"))
        }
        (SandboxProgram::SandboxExec, SandboxProgram::Bubblewrap) => {
            Some(NoSandbox::new("sandbox-exec needs macOS", "git ralph start --sandbox=bwrap"))
        }
        _ if cfg!(not(any(target_os = "linux", target_os = "macos"))) => Some(NoSandbox::new("bubblewrap needs Linux", VIRTUAL)),
        _ => None,
    }
}

/// The last line of the error output, or else how the program ended.
fn said(ran: &Captured) -> String {
    let stderr = String::from_utf8_lossy(&ran.stderr);
    let last = stderr.lines().rev().map(str::trim).find(|line| !line.is_empty());
    last.map_or_else(|| format!("{:?}", ran.exit), str::to_owned)
}

/// The reason why `sandbox-exec` does not work, derived from its error message.
fn refusal(said: String) -> NoSandbox {
    match said {
        said if said.contains("sandbox_apply") => {
            NoSandbox::new(format!("git-ralph runs in a sandbox itself ({said})"), "start git-ralph outside of any sandbox")
        }
        said if said.contains("cannot be seen") => {
            NoSandbox::new(said, "put it on PATH, outside of the directories that the sandbox hides")
        }
        said => NoSandbox::new(said, ALLOWING),
    }
}

/// The reason why bubblewrap does not work, derived from its error message and the kernel's settings.
fn diagnosis(said: &str, kernel: Kernel) -> NoSandbox {
    let no_namespace = ["namespace", "uid map", "Operation not permitted", "Permission denied"].iter().any(|words| said.contains(words));
    let (why, remedy) = match kernel {
        _ if said.contains("cannot be seen") => return NoSandbox::new(said, "put it on PATH, or outside of /tmp, /var/tmp and /run"),
        _ if !no_namespace => return NoSandbox::new(said, "bwrap --ro-bind / / true   to see whether bubblewrap works at all"),
        Kernel { apparmor_restricts: true, .. } => {
            ("AppArmor forbids user namespaces", "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
        }
        Kernel { no_namespaces: true, .. } => ("user namespaces are switched off", "sudo sysctl -w user.max_user_namespaces=15000"),
        Kernel { switched_off: true, .. } => ("user namespaces are switched off", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
        Kernel { in_container: true, .. } => (
            "this container allows no user namespaces",
            "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined …",
        ),
        _ => ("the system allows no user namespaces", "bwrap --ro-bind / / true   to see whether bubblewrap works at all"),
    };
    NoSandbox::new(format!("{why} ({said})"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_bubblewrap_says_leads_to_the_remedy() {
        let refused = "bwrap: setting up uid map: Permission denied";
        let remedy = |said: &str, kernel| diagnosis(said, kernel).remedy;
        let ubuntu = Kernel { apparmor_restricts: true, ..Kernel::default() };
        assert!(remedy(refused, ubuntu).contains("kernel.apparmor_restrict_unprivileged_userns=0"));
        let container = Kernel { in_container: true, ..Kernel::default() };
        let denied = "bwrap: Creating new namespace failed: Operation not permitted";
        assert!(remedy(denied, container).contains("--security-opt seccomp=unconfined"));
        assert!(remedy(denied, Kernel { no_namespaces: true, ..container }).contains("user.max_user_namespaces"));
        assert!(remedy(denied, Kernel { switched_off: true, ..container }).contains("unprivileged_userns_clone=1"));
        assert!(remedy(denied, Kernel::default()).starts_with("bwrap "));
        let other = diagnosis("bwrap: Can't find source path /x: No such file or directory", ubuntu);
        assert!(other.why.contains("Can't find source path") && !other.remedy.contains("apparmor"), "{other:?}");
    }

    #[test]
    fn a_sandbox_of_another_system_is_refused_with_the_one_of_this_system() {
        let (bwrap, sandbox_exec) = (SandboxProgram::Bubblewrap, SandboxProgram::SandboxExec);
        assert_eq!(unsuitable(bwrap, sandbox_exec).unwrap().remedy, "git ralph start --sandbox=sandbox-exec");
        assert_eq!(unsuitable(sandbox_exec, bwrap).unwrap().why, "sandbox-exec needs macOS");
        assert_eq!(unsuitable(SANDBOX, SANDBOX), None);
    }

    #[test]
    fn what_sandbox_exec_says_leads_to_the_remedy() {
        let nested = refusal("sandbox-exec: sandbox_apply: Operation not permitted".to_owned());
        assert_eq!(nested.remedy, "start git-ralph outside of any sandbox");
        let profile = refusal("sandbox-exec: unbound variable: file-clone".to_owned());
        assert!(profile.why.contains("unbound variable") && profile.remedy.starts_with("sandbox-exec -p "), "{profile:?}");
    }
}
