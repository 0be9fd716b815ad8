//! What a program writes on standard error: logged line by line, and its beginning and end kept for errors.

use std::io;
use std::sync::Mutex;

use tokio::net::unix::pipe::Receiver;
use tokio::process::ChildStderr;

use crate::JobContext;
use crate::broker::mutex::lock;
use crate::handlers::excerpt::Excerpt;
use crate::handlers::output;
use crate::job::{JobId, JobType, PoolName};

/// How much of a line goes into the log.
const LOGGED_BYTES: usize = 4096;

/// How much is read at once. A pipe holds four times as much.
const CHUNK_BYTES: usize = 16 * 1024;

/// How often a program that writes without end is read before others have their turn.
const READS_AT_ONCE: usize = 8;

/// The standard error of a program.
pub(super) struct Words {
    pipe: Receiver,
    pool: PoolName,
    tail: Mutex<Tail>,
}

#[derive(Default)]
struct Tail {
    /// What the program wrote.
    all: Excerpt,
    /// What it wrote since it last began or ended a job.
    own: Excerpt,
    /// The beginning of a line for the log.
    line: Vec<u8>,
    /// What the line is about for the log, if the program has one job only.
    job: Option<(JobType, JobId)>,
}

/// The beginning and the end of what a program wrote, as text.
#[derive(Debug, Default)]
pub(super) struct LastWords {
    /// Whichever job it was about.
    pub(super) all: String,
    /// Since the program last began or ended a job.
    pub(super) own: String,
}

impl Words {
    pub(super) fn new(pipe: ChildStderr, pool: PoolName) -> io::Result<Self> {
        let pipe = Receiver::from_owned_fd(pipe.into_owned_fd()?)?;
        Ok(Self { pipe, pool, tail: Mutex::default() })
    }

    /// Reads to the end, so that the program never waits for us.
    pub(super) async fn read_all(&self) {
        while self.pipe.readable().await.is_ok() && self.read(|chunk| self.pipe.try_read(chunk)) {}
    }

    /// Notes that the program begins or ends a job. What it has written is not about the next job.
    pub(super) fn forget_job(&self) {
        // The runtime may not have seen yet that there is something, and would not ask the pipe.
        self.read(|chunk| Ok(rustix::io::read(&self.pipe, chunk)?));
        let mut tail = lock(&self.tail);
        tail.end_line(&self.pool);
        tail.own = Excerpt::default();
    }

    /// Notes which job the next lines are about, if the program has one job only.
    pub(super) fn set_job<'a>(&self, only: impl FnOnce() -> Option<&'a JobContext>) {
        if tracing::enabled!(tracing::Level::DEBUG) {
            lock(&self.tail).job = only().map(|job| (job.job_type().clone(), job.id().clone()));
        }
    }

    pub(super) fn last(&self) -> LastWords {
        let mut tail = lock(&self.tail);
        tail.end_line(&self.pool);
        LastWords { all: tail.all.text(<[u8]>::to_vec), own: tail.own.text(<[u8]>::to_vec) }
    }

    /// Reads what there is. Returns false at the end.
    fn read(&self, mut next: impl FnMut(&mut [u8]) -> io::Result<usize>) -> bool {
        let mut tail = lock(&self.tail);
        let mut chunk = [0; CHUNK_BYTES];
        for _ in 0..READS_AT_ONCE {
            match next(&mut chunk) {
                Ok(0) => return false,
                Ok(length) => tail.add(&chunk[..length], &self.pool),
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }
}

impl Tail {
    fn add(&mut self, read: &[u8], pool: &PoolName) {
        self.all.push(read);
        self.own.push(read);
        if tracing::enabled!(tracing::Level::DEBUG) {
            self.log(read, pool);
        }
    }

    /// Logs the lines that end in these bytes, and keeps the beginning of the last one.
    fn log(&mut self, read: &[u8], pool: &PoolName) {
        for piece in read.split_inclusive(|byte| *byte == b'\n') {
            let left = LOGGED_BYTES - self.line.len();
            self.line.extend_from_slice(&piece[..piece.len().min(left)]);
            if piece.ends_with(b"\n") {
                self.end_line(pool);
            }
        }
    }

    /// Logs a line even if its end is missing, as after the last words of a program.
    fn end_line(&mut self, pool: &PoolName) {
        if self.line.is_empty() {
            return;
        }
        let text = output::indented(&self.line);
        let (job_type, job) =
            self.job.as_ref().map(|(job_type, job)| (job_type.as_str(), job.to_string())).unzip();
        tracing::debug!(%pool, job_type, job, text, "a program of a pool wrote on standard error");
        self.line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::Write;

    #[tokio::test]
    async fn what_was_written_before_a_job_ended_is_not_about_the_next_one() {
        let (reader, mut program) = io::pipe().unwrap();
        let pipe = Receiver::from_owned_fd(reader.into()).unwrap();
        let words = Words { pipe, pool: "test".parse().unwrap(), tail: Mutex::default() };
        // More than one reading takes.
        let first = "x".repeat(3 * CHUNK_BYTES) + "the first job\n";
        program.write_all(first.as_bytes()).unwrap();
        // The runtime has had no turn to see it.
        words.forget_job();
        program.write_all(b"the second job\n").unwrap();
        drop(program);
        words.read_all().await;
        let LastWords { all, own } = words.last();
        assert_eq!(own, "the second job");
        assert!(all.ends_with("xthe first job\nthe second job"), "{all}");
    }
}
