//! Access to Redis. Only this folder names the client crate. The crate root and `admin` export what is public here.
//!
//! [`Broker`] is the process's access to one Redis; [`Queue`] is one of its queues. Every transition of a job is one
//! script, a `.lua` file beside the Rust code that calls it. The exceptions are reading jobs and acknowledging plain
//! successes: these are plain commands because they are the hot path. Everything here can be sent twice, so the
//! response to an unknown outcome is to send again. The one exception is appending a new job, which reports the unknown
//! outcome to the caller.

#[macro_use]
extern crate streamfleet_domain;

pub mod admin;
mod alerts;
mod attempt;
mod bulk;
mod client;
mod dead;
mod foreign;
mod gates;
mod history;
mod inspect;
mod maintenance;
#[doc(hidden)]
pub mod mutex;
mod rehearse;
#[doc(hidden)]
pub mod sabotage;
mod statistics;
mod submit;
mod tasks;
pub mod tls;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use fred::types::{Key, Value};

pub use alerts::incidents::IncidentChange;
pub use alerts::incidents::{Acknowledgment, Incidents, KnownIncident, OpenIncidents, PastIncident};
pub use attempt::acknowledge::Acknowledged;
pub use attempt::applied::Applied;
pub use attempt::begin::{Begun, Candidate};
pub use attempt::call::MAX_JOBS;
pub use attempt::cancel::Cancellation;
pub use attempt::cancel::GateNews;
pub use attempt::group::{GroupMember, grouped, is_followed, settling_weight};
pub use attempt::keep::KeepRecord;
pub use attempt::progress::{LOG_LINES, UnsentLine, UnsentReport};
pub use attempt::read::{Consumer, Joined};
pub use attempt::runs::{EndedRun, NewRun, StepBegun, StepEnded, StepReported, StepRun};
pub use attempt::settle::EndedAttempt;
pub use attempt::steps::{DecideError, Decided, StepLedgers, StepsStatus};
pub use attempt::take::{MAX_TAKEN, MAX_TYPES, Overdue};
pub use attempt::taken::{AttemptSummary, TakenJob};
pub use bulk::carry_out::{BulkCursor, BulkError, BulkPage, BulkTally};
pub use bulk::move_jobs::KeptBack;
pub use bulk::remove::{DeletedPage, KeyCursor, QueueUse};
pub use bulk::selection::{BulkAction, BulkJobs, BulkPlan, BulkSelection};
pub use bulk::terms::BulkTerms;
pub use client::address::Config;
pub use client::decode::Entry;
pub use client::error::{Class, Error};
use client::keys::Keys;
pub use client::keys::stream_name;
use client::link::WeakLink;
pub use client::link::{Link, Role};
use client::locator::Locator;
pub use client::meter::COMMANDS;
pub use client::meter::{Meter, Reading};
pub use dead::edit::{EditError, LetterEdit};
pub use dead::file::{Departed, Filed};
pub use dead::groups::{DeadGroup, DeadGroups};
pub use dead::letter::{DeadLetter, DeadLetters, Evicted, LetterLimits};
pub use dead::replay::Replayed;
pub use dead::selection::{LetterSearch, SelectedPage, Selection, SelectionPlan};
pub use foreign::{ForeignElement, ForeignKind, ForeignRedis};
pub use gates::admit::Admitted;
pub use gates::drain::{AttemptEnd, HeldPlace, MAX_GIVEN_BACK, MAX_WAITLISTS};
pub use gates::rules::{GateStatus, Gates, Waitlist};
pub use history::ended::EndedJob;
pub use history::journal::{JournalFields, JournalFigures, MAX_ENDS};
pub use history::outbox::OutboxState;
pub use inspect::audit::{Action, AuditLog, DeletionLog, Noted, PastAction};
pub use inspect::audit_search::{AuditCursor, AuditPage, AuditSearch, AuditSource};
pub use inspect::delayed::{Delayed, Upcoming};
pub use inspect::drains::{CAN_DRAIN, CAPABILITIES, Drain, DrainOutcome, Requested};
pub use inspect::events::{EventStream, PastEvent};
pub use inspect::history::{Attempt, LogLine, Progress};
pub use inspect::holdings::{Holdings, JobHolder};
pub use inspect::holdings::{RunningAttempt, shown as attempts_text};
pub use inspect::jobs::{FoundJob, JobCursor, JobPage, JobSearch, JobWalk};
pub use inspect::pools::PoolDown;
pub use inspect::seek::EntrySearch;
pub use inspect::server::{Listed, Missing, Server, WorkerInfo};
pub use inspect::sessions::{EndedSessions, MAX_LOGOUTS};
pub use inspect::snapshot::Extras;
pub use inspect::snapshot::{LaneSnapshot, Members, QueueSnapshot, RedisMemory};
pub use inspect::status::Status;
pub use inspect::unread::{Part, Unread};
pub use inspect::unserved::{LiveTypes, UnknownType};
pub use maintenance::claim::{ClaimFrom, SilentEntry};
pub use maintenance::cron::CronState;
pub use maintenance::cron::{Cron, CronStatus, CronTable, Kept, MAX_ENTRIES};
pub use maintenance::orphans::MAX_RECLAIMED;
pub use maintenance::promote::Promoted;
pub use rehearse::Step;
pub use statistics::samples::Sample;
pub use statistics::tally::{MAX_TYPES as MAX_TALLIED_TYPES, Tallied, Tally, TallyReport};
pub use statistics::type_stats::{TypeFigures, TypeStats};
pub use submit::amend::{Amended, DelayedEdit, DelayedJob};
pub use submit::batch::BatchFollower;
pub use submit::batch::{Awaited, Batch};
pub use submit::durability::Durability;
pub use submit::enqueue::Due;
pub use submit::enqueue::{NewJob, NotAccepted, RESEND_WITHIN, Row, Turn, drawn_call};
pub use submit::unique::{JobWithId, LockHolder, SubmitOutcome, Unique};
pub use submit::unique::{UniqueMode, UniqueScope};
pub use tasks::advance::Advance;
pub use tasks::listing::KnownTask;
pub use tasks::listing::{TaskCursor, TaskPage};
pub use tasks::registry::{TaskError, Tasks};
pub use tasks::task::{Task, TaskAction, TaskCounts};

pub use tls::Files as Tls;

use client::script::{Answer, Script};
use job::{ConsumerName, Namespace, QueueName};
use mutex::lock;
#[doc(hidden)]
pub use streamfleet_domain::{cron, job};

/// The consumer group of every work stream.
pub const GROUP: &str = "fleet";

/// The version of the wire contract that this crate writes. [`Joined::wire`] is the one that the fleet writes.
pub const WIRE_VERSION: u8 = 1;

/// Access to one Redis. Clones share the connection.
///
/// ```no_run
/// # use streamfleet_engine as streamfleet;
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use streamfleet::Broker;
///
/// let broker = Broker::connect("redis://127.0.0.1:6379").await?;
/// let queues = broker.queues().await?;
/// for name in queues.found {
///     let snapshot = broker.queue(name.clone()).snapshot().await?;
///     println!("{name}: {} jobs wait, {} run", snapshot.waiting(), snapshot.running());
/// }
/// for server in queues.missing {
///     eprintln!("{server}"); // a part of a cluster that did not answer
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Broker {
    shared: Arc<Shared>,
}

struct Shared {
    config: Config,
    /// The connection to the only server. For a cluster, the template for the connections in `links`.
    link: Link,
    /// The connections to the servers of a cluster, by the slot they are for.
    links: Mutex<HashMap<u16, WeakLink>>,
}

/// One queue of a Redis. Clones share the connection. [`Broker::queue`] returns it.
///
/// ```no_run
/// # use streamfleet_engine as streamfleet;
/// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use streamfleet::admin::Cancellation;
/// use streamfleet::job::JobId;
///
/// let id: JobId = "invoice-17".parse()?;
/// match queue.cancel(&id, "ann", Duration::from_secs(24 * 3600)).await? {
///     Cancellation::Done => println!("it will not run"),
///     Cancellation::Requested => println!("its worker is asked to stop"),
///     Cancellation::Ended(state) => println!("it is already {state}"),
///     Cancellation::Unknown => println!("there is no such job"),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Queue {
    name: QueueName,
    keys: Arc<Keys>,
    link: Link,
}

impl Broker {
    /// Connects to Redis: to an address, such as `redis://127.0.0.1:6379`, or with a [`Config`].
    ///
    /// # Errors
    ///
    /// [`Error`] if the address is unusable, nobody listens there, or the login is refused.
    pub async fn connect(config: impl Into<Config>) -> Result<Self, Error> {
        Self::connect_with(config.into(), None).await
    }

    /// Connects, and reports every round trip to `meter`.
    #[doc(hidden)]
    pub async fn connect_metered(config: Config, meter: Meter) -> Result<Self, Error> {
        Self::connect_with(config, Some(meter)).await
    }

    async fn connect_with(config: Config, meter: Option<Meter>) -> Result<Self, Error> {
        let access = config.client_config()?;
        let locator = match Locator::find(&access).await {
            Ok(locator) => locator,
            Err(error) => return Err(client::tls::explained(error, &access).await),
        };
        // In a cluster, one server that is down must not block access to the others.
        let access = locator.cluster().map_or(access, |cluster| cluster.access().clone());
        let link = Link::new(access, locator, Role::Commands, meter);
        if !link.is_clustered() {
            link.ready().await?;
        }
        Ok(Self { shared: Arc::new(Shared { config, link, links: Mutex::default() }) })
    }

    /// Returns one queue of this Redis. Sends nothing.
    pub fn queue(&self, name: QueueName) -> Queue {
        let keys = Arc::new(Keys::new(self.namespace(), &name));
        let link = self.link_to(&keys.control);
        Queue { name, keys, link }
    }

    /// The first part of every key.
    pub fn namespace(&self) -> &Namespace {
        &self.shared.config.namespace
    }

    /// The address in a form that is safe to show.
    pub fn shown(&self) -> String {
        self.shared.config.shown()
    }

    /// The connection to the server that holds this key, shared by all users of this broker.
    fn link_to(&self, key: &Key) -> Link {
        let Some(slot) = self.shared.link.is_clustered().then(|| key.cluster_hash()) else {
            return self.shared.link.clone();
        };
        let mut links = lock(&self.shared.links);
        if let Some(link) = links.get(&slot).and_then(WeakLink::upgrade) {
            return link;
        }
        let link = self.shared.link.for_key(key);
        links.retain(|_, link| link.upgrade().is_some());
        links.insert(slot, link.downgrade());
        link
    }

    /// The connection to the server that holds a worker's own key.
    #[doc(hidden)]
    pub fn link_for(&self, consumer: &ConsumerName) -> Link {
        self.link_to(&client::keys::worker(self.namespace(), consumer))
    }

    /// Opens a separate connection to the server that holds a worker's own key.
    #[doc(hidden)]
    pub async fn open_for(&self, consumer: &ConsumerName) -> Result<Link, Error> {
        self.link_for(consumer).open_another(Role::Commands).await
    }

    /// True if the keys are spread over several servers.
    #[doc(hidden)]
    pub fn is_clustered(&self) -> bool {
        self.shared.link.is_clustered()
    }
}

impl Queue {
    /// The queue's name.
    pub fn name(&self) -> &QueueName {
        &self.name
    }

    /// Returns this queue over another connection.
    #[doc(hidden)]
    pub fn over(&self, link: &Link) -> Self {
        Self { link: link.clone(), ..self.clone() }
    }

    #[doc(hidden)]
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Opens a separate connection to the server that holds the queue.
    #[doc(hidden)]
    pub async fn open(&self, role: Role) -> Result<Link, Error> {
        match role {
            Role::Blocking => self.link.open_blocking(self.keys.offloaded("")).await,
            Role::Commands | Role::Confirming => self.link.open_another(role).await,
        }
    }

    /// Describes an error in words. If Redis refused a command and the error names no key, adds the queue's keys,
    /// because Redis does not say which key it refused.
    pub fn with_keys(&self, error: &Error) -> String {
        let detail = error.to_string();
        if error.class().is_some() { self.keys.with_key_names(&detail) } else { detail }
    }

    async fn run(&self, script: &Script, keys: Vec<Key>, args: Vec<Value>) -> Result<Answer, Error> {
        self.link.run(script, keys, args).await.map_err(|error| self.name_keys(error))
    }

    /// Runs a script that recognizes a call by its name: if the answer is lost, the call is sent again.
    async fn run_named(&self, script: &Script, keys: Vec<Key>, args: Vec<Value>) -> Result<Answer, Error> {
        self.link.run_named(script, keys, args).await.map_err(|error| self.name_keys(error))
    }

    /// Adds the queue's keys to an error that somebody has to fix: they must know which key it is about.
    fn name_keys(&self, mut error: Error) -> Error {
        if let Error::Refused { class: Class::Configuration, detail, .. } = &mut error {
            *detail = self.keys.with_key_names(detail);
        }
        error
    }
}

/// Converts bytes to an argument.
fn bytes(data: &[u8]) -> Value {
    Value::Bytes(bytes::Bytes::copy_from_slice(data))
}

/// Converts a duration to an argument in whole milliseconds.
fn millis(duration: std::time::Duration) -> Value {
    Value::Integer(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}
