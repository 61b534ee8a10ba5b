//! The actions of users and agents as shell scripts, and those that are switched off.

/// Who performs an action, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The user, before the start.
    Before,
    /// The user, between two commands.
    User,
    Agent,
}

/// A kind of action. The plan replaces `$F`, `$B`, `$T` and similar words in `shell` by files, branches and contents.
#[derive(Debug)]
pub struct Kind {
    pub name: &'static str,
    pub by: &'static [Who],
    pub shell: &'static str,
}

/// Actions and verdicts that are drawn but left out, each with the reason; none at present.
pub const SWITCHED_OFF: &[(&str, &str)] = &[];

pub fn is_on(name: &str) -> bool {
    !SWITCHED_OFF.iter().any(|(off, _)| *off == name)
}

/// Whether `RALPH_STRESS_FAVOUR` asks for an action: one of its words is in the action's name.
pub fn is_favoured(name: &str) -> bool {
    std::env::var("RALPH_STRESS_FAVOUR").is_ok_and(|words| words.split(',').any(|word| name.contains(word)))
}

const EVERYBODY: &[Who] = &[Who::Before, Who::User, Who::Agent];
const USERS: &[Who] = &[Who::Before, Who::User];
const BEFORE: &[Who] = &[Who::Before];
const AGENT: &[Who] = &[Who::Agent];
const LATER: &[Who] = &[Who::User, Who::Agent];

const fn kind(name: &'static str, by: &'static [Who], shell: &'static str) -> Kind {
    Kind { name, by, shell }
}

/// All actions. `put FILE CONTENT` and `elsewhere BRANCH CONTENT` are functions of the script that runs them.
pub const DEEDS: &[Kind] = &[
    kind("edit", EVERYBODY, "put $F $T"),
    kind("write", EVERYBODY, "put $N $T"),
    kind("delete", EVERYBODY, "rm -rf $F"),
    kind("rename", EVERYBODY, "mv -f $F $N"),
    kind("stage", EVERYBODY, "put $F $T; git add $F"),
    kind("stage and edit", EVERYBODY, "put a $T; git add a; put a $U"),
    kind("stage and remove", EVERYBODY, "put $N $T; git add -A new; rm -rf new"),
    kind("intend to add", EVERYBODY, "put new/i $T; git add -N new/i"),
    kind("git rm", EVERYBODY, "git rm -rqf $F"),
    kind("git mv", EVERYBODY, "git mv -f $F $G"),
    kind("executable", EVERYBODY, "chmod +x $F"),
    kind("private", EVERYBODY, "chmod 600 $F"),
    kind("empty directory", EVERYBODY, "mkdir -p empty/er"),
    kind("directory for a file", LATER, "rm -rf $F; put $F/x $T"),
    kind("file for a directory", LATER, "rm -rf sub; put sub $T"),
    kind("link", LATER, "ln -sf $F $N"),
    kind("attributes", EVERYBODY, "echo '*.txt text eol=crlf' >>.gitattributes"),
    kind("ignore more", LATER, "echo '/$N' >>.gitignore"),
    kind("ignored", EVERYBODY, "put $I $T"),
    kind("stash", EVERYBODY, "put $F $T; git stash -q"),
    kind("tag", USERS, "git tag $T"),
    kind("branch", USERS, "git branch $T"),
    kind("commit", LATER, "put $F $T; git add -A; commit $U"),
    kind("commit what is staged", LATER, "commit $T"),
    kind("commit elsewhere", LATER, "elsewhere $B $T"),
    kind("commit on the original", &[Who::User], "elsewhere main $T"),
    kind("autocrlf", BEFORE, "git config core.autocrlf true"),
    kind("nested", BEFORE, "git init -q inner; put inner/a $T; (cd inner; git add a; git commit -qm x); put inner/b $U"),
    kind("submodule", BEFORE, "submodule $T; put lib/dirty $U"),
    kind("work tree", BEFORE, "git worktree add -q -b $T wt; put wt/a $U; (cd wt; git add -A)"),
    kind("detached", BEFORE, "git checkout -q --detach"),
    kind("stash entry", BEFORE, "put $F $T; git stash -q; put $F $U; git stash -q"),
    kind("nested edit", AGENT, "put inner/a $T; put inner/b $U; (cd inner; git add -A; git commit -qm x)"),
    kind("nested remove", AGENT, "rm -rf inner"),
    kind("nested new", AGENT, "git init -q mine; put mine/a $T; (cd mine; git add a; git commit -qm x); put mine/b $U"),
    kind("submodule edit", AGENT, "put lib/file $T; put lib/dirty $U; (cd lib; git add file; git commit -qm x)"),
    kind("submodule remove", AGENT, "rm -rf .git/modules"),
    kind("submodule replace", AGENT, "rm -rf lib; git init -q lib; put lib/a $T; (cd lib; git add a; git commit -qm x); put lib/b $U"),
    kind("work tree edit", AGENT, "put wt/a $T; put wt/b $U; (cd wt; git add -A; git commit -qm x)"),
    kind("work tree remove", AGENT, "git worktree remove --force wt"),
    kind("amend", AGENT, "put $F $T; git add -A; commit $U --amend"),
    kind("checkout", AGENT, "git checkout -q -f $B"),
    kind("checkout and commit", AGENT, "git checkout -q -f $B; put $F $T; git add -A; commit $U"),
    kind("new branch", AGENT, "git checkout -q -b $T"),
    kind("detach and commit", AGENT, "git checkout -q --detach; put $N $T; git add -A; commit $U"),
    kind("orphan", AGENT, "git checkout -q --orphan $T; put $N $U"),
    kind("rebase", AGENT, "git add -A; commit $T; git rebase -q $B"),
    kind("merge left", AGENT, "git merge -q --no-commit --no-ff $B"),
    kind("cherry-pick left", AGENT, "git cherry-pick $B"),
    kind("stash drop", AGENT, "git stash drop -q"),
    kind("stash clear", AGENT, "git stash clear"),
    kind("stash pop", AGENT, "git stash pop -q"),
    kind("reset", AGENT, "git reset -q --hard"),
    kind("reset further", AGENT, "git reset -q --hard HEAD~1"),
    kind("clean", AGENT, "git clean -fdq"),
    kind("clean everything", AGENT, "git clean -fdxq"),
    kind("clean nested", AGENT, "git clean -ffdxq"),
    kind("delete branch", AGENT, "git branch -qD $B"),
    kind("delete our branch", AGENT, "git checkout -q --detach; git branch -qD ralph/work"),
    kind("rename our branch", AGENT, "git branch -m ralph/work $T"),
    kind("move branch", AGENT, "git branch -f $B HEAD"),
    kind("delete tag", AGENT, "git tag -d v1 v2"),
    kind("move tag", AGENT, "git tag -f v2"),
    kind("configure", AGENT, "git config some.thing $T"),
    kind("blind git", AGENT, "git config core.ignoreStat true; put $F $T"),
    kind("hook", AGENT, "put .git/hooks/post-commit $T"),
    kind("exclude", AGENT, "echo '/$N' >>.git/info/exclude; put $N $T"),
    kind("assume unchanged", AGENT, "git update-index --assume-unchanged $F; put $F $T"),
    kind("remove index", AGENT, "rm -f .git/index"),
    kind("leave a lock", AGENT, "touch -d '1 hour ago' .git/index.lock"),
    kind("collect garbage", AGENT, "git gc -q --prune=now"),
    kind("forget rescues", AGENT, "git for-each-ref --format='delete %(refname)' refs/ralph | git update-ref --stdin"),
    kind("break the gate", AGENT, "put red $T"),
];
