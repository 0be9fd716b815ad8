//! The work behind requests: how much of it may be done at once, and what goes on after a client is gone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use streamfleet::Shutdown;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::feed::Feeds;
use crate::console::problem::Problem;

/// How long changes may go on once the process is asked to stop. They stop between two pages.
const DRAIN: Duration = Duration::from_secs(5);

tokio::task_local! {
    /// Who sent the request that this task answers.
    static ASKER: Arc<str>;
}

/// Answers a request of this asker, a person or a program, whose work counts as theirs.
pub(in crate::console) async fn asked_by<T>(asker: &str, answer: impl Future<Output = T>) -> T {
    ASKER.scope(asker.into(), answer).await
}

fn asker() -> Arc<str> {
    ASKER.try_with(Arc::clone).unwrap_or_else(|_| "".into())
}

/// The work behind requests.
pub(in crate::console) struct Desk {
    waiters: Arc<Places>,
    searches: Arc<Places>,
    changes: Arc<Places>,
    batches: Arc<Places>,
    bodies: Arc<Places>,
    forms: Arc<Places>,
    payloads: Arc<Places>,
    streams: Arc<Places>,
    running: Mutex<JoinSet<()>>,
    pub(super) feeds: Feeds,
}

/// What a request is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::console) enum Work {
    /// Wait for the end of a job. That asks Redis about four times a second.
    Wait,
    /// Search jobs or letters, as fast as Redis answers.
    Search,
    /// Change many jobs.
    Change,
    /// Take a body with many jobs, and answer with their fates.
    Batch,
    /// Take any other body that is large.
    Body,
    /// Show a large payload.
    Payload,
    /// Take a form with a large payload. It is held several times over: as it was sent, decoded, and as a payload.
    Form,
    /// Send live events.
    Events,
}

/// The places for one kind of work.
struct Places {
    /// How many there are, …
    most: usize,
    /// … and how many of them one person or program may have.
    most_of_one: usize,
    /// What those who have one do, in words.
    what: &'static str,
    taken: Mutex<HashMap<Arc<str>, usize>>,
}

/// A place for some work. It is free again once this is dropped.
#[must_use]
pub(in crate::console) struct Held {
    of: Arc<Places>,
    asker: Arc<str>,
}

impl Places {
    fn new(most: usize, most_of_one: usize, what: &'static str) -> Arc<Self> {
        Arc::new(Self { most, most_of_one, what, taken: Mutex::default() })
    }

    fn take(self: &Arc<Self>, asker: Arc<str>) -> Result<Held, Problem> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.values().sum::<usize>() >= self.most {
            return Err(Problem::busy(format!(
                "{} {} already, the maximum: try again later",
                self.most, self.what
            )));
        }
        let own = taken.entry(Arc::clone(&asker)).or_default();
        if *own >= self.most_of_one {
            return Err(Problem::busy(format!(
                "{} {} for you already, the maximum for one person or token: try again when one has ended",
                self.most_of_one, self.what
            )));
        }
        *own += 1;
        Ok(Held { of: Arc::clone(self), asker })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut taken = self.of.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.asker) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.asker);
            }
        }
    }
}

impl Default for Desk {
    fn default() -> Self {
        Self {
            waiters: Places::new(256, 128, "requests wait for jobs"),
            searches: Places::new(8, 4, "searches run"),
            changes: Places::new(4, 2, "changes of many jobs run"),
            batches: Places::new(16, 8, "bodies with many jobs arrive"),
            bodies: Places::new(32, 16, "large bodies arrive"),
            forms: Places::new(4, 2, "large forms arrive"),
            payloads: Places::new(2, 1, "large payloads are shown"),
            streams: Places::new(1000, 100, "clients read live events"),
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
    /// [`Problem`] with the status 429 if all places are taken, or as many as one person or program may have.
    pub(in crate::console) fn begin(&self, work: Work) -> Result<Held, Problem> {
        let places = match work {
            Work::Wait => &self.waiters,
            Work::Search => &self.searches,
            Work::Change => &self.changes,
            Work::Batch => &self.batches,
            Work::Body => &self.bodies,
            Work::Form => &self.forms,
            Work::Payload => &self.payloads,
            Work::Events => &self.streams,
        };
        places.take(asker())
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
        let work = ASKER.scope(asker(), work);
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

    async fn taken(desk: &Desk, asker: &str, work: Work, most: usize) -> Vec<Held> {
        asked_by(asker, async { (0..most).map_while(|_| desk.begin(work).ok()).collect() }).await
    }

    #[tokio::test]
    async fn work_is_bounded_in_number_and_for_each_person() {
        for (work, most, most_of_one) in [
            (Work::Search, 8, 4),
            (Work::Form, 4, 2),
            (Work::Payload, 2, 1),
            (Work::Events, 1000, 100),
            (Work::Wait, 256, 128),
        ] {
            let desk = Desk::default();
            let own = taken(&desk, "=ann", work, most).await;
            assert_eq!(own.len(), most_of_one);
            let mut others = Vec::new();
            for nth in 0..most {
                others.extend(taken(&desk, &format!("={nth}"), work, most_of_one).await);
            }
            assert_eq!(own.len() + others.len(), most);
            let refused = desk.begin(work).err().unwrap();
            assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
            drop(own);
            assert_eq!(taken(&desk, "=ann", work, most).await.len(), most_of_one);
        }
    }

    #[tokio::test]
    async fn work_that_goes_on_alone_counts_as_its_persons() {
        let desk = Desk::default();
        let held = asked_by("=ann", desk.complete(async { asker() })).await;
        assert_eq!(&*held.unwrap(), "=ann");
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
