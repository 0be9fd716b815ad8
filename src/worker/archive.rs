//! Where dead letters are written before retention drops them.

use std::path::PathBuf;
use std::time::Duration;

/// The folder in which a process archives dead letters that retention is about to drop, and when it begins a new file there.
///
/// ```
/// use std::time::Duration;
///
/// use streamfleet::worker::{Config, DeadArchive};
///
/// let archive = DeadArchive::new("/var/lib/streamfleet/archive").rotate_after(Duration::from_secs(3600));
/// let config = Config::default().archive(archive);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadArchive {
    /// The folder, which must exist. Only this user can read the files in it.
    pub folder: PathBuf,
    /// A file that has this many bytes gets no more letters.
    pub rotate_size: u64,
    /// A file that is this old gets no more letters.
    pub rotate_after: Duration,
}

impl DeadArchive {
    /// Archives letters in this folder, in a new file after 64 MiB or a day.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            rotate_size: 64 * 1024 * 1024,
            rotate_after: Duration::from_secs(24 * 3600),
        }
    }

    setters! {
        /// Sets after how many bytes a new file begins: at least 1 MiB, by default 64 MiB.
        rotate_size: u64;
        /// Sets after how long a new file begins: 1 min to 365 days, by default a day.
        rotate_after: Duration;
    }
}
