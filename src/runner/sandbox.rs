//! The sandbox: runs a command where it can write to its workspace and little else, and sees no credentials. The program that makes it is
//! bubblewrap on Linux and `sandbox-exec` on macOS.

use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::mounts::{Access, Mounts};
use super::seatbelt;
use crate::config::Environment;
use crate::process::Program;
use crate::sandbox_program::SandboxProgram;

/// The name of bubblewrap's executable.
pub const BWRAP: &str = "bwrap";

/// Directories that are empty and private in the sandbox. They hold sockets of terminal multiplexers, the session bus, container daemons
/// and key agents such as `ssh-agent`. A process that could reach those could act outside of the sandbox.
const PRIVATE: [&str; 3] = ["/tmp", "/var/tmp", "/run"];

/// Paths in private directories that are needed nevertheless: for looking up host names, and for programs on NixOS.
const NEEDED: [&str; 5] =
    ["/run/systemd/resolve", "/run/NetworkManager/resolv.conf", "/run/resolvconf", "/run/current-system", "/run/wrappers"];

/// Paths of credentials. A path begins with `~` or a variable. If an XDG variable is not set, its default is used.
const CREDENTIALS: [&str; 60] = [
    "~/.ssh",
    "~/.gnupg",
    "$GNUPGHOME",
    "~/.netrc",
    "$NETRC",
    "~/.git-credentials",
    "$XDG_CONFIG_HOME/git/credentials",
    "$XDG_CONFIG_HOME/gh",
    "$GH_CONFIG_DIR",
    "$XDG_CONFIG_HOME/hub",
    "$XDG_CONFIG_HOME/glab-cli",
    "~/.aws",
    "$AWS_SHARED_CREDENTIALS_FILE",
    "$AWS_CONFIG_FILE",
    "$XDG_CONFIG_HOME/gcloud",
    "$CLOUDSDK_CONFIG",
    "$GOOGLE_APPLICATION_CREDENTIALS",
    "~/.boto",
    "~/.azure",
    "$AZURE_CONFIG_DIR",
    "~/.oci",
    "$XDG_CONFIG_HOME/doctl",
    "$XDG_CONFIG_HOME/hcloud",
    "~/.fly",
    "$XDG_CONFIG_HOME/heroku",
    "~/.kube",
    "$KUBECONFIG",
    "~/.docker",
    "$DOCKER_CONFIG",
    "$XDG_CONFIG_HOME/containers/auth.json",
    "~/.npmrc",
    "$NPM_CONFIG_USERCONFIG",
    "~/.yarnrc.yml",
    "~/.pypirc",
    "$CARGO_HOME/credentials",
    "$CARGO_HOME/credentials.toml",
    "~/.gem/credentials",
    "~/.m2/settings.xml",
    "~/.gradle/gradle.properties",
    "~/.terraform.d",
    "~/.terraformrc",
    "~/.vault-token",
    "~/.password-store",
    "$XDG_CONFIG_HOME/op",
    "~/.1password",
    "$XDG_DATA_HOME/keyrings",
    "$XDG_DATA_HOME/kwalletd",
    "~/.pgpass",
    "~/.my.cnf",
    "~/.s3cfg",
    "$XDG_CONFIG_HOME/rclone",
    "$XDG_CONFIG_HOME/sops",
    "~/.mozilla",
    "$XDG_CONFIG_HOME/google-chrome",
    "$XDG_CONFIG_HOME/chromium",
    "$XDG_CONFIG_HOME/BraveSoftware",
    "~/.thunderbird",
    "$SSH_AUTH_SOCK",
    "$XDG_RUNTIME_DIR",
    "$TMUX_TMPDIR",
];

/// The directory of git-ralph's vaults, which hold, among others, the keys that chain journals.
const VAULTS: &str = "$XDG_STATE_HOME/git-ralph";

/// Caches of tools. The sandbox shares them with the user's own tools.
const CACHES: [&str; 16] = [
    "$XDG_CACHE_HOME",
    "~/.npm",
    "~/.yarn",
    "~/.pnpm-store",
    "$XDG_DATA_HOME/pnpm/store",
    "~/.bun/install/cache",
    "$CARGO_HOME/registry",
    "$CARGO_HOME/git",
    "$CARGO_HOME/.package-cache",
    "$CARGO_HOME/.package-cache-mutate",
    "$CARGO_HOME/.global-cache",
    "~/go/pkg",
    "~/.m2/repository",
    "~/.gradle",
    "~/.nuget",
    "~/.ivy2",
];

/// Environment variables that are passed into the sandbox. A `*` at the end matches any rest.
const PASSED: &[&str] = &[
    // User and directories.
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "HOSTNAME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    // Language and terminal.
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "LINES",
    // The network.
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "FTP_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "ftp_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    // git-ralph and git.
    "RALPH_*",
    "GIT_AUTHOR_*",
    "GIT_COMMITTER_*",
    "GIT_CONFIG_*",
    "GIT_CEILING_DIRECTORIES",
    "GIT_TERMINAL_PROMPT",
    "GIT_EDITOR",
    "GIT_PAGER",
    "EMAIL",
    // Locations of tool chains.
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "GOCACHE",
    "GOMODCACHE",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "NIX_PATH",
    "LD_LIBRARY_PATH",
    "PKG_CONFIG_PATH",
];

/// A sandbox for the commands of one run.
#[derive(Clone, Debug)]
pub struct Sandbox {
    program: SandboxProgram,
    environment: Environment,
    state: Vec<PathBuf>,
    write: Vec<PathBuf>,
    pass: Vec<String>,
}

/// What an agent client needs besides its workspace.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientNeeds {
    /// The paths where the client keeps its state, written like the lists in this module.
    pub state: &'static [&'static str],
    /// The variables that hold the client's keys and settings.
    pub variables: &'static [&'static str],
}

/// What the user's settings allow in addition.
#[derive(Clone, Copy, Debug, Default)]
pub struct Additions<'a> {
    /// Paths that are writable.
    pub write: &'a [String],
    /// Variables that are passed.
    pub pass: &'a [String],
}

/// The directories of a sandboxed command.
#[derive(Clone, Copy, Debug)]
pub struct SandboxPlace<'a> {
    /// The directory that the command works in.
    pub workspace: &'a Path,
    /// The user's checkout. For a run in place, this is the workspace.
    pub root: &'a Path,
    /// The git directory of the user's checkout.
    pub git_dir: &'a Path,
    /// The git directory that all work trees of the user's repository share.
    pub common_dir: &'a Path,
    /// Files of the run that the command can write.
    pub files: &'a [PathBuf],
}

impl Sandbox {
    /// A sandbox for the commands of a client. `root` is the user's checkout.
    #[must_use]
    pub fn new(program: SandboxProgram, environment: &Environment, root: &Path, client: ClientNeeds, additions: Additions<'_>) -> Self {
        let state = client.state.iter().filter_map(|path| place(path, environment)).collect();
        let write = additions.write.iter().map(|path| root.join(environment.expanded(path))).collect();
        let pass = client.variables.iter().map(|name| (*name).to_owned()).chain(additions.pass.iter().cloned()).collect();
        Sandbox { program, environment: environment.clone(), state, write, pass }
    }

    /// The paths from the user's settings that should be writable but do not exist.
    pub fn missing(&self) -> impl Iterator<Item = &Path> {
        self.write.iter().filter(|path| !path.exists()).map(PathBuf::as_path)
    }

    /// The command inside the sandbox, with only the variables that pass.
    #[must_use]
    pub fn wrap(&self, program: Program, at: &SandboxPlace<'_>) -> Program {
        let env = program.env.iter().filter(|(name, _)| self.passes(name)).cloned().collect();
        Program { env, ..self.inside(program, at) }
    }

    /// The command inside a sandbox that a runner starts. The runner gets the whole environment, because it may need it. `env -u` then
    /// removes the variables that do not pass. The command line contains their names but not their values.
    #[must_use]
    pub fn wrap_for_runner(&self, program: Program, at: &SandboxPlace<'_>) -> Program {
        let removed: Vec<OsString> = program.env.iter().filter(|(name, _)| !self.passes(name)).map(|(name, _)| name.clone()).collect();
        let inside = self.inside(program, at);
        let unset = removed.into_iter().flat_map(|name| [OsString::from("-u"), name]);
        let args = unset.chain([inside.program]).chain(inside.args).collect();
        Program { program: "env".into(), args, ..inside }
    }

    /// The program that makes the sandbox.
    #[must_use]
    pub fn program(&self) -> SandboxProgram {
        self.program
    }

    fn inside(&self, program: Program, at: &SandboxPlace<'_>) -> Program {
        let mounts = self.mounts(&program, at);
        match self.program {
            SandboxProgram::Bubblewrap => self.inside_bubblewrap(program, &mounts, at.workspace),
            SandboxProgram::SandboxExec => seatbelt::inside(program, &mounts),
        }
    }

    fn inside_bubblewrap(&self, program: Program, mounts: &Mounts, workspace: &Path) -> Program {
        let mut args: Vec<OsString> = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"].map(OsString::from).to_vec();
        // Root can write here even without capabilities, for example to the program that the kernel runs after a crash.
        for path in ["/proc/sys", "/proc/sysrq-trigger"] {
            args.extend(["--ro-bind-try", path, path].map(OsString::from));
        }
        args.extend(mounts.arguments());
        args.extend(
            ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL"]
                .map(OsString::from),
        );
        args.extend(["--die-with-parent", "--new-session", "--chdir"].map(OsString::from));
        args.extend([workspace.into(), "--".into(), program.program]);
        args.extend(program.args);
        Program { program: self.bwrap(mounts).map_or_else(|| BWRAP.into(), PathBuf::into_os_string), args, ..program }
    }

    /// The first bubblewrap on `PATH` that a sandboxed process could not have written.
    fn bwrap(&self, mounts: &Mounts) -> Option<PathBuf> {
        let dirs = self.environment.path();
        let mut found = std::env::split_paths(&dirs).filter(|dir| dir.is_absolute()).map(|dir| dir.join(BWRAP));
        found.find(|path| is_program(path) && path.canonicalize().is_ok_and(|real| !mounts.is_writable(&real)))
    }

    /// Whether the program that makes the sandbox is installed.
    #[must_use]
    pub fn is_installed(&self) -> bool {
        match self.program {
            SandboxProgram::Bubblewrap => self.bwrap(&Mounts::default()).is_some(),
            SandboxProgram::SandboxExec => is_program(Path::new(seatbelt::SANDBOX_EXEC)),
        }
    }

    fn mounts(&self, program: &Program, at: &SandboxPlace<'_>) -> Mounts {
        let mut mounts = Mounts::default();
        let mut set = |paths: Vec<PathBuf>, access| paths.iter().for_each(|path| mounts.set(path, access));
        let places = |list: &[&str]| list.iter().filter_map(|path| place(path, &self.environment)).collect::<Vec<_>>();
        let repository = || [at.root, at.git_dir, at.common_dir].map(Path::to_owned).into_iter();
        let private = self.private();
        set(private.iter().map(PathBuf::from).collect(), Access::Private);
        set(places(&CREDENTIALS), Access::Hidden);
        if self.program == SandboxProgram::SandboxExec {
            set(places(&seatbelt::CREDENTIALS), Access::Hidden);
            set(places(&seatbelt::CACHES), Access::Writable);
        }
        let tmux = self.environment.get("TMUX").map(|socket| socket.to_string_lossy().split(',').next().unwrap_or_default().into());
        set(tmux.into_iter().collect(), Access::Hidden);
        make_dirs(self.state.iter().chain(&places(&CACHES[..1])));
        set(places(&CACHES), Access::Writable);
        set(self.state.clone(), Access::Writable);
        set(self.write.clone(), Access::Writable);
        set(places(&[VAULTS]), Access::Hidden);
        set(repository().chain(alternates(at.common_dir)).collect(), Access::ReadOnly);
        // The parent directory holds the private clones of other attempts.
        set(at.workspace.parent().filter(|_| at.workspace != at.root).map(Path::to_owned).into_iter().collect(), Access::ReadOnly);
        set(vec![at.workspace.to_owned()], Access::Writable);
        if at.workspace == at.root {
            set([at.root.join(".git"), at.git_dir.to_owned(), at.common_dir.to_owned()].to_vec(), Access::ReadOnly);
        }
        set(at.files.to_vec(), Access::Writable);
        // Needed paths may be in a hidden or private directory: programs, files that the command line names, configuration.
        let path = self.environment.path();
        let named = [&program.program].into_iter().chain(&program.args).map(PathBuf::from).filter(|path| path.is_file());
        let needed = std::env::split_paths(&path).chain(named).filter(|path| path.is_absolute()).chain(NEEDED.map(PathBuf::from));
        let is_private = |path: &PathBuf| private.iter().any(|private| path == Path::new(private));
        let configuration = places(&["~", "$GIT_CONFIG_GLOBAL", "$GIT_CONFIG_SYSTEM"]).into_iter().filter(|path| !is_private(path));
        needed.chain(configuration).for_each(|path| mounts.show(&path));
        mounts
    }

    /// The directories for temporary files.
    fn private(&self) -> &'static [&'static str] {
        match self.program {
            SandboxProgram::Bubblewrap => &PRIVATE,
            SandboxProgram::SandboxExec => &seatbelt::TEMPORARY,
        }
    }

    fn passes(&self, name: &OsStr) -> bool {
        let Some(name) = name.to_str() else { return false };
        let matches = |pattern: &str| pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start));
        let system: &[&str] = if self.program == SandboxProgram::SandboxExec { &seatbelt::PASSED } else { &[] };
        PASSED.iter().chain(system).any(|pattern| matches(pattern)) || self.pass.iter().any(|pattern| matches(pattern))
    }
}

/// Expands a path: `~` is the user's home, `$NAME` a variable. `None` if the variable is not set and has no default.
fn place(text: &str, environment: &Environment) -> Option<PathBuf> {
    let (start, rest) = text.split_once('/').unwrap_or((text, ""));
    let home = environment.get("HOME").map(Path::new);
    let start = match start.strip_prefix('$') {
        None => home?.to_owned(),
        Some(name) => match (environment.get(name).map(PathBuf::from).filter(|path| path.is_absolute()), name) {
            (Some(path), _) => path,
            (None, "XDG_CONFIG_HOME") => home?.join(".config"),
            (None, "XDG_DATA_HOME") => home?.join(".local/share"),
            (None, "XDG_STATE_HOME") => home?.join(".local/state"),
            (None, "XDG_CACHE_HOME") => home?.join(".cache"),
            (None, "CARGO_HOME") => home?.join(".cargo"),
            (None, _) => return None,
        },
    };
    Some(if rest.is_empty() { start } else { start.join(rest) }).filter(|path| path.is_absolute())
}

/// Creates the directories that a client or tool would create when it first starts, because it cannot do that inside the sandbox.
fn make_dirs<'a>(paths: impl Iterator<Item = &'a PathBuf>) {
    for path in paths.filter(|path| path.extension().is_none_or(|kind| kind != "json")) {
        // A client that cannot write there reports that itself.
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(path);
    }
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The object directories that the repository borrows objects from.
fn alternates(common_dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut next = vec![common_dir.join("objects")];
    while let Some(objects) = next.pop() {
        let Ok(text) = std::fs::read_to_string(objects.join("info/alternates")) else { continue };
        for path in text.lines().filter(|line| !line.starts_with('#')).map(|line| objects.join(line)) {
            if !found.contains(&path) && found.len() < 100 {
                found.push(path.clone());
                next.push(path);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sandbox(client: ClientNeeds, pass: &[String]) -> Sandbox {
        let vars = vec![("HOME".into(), "/nowhere".into()), ("CARGO_HOME".into(), "/c".into()), ("KUBECONFIG".into(), "relative".into())];
        let environment = Environment::capture().unwrap().moved_to(Path::new("/"), vars);
        Sandbox::new(
            SandboxProgram::Bubblewrap,
            &environment,
            Path::new("/r"),
            client,
            Additions { write: &["~/a".into(), "b".into()], pass },
        )
    }

    #[test]
    fn places_follow_the_variables_that_name_them() {
        let environment = sandbox(ClientNeeds::default(), &[]).environment;
        let at = |text: &str| place(text, &environment).map(|path| path.display().to_string());
        assert_eq!(at("~/.ssh").as_deref(), Some("/nowhere/.ssh"));
        assert_eq!(at("$CARGO_HOME/registry").as_deref(), Some("/c/registry"));
        assert_eq!(at("$XDG_CONFIG_HOME/gh").as_deref(), Some("/nowhere/.config/gh"));
        assert_eq!((at("$KUBECONFIG"), at("$SSH_AUTH_SOCK")), (None, None));
    }

    #[test]
    fn only_listed_variables_and_those_of_the_client_and_the_user_pass() {
        let client = ClientNeeds { state: &[], variables: &["ANTHROPIC_*"] };
        let sandbox = sandbox(client, &["MY_FLAG".to_owned()]);
        for name in ["PATH", "LC_ALL", "https_proxy", "RALPH_RUN", "GIT_AUTHOR_NAME", "ANTHROPIC_API_KEY", "MY_FLAG"] {
            assert!(sandbox.passes(name.as_ref()), "{name}");
        }
        for name in
            ["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "NPM_TOKEN", "SSH_AUTH_SOCK", "OPENAI_API_KEY", "MY_FLAGS", "DOCKER_HOST", "TMPDIR"]
        {
            assert!(!sandbox.passes(name.as_ref()), "{name}");
        }
    }

    #[test]
    fn paths_of_the_user_start_at_the_home_or_at_the_checkout() {
        let sandbox = sandbox(ClientNeeds::default(), &[]);
        assert_eq!(sandbox.missing().collect::<Vec<_>>(), [Path::new("/nowhere/a"), Path::new("/r/b")]);
    }

    #[test]
    fn behind_a_runner_variables_are_removed_by_name_and_their_values_are_not_on_the_command_line() {
        let program = Program {
            program: "agent".into(),
            args: vec!["-p".into()],
            env: vec![("PATH".into(), "/bin".into()), ("TOKEN".into(), "secret".into())],
            cwd: "/".into(),
        };
        let root = Path::new("/");
        let at = SandboxPlace { workspace: root, root, git_dir: root, common_dir: root, files: &[] };
        let sandbox = sandbox(ClientNeeds::default(), &[]);
        let direct = sandbox.wrap(program.clone(), &at);
        assert_eq!(direct.env, [("PATH".into(), "/bin".into())]);
        let behind = sandbox.wrap_for_runner(program.clone(), &at);
        assert_eq!((behind.program.to_str(), &behind.args[..2]), (Some("env"), &["-u".into(), "TOKEN".into()][..]));
        assert_eq!((behind.env, behind.args.last()), (program.env, Some(&"-p".into())));
        assert!(!behind.args.iter().any(|word| word == "secret"));
    }
}
