//! The `streamfleet` program: the command line around the library. Everything it does is also in the library's public
//! API.

mod cli;

/// Every job makes many small allocations, and this allocator handles them faster than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::main()
}
