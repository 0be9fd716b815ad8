//! Where the program of a command is.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Returns the path of the program with this name, looked up in `path`, the value of the variable `PATH`.
pub(crate) fn find_program(name: &OsStr, path: &OsStr) -> Option<PathBuf> {
    places(name, path).find(|program| is_program(program))
}

/// Returns where the program with this name may be. A name with a slash is a path already.
pub(super) fn places(name: &OsStr, path: &OsStr) -> impl Iterator<Item = PathBuf> {
    let is_path = name.as_encoded_bytes().contains(&b'/');
    let folders = (!is_path).then(|| env::split_paths(path)).into_iter().flatten();
    is_path.then(|| PathBuf::from(name)).into_iter().chain(folders.map(move |folder| folder.join(name)))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
