//! Where dead letters are written before retention drops them.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::job::{OutOfBounds, bounds, duration, size};

/// Smaller files would be very many.
const LEAST_SIZE: u64 = 1024 * 1024;
const AGE: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(365 * 24 * 3600);

with_defaults! {
    /// The folder in which a process archives dead letters that retention is about to drop, and when it begins a new file there.
    /// By default there is no folder, and letters are dropped without a trace.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use streamfleet::worker::{Config, DeadArchive};
    ///
    /// let archive = DeadArchive::new("/var/lib/streamfleet/archive").rotate_after(Duration::from_secs(3600));
    /// let config = Config::default().archive(archive);
    /// ```
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
    #[serde(default, deny_unknown_fields)]
    #[non_exhaustive]
    pub struct DeadArchive {
        /// The folder, which must exist. Only this user can read the files in it. A configuration file calls it `archive`.
        #[serde(rename = "archive", skip_serializing_if = "Option::is_none")]
        pub folder: Option<PathBuf> = None,
        /// A file that has this many bytes gets no more letters; at least 1 MiB, by default 64 MiB.
        #[serde(with = "size::known")]
        pub rotate_size: u64 = 64 * 1024 * 1024,
        /// A file that is this old gets no more letters; 1 min to 365 days, by default a day.
        #[serde(with = "duration")]
        pub rotate_after: Duration = Duration::from_secs(24 * 3600),
    }
}

impl DeadArchive {
    /// Archives letters in this folder, in a new file after 64 MiB or a day.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Some(folder.into()), ..Self::default() }
    }

    setters! {
        rotate_size: u64;
        rotate_after: Duration;
    }

    /// Returns everything that is out of its bounds.
    pub fn check(&self) -> Vec<OutOfBounds> {
        let nameless = self.folder.as_ref().is_some_and(|folder| folder.as_os_str().is_empty());
        let problems = [
            bounds::time("rotate_after", self.rotate_after, &AGE),
            (self.rotate_size < LEAST_SIZE).then(|| OutOfBounds::new("rotate_size", "must be at least 1MiB")),
            nameless.then(|| OutOfBounds::new("archive", "is empty, but must be a folder")),
        ];
        problems.into_iter().flatten().collect()
    }
}
