//! The `streamfleet` program. Everything it can do is public in the library; this is the command line around it.

mod cli;

/// Every job is many small allocations, and this allocator is quicker at them than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::main()
}
