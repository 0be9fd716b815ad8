//! Taking over the queues that another system keeps in a Redis.
//!
//! Elements leave the other system's keys in groups and wait in a stream beside them until their jobs are accepted. An import that ends
//! early finds there what it had taken. The id of a job follows from the entry of that stream, and is accepted once.

mod element;
mod mapping;
mod system;

use std::time::Instant;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use streamfleet::job::{EntryId, Envelope};
use streamfleet::schema::Schemas;
use streamfleet::{RedisError, Shutdown};
use streamfleet_engine::admin::Noted;
use streamfleet_engine::{ForeignElement, ForeignKind, ForeignRedis};
use streamfleet_sql::foreign::Key;

use self::element::{Element, Told, queue_of};
pub use self::mapping::BacklogMapping;
use self::system::{Place, State};
use super::job::{Found, Maker, id};
use super::report::{Failure, TableReport};
use super::sender::{Load, Sender};
use super::{Refusal, Watch, note, remark_types};
use crate::submit::Target;
use crate::{Actor, Error};

/// How many elements are taken over at once, and looked at.
const GROUP: u32 = 500;

/// How many records are read at once.
const AT_ONCE: usize = 50;

/// How many elements a plan looks at for each key.
const PLANNED: u64 = 1000;

/// A queue of another system, and where its jobs go.
pub struct BacklogImport<'a> {
    /// The Redis of the other system.
    pub redis: &'a ForeignRedis,
    /// Which of its queues.
    pub mapping: &'a BacklogMapping,
    /// The queue that gets the jobs.
    pub target: Target,
    /// What payloads must fit.
    pub schemas: &'a Schemas,
    /// How many jobs are sent per second, at most.
    pub rate: Option<f64>,
}

/// Elements that were taken over, as jobs.
#[derive(Default)]
struct Group {
    load: Load,
    /// Those that are done once the load is sent, and the keys that are deleted with them.
    done: Vec<EntryId>,
    records: Vec<String>,
    refused: Vec<Refusal>,
}

/// Looks at the first 1,000 elements of each key, and says what would become of them. Nothing is changed.
///
/// # Errors
///
/// [`Error::Redis`] if one of the two servers does not answer or refuses.
pub async fn plan(import: &BacklogImport<'_>) -> Result<TableReport, Error> {
    let unread = |error| Error::redis("the old Redis cannot be read")(error);
    let maker = import.maker().await.map_err(Error::redis(super::NO_CLOCK))?;
    let mut report = import.report();
    for place in import.mapping.fields.places() {
        let waits = import.redis.count(&place.key, place.kind).await.map_err(unread)?;
        if waits > 0 {
            report.keys.insert(place.key.clone(), waits);
        }
        if !import.mapping.fields.takes(&place) {
            if waits > 0 && place.state == State::Held {
                report.remarks.push(format!(
                    "{} has {waits} jobs that workers hold and that stay there: wait until they have ended, or set `held = true`",
                    place.key
                ));
            }
            continue;
        }
        let taken = import.redis.taken(&place.key, None, PLANNED).await.map_err(unread)?;
        let looked = import.redis.look(&place.key, place.kind, (0, PLANNED)).await.map_err(unread)?;
        report.more |= waits > PLANNED || taken.len() as u64 == PLANNED;
        let looked = looked.into_iter().filter(|found| import.is_ours(&place, found));
        let all = taken.into_iter().chain(looked.zip(1..).map(|(found, at)| (EntryId::new(0, at), found)));
        let group = import.group(&maker, &place, all.collect(), &mut report).await.map_err(unread)?;
        report.submitted += group.load.waiting.len() as u64;
        report.filed += group.load.dead.len() as u64;
    }
    report.remarks.extend(remark_types(&import.target.queue, &report.types).await);
    Ok(report)
}

/// Submits and files what the keys of a queue have, and notes in the audit of the queue what was done, if anything was. If
/// something ends it early, the report says so.
pub async fn import(
    import: &BacklogImport<'_>,
    actor: &Actor,
    stop: &Shutdown,
    watch: &mut dyn Watch,
) -> Noted<TableReport> {
    let mut report = import.report();
    report.failure = import.run(stop, &mut report, watch).await.err();
    let target = format!("{} of {}", import.mapping.source(), import.redis.shown());
    note(&import.target.queue, actor, target, report).await
}

impl BacklogImport<'_> {
    fn report(&self) -> TableReport {
        let (table, queue) = (self.mapping.source(), self.mapping.queue().to_string());
        TableReport { table, queue, ..TableReport::default() }
    }

    async fn maker(&self) -> Result<Maker<'_>, RedisError> {
        let now = self.target.queue.clock().await?;
        Ok(Maker { max_payload: self.target.max_payload, schemas: self.schemas, now })
    }

    async fn run(
        &self,
        stop: &Shutdown,
        report: &mut TableReport,
        watch: &mut dyn Watch,
    ) -> Result<(), Failure> {
        let maker = self.maker().await.map_err(Failure::Redis)?;
        let started = Instant::now();
        let mut sender = Sender { target: &self.target, stop, rate: self.rate, started, told: None };
        let fields = &self.mapping.fields;
        for place in fields.places().into_iter().filter(|place| fields.takes(place)) {
            if !self.empty(&place, &maker, &mut sender, report, watch).await? {
                report.interrupted = true;
                break;
            }
        }
        Ok(())
    }

    /// Takes over what a key has. Returns false if it was stopped.
    async fn empty(
        &self,
        place: &Place,
        maker: &Maker<'_>,
        sender: &mut Sender<'_>,
        report: &mut TableReport,
        watch: &mut dyn Watch,
    ) -> Result<bool, Failure> {
        // A group is sent at once, so a slow rate has small groups.
        let most = self.rate.map_or(GROUP, |rate| (rate.ceil() as u32).clamp(1, GROUP));
        let (mut after, mut passed_over) = (None, 0);
        loop {
            if !sender.keep_rate(report.sent()).await {
                return Ok(false);
            }
            let taken = self.redis.taken(&place.key, after.as_ref(), u64::from(most)).await;
            let taken = taken.map_err(Failure::Foreign)?;
            let Some((last, _)) = taken.last() else {
                let moved = self.take(place, most, &mut passed_over).await.map_err(Failure::Foreign)?;
                if moved { continue } else { return Ok(true) }
            };
            let (last, looked) = (*last, taken.len() as u64);
            let group = self.group(maker, place, taken, report).await.map_err(Failure::Foreign)?;
            group.refused.iter().try_for_each(|refusal| watch.refused(refusal)).map_err(Failure::Watch)?;
            let refused = report.refused;
            if !sender.send(group.load, report, watch).await? {
                return Ok(false);
            }
            // What only Redis has refused stays, too: which that were, the report says.
            if report.refused == refused {
                let forgotten = self.redis.forget(&place.key, &group.done, group.records).await;
                forgotten.map_err(Failure::Foreign)?;
            }
            report.looked += looked;
            watch.passed(&Key::Text(last.to_string()), report.looked).map_err(Failure::Watch)?;
            after = Some(last);
        }
    }

    /// Takes the next elements of a key. Returns false if it has none.
    async fn take(&self, place: &Place, most: u32, passed_over: &mut u64) -> Result<bool, RedisError> {
        if !place.is_shared && place.kind != ForeignKind::Set {
            return Ok(self.redis.take(&place.key, place.kind, most).await? > 0);
        }
        loop {
            let look = (*passed_over, u64::from(most));
            let looked = self.redis.look(&place.key, place.kind, look).await?;
            if looked.is_empty() {
                return Ok(false);
            }
            let ours: Vec<&[u8]> = looked
                .iter()
                .filter(|found| self.is_ours(place, found))
                .map(|found| found.bytes.as_slice())
                .collect();
            *passed_over += (looked.len() - ours.len()) as u64;
            if !ours.is_empty() {
                self.redis.take_these(&place.key, place.kind, &ours).await?;
                return Ok(true);
            }
        }
    }

    /// Whether an element is for the queue of the mapping.
    fn is_ours(&self, place: &Place, found: &ForeignElement) -> bool {
        !place.is_shared || queue_of(&found.bytes).is_some_and(|queue| queue == self.mapping.fields.name)
    }

    /// Makes the jobs of elements.
    async fn group(
        &self,
        maker: &Maker<'_>,
        place: &Place,
        taken: Vec<(EntryId, ForeignElement)>,
        report: &mut TableReport,
    ) -> Result<Group, RedisError> {
        let mut group = Group::default();
        let records = taken.iter().map(|(_, found)| self.record(found)).collect::<Vec<_>>();
        let read = stream::iter(records).buffered(AT_ONCE).try_collect::<Vec<_>>().await?;
        for ((entry, found), (record, fields)) in taken.into_iter().zip(read) {
            let key = Key::Text(format!("{} {entry}", place.key));
            // Old versions of BullMQ keep a marker among the ids.
            if self.mapping.fields.is_marker(&found.bytes) {
                group.done.push(entry);
                continue;
            }
            let element =
                Element { bytes: &found.bytes, fields: fields.as_ref(), max_payload: maker.max_payload };
            let made = element
                .read(self.mapping.fields.system, self.mapping.fields.payload)
                .and_then(|told| self.found(place, entry, found.score, told))
                .and_then(|found| Ok((found.job_type.clone(), maker.job(found)?)));
            match made {
                Ok((job_type, job)) => {
                    report.count(job_type);
                    group.load.add(key, job);
                    group.done.push(entry);
                    group.records.extend(record);
                }
                Err(why) => group.refused.push(report.refuse(&key, why)),
            }
        }
        Ok(group)
    }

    /// The key with the fields of a job and the fields, if its system keeps them there.
    async fn record(&self, found: &ForeignElement) -> Result<(Option<String>, Option<Envelope>), RedisError> {
        let Some(key) = self.mapping.fields.record(&String::from_utf8_lossy(&found.bytes)) else {
            return Ok((None, None));
        };
        let fields = self.redis.fields(&key).await?;
        Ok((Some(key), Some(fields)))
    }

    fn found(&self, place: &Place, entry: EntryId, score: Option<f64>, told: Told) -> Result<Found, String> {
        let job_type = self.mapping.job_type(told.name.as_deref())?;
        let by_score = score.and_then(|score| place.due.at(score));
        let is_dead = place.state == State::Dead;
        Ok(Found {
            id: id(self.mapping.id(), &format!("{}-{entry}", place.label)),
            job_type,
            payload: told.payload,
            encoding: told.encoding,
            run_at: by_score.or(told.run_at),
            death: is_dead.then_some(told.death),
        })
    }
}
