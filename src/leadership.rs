//! A term of leadership: the time during which this process holds a lease that only one process can hold, and the tasks that
//! run meanwhile. Nothing that must be correct depends on there being one leader.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Whether this process leads.
pub struct Leadership {
    /// How long the lease lasts without renewal.
    tenure: Duration,
    stop: CancellationToken,
    term: Option<Term>,
}

/// The time during which this process leads.
pub struct Term {
    until: watch::Sender<Instant>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Leadership {
    /// Returns the state of a process that does not lead. `stop` also stops the tasks of a term.
    pub fn new(tenure: Duration, stop: &CancellationToken) -> Self {
        Self { tenure, stop: stop.clone(), term: None }
    }

    /// Returns true if this process leads.
    pub fn is_held(&self) -> bool {
        self.term.is_some()
    }

    /// Notes that the lease was granted or renewed by a request that was sent then. If a term begins, returns it, so that the
    /// caller can start its tasks.
    pub fn granted(&mut self, asked: Instant) -> Option<&mut Term> {
        let until = asked + self.tenure;
        if let Some(term) = &self.term {
            term.until.send_replace(until);
            return None;
        }
        Some(self.term.insert(Term {
            until: watch::Sender::new(until),
            stop: self.stop.child_token(),
            tasks: JoinSet::new(),
        }))
    }

    /// Notes that a request was not answered. Ends the term if the lease may have expired. Returns true if a term has ended.
    pub async fn unanswered(&mut self) -> bool {
        let is_expired = self.term.as_ref().is_some_and(|term| Instant::now() >= *term.until.borrow());
        is_expired && self.end().await
    }

    /// Ends the term, and waits for its tasks. Returns true if there was one. If this is dropped, the tasks are aborted.
    pub async fn end(&mut self) -> bool {
        let Some(mut term) = self.term.take() else { return false };
        term.stop.cancel();
        while term.tasks.join_next().await.is_some() {}
        true
    }
}

impl Term {
    /// Returns what stops the tasks of this term.
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Returns until when this process surely leads. Renewals move it.
    pub fn until(&self) -> watch::Receiver<Instant> {
        self.until.subscribe()
    }

    /// Starts a task, which has to end when the term is stopped.
    pub fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn a_term_begins_once_and_renewals_prolong_it() {
        let mut leadership = Leadership::new(HOUR, &CancellationToken::new());
        assert!(!leadership.is_held() && !leadership.end().await);
        let asked = Instant::now();
        let until = leadership.granted(asked).unwrap().until();
        assert_eq!(*until.borrow(), asked + HOUR);
        assert!(leadership.granted(asked + HOUR).is_none());
        assert_eq!(*until.borrow(), asked + 2 * HOUR);
        assert!(leadership.is_held());
    }

    #[tokio::test]
    async fn a_term_ends_when_its_tasks_have_ended() {
        let mut leadership = Leadership::new(HOUR, &CancellationToken::new());
        let has_ended = Arc::new(AtomicBool::new(false));
        let (noted, term) = (Arc::clone(&has_ended), leadership.granted(Instant::now()).unwrap());
        let stopped = term.stop();
        term.spawn(async move {
            stopped.cancelled().await;
            tokio::task::yield_now().await;
            noted.store(true, Ordering::Relaxed);
        });
        assert!(leadership.end().await && has_ended.load(Ordering::Relaxed));
        assert!(!leadership.is_held() && !leadership.end().await);
    }

    #[tokio::test]
    async fn without_answers_a_term_lasts_as_long_as_the_lease() {
        let mut leadership = Leadership::new(HOUR, &CancellationToken::new());
        leadership.granted(Instant::now());
        assert!(!leadership.unanswered().await && leadership.is_held());
        let mut leadership = Leadership::new(Duration::ZERO, &CancellationToken::new());
        leadership.granted(Instant::now());
        assert!(leadership.unanswered().await && !leadership.is_held());
    }

    #[tokio::test]
    async fn a_process_that_stops_stops_the_tasks_of_its_term() {
        let stop = CancellationToken::new();
        let mut leadership = Leadership::new(HOUR, &stop);
        let stopped = leadership.granted(Instant::now()).unwrap().stop();
        stop.cancel();
        assert!(stopped.is_cancelled());
    }
}
