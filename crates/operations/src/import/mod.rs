//! Taking over the tables and lists of another queue: what waits becomes a job, and what has failed for good becomes a dead letter.
//!
//! A table is read along its key. Each group of rows is sent, and then noted as passed, so an import that ends early goes on where
//! it was. What was sent and not yet noted is sent again: the id of a job follows from its row, and is accepted once.

mod backlog;
mod column;
mod group;
mod job;
mod mapping;
mod message;
mod moment;
mod php;
mod report;
mod row;
mod sender;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::time::Instant;

use streamfleet::job::JobType;
use streamfleet::schema::Schemas;
use streamfleet::{Queue, RedisError, Shutdown};
use streamfleet_engine::admin::Noted;
use streamfleet_sql::Database;
use streamfleet_sql::foreign::{self, Key, Look, MAX_ROWS};

pub use self::backlog::{BacklogImport, BacklogMapping, import as import_backlog, plan as plan_backlog};
use self::group::{Group, groups};
use self::job::Maker;
pub use self::mapping::Mapping;
use self::mapping::Sort;
pub use self::report::{Failure, Refusal, TableReport};
use self::sender::{Load, Sender};
use crate::control::outcome;
use crate::submit::Target;
use crate::{Actor, Error, IMPORT, unserved};

/// Of how many types a plan asks whether a worker knows them.
const MAX_ASKED: usize = 20;

/// What an error says if the time of the server is not known.
const NO_CLOCK: &str = "failed to read the clock of Redis";

/// A table, and where its jobs go.
pub struct Import<'a> {
    /// The database, of which nothing is changed.
    pub database: &'a Database,
    /// What its columns mean.
    pub mapping: &'a Mapping,
    /// The queue that gets the jobs.
    pub target: Target,
    /// What payloads must fit.
    pub schemas: &'a Schemas,
    /// The key of the last row that an earlier run has passed.
    pub after: Option<Key>,
    /// How many jobs are sent per second, at most.
    pub rate: Option<f64>,
}

/// Hears of an import while it runs.
pub trait Watch: Send {
    /// All rows up to this key are done. Another import can begin after it. `looked` rows were looked at so far.
    ///
    /// # Errors
    ///
    /// If it cannot be written down. The import ends.
    fn passed(&mut self, key: &Key, looked: u64) -> io::Result<()>;

    /// A row cannot be a job.
    ///
    /// # Errors
    ///
    /// If it cannot be written down. The import ends.
    fn refused(&mut self, refusal: &Refusal) -> io::Result<()>;

    /// The import waits because of this, and tries again.
    fn waits(&mut self, failure: &Failure);
}

/// Looks at the first 1,000 rows, and says what would become of them. Nothing is changed.
///
/// # Errors
///
/// [`Error::Database`] if the table cannot be read; [`Error::Redis`] if the server's clock cannot be.
pub async fn plan(import: &Import<'_>) -> Result<TableReport, Error> {
    let unread = |error| {
        let what = format!("the table {} cannot be read", import.mapping.table());
        Error::Database { what, error }
    };
    let maker = import.maker().await.map_err(Error::redis(NO_CLOCK))?;
    let mut report = import.report();
    let page = import.page(import.after.as_ref()).await.map_err(unread)?;
    report.more = page.len() == MAX_ROWS;
    for group in groups(import.mapping, page, usize::MAX) {
        let (load, _) = import.load(&maker, &group, &mut report).await.map_err(unread)?;
        report.looked += group.looked;
        report.submitted += load.waiting.len() as u64;
        report.filed += load.dead.len() as u64;
    }
    report.remarks = remark_types(&import.target.queue, &report.types).await;
    Ok(report)
}

/// Says which of these types no worker knows.
async fn remark_types(queue: &Queue, types: &BTreeMap<String, u64>) -> Vec<String> {
    let mut remarks = Vec::new();
    for job_type in types.keys().filter_map(|name| name.parse::<JobType>().ok()).take(MAX_ASKED) {
        let remark = unserved::remark(queue, &job_type).await;
        remarks.extend(remark.map(|why| format!("jobs will wait: {why}")));
    }
    remarks
}

/// Submits and files what the rows of a table say, and notes in the audit of the queue what was done, if anything was. If
/// something ends it early, the report says so.
pub async fn import(
    import: &Import<'_>,
    actor: &Actor,
    stop: &Shutdown,
    watch: &mut dyn Watch,
) -> Noted<TableReport> {
    let mut report = import.report();
    let failure = import.run(stop, &mut report, watch).await.err();
    report.failure = failure;
    let target = format!("{} of {}", import.mapping.table(), import.database);
    note(&import.target.queue, actor, target, report).await
}

/// Notes in the audit of a queue what an import has done, if it has done anything.
async fn note(queue: &Queue, actor: &Actor, target: String, report: TableReport) -> Noted<TableReport> {
    if report.done() == 0 && report.failure.is_none() {
        return Noted::of_nothing(report);
    }
    let outcome = outcome(report.failure.as_ref(), report.interrupted);
    let action = actor.action(&IMPORT).target(target).count(report.done()).outcome(outcome);
    queue.audit().noted(&action, report).await
}

impl Import<'_> {
    fn report(&self) -> TableReport {
        let (table, queue) = (self.mapping.table().to_owned(), self.mapping.queue().to_string());
        TableReport { table, queue, ..TableReport::default() }
    }

    async fn maker(&self) -> Result<Maker<'_>, RedisError> {
        let now = self.target.queue.clock().await?;
        Ok(Maker { max_payload: self.target.max_payload, schemas: self.schemas, now })
    }

    async fn page(&self, after: Option<&Key>) -> Result<Vec<Look>, streamfleet_sql::Error> {
        foreign::look(self.database, &self.mapping.table, after, MAX_ROWS).await
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
        // A group is sent at once, so a slow rate has small groups.
        let most = self.rate.map_or(usize::MAX, |rate| rate.ceil() as usize);
        let (mut after, mut sent) = (self.after.clone(), 0);
        loop {
            let page = self.page(after.as_ref()).await.map_err(Failure::Database)?;
            let is_last = page.len() < MAX_ROWS;
            for group in groups(self.mapping, page, most) {
                report.interrupted = !sender.keep_rate(sent).await;
                if report.interrupted {
                    return Ok(());
                }
                let (load, refused) = self.load(&maker, &group, report).await.map_err(Failure::Database)?;
                refused.iter().try_for_each(|refusal| watch.refused(refusal)).map_err(Failure::Watch)?;
                sent += (load.waiting.len() + load.dead.len()) as u64;
                report.interrupted = !sender.send(load, report, watch).await?;
                if report.interrupted {
                    return Ok(());
                }
                report.looked += group.looked;
                watch.passed(&group.last, report.looked).map_err(Failure::Watch)?;
                after = Some(group.last);
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Reads the rows of a group, and makes their jobs. Also returns the rows that cannot be jobs.
    async fn load(
        &self,
        maker: &Maker<'_>,
        group: &Group,
        report: &mut TableReport,
    ) -> Result<(Load, Vec<Refusal>), streamfleet_sql::Error> {
        let large = |bytes: &u64| format!("it has {bytes} bytes, which is more than any job may have");
        let mut refused: Vec<Refusal> =
            group.too_large.iter().map(|(key, bytes)| report.refuse(key, large(bytes))).collect();
        let sorts: HashMap<&Key, Sort> = group.chosen.iter().map(|(key, sort)| (key, *sort)).collect();
        let keys: Vec<Key> = group.chosen.iter().map(|(key, _)| key.clone()).collect();
        let mut load = Load::default();
        for row in foreign::read(self.database, &self.mapping.table, &keys).await? {
            let Some(sort) = sorts.get(&row.key) else { continue };
            let found = self.mapping.found(&row, *sort);
            match found.and_then(|found| Ok((found.job_type.clone(), maker.job(found)?))) {
                Ok((job_type, job)) => {
                    report.count(job_type);
                    load.add(row.key, job);
                }
                Err(why) => refused.push(report.refuse(&row.key, why)),
            }
        }
        Ok((load, refused))
    }
}
