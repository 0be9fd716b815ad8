//! The ledger: what producers and handlers saw, in files outside Redis.
//!
//! Each record is one line, appended by one `write(2)` with `O_APPEND`, so a killed writer leaves only whole lines.
//! Any process may write; each appends to a file of its own choice in the directory. Fields are separated by
//! one space and `t` is `CLOCK_MONOTONIC` in nanoseconds (Python: `time.monotonic_ns()`):
//!
//! ```text
//! submit  <job> <t_ns>                                  an accepted job
//! unknown <job> <t_ns>                                  a submission whose reply was lost: it may exist
//! start   <job> <attempt> <fence> <pid> <t_ns>          a handler begins
//! end     <job> <attempt> <fence> <pid> <t_ns> <how>    it ends: ok, failed, fatal or interrupted
//! ```
//!
//! `fence` is the entry id, `pid` the *worker's* process id: a handler program reads its parent's id when it
//! begins, and writes the same in both records.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::clock::monotonic_ns;

/// A directory of append-only files.
#[derive(Clone, Debug)]
pub struct Ledger {
    dir: PathBuf,
}

impl Ledger {
    /// Opens the ledger in an existing directory.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// Returns a writer that appends to the file `name`. Several writers may append to one file.
    pub fn writer(&self, name: &str) -> Writer {
        let file = File::options().create(true).append(true).open(self.dir.join(name)).unwrap();
        Writer { file }
    }

    /// Returns all records of all files. Panics on an invalid line, because the handler that wrote it is wrong.
    pub fn read(&self) -> Vec<Record> {
        let mut records = Vec::new();
        for entry in fs::read_dir(&self.dir).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            // A line without a newline is still being written.
            let whole = text.rsplit_once('\n').map_or("", |(whole, _rest)| whole);
            for (index, line) in whole.lines().enumerate() {
                let record = line.parse();
                let at = || format!("{}:{}", path.display(), index + 1);
                records
                    .push(record.unwrap_or_else(|NotARecord| panic!("{}: invalid record: {line:?}", at())));
            }
        }
        records
    }

    /// Returns when each job was started, in ascending order.
    pub fn starts(&self) -> BTreeMap<String, Vec<u64>> {
        let mut starts: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for record in self.read() {
            if let Record::Start { run, t } = record {
                starts.entry(run.job).or_default().push(t);
            }
        }
        starts.values_mut().for_each(|times| times.sort_unstable());
        starts
    }
}

/// An open file of the ledger.
#[derive(Debug)]
pub struct Writer {
    file: File,
}

impl Writer {
    /// Appends a line with the caller's times.
    pub fn append(&self, record: &Record) {
        (&self.file).write_all(format!("{}\n", record.line()).as_bytes()).unwrap();
    }

    pub fn submitted(&self, job: &str) {
        self.append(&Record::Submit { job: job.to_owned(), t: monotonic_ns() });
    }

    pub fn started(&self, run: &Run) {
        self.append(&Record::Start { run: run.clone(), t: monotonic_ns() });
    }

    pub fn ended(&self, run: &Run, how: How) {
        self.append(&Record::End { run: run.clone(), t: monotonic_ns(), how });
    }

    /// Records the start of a run now, and its end on drop: [`How::Interrupted`] unless [`Entered::end`] says otherwise.
    pub fn enter(&self, run: Run) -> Entered<'_> {
        self.started(&run);
        Entered { writer: self, run, how: How::Interrupted }
    }
}

/// A run whose end will be recorded.
pub struct Entered<'a> {
    writer: &'a Writer,
    run: Run,
    how: How,
}

impl Entered<'_> {
    /// Records how it ends.
    pub fn end(mut self, how: How) {
        self.how = how;
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.writer.ended(&self.run, self.how);
    }
}

/// One run of a handler for one delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub job: String,
    pub attempt: u32,
    pub fence: Fence,
    pub pid: u32,
}

/// The entry id `ms-seq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub u64, pub u64);

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Ok,
    Failed,
    /// Failed permanently, without a retry.
    Fatal,
    /// Given back by a stopping worker.
    Interrupted,
}

impl How {
    pub const NAMES: [(Self, &'static str); 4] = [
        (Self::Ok, "ok"),
        (Self::Failed, "failed"),
        (Self::Fatal, "fatal"),
        (Self::Interrupted, "interrupted"),
    ];

    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(how, _name)| *how == self).expect("all ways are listed").1
    }
}

/// One line of the ledger. `t` is in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    Submit { job: String, t: u64 },
    Unknown { job: String, t: u64 },
    Start { run: Run, t: u64 },
    End { run: Run, t: u64, how: How },
}

impl Record {
    fn line(&self) -> String {
        let run = |run: &Run| {
            let Fence(ms, seq) = run.fence;
            format!("{} {} {ms}-{seq} {}", run.job, run.attempt, run.pid)
        };
        match self {
            Self::Submit { job, t } => format!("submit {job} {t}"),
            Self::Unknown { job, t } => format!("unknown {job} {t}"),
            Self::Start { run: started, t } => format!("start {} {t}", run(started)),
            Self::End { run: ended, t, how } => format!("end {} {t} {}", run(ended), how.name()),
        }
    }
}

/// The line is not in the format above.
#[derive(Debug, PartialEq, Eq)]
pub struct NotARecord;

impl FromStr for Record {
    type Err = NotARecord;

    fn from_str(line: &str) -> Result<Self, NotARecord> {
        let fields: Vec<&str> = line.split(' ').collect();
        let record = match fields[..] {
            ["submit", job, t] => Self::Submit { job: job.to_owned(), t: number(t)? },
            ["unknown", job, t] => Self::Unknown { job: job.to_owned(), t: number(t)? },
            ["start", job, attempt, fence, pid, t] => {
                Self::Start { run: run(job, attempt, fence, pid)?, t: number(t)? }
            }
            ["end", job, attempt, fence, pid, t, how] => {
                let how = How::NAMES.iter().find(|(_how, name)| *name == how).ok_or(NotARecord)?.0;
                Self::End { run: run(job, attempt, fence, pid)?, t: number(t)?, how }
            }
            _ => return Err(NotARecord),
        };
        Ok(record)
    }
}

fn run(job: &str, attempt: &str, fence: &str, pid: &str) -> Result<Run, NotARecord> {
    let (ms, seq) = fence.split_once('-').ok_or(NotARecord)?;
    let fence = Fence(number(ms)?, number(seq)?);
    Ok(Run { job: job.to_owned(), attempt: number(attempt)?, fence, pid: number(pid)? })
}

fn number<N: FromStr>(text: &str) -> Result<N, NotARecord> {
    text.parse().map_err(|_error| NotARecord)
}
