//! Tests whether the sandbox works on this machine, with the command line that attempts use, and suggests a remedy if it does not.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::{Sandbox, SandboxPlace};
use crate::process::{Exit, Program, capture};

/// The time limit of the test. A sandbox normally starts within milliseconds.
const LIMIT: Duration = Duration::from_secs(20);

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
    if !cfg!(target_os = "linux") {
        return Err(NoSandbox::new("bubblewrap needs Linux", "run git-ralph in a container or a virtual machine"));
    }
    if !sandbox.is_installed() {
        return Err(NoSandbox::new("bubblewrap (bwrap) is not installed", "sudo apt install bubblewrap   (or: dnf, pacman, zypper, apk)"));
    }
    if let Some(path) = sandbox.missing().next() {
        return Err(NoSandbox::new(
            format!("ralph.sandboxWrite names {}, which does not exist", path.display()),
            "git config --show-origin --get-all ralph.sandboxWrite",
        ));
    }
    let program = sandbox.wrap(command, at);
    match capture(&program, None, Some(LIMIT)).await {
        Ok(ran) if ran.exit == Exit::Success => Ok(()),
        Ok(ran) => Err(diagnosis(&String::from_utf8_lossy(&ran.stderr), &ran.exit, Kernel::look())),
        Err(error) => Err(NoSandbox::new(format!("bubblewrap cannot be started: {error}"), "bwrap --ro-bind / / true")),
    }
}

/// The reason why bubblewrap does not work, derived from its error message and the kernel's settings.
fn diagnosis(stderr: &str, exit: &Exit, kernel: Kernel) -> NoSandbox {
    let said = stderr.lines().rev().map(str::trim).find(|line| !line.is_empty()).map_or_else(|| format!("{exit:?}"), str::to_owned);
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
        let refused = "bwrap: setting up uid map: Permission denied\n";
        let remedy = |stderr: &str, kernel| diagnosis(stderr, &Exit::Code { code: 1 }, kernel).remedy;
        let ubuntu = Kernel { apparmor_restricts: true, ..Kernel::default() };
        assert!(remedy(refused, ubuntu).contains("kernel.apparmor_restrict_unprivileged_userns=0"));
        let container = Kernel { in_container: true, ..Kernel::default() };
        let denied = "bwrap: Creating new namespace failed: Operation not permitted";
        assert!(remedy(denied, container).contains("--security-opt seccomp=unconfined"));
        assert!(remedy(denied, Kernel { no_namespaces: true, ..container }).contains("user.max_user_namespaces"));
        assert!(remedy(denied, Kernel { switched_off: true, ..container }).contains("unprivileged_userns_clone=1"));
        assert!(remedy(denied, Kernel::default()).starts_with("bwrap "));
        let other = diagnosis("bwrap: Can't find source path /x: No such file or directory\n", &Exit::Code { code: 1 }, ubuntu);
        assert!(other.why.contains("Can't find source path") && !other.remedy.contains("apparmor"), "{other:?}");
    }
}
