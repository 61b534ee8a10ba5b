//! Tests `git ralph setup`: which files it writes, and which it leaves alone.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use git_ralph::install::{COMPLETIONS, PAGES};

use crate::support::{Output, World};

/// Every file below a directory with its content.
fn tree(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                found.insert(path.clone(), fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

/// Runs git-ralph with additional environment variables.
fn ralph(world: &World, program: &Path, env: &[(&str, &str)], args: &[&str]) -> Output {
    let output = world.command(program.to_str().unwrap(), args).envs(env.iter().copied()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Output { stdout: text(&output.stdout), stderr: text(&output.stderr), code: output.status.code().unwrap() }
}

#[test]
fn setup_installs_for_the_user_once_and_uninstall_removes_everything() {
    let world = World::empty();
    let home = world.outside("home");
    let said = world.ralph(&["setup"]).code(0).says("fpath=(~/.local/share/zsh/site-functions $fpath)").stdout;
    let files = tree(&home);
    assert_eq!(files.len(), PAGES.len() + COMPLETIONS.len());
    for (path, place) in
        [(".local/share/man/man1/git-ralph.1", "git-ralph.1"), (".local/share/man/man5/git-ralph-events.5", "git-ralph-events.5")]
    {
        let page = PAGES.iter().find(|page| page.name == place).unwrap();
        assert_eq!(files[&home.join(path)], page.text);
    }
    for path in [
        ".local/share/bash-completion/completions/git-ralph",
        ".local/share/zsh/site-functions/_git-ralph",
        ".local/share/zsh/site-functions/_git_ralph",
        ".config/fish/completions/git-ralph.fish",
        ".config/fish/conf.d/git-ralph.fish",
    ] {
        assert!(files.contains_key(&home.join(path)), "{path}");
    }
    assert!(files.keys().all(|path| said.contains(&format!("wrote {}\n", path.display()))), "{said}");
    let mode = fs::metadata(home.join(".local/share/man/man1/git-ralph.1")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    fs::write(home.join(".zshrc"), "fpath=(~/.local/share/zsh/site-functions $fpath)\n").unwrap();
    let again = world.ralph(&["setup"]).code(0).says("nothing to do").says("zsh: works as is").stdout;
    fs::remove_file(home.join(".zshrc")).unwrap();
    assert!(!again.contains("wrote"), "{again}");
    assert_eq!(tree(&home), files);
    world.ralph(&["setup", "--uninstall"]).code(0).says("removed");
    assert!(tree(&home).is_empty());
    world.ralph(&["setup", "--uninstall"]).code(0).says("nothing to do");
}

#[test]
fn a_dry_run_says_what_it_would_do_and_touches_nothing() {
    let world = World::empty();
    world.ralph(&["setup", "--dry-run"]).code(0).says("would write").says("man1/git-ralph-start.1");
    assert_eq!(fs::read_dir(world.outside("home")).unwrap().count(), 0);
    world.ralph(&["setup"]).code(0);
    let files = tree(&world.outside("home"));
    world.ralph(&["setup", "--uninstall", "--dry-run"]).code(0).says("would remove");
    assert_eq!(tree(&world.outside("home")), files);
}

#[test]
fn a_prefix_is_laid_out_as_packages_have_it() {
    let world = World::empty();
    let said = world.ralph(&["setup", "--prefix", "pkg/usr"]).code(0).stdout;
    let share = world.path("pkg/usr/share");
    for path in [
        "man/man1/git-ralph.1",
        "man/man1/git-ralph-start.1",
        "man/man5/git-ralph-events.5",
        "bash-completion/completions/git-ralph",
        "zsh/site-functions/_git-ralph",
        "zsh/site-functions/_git_ralph",
        "fish/vendor_completions.d/git-ralph.fish",
        "fish/vendor_conf.d/git-ralph.fish",
    ] {
        assert!(share.join(path).is_file(), "{path}");
    }
    assert!(!said.contains("zshrc"), "a package has no start file: {said}");
    assert!(tree(&world.outside("home")).is_empty());
    world.ralph(&["setup", "--prefix", "pkg/usr", "--uninstall"]).code(0);
    assert!(tree(&share).is_empty());
}

#[test]
fn an_older_file_of_ours_is_replaced_and_a_foreign_file_is_not() {
    let world = World::empty();
    let home = world.outside("home");
    world.ralph(&["setup"]).code(0);
    let (ours, foreign) = (home.join(".config/fish/completions/git-ralph.fish"), home.join(".local/share/man/man1/git-ralph.1"));
    fs::write(&ours, "# Part of git-ralph, of another version\n").unwrap();
    world.ralph(&["setup"]).code(0).says(&format!("wrote {}\n", ours.display()));
    fs::write(&ours, "# Part of git-ralph, of another version\n").unwrap();
    fs::write(&foreign, "mine\n").unwrap();
    world.ralph(&["setup"]).code(2).says(&format!("{} exists and was not written by git-ralph: nothing was written", foreign.display()));
    assert!(fs::read_to_string(&ours).unwrap().contains("of another version"), "nothing was written");
    world.ralph(&["setup", "--uninstall"]).code(0).says(&format!("warning: {} was not written by git-ralph", foreign.display()));
    assert_eq!(tree(&home), BTreeMap::from([(foreign.clone(), "mine\n".to_owned())]));
    world.ralph(&["setup", "--force"]).code(0);
    assert!(fs::read_to_string(&foreign).unwrap().contains("Part of git-ralph"));
}

#[test]
fn a_link_is_neither_followed_nor_removed() {
    let world = World::empty();
    let link = world.outside("home/.local/share/bash-completion/completions/git-ralph");
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    let target = world.outside("target");
    fs::write(&target, "Part of git-ralph\n").unwrap();
    symlink(&target, &link).unwrap();
    world.ralph(&["setup"]).code(2).says("was not written by git-ralph");
    world.ralph(&["setup", "--uninstall"]).code(0).says("left there");
    assert_eq!(fs::read_link(&link).unwrap(), target);
    assert_eq!(fs::read_to_string(&target).unwrap(), "Part of git-ralph\n");
}

/// The program in a directory called `bin` outside of the home directory, and a PATH that contains it.
fn installed_locally(world: &World) -> (PathBuf, String) {
    let bin = world.outside("local/bin");
    fs::create_dir_all(&bin).unwrap();
    let program = bin.join("git-ralph");
    // A link, because a copy could fail to execute: a process that another test has just forked may still have it open for writing.
    symlink(env!("CARGO_BIN_EXE_git-ralph"), &program).unwrap();
    (program, format!("{}:/usr/bin:/bin", bin.display()))
}

#[test]
fn the_manual_goes_beside_a_program_in_a_directory_called_bin() {
    let world = World::empty();
    let (program, path) = installed_locally(&world);
    let env = [("PATH", path.as_str())];
    ralph(&world, &program, &env, &["setup"]).code(0).says("man: works as is");
    assert!(world.outside("local/share/man/man1/git-ralph.1").is_file());
    assert!(!world.outside("home/.local/share/man").exists());
    ralph(&world, &program, &env, &["setup", "--uninstall"]).code(0);
    assert!(tree(&world.outside("local/share")).is_empty());
}

#[test]
fn the_places_of_xdg_are_honoured_and_a_home_is_needed() {
    let world = World::empty();
    let (data, config) = (world.outside("data"), world.outside("config"));
    let program = Path::new(env!("CARGO_BIN_EXE_git-ralph"));
    let env = [("XDG_DATA_HOME", data.to_str().unwrap()), ("XDG_CONFIG_HOME", config.to_str().unwrap())];
    ralph(&world, program, &env, &["setup"]).code(0).says(&format!("fpath=({}/zsh/site-functions $fpath)", data.display()));
    assert!(data.join("man/man1/git-ralph.1").is_file() && config.join("fish/completions/git-ralph.fish").is_file());
    assert!(tree(&world.outside("home")).is_empty());
    ralph(&world, program, &[("HOME", "")], &["setup"]).code(128).says("HOME is not set").says("hint: git ralph setup --prefix /usr/local");
}

#[test]
fn a_path_that_setup_cannot_write_is_named() {
    let world = World::empty();
    fs::write(world.outside("home/.config"), "a file\n").unwrap();
    world.ralph(&["setup"]).code(128).says("home/.config/fish");
}

#[test]
fn files_that_another_installer_put_beside_the_program_stay() {
    let world = World::empty();
    let (program, path) = installed_locally(&world);
    let env = [("PATH", path.as_str())];
    let prefix = world.outside("local");
    ralph(&world, &program, &env, &["setup", "--prefix", prefix.to_str().unwrap()]).code(0);
    let before = tree(&world.outside("local/share"));
    ralph(&world, &program, &env, &["setup", "--uninstall"]).code(0).says("nothing to do");
    ralph(&world, &program, &env, &["setup"]).code(0);
    ralph(&world, &program, &env, &["setup", "--uninstall"]).code(0);
    assert_eq!(tree(&world.outside("local/share")), before);
    assert!(tree(&world.outside("home")).is_empty());
}
