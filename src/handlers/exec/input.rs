//! A program's standard input: a file in memory that holds the whole payload before the program starts and never
//! changes. A pipe would end when the worker dies, which a program cannot tell from the payload's end. This file does
//! not.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;

/// Creates a file in memory with this payload, positioned at its start.
///
/// # Errors
///
/// The system's error if it has no file or memory to spare, or does not support files in memory.
pub(super) fn sealed(payload: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(unsealed()?);
    file.write_all(payload)?;
    file.rewind()?;
    // Nobody can change it: neither the program nor a process that the program hands it to.
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.into())
}

fn unsealed() -> io::Result<OwnedFd> {
    const NAME: &str = "streamfleet-payload";
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create(NAME, flags | MemfdFlags::NOEXEC_SEAL) {
        // Kernels before 6.3 do not know the flag that makes the file non-executable.
        Err(Errno::INVAL) => memfd_create(NAME, flags).map_err(Into::into),
        made => made.map_err(Into::into),
    }
}
