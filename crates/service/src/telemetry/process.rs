//! What the system reports about this process, under the names that Prometheus's own clients use. The values are read
//! on each request. On systems without /proc these series are left out.

use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

use super::catalogue::{self, Descriptor};
use super::histogram::line;
use super::series::head;
use super::unix_time::unix_seconds;

/// The values that stay the same while the process runs.
pub(super) struct ProcessFigures {
    /// When this value was created, at the start of the process.
    started: f64,
}

/// The system's current values.
#[derive(Debug, PartialEq)]
struct Now {
    cpu_ticks: u64,
    threads: u64,
    resident_pages: u64,
}

impl ProcessFigures {
    pub(super) fn new() -> Self {
        Self { started: unix_seconds() }
    }

    /// Writes all series.
    pub(super) fn write(&self, to: &mut String) {
        let mut write = |descriptor: &Descriptor, value: f64| {
            head(descriptor, to);
            line(to, format_args!("{} {value}\n", descriptor.name));
        };
        write(&catalogue::START_TIME, self.started);
        if let Some(Now { cpu_ticks, threads, resident_pages }) = now() {
            write(&catalogue::CPU, cpu_ticks as f64 / clock_ticks_per_second() as f64);
            write(&catalogue::THREADS, threads as f64);
            write(&catalogue::RESIDENT, resident_pages as f64 * page_size() as f64);
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            // One of them belongs to this listing.
            write(&catalogue::OPEN_FDS, open.count().saturating_sub(1) as f64);
        }
        if let Some(most) = getrlimit(Resource::Nofile).current {
            write(&catalogue::MAX_FDS, most as f64);
        }
    }
}

fn now() -> Option<Now> {
    read(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// Parses /proc/self/stat. The fields are counted from the end of the name, which may contain anything.
fn read(stat: &str) -> Option<Now> {
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().collect();
    let field = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Now { cpu_ticks: field(11)? + field(12)?, threads: field(17)?, resident_pages: field(21)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let stat = "7 (a) 1 2) (x) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 9 9 20 0 13 0 900 5000000 1234 99";
        assert_eq!(read(stat), Some(Now { cpu_ticks: 300, threads: 13, resident_pages: 1234 }));
        assert_eq!(read("7 (a) S 1"), None);
    }

    #[test]
    fn this_process_has_memory_threads_and_files() {
        let mut text = String::new();
        ProcessFigures::new().write(&mut text);
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.parse::<f64>().ok())
        };
        assert!(value("process_resident_memory_bytes") > Some(1e6), "{text}");
        assert!(value("process_threads") >= Some(1.0) && value("process_open_fds") >= Some(3.0), "{text}");
        assert!(value("process_start_time_seconds") > Some(1.6e9), "{text}");
    }
}
