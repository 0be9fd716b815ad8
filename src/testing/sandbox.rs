//! A fleet on a private Redis, for tests.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use secrecy::ExposeSecret;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Unmet;
use crate::broker::{self, Broker, DeadLetter, Extras, Queue, QueueSnapshot, Status};
use crate::dev_server::{DevServer, StartError};
use crate::fleet::Builder;
use crate::job::{JobId, QueueName, State};
use crate::producer::{Producer, Submission, SubmitError};
use crate::shutdown::Shutdown;

/// How long [`Sandbox::until_state`], [`Sandbox::until_idle`] and [`Sandbox::start`] wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// The first and the longest pause between two checks; each pause is twice as long as the one before.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));

/// The most jobs of a queue that [`Sandbox::advance`] moves.
const MAX_DELAYED: u32 = 100_000;

/// The most dead letters that [`Sandbox::dead_letters`] reads.
const MAX_LETTERS: u64 = 1000;

/// A fleet's process on its own private Redis. Several sandboxes in one test binary are independent of each other.
///
/// The server keeps its data in a temporary folder. Dropping the sandbox ends everything at once; [`Sandbox::stop`]
/// stops the fleet gracefully. See the [module](super) for an example.
pub struct Sandbox {
    // These are dropped in this order: the fleet, the server, its folder.
    fleet: JoinSet<Result<(), broker::Error>>,
    shutdown: Shutdown,
    broker: Broker,
    queues: Vec<QueueName>,
    advances: AtomicU64,
    server: DevServer,
    _folder: TempDir,
}

/// Why a sandbox could not do what a test asked for. Its `Debug` is its `Display`, so that a test that returns it
/// prints it readably.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The temporary folder could not be created.
    #[error("cannot create a temporary folder: {0}")]
    Folder(#[source] io::Error),
    /// The private server did not start.
    #[error(transparent)]
    Server(#[from] StartError),
    /// The private server refused a command or did not answer.
    #[error(transparent)]
    Broker(#[from] broker::Error),
    /// The condition did not become true in time.
    #[error(transparent)]
    Unmet(#[from] Box<Unmet>),
    /// The fleet ended before it was stopped, or serves no queue.
    #[error("the fleet does not work: {0}")]
    Fleet(String),
    /// Too many jobs are delayed to move them.
    #[error("more than {MAX_DELAYED} jobs are delayed; a sandbox cannot move more")]
    TooMany,
}

impl fmt::Debug for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl Sandbox {
    /// Starts a private server and the fleet on it, and waits until the fleet is ready. All of the builder's settings
    /// apply, except that Redis is the private server and every job leaves a record.
    ///
    /// # Errors
    ///
    /// [`Error`] if no server is installed, if it does not start, or if the fleet does not.
    pub async fn start(fleet: Builder) -> Result<Self, Error> {
        let folder = tempfile::Builder::new().prefix("streamfleet-sandbox-").tempdir();
        let folder = folder.map_err(Error::Folder)?;
        let server = DevServer::start(folder.path()).await?;
        let fleet = fleet.on_private_server(server.url());
        let (redis, queues) = fleet.address_and_queues();
        if queues.is_empty() {
            return Err(Error::Fleet("it serves no queue".to_owned()));
        }
        let fleet = fleet.build();
        let (probe, shutdown) = (fleet.probe(), Shutdown::new());
        let mut running = JoinSet::new();
        running.spawn(Box::pin(fleet.run(shutdown.clone())));
        let broker = Broker::connect(redis).await?;
        let mut sandbox = Self {
            fleet: running,
            shutdown,
            broker,
            queues,
            advances: AtomicU64::new(0),
            server,
            _folder: folder,
        };
        let deadline = Instant::now() + PATIENCE;
        while probe.ready().is_err() {
            if let Some(ended) = sandbox.fleet.try_join_next() {
                return Err(Error::Fleet(format!("it ended: {ended:?}")));
            }
            if Instant::now() >= deadline {
                return Err(Error::Fleet("it was not ready in time".to_owned()));
            }
            tokio::time::sleep(PAUSES.0).await;
        }
        Ok(sandbox)
    }

    /// Returns the address of the private server, with its password.
    pub fn url(&self) -> String {
        self.server.url().expose_secret().to_owned()
    }

    /// Returns the fleet's queue, or the first one by name if it serves several.
    pub fn queue(&self) -> Queue {
        self.broker.queue(self.queues.first().expect("a fleet that started serves a queue").clone())
    }

    /// Returns the queue with this name.
    pub fn queue_of(&self, name: QueueName) -> Queue {
        self.broker.queue(name)
    }

    /// Submits a job to [the queue](Sandbox::queue).
    ///
    /// # Errors
    ///
    /// The errors of [`Producer::submit`].
    pub async fn submit(&self, submission: Submission) -> Result<JobId, SubmitError> {
        Producer::new(self.queue()).submit(submission).await
    }

    /// Returns what is known about a job of [the queue](Sandbox::queue).
    ///
    /// # Errors
    ///
    /// The errors of [`Queue::status`].
    pub async fn status(&self, job: &JobId) -> Result<Option<Status>, Error> {
        Ok(self.queue().status(job).await?)
    }

    /// Returns how many jobs [the queue](Sandbox::queue) has in each state, and its other figures.
    ///
    /// # Errors
    ///
    /// The errors of [`Queue::snapshot`].
    pub async fn snapshot(&self) -> Result<QueueSnapshot, Error> {
        Ok(self.queue().snapshot().await?)
    }

    /// Returns the dead letters of [the queue](Sandbox::queue), oldest first, at most 1000.
    ///
    /// # Errors
    ///
    /// The errors of [`Queue::dead_letters`].
    pub async fn dead_letters(&self) -> Result<Vec<DeadLetter>, Error> {
        Ok(self.queue().dead_letters().page(None, MAX_LETTERS).await?)
    }

    /// Waits until `condition` holds. `what` names it in the error.
    ///
    /// ```no_run
    /// # async fn example(sandbox: &streamfleet::testing::Sandbox, sent: &std::sync::Mutex<Vec<String>>)
    /// # -> Result<(), streamfleet::testing::Error> {
    /// use std::time::Duration;
    ///
    /// sandbox.until("two mails are sent", Duration::from_secs(5), async || sent.lock().unwrap().len() == 2).await
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Unmet`] after `deadline`, with what the queues hold by then.
    pub async fn until(
        &self,
        what: &str,
        deadline: Duration,
        mut condition: impl AsyncFnMut() -> bool,
    ) -> Result<(), Error> {
        let found = self.poll_until(what, deadline, async || Ok(condition().await.then_some(()))).await;
        found.map(drop)
    }

    /// Waits up to 30 s until a job of [the queue](Sandbox::queue) is in this state, and returns what is known about it
    /// then.
    ///
    /// # Errors
    ///
    /// [`Error::Unmet`] if the job does not get there in time, [`Error::Broker`] if the server does not answer.
    pub async fn until_state(&self, job: &JobId, state: State) -> Result<Status, Error> {
        let queue = self.queue();
        let what = format!("the job {job} is {state}");
        let look = async || Ok(queue.status(job).await?.filter(|status| status.state == state));
        self.poll_until(&what, PATIENCE, look).await
    }

    /// Waits up to 30 s until no job is waiting or running in any queue. Jobs may still be delayed.
    ///
    /// # Errors
    ///
    /// The errors of [`Sandbox::until_state`].
    pub async fn until_idle(&self) -> Result<(), Error> {
        let idle = async || {
            for name in &self.queues {
                let snapshot = self.queue_of(name.clone()).snapshot_with(Extras::default()).await?;
                if snapshot.waiting() + snapshot.running() > 0 {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        };
        self.poll_until("no job waits or runs", PATIENCE, idle).await
    }

    /// Lets `duration` pass for the delayed jobs of all queues, and returns how many it moved: after an advance of an
    /// hour, a job that was due in an hour is due now. Nothing else moves: timeouts, leases, `expires_at_ms` and the
    /// times in records still follow the clock.
    ///
    /// # Errors
    ///
    /// [`Error::Broker`] if the server does not answer, [`Error::TooMany`] if a queue has more than 100000 delayed
    /// jobs.
    pub async fn advance(&self, duration: Duration) -> Result<u64, Error> {
        let step = self.advances.fetch_add(1, Ordering::Relaxed) + 1;
        let mut moved = 0;
        for name in &self.queues {
            let queue = self.queue_of(name.clone());
            moved += queue.advance(duration, step, MAX_DELAYED).await?.ok_or(Error::TooMany)?;
        }
        Ok(moved)
    }

    /// Stops the fleet gracefully, then the server.
    ///
    /// # Errors
    ///
    /// [`Error::Fleet`] if the fleet ended with an error, [`Error::Folder`] if the server did.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.shutdown.request();
        while let Some(ended) = self.fleet.join_next().await {
            ended.map_err(|error| Error::Fleet(error.to_string()))??;
        }
        self.server.stop().await.map_err(Error::Folder)
    }

    async fn poll_until<T>(
        &self,
        what: &str,
        deadline: Duration,
        mut look: impl AsyncFnMut() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let (mut pause, longest) = PAUSES;
        let looking = async {
            loop {
                if let Some(found) = look().await? {
                    return Ok(found);
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(longest);
            }
        };
        match tokio::time::timeout(deadline, looking).await {
            Ok(found) => found,
            Err(_elapsed) => {
                let queues = self.queues.iter().map(|name| self.queue_of(name.clone()));
                Err(Error::Unmet(Box::new(Unmet::find(what, deadline, queues).await)))
            }
        }
    }
}
