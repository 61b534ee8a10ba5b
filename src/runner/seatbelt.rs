//! The sandbox of macOS: the profile that `sandbox-exec` enforces, and its command line (pure).
//!
//! A profile is a list of rules, of which the last one that matches decides. macOS has no mounts of its own for a process: what is hidden
//! is refused, and directories for temporary files are the real ones.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::mounts::{Access, Mounts};
use crate::process::Program;

/// The executable. macOS protects it from changes, so it is not looked up on `PATH`, where an agent could have put another one.
pub(super) const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";

/// Directories for temporary files. Programs of macOS use the third one even if `TMPDIR` is not set.
pub(super) const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/var/folders"];

/// Paths of credentials that only macOS has, in addition to those of every system.
pub(super) const CREDENTIALS: [&str; 13] = [
    "~/Library/Keychains",
    "~/Library/Cookies",
    "~/Library/Safari",
    "~/Library/Mail",
    "~/Library/Messages",
    "~/Library/Thunderbird",
    "~/Library/Application Support/Google/Chrome",
    "~/Library/Application Support/Chromium",
    "~/Library/Application Support/BraveSoftware",
    "~/Library/Application Support/Microsoft Edge",
    "~/Library/Application Support/Firefox",
    "~/Library/Application Support/1Password",
    "~/Library/Group Containers/2BUA8C4S2C.com.1password",
];

/// Caches of tools that only macOS has, in addition to those of every system.
pub(super) const CACHES: [&str; 3] = ["~/Library/Caches", "~/Library/pnpm/store", "~/Library/Developer/Xcode/DerivedData"];

/// Environment variables that pass in addition: the temporary directory is the real one.
pub(super) const PASSED: [&str; 2] = ["TMPDIR", "__CF_USER_TEXT_ENCODING"];

/// The rules before those for paths. They take the place of bubblewrap's namespaces: no signals to processes outside, nothing about them,
/// and no way to let another process act. The system's name resolution and log stay reachable.
const BASE: &str = r##"(version 1)
(allow default)
(deny appleevent-send)
(deny job-creation)
(deny lsopen)
(deny mach-lookup (global-name "com.apple.SecurityServer") (global-name "com.apple.pasteboard.1"))
(deny process-info*)
(allow process-info* (target same-sandbox))
(deny signal)
(allow signal (target same-sandbox))
(deny sysctl-read (sysctl-name "kern.procargs2"))
(deny network-outbound (remote unix-socket (subpath "/private/var/run")))
(allow network-outbound (remote unix-socket (path-literal "/private/var/run/mDNSResponder")))
(allow network-outbound (remote unix-socket (path-literal "/private/var/run/syslog")))
(deny file-write* file-link)
(allow file-write* (regex #"^/dev/(null|zero|random|urandom|dtracehelper|ptmx|tty|ttys[0-9]+|stdout|stderr|fd/[0-9]+)$"))
"##;

/// The command inside the sandbox.
pub(super) fn inside(program: Program, mounts: &Mounts) -> Program {
    let mut args: Vec<OsString> = vec!["-p".into(), profile(mounts), program.program];
    args.extend(program.args);
    Program { program: SANDBOX_EXEC.into(), args, ..program }
}

/// The profile for these paths.
fn profile(mounts: &Mounts) -> OsString {
    let mut rules = BASE.as_bytes().to_vec();
    for (path, access, above) in mounts.entries() {
        if access == above {
            continue;
        }
        for (what, filter) in access_rules(access) {
            rule(&mut rules, what, *filter, path);
        }
        let is_open = |access| matches!(access, Access::Writable | Access::Private);
        // Programs look up the directories above the one that they work in.
        let unseen = path.ancestors().skip(1).take_while(|dir| access != Access::Hidden && mounts.of(dir) == Access::Hidden);
        unseen.for_each(|dir| rule(&mut rules, "allow file-read-metadata", Filter::Itself, dir));
        // A rule is about a path. A directory above it must not be renamed, or else its content would have another path.
        let movable = path.ancestors().skip(1).take_while(|dir| !is_open(access) && is_open(mounts.of(dir)));
        movable.for_each(|dir| rule(&mut rules, "deny file-write-unlink", Filter::Itself, dir));
    }
    OsString::from_vec(rules)
}

/// What a rule is about.
#[derive(Clone, Copy)]
enum Filter {
    /// The path.
    Itself,
    /// The path and everything below it.
    Below,
    /// The sockets at and below the path.
    Sockets,
}

/// The rules that give this access to a path and everything below it.
fn access_rules(access: Access) -> &'static [(&'static str, Filter)] {
    match access {
        Access::Private => &[("allow file*", Filter::Below), ("deny network-outbound", Filter::Sockets)],
        Access::Hidden => &[("deny file*", Filter::Below), ("deny network-outbound", Filter::Sockets)],
        Access::ReadOnly => &[("allow file*", Filter::Below), ("deny file-write* file-link", Filter::Below)],
        Access::Writable => &[("allow file*", Filter::Below), ("allow network-outbound", Filter::Sockets)],
    }
}

fn rule(rules: &mut Vec<u8>, what: &str, filter: Filter, path: &Path) {
    let (start, end) = match filter {
        Filter::Itself => ("(literal ", "))\n"),
        Filter::Below => ("(subpath ", "))\n"),
        Filter::Sockets => ("(remote unix-socket (subpath ", ")))\n"),
    };
    rules.extend_from_slice(format!("({what} {start}").as_bytes());
    rules.extend(quoted(path.as_os_str().as_bytes()));
    rules.extend_from_slice(end.as_bytes());
}

/// A string of the profile's language.
fn quoted(text: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            quoted.push(b'\\');
        }
        quoted.push(*byte);
    }
    quoted.push(b'"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules for the paths, without those that every profile begins with.
    fn rules(entries: &[(&str, Access)]) -> Vec<String> {
        let profile = profile(&Mounts::of_entries(entries)).into_string().unwrap();
        profile.strip_prefix(BASE).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_program_and_its_arguments_follow_the_profile_on_the_command_line() {
        let env = vec![("PATH".into(), "/bin".into())];
        let program = Program { program: "agent".into(), args: vec!["-p".into(), "a b".into()], env: env.clone(), cwd: "/w".into() };
        let inside = inside(program, &Mounts::of_entries(&[("/w", Access::Writable)]));
        assert_eq!(inside.program, "/usr/bin/sandbox-exec");
        assert_eq!((&inside.args[0], &inside.args[2..]), (&"-p".into(), &["agent".into(), "-p".into(), "a b".into()][..]));
        assert!(
            inside.args[1]
                .to_str()
                .unwrap()
                .ends_with("(allow file* (subpath \"/w\"))\n(allow network-outbound (remote unix-socket (subpath \"/w\")))\n")
        );
        assert_eq!((inside.cwd.to_str(), inside.env), (Some("/w"), env));
    }

    #[test]
    fn nothing_is_writable_by_default_and_no_rule_restricts_the_network() {
        let profile = profile(&Mounts::default()).into_string().unwrap();
        assert!(profile.starts_with("(version 1)\n(allow default)\n"));
        assert!(profile.contains("\n(deny file-write* file-link)\n"));
        for line in profile.lines() {
            assert_eq!(line.matches('(').count(), line.matches(')').count(), "{line}");
            assert!(!line.contains("network") || line.contains("unix-socket"), "{line}");
        }
    }

    #[test]
    fn in_place_the_git_directory_is_read_only_and_cannot_be_moved_away() {
        let learnings = "/r/.git/ralph/learnings.md";
        assert_eq!(
            rules(&[("/r", Access::Writable), ("/r/.git", Access::ReadOnly), (learnings, Access::Writable)]),
            [
                "(allow file* (subpath \"/r\"))",
                "(allow network-outbound (remote unix-socket (subpath \"/r\")))",
                "(allow file* (subpath \"/r/.git\"))",
                "(deny file-write* file-link (subpath \"/r/.git\"))",
                "(deny file-write-unlink (literal \"/r\"))",
                "(allow file* (subpath \"/r/.git/ralph/learnings.md\"))",
                "(allow network-outbound (remote unix-socket (subpath \"/r/.git/ralph/learnings.md\")))",
            ]
        );
        let deep = rules(&[("/w", Access::Writable), ("/w/a/b/secret", Access::Hidden)]);
        for dir in ["/w/a/b", "/w/a", "/w"] {
            assert!(deep.contains(&format!("(deny file-write-unlink (literal \"{dir}\"))")), "{dir}: {deep:?}");
        }
    }

    #[test]
    fn credentials_are_refused_also_in_a_temporary_directory_and_what_is_needed_in_them_is_shown() {
        assert_eq!(
            rules(&[("/private/tmp", Access::Private), ("/private/tmp/agent.sock", Access::Hidden)]),
            [
                "(allow file* (subpath \"/private/tmp\"))",
                "(deny network-outbound (remote unix-socket (subpath \"/private/tmp\")))",
                "(deny file* (subpath \"/private/tmp/agent.sock\"))",
                "(deny network-outbound (remote unix-socket (subpath \"/private/tmp/agent.sock\")))",
                "(deny file-write-unlink (literal \"/private/tmp\"))",
            ]
        );
        assert_eq!(
            rules(&[("/h/.aws", Access::Hidden), ("/h/.aws/a/repo", Access::Writable), ("/h/.aws/cli", Access::Hidden)])[2..],
            [
                "(allow file* (subpath \"/h/.aws/a/repo\"))",
                "(allow network-outbound (remote unix-socket (subpath \"/h/.aws/a/repo\")))",
                "(allow file-read-metadata (literal \"/h/.aws/a\"))",
                "(allow file-read-metadata (literal \"/h/.aws\"))",
            ]
        );
    }

    #[test]
    fn a_path_cannot_add_rules_to_the_profile() {
        let rules = rules(&[("/w/\") (subpath \"/\\", Access::Hidden)]);
        assert_eq!(rules[0], r#"(deny file* (subpath "/w/\") (subpath \"/\\"))"#);
    }
}
