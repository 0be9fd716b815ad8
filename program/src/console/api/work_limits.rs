//! The work behind requests: how much of it may be done at once, and what goes on after a client is gone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use futures_util::StreamExt as _;
use streamfleet::{Queue, Shutdown};
use streamfleet_engine::mutex::lock;
use streamfleet_operations::tasks;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::feed::Feeds;
use super::figures::Figures;
use super::{Problem, ProblemKind};

/// How long changes may go on once the process is asked to stop. They stop between two pages.
const DRAIN: Duration = Duration::from_secs(5);

/// How much memory large bodies, payloads and answers may take in a console, which is made for 512 MiB, …
const MOST_BYTES: usize = 240 * MIB;

/// … and how much of it one person or program may take.
const MOST_BYTES_OF_ONE: usize = 160 * MIB;

const MIB: usize = 1 << 20;

/// How much of it a search takes: a page of what it reads.
const SEARCH_BYTES: usize = 16 * MIB;

/// How long a request waits for its turn to read payloads, or what all queues have.
const READ_WITHIN: Duration = Duration::from_secs(2);

/// Less than this is not counted.
pub(super) const SMALL_BYTES: usize = 64 * 1024;

tokio::task_local! {
    /// Who sent the request that this task answers.
    static ASKER: Arc<Asker>;
}

/// Who sent a request, and the memory that it takes until its answer is sent.
struct Asker {
    name: Arc<str>,
    memory: Mutex<Vec<Held>>,
}

impl Asker {
    fn new(name: &str) -> Arc<Self> {
        Arc::new(Self { name: name.into(), memory: Mutex::default() })
    }

    fn memory(&self) -> MutexGuard<'_, Vec<Held>> {
        lock(&self.memory)
    }
}

/// Answers a request of this asker, a person or a program, whose work counts as theirs.
pub(in crate::console) async fn asked_by(asker: &str, answer: impl Future<Output = Response>) -> Response {
    let asker = Asker::new(asker);
    let response = ASKER.scope(Arc::clone(&asker), answer).await;
    if asker.memory().is_empty() {
        return response;
    }
    // The answer is in memory until the client has read it.
    let bytes = response.body().size_hint().exact();
    let (mut parts, body) = response.into_parts();
    if let Some(bytes) = bytes {
        parts.headers.entry(header::CONTENT_LENGTH).or_insert(HeaderValue::from(bytes));
    }
    let pieces = body.into_data_stream().map(move |piece| {
        let _held = &asker;
        piece
    });
    Response::from_parts(parts, Body::from_stream(pieces))
}

fn asker() -> Arc<Asker> {
    ASKER.try_with(Arc::clone).unwrap_or_else(|_| Asker::new(""))
}

/// The work behind requests.
pub(in crate::console) struct WorkLimits {
    waiters: Arc<Permits>,
    searches: Arc<Permits>,
    changes: Arc<Permits>,
    batches: Arc<Permits>,
    reads: Arc<Permits>,
    overviews: Arc<Permits>,
    memory: Arc<Permits>,
    streams: Arc<Permits>,
    tasks: Arc<Permits>,
    running: Mutex<JoinSet<()>>,
    pub(super) feeds: Feeds,
    pub(super) figures: Figures,
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
    /// Send live events.
    Events,
}

/// The places for one kind of work.
struct Permits {
    /// How many there are, …
    most: usize,
    /// … and how many of them one person or program may have.
    most_of_one: usize,
    /// How many of them are one in what people read: memory is counted in bytes, and told in MiB.
    unit: usize,
    /// What those who have one do, in words.
    what: &'static str,
    taken: Mutex<HashMap<Arc<str>, usize>>,
    /// Wakes those who wait for a place.
    freed: Notify,
}

/// A place for some work. It is free again once this is dropped.
#[must_use]
pub(in crate::console) struct Held {
    of: Arc<Permits>,
    asker: Arc<str>,
    places: usize,
    /// The memory that the work takes.
    _memory: Option<Box<Self>>,
}

impl Permits {
    fn new(most: usize, most_of_one: usize, what: &'static str) -> Arc<Self> {
        Arc::new(Self { most, most_of_one, unit: 1, what, taken: Mutex::default(), freed: Notify::new() })
    }

    fn take(self: &Arc<Self>, asker: Arc<str>, places: usize) -> Result<Held, Problem> {
        let mut taken = lock(&self.taken);
        if taken.values().sum::<usize>().saturating_add(places) > self.most {
            let why = format!("at most {} {}: try again later", self.most / self.unit, self.what);
            return Err(Problem::busy(why));
        }
        let own = taken.get(&asker).copied().unwrap_or_default();
        if own.saturating_add(places) > self.most_of_one {
            let why = format!(
                "at most {} {} for one person or token: try again when one has ended",
                self.most_of_one / self.unit,
                self.what
            );
            return Err(Problem::busy(why));
        }
        taken.insert(Arc::clone(&asker), own + places);
        Ok(Held { of: Arc::clone(self), asker, places, _memory: None })
    }

    /// Takes one place as soon as there is one, but waits only for a while.
    async fn take_within(self: &Arc<Self>, asker: &Arc<str>, longest: Duration) -> Result<Held, Problem> {
        let until = Instant::now() + longest;
        loop {
            // Whatever is freed from here on wakes this one.
            let freed = self.freed.notified();
            let busy = match self.take(Arc::clone(asker), 1) {
                Ok(held) => return Ok(held),
                Err(busy) => busy,
            };
            if tokio::time::timeout_at(until, freed).await.is_err() {
                return Err(busy);
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut taken = lock(&self.of.taken);
        if let Some(own) = taken.get_mut(&self.asker) {
            *own -= self.places;
            if *own == 0 {
                taken.remove(&self.asker);
            }
        }
        drop(taken);
        self.of.freed.notify_waiters();
    }
}

impl Default for WorkLimits {
    fn default() -> Self {
        Self {
            waiters: Permits::new(256, 128, "requests wait for jobs"),
            searches: Permits::new(8, 4, "searches run"),
            changes: Permits::new(4, 2, "changes of many jobs run"),
            batches: Permits::new(16, 8, "bodies with many jobs arrive"),
            // Redis ends a connection to which it owes 256 MB, and with it the requests of everybody.
            reads: Permits::new(6, 3, "requests read payloads"),
            overviews: Permits::new(8, 4, "requests read what all queues have"),
            memory: Arc::new(Permits {
                most: MOST_BYTES,
                most_of_one: MOST_BYTES_OF_ONE,
                unit: MIB,
                what: "MiB are taken by large bodies and payloads",
                taken: Mutex::default(),
                freed: Notify::new(),
            }),
            streams: Permits::new(1000, 100, "clients read live events"),
            tasks: Permits::new(32, 16, "tasks are carried out"),
            running: Mutex::default(),
            feeds: Feeds::default(),
            figures: Figures::default(),
        }
    }
}

impl WorkLimits {
    /// Takes a place for this work, and the memory of a search.
    ///
    /// # Errors
    ///
    /// [`Problem`] with the status 429 if all places or the memory are taken, or as much as one person or program may have.
    pub(in crate::console) fn begin(&self, work: Work) -> Result<Held, Problem> {
        let places = match work {
            Work::Wait => &self.waiters,
            Work::Search => &self.searches,
            Work::Change => &self.changes,
            Work::Batch => &self.batches,
            Work::Events => &self.streams,
        };
        let asker = asker();
        let mut held = places.take(Arc::clone(&asker.name), 1)?;
        if work == Work::Search {
            held._memory = Some(Box::new(self.memory.take(Arc::clone(&asker.name), SEARCH_BYTES)?));
        }
        Ok(held)
    }

    /// Reads what may have a payload from Redis, when it is the turn of this request. All requests share a connection, and nobody
    /// knows how much comes before it has come.
    ///
    /// # Errors
    ///
    /// [`Problem`] with the status 429 if too many others read for too long.
    pub(in crate::console) async fn read<T>(&self, work: impl Future<Output = T>) -> Result<T, Problem> {
        let _place = self.reads.take_within(&asker().name, READ_WITHIN).await?;
        Ok(work.await)
    }

    /// Takes a place to read what all queues have, when it is the turn of this request. Pages in several tabs ask for that again and again,
    /// so they wait and are not refused at once.
    ///
    /// # Errors
    ///
    /// [`Problem`] with the status 429 if too many others read for too long.
    pub(in crate::console) async fn overview(&self) -> Result<Held, Problem> {
        self.overviews.take_within(&asker().name, READ_WITHIN).await
    }

    /// Notes that this request takes so much memory from now on, until its answer is sent.
    ///
    /// # Errors
    ///
    /// [`Problem`] with the status 413 if that is more than a person or program may ever have, or 429 if others have it.
    pub(in crate::console) fn hold(&self, bytes: usize) -> Result<(), Problem> {
        if bytes <= SMALL_BYTES {
            return Ok(());
        }
        let asker = asker();
        // A request notes what it takes piece by piece. What never fits must not be tried again.
        let whole = asker.memory().iter().fold(bytes, |sum, held| sum.saturating_add(held.places));
        if whole > MOST_BYTES_OF_ONE {
            let why = format!(
                "this would take {} MiB of memory, and a person or token may have {}: use fewer values, or the command line",
                whole / MIB,
                MOST_BYTES_OF_ONE / MIB
            );
            return Err(Problem::new(ProblemKind::TooLarge, why));
        }
        let held = self.memory.take(Arc::clone(&asker.name), bytes)?;
        asker.memory().push(held);
        Ok(())
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
        self.spawn(work);
        answer.await.map_err(|_| {
            let why = "the change ended without an answer: look at what became of it";
            Problem::new(ProblemKind::OutcomeUnknown, why).with_status(StatusCode::INTERNAL_SERVER_ERROR)
        })
    }

    /// Carries a task on in the background as far as it goes, or until the stop is requested. If many are carried on already, this one is left
    /// to the workers of its queue.
    pub(in crate::console) fn carry_on(&self, queue: Queue, id: String, stop: Shutdown) {
        let Ok(held) = self.tasks.take(Arc::clone(&asker().name), 1) else {
            tracing::info!(task = %id, "the console carries on too many tasks for another one");
            return;
        };
        self.spawn(async move {
            let _held = held;
            if let Err(error) = tasks::carry_on(&queue, &id, &stop).await {
                tracing::warn!(task = %id, %error, "the console does not carry on a task any more");
            }
        });
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut running = lock(&self.running);
        while running.try_join_next().is_some() {}
        running.spawn(work);
    }

    /// Waits until the work that goes on is done, for a while.
    pub(in crate::console) async fn finish(&self) {
        self.feeds.stop();
        let mut running = std::mem::take(&mut *lock(&self.running));
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
    use axum::response::IntoResponse;

    use super::*;

    async fn taken(work_limits: &WorkLimits, asker: &str, work: Work, most: usize) -> Vec<Held> {
        let taking = async { (0..most).map_while(|_| work_limits.begin(work).ok()).collect() };
        ASKER.scope(Asker::new(asker), taking).await
    }

    #[tokio::test]
    async fn work_is_bounded_in_number_and_for_each_person() {
        for (work, most, most_of_one) in
            [(Work::Search, 8, 4), (Work::Events, 1000, 100), (Work::Wait, 256, 128)]
        {
            let work_limits = WorkLimits::default();
            let own = taken(&work_limits, "=ann", work, most).await;
            assert_eq!(own.len(), most_of_one);
            let mut others = Vec::new();
            for nth in 0..most {
                others.extend(taken(&work_limits, &format!("={nth}"), work, most_of_one).await);
            }
            assert_eq!(own.len() + others.len(), most);
            let refused = work_limits.begin(work).err().unwrap();
            assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
            drop(own);
            assert_eq!(taken(&work_limits, "=ann", work, most).await.len(), most_of_one);
        }
    }

    #[tokio::test]
    async fn work_that_goes_on_alone_counts_as_its_persons() {
        let work_limits = WorkLimits::default();
        let held = ASKER.scope(Asker::new("=ann"), work_limits.complete(async { asker() })).await;
        assert_eq!(&*held.unwrap().name, "=ann");
    }

    #[tokio::test]
    async fn memory_is_bounded_until_the_answer_is_sent() {
        let work_limits = WorkLimits::default();
        let answering = |asker, bytes| {
            let work_limits = &work_limits;
            asked_by(asker, async move {
                work_limits.hold(bytes).map_or_else(IntoResponse::into_response, |()| "done".into_response())
            })
        };
        let first = answering("=ann", 100 * MIB).await;
        let length = first.headers().get(header::CONTENT_LENGTH).cloned();
        assert_eq!((first.status(), length), (StatusCode::OK, Some(4_u64.into())));
        let status = |response: &Response| response.status();
        assert_eq!(
            status(&answering("=ann", 61 * MIB).await),
            StatusCode::TOO_MANY_REQUESTS,
            "too much for one"
        );
        assert_eq!(
            status(&answering("=bob", 141 * MIB).await),
            StatusCode::TOO_MANY_REQUESTS,
            "too much for all"
        );
        let second = answering("=bob", 140 * MIB).await;
        assert_eq!(status(&second), StatusCode::OK);
        assert_eq!(status(&answering("=eve", SMALL_BYTES).await), StatusCode::OK, "small ones are free");
        drop((first, second));
        assert_eq!(status(&answering("=ann", 160 * MIB).await), StatusCode::OK);
        assert_eq!(status(&answering("=ann", 161 * MIB).await), StatusCode::PAYLOAD_TOO_LARGE);
        let in_pieces = asked_by("=ann", async {
            let held = work_limits.hold(100 * MIB).and_then(|()| work_limits.hold(61 * MIB));
            held.map_or_else(IntoResponse::into_response, |()| "done".into_response())
        });
        assert_eq!(status(&in_pieces.await), StatusCode::PAYLOAD_TOO_LARGE, "in pieces");
    }

    #[tokio::test]
    async fn payloads_are_read_in_turn() {
        let work_limits = WorkLimits::default();
        let take = async |asker: &str, longest: Duration| {
            work_limits.reads.take_within(&Arc::from(asker), longest).await.ok()
        };
        let mut held = Vec::new();
        for _ in 0..3 {
            held.extend(take("=ann", Duration::ZERO).await);
        }
        assert_eq!(held.len(), 3);
        assert!(take("=ann", Duration::from_millis(5)).await.is_none(), "nobody waits for ever");
        assert!(take("=bob", Duration::ZERO).await.is_some(), "others have places of their own");
        let mut next = Box::pin(take("=ann", Duration::from_secs(60)));
        assert!(futures_util::poll!(&mut next).is_pending());
        drop(held.pop());
        assert!(next.await.is_some());
        assert!(work_limits.read(async { 7 }).await.is_ok_and(|read| read == 7));
    }

    #[tokio::test]
    async fn a_search_takes_memory_until_it_ends() {
        let work_limits = WorkLimits::default();
        let searches = taken(&work_limits, "=ann", Work::Search, 4).await;
        let hold =
            async |bytes| ASKER.scope(Asker::new("=ann"), async { work_limits.hold(bytes).is_ok() }).await;
        assert!(!hold(MOST_BYTES_OF_ONE - 4 * SEARCH_BYTES + 1).await);
        assert!(hold(MOST_BYTES_OF_ONE - 4 * SEARCH_BYTES).await);
        drop(searches);
        assert!(hold(MOST_BYTES_OF_ONE).await);
    }

    #[tokio::test]
    async fn work_goes_on_without_its_client() {
        let (work_limits, (done, end)) = (WorkLimits::default(), oneshot::channel());
        let (begin, begun) = oneshot::channel::<()>();
        let work = async move {
            begun.await.unwrap();
            done.send(7).unwrap();
        };
        let mut client = Box::pin(work_limits.complete(work));
        assert!(futures_util::poll!(&mut client).is_pending());
        drop(client);
        begin.send(()).unwrap();
        assert_eq!(end.await, Ok(7));
        work_limits.finish().await;
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
