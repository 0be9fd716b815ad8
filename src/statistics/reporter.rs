//! Reports to Redis what this process has counted about one queue. It never insists: what Redis refuses stays in memory,
//! where its size does not grow, and an error is reported once.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::{Counter, STOP_TIMEOUT};
use crate::batcher::finish;
use crate::broker::{Error, Queue, RESEND_WITHIN, Tallied, Tally, TallyReport, drawn_call};
use crate::chore::Chore;
use crate::event::Events;
use crate::job::Timestamp;

/// How often the ends of jobs are reported, if there were any.
const EVERY: Duration = Duration::from_secs(10);

/// Types are reported only every sixth time, because they cost Redis more.
const TYPES_EVERY: u32 = 6;

/// The pause after an error.
const PAUSE: Duration = Duration::from_secs(30);

/// How often a report is sent at once if the server's clock is not where it should be.
const TRIES: u32 = 3;

/// Reports about one queue.
pub(super) struct Reporter {
    queue: Queue,
    counter: Counter,
    events: Events,
    /// What was taken from the counter, and Redis has not confirmed.
    unsent: VecDeque<TallyReport>,
    /// Since when Redis may have the first of these, because its answer was lost.
    unknown_since: Option<Instant>,
    /// What the server's clock last showed, and when.
    clock: Option<(Instant, Timestamp)>,
    /// The kind of the last error, until Redis accepts a report at the first try.
    failing: Option<&'static str>,
    /// Whether the first of the unsent reports was sent before.
    is_resent: bool,
}

impl Reporter {
    pub(super) fn new(queue: Queue, counter: Counter, events: Events) -> Self {
        let unsent = VecDeque::new();
        Self {
            queue,
            counter,
            events,
            unsent,
            unknown_since: None,
            clock: None,
            failing: None,
            is_resent: false,
        }
    }

    /// Reports until stopped, and then what is left. What Redis does not take in time is lost with the process.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        if !finish(self.report(&stop), (&stop, STOP_TIMEOUT)).await {
            tracing::debug!("the last counts were not reported in time");
        }
    }

    async fn report(&mut self, stop: &CancellationToken) {
        let (mut chore, mut turn) = (Chore::every(EVERY, &self.events, stop).later(), 0_u32);
        while chore.tick().await {
            turn = turn.wrapping_add(1);
            self.gather(turn.is_multiple_of(TYPES_EVERY));
            let is_sent = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                is_sent = self.send() => is_sent,
            };
            // A report whose answer was lost is sent again while Redis still recognizes it.
            if !is_sent && self.unknown_since.is_none() {
                chore.next_about(PAUSE);
            }
        }
        self.send().await;
        self.gather(true);
        self.send().await;
    }

    /// Takes what was counted since the last time, unless that is not sent yet: so no more than one report waits.
    fn gather(&mut self, with_types: bool) {
        if !self.unsent.is_empty() {
            return;
        }
        let name = self.queue.name();
        let tally = self.counter.take_ends(name);
        let types = if with_types { self.counter.take_types(name) } else { Vec::new() };
        if tally != Tally::default() || !types.is_empty() {
            self.unsent = TallyReport::split(tally, types, drawn_call).into();
        }
    }

    /// Sends what was gathered. Returns false if Redis did not take all of it.
    async fn send(&mut self) -> bool {
        // A report is recognized if it is sent again, but not for ever.
        if self.unknown_since.is_some_and(|since| since.elapsed() > RESEND_WITHIN) {
            self.pop();
        }
        while let Some(report) = self.unsent.front() {
            match deliver(&self.queue, report, &mut self.clock).await {
                Ok(true) => {
                    if !self.is_resent {
                        self.failing = None;
                    }
                    self.pop();
                }
                Ok(false) => return false,
                Err(error) => {
                    self.note(&error);
                    return false;
                }
            }
        }
        true
    }

    /// Drops the first of the unsent reports.
    fn pop(&mut self) {
        (self.unknown_since, self.is_resent) = (None, false);
        self.unsent.pop_front();
    }

    /// Reports an error, once until Redis accepts a report or the error is another one.
    fn note(&mut self, error: &Error) {
        self.is_resent = true;
        if matches!(error, Error::Unknown { .. }) {
            self.unknown_since.get_or_insert_with(Instant::now);
        }
        let kind = error.kind();
        if self.failing.replace(kind) != Some(kind) {
            self.events.redis_error(kind, error);
        }
    }
}

/// Sends one report. Returns false if the server's clock moves too much to say which hour it is.
async fn deliver(
    queue: &Queue,
    report: &TallyReport,
    clock: &mut Option<(Instant, Timestamp)>,
) -> Result<bool, Error> {
    for _ in 0..TRIES {
        // Before the first answer, nothing is known. The answer to this then says what time it is.
        let believed = clock.map(|(then, shown)| shown.after(then.elapsed())).unwrap_or_default();
        let (is_added, now) = match queue.tally(report, believed).await? {
            Tallied::Added(now) => (true, now),
            Tallied::AnotherTime(now) => (false, now),
        };
        *clock = Some((Instant::now(), now));
        if is_added {
            return Ok(true);
        }
    }
    Ok(false)
}
