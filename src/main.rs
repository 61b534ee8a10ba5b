//! The executable: everything else is in the library.

fn main() -> std::process::ExitCode {
    git_ralph::main()
}
