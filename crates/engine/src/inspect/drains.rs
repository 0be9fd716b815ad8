//! Draining a worker: what people ask of one process, and its next beat hears of. The worker's own key has it, so it ends with
//! the process.

use fred::types::{Key, Value};

use crate::Broker;
use crate::client::error::Error;
use crate::client::script::{Answer, args, scripts};
use crate::client::{decode, keys};
use crate::inspect::audit::call_name;
use crate::inspect::server::{WorkerInfo, worker_facts};
use crate::job::{ConsumerName, Timestamp, cut};

scripts! { WORKER_DRAIN "worker_drain" }

/// The fact in which a worker names what it can be asked for.
#[doc(hidden)]
pub const CAPABILITIES: &str = "capabilities";

/// The capability of a worker that looks for requests to drain.
#[doc(hidden)]
pub const CAN_DRAIN: &str = "drain";

/// The most bytes of the name of a person, and of a reason.
const MAX_BY_BYTES: usize = 128;
const MAX_WHY_BYTES: usize = 500;

/// A request to a worker to take no further job; see the [example](Broker::drain_worker).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drain {
    /// Who asked.
    pub by: String,
    /// Why; may be empty.
    pub why: String,
    /// Since when, by the server's clock. Redis sets it.
    pub since: Timestamp,
    /// Whether the process ends, with the exit code 0, once it runs nothing.
    pub exits: bool,
}

impl Drain {
    /// Describes a request.
    pub fn new(by: impl Into<String>, why: impl Into<String>) -> Self {
        Self { by: by.into(), why: why.into(), ..Self::default() }
    }

    setters! {
        /// Sets whether the process ends once it runs nothing; by default, it stays, and can be resumed.
        exits: bool;
    }
}

/// What a worker learns when it reports.
#[doc(hidden)]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Requested {
    /// Nobody has asked for anything, or the worker's key was lost.
    #[default]
    Nothing,
    /// Take jobs.
    Work,
    /// Take no further job.
    Drain(Drain),
}

impl Requested {
    /// Reads what follows the time in the answer to a beat.
    pub(super) fn read(rest: &[Value]) -> Self {
        let text = |at: usize| rest.get(at).map(decode::text).unwrap_or_default();
        match text(0).parse() {
            Err(_) => Self::Nothing,
            Ok(0) => Self::Work,
            Ok(since_ms) => Self::Drain(Drain {
                by: text(2),
                why: text(3),
                since: decode::timestamp(since_ms),
                exits: text(1) == "1",
            }),
        }
    }
}

/// What became of a request to a worker; see the [example](Broker::drain_worker).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DrainOutcome {
    /// It is noted. The next beat of the worker hears of it.
    Noted,
    /// The worker had been asked for the same before: nothing is changed.
    Already {
        /// By whom; empty if nobody had asked for anything.
        by: String,
        /// Why; may be empty.
        why: String,
    },
    /// No live worker has this name.
    Unknown,
}

impl Broker {
    /// Returns what a live worker reports about itself; `None` if no live worker has this name.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    #[doc(hidden)]
    pub async fn worker(&self, consumer: &ConsumerName) -> Result<Option<WorkerInfo>, Error> {
        let facts = worker_facts(self, consumer).await?;
        Ok((!facts.is_empty()).then(|| WorkerInfo { consumer: consumer.to_string(), facts }))
    }

    /// Asks a worker to take no further job: it gives back what it has not started, and finishes what runs. Its next beat
    /// hears of it. The request ends with the process, whose name no other process ever has. A worker that drains already can still
    /// be asked to end, too.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(broker: streamfleet::Broker) -> Result<(), Box<dyn std::error::Error>> {
    /// use streamfleet::admin::{Drain, DrainOutcome};
    /// use streamfleet::job::ConsumerName;
    ///
    /// let name: ConsumerName = "web-3-4711-0b5ff109".parse()?;
    /// let request = Drain::new("ann@ops", "its disk is failing");
    /// match broker.drain_worker(&name, &request).await? {
    ///     DrainOutcome::Noted => println!("it will take no further job"),
    ///     DrainOutcome::Already { by, why } => println!("{by} had asked for it: {why}"),
    ///     DrainOutcome::Unknown => println!("there is no such worker"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    #[doc(hidden)]
    pub async fn drain_worker(&self, consumer: &ConsumerName, drain: &Drain) -> Result<DrainOutcome, Error> {
        self.request(consumer, "drain", drain).await
    }

    /// Asks a worker to take jobs again.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    #[doc(hidden)]
    pub async fn resume_worker(
        &self,
        consumer: &ConsumerName,
        by: &str,
        why: &str,
    ) -> Result<DrainOutcome, Error> {
        self.request(consumer, "resume", &Drain::new(by, why)).await
    }

    /// Notes a request again that the key of this worker has lost, unless there is another one.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    #[doc(hidden)]
    pub async fn keep_drain(&self, consumer: &ConsumerName, drain: &Drain) -> Result<(), Error> {
        self.request(consumer, "keep", drain).await.map(drop)
    }

    /// Sends a request. If the answer is lost, it is sent again.
    async fn request(
        &self,
        consumer: &ConsumerName,
        mode: &'static str,
        Drain { by, why, since, exits }: &Drain,
    ) -> Result<DrainOutcome, Error> {
        let (by, why) = (cut(by.clone(), MAX_BY_BYTES), cut(why.clone(), MAX_WHY_BYTES));
        let exit = if *exits { "1" } else { "0" };
        let keys: Vec<Key> = vec![keys::worker(self.namespace(), consumer)];
        let args = Vec::from(args![WORKER_DRAIN;
            mode,
            by,
            why,
            exit,
            since_ms = since.as_ms().to_string(),
            call = call_name(),
        ]);
        let link = self.link_for(consumer);
        let answer = link.run_named(&WORKER_DRAIN, keys, args).await?;
        outcome(&answer).ok_or_else(|| Error::contract("worker_drain", answer))
    }
}

fn outcome(answer: &Answer) -> Option<DrainOutcome> {
    let text = |at: usize| answer.rest.get(at).map(decode::text).unwrap_or_default();
    match answer.status {
        0 => Some(DrainOutcome::Unknown),
        1 => Some(DrainOutcome::Noted),
        2 => Some(DrainOutcome::Already { by: text(0), why: text(1) }),
        _ => None,
    }
}

impl WorkerInfo {
    /// Returns the request to drain that this worker has, whether or not it has heard of it; see [`WorkerInfo::has_heard`].
    pub fn drain(&self) -> Option<Drain> {
        let text = |name: &str| self.facts.get(name).cloned().unwrap_or_default();
        let since_ms = text("drain_since_ms").parse::<u64>().ok().filter(|since_ms| *since_ms > 0)?;
        Some(Drain {
            by: text("drain_by"),
            why: text("drain_why"),
            since: decode::timestamp(since_ms),
            exits: text("drain_exit") == "1",
        })
    }

    /// Returns true if this worker looks for requests to drain. Those of older versions do not.
    pub fn can_drain(&self) -> bool {
        let named = self.facts.get(CAPABILITIES).map_or("", String::as_str);
        named.split(',').any(|name| name == CAN_DRAIN)
    }

    /// Returns true if this worker does what it was last asked for: it takes no further job, or takes jobs.
    pub fn has_heard(&self) -> bool {
        let takes_none = matches!(self.facts.get("state").map(String::as_str), Some("draining" | "drained"));
        takes_none == self.drain().is_some()
    }

    /// Returns when this worker started, by the server's clock, as far as its last sign of life tells.
    pub fn started(&self) -> Option<Timestamp> {
        let number = |name: &str| self.facts.get(name)?.parse::<u64>().ok();
        Timestamp::from_ms(number("beat_ms")?.checked_sub(number("up_ms")?)?)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn worker(facts: &[(&str, &str)]) -> WorkerInfo {
        let facts = facts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        WorkerInfo { consumer: "w".to_owned(), facts: facts.collect::<BTreeMap<_, _>>() }
    }

    #[test]
    fn a_worker_hears_of_a_request_or_of_none() {
        let read =
            |rest: &[&str]| Requested::read(&rest.iter().map(|text| Value::from(*text)).collect::<Vec<_>>());
        assert_eq!(read(&["", "", "", ""]), Requested::Nothing);
        assert_eq!(read(&[]), Requested::Nothing);
        assert_eq!(read(&["x", "1", "ann", ""]), Requested::Nothing, "somebody else has written it");
        assert_eq!(read(&["0", "0", "ann", ""]), Requested::Work);
        let since = decode::timestamp(1_700_000_000_000);
        let drain = Drain { since, ..Drain::new("ann", "its disk").exits(true) };
        assert_eq!(read(&["1700000000000", "1", "ann", "its disk"]), Requested::Drain(drain));
    }

    #[test]
    fn a_worker_tells_whether_it_can_drain_and_has_heard_of_it() {
        let asked = ("drain_since_ms", "1700000000000");
        let old = worker(&[("state", "running"), asked]);
        assert!(!old.can_drain() && !old.has_heard() && old.drain().is_some());
        let idle = worker(&[("state", "running"), ("capabilities", "x,drain")]);
        assert!(idle.can_drain() && idle.has_heard() && idle.drain().is_none());
        for state in ["draining", "drained"] {
            assert!(worker(&[("state", state), asked, ("drain_by", "ann")]).has_heard(), "{state}");
            assert!(!worker(&[("state", state), ("drain_since_ms", "0")]).has_heard(), "{state}");
        }
    }

    #[test]
    fn the_start_of_a_worker_is_as_old_as_it_says() {
        let started = worker(&[("beat_ms", "1700000005000"), ("up_ms", "5000")]).started();
        assert_eq!(started.map(Timestamp::as_ms), Some(1_700_000_000_000));
        assert_eq!(worker(&[("beat_ms", "1"), ("up_ms", "5000")]).started(), None);
        assert_eq!(worker(&[]).started(), None);
    }
}
