//! The work behind requests: how much of it may be done at once, and what goes on after a client is gone.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use streamfleet::Shutdown;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, oneshot};
use tokio::task::JoinSet;

use super::feed::Feeds;
use crate::console::problem::Problem;

/// How many requests may wait for the end of a job. Each asks Redis about four times a second.
const MAX_WAITERS: usize = 256;

/// How many searches may run at once. Each reads as fast as Redis answers.
const MAX_SEARCHES: usize = 8;

/// How many changes of many jobs may run at once.
const MAX_CHANGES: usize = 4;

/// How many bodies with many jobs may arrive at once.
const MAX_BATCHES: usize = 16;

/// How many clients may read live events.
const MAX_STREAMS: usize = 1000;

/// How long changes may go on once the process is asked to stop. They stop between two pages.
const DRAIN: Duration = Duration::from_secs(5);

/// The work behind requests.
pub(in crate::console) struct Desk {
    waiters: Semaphore,
    searches: Semaphore,
    changes: Semaphore,
    batches: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    running: Mutex<JoinSet<()>>,
    pub(super) feeds: Feeds,
}

/// What a request is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::console) enum Work {
    /// Wait for the end of a job.
    Wait,
    /// Search jobs or letters.
    Search,
    /// Change many jobs.
    Change,
}

/// An answer that may take long, and keeps its place until it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LongAnswer {
    /// The fates of many jobs.
    Batch,
    /// Live events.
    Events,
}

impl Default for Desk {
    fn default() -> Self {
        Self {
            waiters: Semaphore::new(MAX_WAITERS),
            searches: Semaphore::new(MAX_SEARCHES),
            changes: Semaphore::new(MAX_CHANGES),
            batches: Arc::new(Semaphore::new(MAX_BATCHES)),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            running: Mutex::default(),
            feeds: Feeds::default(),
        }
    }
}

impl Desk {
    /// Takes a place for this work.
    ///
    /// # Errors
    ///
    /// [`Problem`] with the status 429 if all places are taken.
    pub(in crate::console) fn begin(&self, work: Work) -> Result<SemaphorePermit<'_>, Problem> {
        let (places, most, what) = match work {
            Work::Wait => (&self.waiters, MAX_WAITERS, "requests wait for jobs"),
            Work::Search => (&self.searches, MAX_SEARCHES, "searches run"),
            Work::Change => (&self.changes, MAX_CHANGES, "changes of many jobs run"),
        };
        places.try_acquire().map_err(|_| busy(most, what))
    }

    /// Takes a place for a long answer.
    ///
    /// # Errors
    ///
    /// As [`Desk::begin`].
    pub(super) fn begin_answer(&self, answer: LongAnswer) -> Result<OwnedSemaphorePermit, Problem> {
        let (places, most, what) = match answer {
            LongAnswer::Batch => (&self.batches, MAX_BATCHES, "bodies with many jobs arrive"),
            LongAnswer::Events => (&self.streams, MAX_STREAMS, "clients read live events"),
        };
        Arc::clone(places).try_acquire_owned().map_err(|_| busy(most, what))
    }

    /// Does work to its end, even if the client goes away.
    ///
    /// # Errors
    ///
    /// [`Problem`] if the work panicked, or the process stopped before its end.
    pub(in crate::console) async fn complete<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Problem> {
        let (done, answer) = oneshot::channel();
        let work = async move {
            if done.send(work.await).is_err() {
                tracing::debug!("a change is complete, but nobody waits for its answer");
            }
        };
        {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            while running.try_join_next().is_some() {}
            running.spawn(work);
        }
        answer.await.map_err(|_| {
            let why = "the change ended without an answer: look at what became of it";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the outcome is not known", why)
        })
    }

    /// Waits until the work that goes on is done, for a while.
    pub(in crate::console) async fn finish(&self) {
        self.feeds.stop();
        let mut running = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        let ending = async { while running.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN, ending).await.is_err() {
            tracing::warn!("the console stops before changes that it makes are complete");
        }
    }
}

fn busy(most: usize, what: &str) -> Problem {
    Problem::busy(format!("{most} {what} already, the maximum: try again later"))
}

/// Does work that stops gracefully when `stop` is requested, and requests that after this time, or when the console stops.
pub(super) async fn within<T>(
    longest: Duration,
    (stop, stopping): (&Shutdown, &Shutdown),
    work: impl Future<Output = T>,
) -> T {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        biased;
        done = &mut work => return done,
        () = stopping.requested() => {}
        () = tokio::time::sleep(longest) => {}
    }
    stop.request();
    work.await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_bounded_in_number() {
        let desk = Desk::default();
        let taken: Vec<_> = (0..MAX_SEARCHES).map(|_| desk.begin(Work::Search).unwrap()).collect();
        let refused = desk.begin(Work::Search).err().unwrap();
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        drop(taken);
        assert!(desk.begin(Work::Search).is_ok());
    }

    #[tokio::test]
    async fn work_goes_on_without_its_client() {
        let (desk, (done, end)) = (Desk::default(), oneshot::channel());
        let (begin, begun) = oneshot::channel::<()>();
        let work = async move {
            begun.await.unwrap();
            done.send(7).unwrap();
        };
        let mut client = Box::pin(desk.complete(work));
        assert!(futures_util::poll!(&mut client).is_pending());
        drop(client);
        begin.send(()).unwrap();
        assert_eq!(end.await, Ok(7));
        desk.finish().await;
    }

    #[tokio::test]
    async fn work_is_asked_to_stop_after_a_time() {
        let (stop, stopping) = (Shutdown::new(), Shutdown::new());
        let asked = stop.clone();
        let work = async move {
            asked.requested().await;
            "stopped"
        };
        assert_eq!(within(Duration::from_millis(5), (&stop, &stopping), work).await, "stopped");
        assert!(!stopping.is_requested());
    }
}
