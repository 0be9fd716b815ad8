//! The one clock of a test run: `CLOCK_MONOTONIC`, which all processes of the machine share. Also the wall clock of one
//! server, which can be shifted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::wait::pause_for;

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Returns the nanoseconds since some fixed moment before the test began.
pub fn monotonic_ns() -> u64 {
    ns_of(ClockId::Monotonic)
}

/// Returns the nanoseconds of processor time that the calling thread has used, whatever else runs on the machine.
pub fn thread_cpu_ns() -> u64 {
    ns_of(ClockId::ThreadCPUTime)
}

fn ns_of(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).expect("these clocks are never negative");
    let nanos = u64::try_from(now.tv_nsec).expect("nanoseconds are never negative");
    seconds * 1_000_000_000 + nanos
}

/// Returns the milliseconds since 1970: the clock of a Redis server on this machine.
pub fn wall_ms() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    let seconds = u64::try_from(now.tv_sec).expect("the wall clock is after 1970");
    seconds * 1000 + u64::try_from(now.tv_nsec).expect("nanoseconds are never negative") / 1_000_000
}

/// Watches the clock on a thread of its own, and notes from when until when this process did not run, if that was at least this
/// long.
pub fn note_stalls(at_least: Duration, note: impl Fn(u64, u64) + Send + 'static) {
    std::thread::spawn(move || {
        let mut before = monotonic_ns();
        loop {
            pause_for(LOOK_EVERY);
            let now = monotonic_ns();
            if Duration::from_nanos(now - before) >= LOOK_EVERY + at_least {
                note(before, now);
            }
            before = now;
        }
    });
}

/// The offset of a process's wall clock from the machine's. See `clock_shift.c`.
pub struct Shift {
    file: PathBuf,
    library: PathBuf,
    ms: Mutex<i64>,
}

impl Shift {
    /// Starts without an offset; the process reads it from a file in this folder.
    pub(crate) fn new(folder: &Path) -> Self {
        let (file, library) = (folder.join("clock"), folder.join("clock_shift.so"));
        fs::write(&file, 0_i64.to_ne_bytes()).unwrap();
        build(&library);
        Self { file, library, ms: Mutex::new(0) }
    }

    /// Shifts the clock by this many milliseconds.
    pub(super) fn by(&self, ms: i64) {
        let mut shifted = self.ms.lock().unwrap();
        *shifted += ms;
        // Written in place: the process has mapped the file, and a shorter one would crash it.
        let file = fs::File::options().write(true).open(&self.file).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &shifted.to_ne_bytes(), 0).unwrap();
    }

    /// Returns the environment variables that the process needs.
    pub(super) fn environment(&self) -> [(&'static str, PathBuf); 2] {
        [("LD_PRELOAD", self.library.clone()), ("CLOCK_SHIFT_FILE", self.file.clone())]
    }
}

/// Whether a server's clock can be shifted on this machine.
pub fn can_shift() -> bool {
    Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Lets the system's C compiler build the library that shifts a clock.
fn build(library: &Path) {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/clock_shift.c");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(library).arg(source);
    assert!(compile.status().expect("a C compiler is needed, as docs/install.md says").success());
}
