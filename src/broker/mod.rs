//! Redis. The only folder that names the client crate.
//!
//! [`Broker`] is the process's access to one Redis; [`Queue`] is one queue of it. Every transition of a job is one
//! script (`scripts/*.lua`, behind `script`), except reading and the acknowledgement of plain successes, which are
//! plain commands because they are the hot path. Everything here is idempotent when sent twice, so an unknown outcome is
//! answered by sending again; the one exception, appending a new job, reports it to the caller.

mod acknowledge;
mod address;
#[cfg(feature = "testing")]
mod advance;
mod amend;
mod assemble;
mod backlog;
mod batch;
mod cancel;
mod client;
mod conclusion;
mod confirm;
mod cron;
mod dead;
mod decode;
mod delayed;
mod enqueue;
mod error;
mod events;
mod gauge;
mod history;
mod inspect;
mod keys;
mod letter;
mod link;
mod locate;
mod lookup;
mod meter;
mod offload;
mod rehearse;
mod report;
mod script;
mod seek;
mod sentinel;
mod server;
mod settle;
mod slots;
mod steps;
mod stream;
mod submit;
mod tls;
mod unread;
mod upkeep;
mod url;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use fred::types::{Key, Value};

pub use address::Config;
pub use backlog::Backlog;
pub use batch::{Awaited, Batch};
pub use cancel::Cancellation;
pub use confirm::Durability;
pub(crate) use cron::CronState;
pub use cron::{CronStatus, CronTable, Kept, MAX_ENTRIES};
pub use dead::{DeadLetter, Evicted, LetterLimits};
pub(crate) use decode::Entry;
pub use delayed::Upcoming;
pub use enqueue::{Due, NewJob};
pub(crate) use enqueue::{RECEIPTS, Untaken};
pub use error::{Class, Error};
pub use events::PastEvent;
pub(crate) use gauge::Gauge;
pub use history::{Attempt, LogLine, Progress};
pub use inspect::{Depths, LaneDepth, Status};
use keys::Keys;
pub use keys::stream_name;
pub(crate) use letter::fingerprint;
use link::WeakLink;
pub(crate) use link::{Link, Role};
use locate::Locator;
pub use meter::COMMANDS;
pub(crate) use meter::{Meter, Reading};
pub use rehearse::Step;
pub(crate) use report::{LOG_LINES, Said, Saying};
pub(crate) use seek::Sought;
pub use server::{Listed, Missing, Server, WorkerInfo};
pub(crate) use settle::{Applied, Begun, Keep, Ran, Taken};
pub use steps::{DecideError, Decided, Decider, Steps};
pub(crate) use steps::{StepBegun, StepRun, StepTold};
pub(crate) use stream::{ClaimFrom, Silent};
pub use stream::{Consumer, Joined};
pub(crate) use submit::{Holder, Identified, Placed, Unique};
pub use submit::{UniqueMode, UniqueScope};
pub use unread::{Part, Unread};
pub(crate) use upkeep::Promoted;
pub use upkeep::Replayed;

pub use crate::tls::Files as Tls;

use crate::job::{ConsumerName, Namespace, QueueName};
use script::{Answer, Script};

/// The consumer group of every work stream.
pub(crate) const GROUP: &str = "fleet";

/// The version of the wire contract that this crate writes.
pub const WIRE_VERSION: u8 = 1;

/// Access to one Redis. Clones share the connection.
#[derive(Clone)]
pub struct Broker {
    shared: Arc<Shared>,
}

struct Shared {
    config: Config,
    /// The connection to the one server there is. Of a cluster, what others are made of.
    link: Link,
    /// The connections to the servers of a cluster, by the slot that each is for.
    links: Mutex<HashMap<u16, WeakLink>>,
}

/// One queue. Clones share the connection.
#[derive(Clone)]
pub struct Queue {
    name: QueueName,
    keys: Arc<Keys>,
    link: Link,
}

impl Broker {
    /// Connects.
    ///
    /// # Errors
    ///
    /// [`Error`] where the address is unusable, nobody listens there, or the login is refused.
    pub async fn connect(config: Config) -> Result<Self, Error> {
        Self::connect_with(config, None).await
    }

    /// The same, and tells of every round trip.
    pub(crate) async fn connect_metered(config: Config, meter: Meter) -> Result<Self, Error> {
        Self::connect_with(config, Some(meter)).await
    }

    async fn connect_with(config: Config, meter: Option<Meter>) -> Result<Self, Error> {
        let access = config.client_config()?;
        let locator = match Locator::find(&access).await {
            Ok(locator) => locator,
            Err(error) => return Err(tls::explained(error, &access).await),
        };
        // Of a cluster, one server that is away must not keep from those that are there.
        let access = locator.cluster().map_or(access, |cluster| cluster.access().clone());
        let link = Link::new(access, locator, Role::Commands, meter);
        if !link.is_clustered() {
            link.ready().await?;
        }
        Ok(Self { shared: Arc::new(Shared { config, link, links: Mutex::default() }) })
    }

    /// One queue of this Redis. Nothing is sent.
    pub fn queue(&self, name: QueueName) -> Queue {
        let keys = Arc::new(Keys::new(self.namespace(), &name));
        let link = self.link_to(&keys.control);
        Queue { name, keys, link }
    }

    /// The first part of every key.
    pub fn namespace(&self) -> &Namespace {
        &self.shared.config.namespace
    }

    /// The address, to be shown to people.
    pub fn shown(&self) -> String {
        self.shared.config.shown()
    }

    /// The connection to the server that has this key, shared by all who use this one.
    fn link_to(&self, key: &Key) -> Link {
        let Some(slot) = self.shared.link.is_clustered().then(|| key.cluster_hash()) else {
            return self.shared.link.clone();
        };
        let mut links = self.shared.links.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = links.get(&slot).and_then(WeakLink::upgrade) {
            return link;
        }
        let link = self.shared.link.toward(key);
        links.retain(|_, link| link.upgrade().is_some());
        links.insert(slot, link.downgrade());
        link
    }

    /// The connection to the server that has what a worker says of itself.
    pub(crate) fn link_for(&self, consumer: &ConsumerName) -> Link {
        self.link_to(&keys::worker(self.namespace(), consumer))
    }

    /// A connection of its own for that.
    pub(crate) async fn open_for(&self, consumer: &ConsumerName) -> Result<Link, Error> {
        self.link_for(consumer).beside(Role::Commands).await
    }

    /// True where the keys are spread over several servers.
    pub(crate) fn is_clustered(&self) -> bool {
        self.shared.link.is_clustered()
    }
}

impl Queue {
    /// The queue's name.
    pub fn name(&self) -> &QueueName {
        &self.name
    }

    /// This queue over another connection.
    pub(crate) fn over(&self, link: &Link) -> Self {
        Self { link: link.clone(), ..self.clone() }
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// A connection of its own to the server that has the queue.
    pub(crate) async fn open(&self, role: Role) -> Result<Link, Error> {
        self.link.beside(role).await
    }

    /// An error in words, with the queue's keys where Redis refused and the error names none of them: Redis does not say of which
    /// key a refusal is.
    pub fn with_keys(&self, error: &Error) -> String {
        let said = error.to_string();
        if error.class().is_some() { self.keys.named(&said) } else { said }
    }

    async fn run(&self, script: &Script, keys: Vec<Key>, args: Vec<Value>) -> Result<Answer, Error> {
        self.link.run(script, keys, args).await.map_err(|mut error| {
            // A person must mend it, and must know where.
            if let Error::Refused { class: Class::Configuration, detail, .. } = &mut error {
                *detail = self.keys.named(detail);
            }
            error
        })
    }
}

/// Bytes as an argument.
fn bytes(data: &[u8]) -> Value {
    Value::Bytes(bytes::Bytes::copy_from_slice(data))
}

/// A duration as an argument, in whole milliseconds.
fn millis(duration: std::time::Duration) -> Value {
    Value::Integer(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}
