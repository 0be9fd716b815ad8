//! The `streamfleet` program. Everything it can do is public in the library; this is the command line around it.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
