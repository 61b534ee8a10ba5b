//! The executable. All code is in the library.

fn main() -> std::process::ExitCode {
    git_ralph::main()
}
