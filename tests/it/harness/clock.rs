//! The one clock of a test run: `CLOCK_MONOTONIC`, which every process of the machine shares. And the wall clock of one
//! server, which can be shifted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since some fixed moment before the test began.
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).expect("the monotonic clock is never negative");
    let nanos = u64::try_from(now.tv_nsec).expect("the monotonic clock is never negative");
    seconds * 1_000_000_000 + nanos
}

/// Milliseconds since 1970: the clock of a Redis server on this machine.
pub(crate) fn wall_ms() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    let seconds = u64::try_from(now.tv_sec).expect("it is after 1970");
    seconds * 1000 + u64::try_from(now.tv_nsec).expect("never negative") / 1_000_000
}

/// How far a process's wall clock is from the machine's. See `clock_shift.c`.
pub(crate) struct Shift {
    file: PathBuf,
    ms: Mutex<i64>,
}

impl Shift {
    /// None yet; `file` is where the process reads it.
    pub(super) fn new(file: &Path) -> Self {
        fs::write(file, 0_i64.to_ne_bytes()).unwrap();
        Self { file: file.to_owned(), ms: Mutex::new(0) }
    }

    /// Steps the clock.
    pub(super) fn by(&self, ms: i64) {
        let mut shifted = self.ms.lock().unwrap();
        *shifted += ms;
        // In place: the process has mapped the file, and a shorter one would end it.
        let file = fs::File::options().write(true).open(&self.file).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &shifted.to_ne_bytes(), 0).unwrap();
    }

    /// What the process needs in its environment.
    pub(super) fn environment(&self) -> [(&'static str, PathBuf); 2] {
        [("LD_PRELOAD", library()), ("CLOCK_SHIFT_FILE", self.file.clone())]
    }
}

/// Whether a server's clock can be shifted here.
pub(crate) fn can_shift() -> bool {
    Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The library that shifts the clock, built once by the system's C compiler.
fn library() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/harness/clock_shift.c");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let built = folder.join(format!("clock_shift.{}.so", std::process::id()));
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&built).arg(source);
        assert!(compile.status().expect("a C compiler, as the README says").success());
        // Under one name for all runs, so that they leave one file.
        let library = folder.join("clock_shift.so");
        fs::rename(built, &library).unwrap();
        library
    };
    BUILT.get_or_init(build).clone()
}
