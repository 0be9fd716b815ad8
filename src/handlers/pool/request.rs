//! A job in the pool, what became of it, and how many jobs a program may get.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::cuts::CutFlag;
use super::message::Verdict;
use crate::JobContext;

/// About what a line has besides the fields of its job.
const LINE_BYTES: usize = 320;

/// How often a program's session looks for jobs ahead that may no longer begin.
pub(super) const DOUBT_EVERY: Duration = Duration::from_millis(100);

/// A job that waits for a program, or that a program has.
pub(super) struct Request {
    /// Distinguishes it from the others of the pool.
    pub(super) number: u64,
    pub(super) context: JobContext,
    pub(super) payload: Bytes,
    /// The most attempts of the job's type.
    pub(super) max_attempts: u32,
    /// Whether its program must have no other job while it runs.
    pub(super) is_alone: bool,
    pub(super) answer: oneshot::Sender<Answer>,
    /// How long it waits for a program at most, and until when it does.
    pub(super) patience: Duration,
    pub(super) until: Instant,
    /// Raised when the attempt is cut short, and when nobody waits for the answer any more.
    pub(super) cut: Arc<CutFlag>,
}

/// What became of a job.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// Its program answered. `by_itself` is false if the program had been asked to end the attempt.
    Said { verdict: Verdict, by_itself: bool },
    /// Its program ended without an answer; contains the error. `by_itself` as above.
    Ended { error: String, by_itself: bool },
    /// No program has begun it, and its worker has to ask again whether any may.
    InDoubt,
    /// Its program had begun it and ended, and it is not known to be the cause; contains what happened.
    Lost(String),
    /// Its program had begun it, and ended because of another job. This one is not to blame.
    Released,
}

/// How many jobs a program may get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpenPlaces {
    /// How many more it would begin at once.
    pub(super) begin: usize,
    /// How many it would begin later.
    pub(super) ahead: usize,
    /// How long the lines of those that it begins later may be, except for the last one.
    pub(super) ahead_bytes: usize,
}

/// The jobs that a program gets.
#[derive(Default)]
pub(super) struct Taken {
    /// It begins these at once, …
    pub(super) begin: Vec<Request>,
    /// … and these later.
    pub(super) ahead: Vec<Request>,
}

impl Request {
    /// Returns true if its worker may have to ask again whether it may begin, before the next look at the jobs ahead has reached
    /// their program.
    pub(super) fn is_in_doubt_soon(&self, now: Instant) -> bool {
        self.context.is_in_doubt((now + 2 * DOUBT_EVERY).into_std())
    }

    /// Returns about how long its line will be.
    pub(super) fn line_bytes(&self) -> usize {
        LINE_BYTES + self.context.size() * 4 / 3
    }
}

impl OpenPlaces {
    /// Returns no more places than this.
    pub(super) fn at_most(self, most: usize) -> Self {
        let begin = self.begin.min(most);
        Self { begin, ahead: self.ahead.min(most - begin), ..self }
    }

    pub(super) fn is_empty(self) -> bool {
        self.begin == 0 && (self.ahead == 0 || self.ahead_bytes == 0)
    }
}
