//! Runs the whole life of one small job on a private queue, to find out whether this login has all the permissions that
//! a fleet needs. The queue's keys are deleted at the end; nothing else in the namespace is touched.

mod alerts;
mod bulk;
mod dispensable;
mod gates;
mod journal;
mod letters;
mod log;
mod orphans;
mod publish;
mod statistics;
mod steps;
mod tasks;

use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use fred::types::Key;

use super::attempt::acknowledge::Acknowledged;
use super::attempt::applied::Applied;
use super::attempt::begin::{Begun, Candidate};
use super::attempt::call::only;
use super::attempt::keep::KeepRecord;
use super::attempt::progress::UnsentReport;
use super::attempt::settle::EndedAttempt;
use super::attempt::taken::{AttemptSummary, TakenJob};
use super::client::decode;
use super::client::error::Error;
use super::client::keys::{self, Keys};
use super::client::link::{Link, Role};
use super::maintenance::claim::ClaimFrom;
use super::submit::enqueue::{call, drawn_call};
use super::{
    Action, Broker, Cancellation, DeadGroups, DeadLetter, Drain, DrainOutcome, Due, EditError, Evicted,
    Extras, JobWithId, Kept, LetterEdit, LetterLimits, LockHolder, NewJob, Queue, SubmitOutcome, Unique,
    UniqueMode, UniqueScope,
};
use crate::cron::{Entry, Schedule};
use crate::job::{
    Burial, ConsumerName, DeadReason, Deferral, Encoding, EntryId, Envelope, JobId, JobSpec, Lane, Policy,
    Settlement, State, Tracking,
};
use crate::mutex::lock;

use log::Log;
pub use log::Step;

/// How long the rehearsing worker counts as live.
const GENERATIONS: Duration = Duration::from_secs(10);

/// Long enough that nobody takes the lead from the rehearsal.
const LEASE: Duration = Duration::from_secs(10);

/// How many names are tried to find one whose keys are on a given node of a cluster.
const TRIES: usize = 10_000;

/// How long a blocking command of the rehearsal may wait.
const BLOCK: Duration = Duration::from_millis(100);

impl Broker {
    /// Runs one small job's whole life on the queue `check-<random>`.
    ///
    /// It does everything that producers, workers, leaders and operators do, through the same functions. It stops at the
    /// first failure, and deletes what it created. In a cluster, it runs on this node
    /// ([`Server::node`](super::Server::node)).
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(broker: streamfleet::Broker) {
    /// for step in broker.rehearse(None).await {
    ///     match step.result {
    ///         Ok(()) => println!("{}", step.name),
    ///         Err(error) => eprintln!("{}: {error}", step.name),
    ///     }
    /// }
    /// # }
    /// ```
    pub async fn rehearse(&self, node: Option<&str>) -> Vec<Step> {
        let rehearsal = Rehearsal {
            broker: self,
            queue: self.queue(self.name_on(node, |name| Keys::new(self.namespace(), name).control)),
            consumer: self.name_on(node, |name| keys::worker(self.namespace(), name)),
            receipts: Mutex::default(),
        };
        let mut log = Log(Vec::new());
        // The log has the failure.
        rehearsal.run_steps(&mut log).await;
        log.step("clean up", rehearsal.clean_up()).await;
        log.0
    }

    /// Draws a name `check-<random>` whose key is on this node.
    fn name_on<N>(&self, node: Option<&str>, key: impl Fn(&N) -> Key) -> N
    where
        N: std::str::FromStr<Err: std::fmt::Debug>,
    {
        let mut names = std::iter::repeat_with(|| format!("check-{:016x}", rand::random::<u64>()))
            .map(|name| name.parse().expect("check- and hexadecimal digits form a valid name"));
        let is_there = |name: &N| node.is_none_or(|node| self.link_to(&key(name)).is_to(node));
        // If the node has few slots, or is gone, any other will do.
        let found = names.by_ref().take(TRIES).find(is_there);
        found.or_else(|| names.next()).expect("there are always more names")
    }
}

struct Rehearsal<'a> {
    broker: &'a Broker,
    queue: Queue,
    consumer: ConsumerName,
    /// The keys that its calls leave and that no step deletes.
    receipts: Mutex<Vec<Key>>,
}

impl Rehearsal<'_> {
    async fn run_steps(&self, log: &mut Log) -> Option<()> {
        let blocking = log.step("open a second connection", self.queue.open(Role::Blocking)).await?;
        log.step("heartbeat", self.live()).await?;
        log.step("join the group", self.queue.join(LEASE)).await?;
        log.step("become the leader", self.queue.lead(&self.consumer, LEASE)).await?;
        log.step("enqueue", self.enqueue()).await?;
        log.step("call a standby worker", self.call(&blocking)).await?;
        log.step("read, start, report", self.start()).await?;
        log.step("defer a failure", self.fail()).await?;
        log.step("schedule, wake the promoter, promote", self.promote(&blocking)).await?;
        log.step("cancel", self.cancel()).await?;
        log.step("submit once, amend", self.submit()).await?;
        log.step("run now, move to another queue", self.move_jobs()).await?;
        log.step("offload large fields", self.offload()).await?;
        log.step("release", self.release(&blocking)).await?;
        log.step("take over, dead-letter", self.bury()).await?;
        log.step("edit, replay, succeed", self.replay()).await?;
        log.step("dead-letter, count, drop", self.drop()).await?;
        log.step("dead-letter, replay and drop by tasks", self.tasks()).await?;
        log.step("acknowledge", self.acknowledge()).await?;
        log.step("wait for a worker that knows the type", self.wait_for_type()).await?;
        log.step("cancel a running job", self.stop()).await?;
        log.step("steps, decide, batch", self.steps()).await?;
        log.step("pass gates, wait at one", self.gates()).await?;
        log.step("recurring jobs", self.recur()).await?;
        log.step("publish an event", self.publish()).await?;
        log.step("note an incident", self.alert()).await?;
        log.step("log out of the console", self.log_out()).await?;
        log.step("look up", self.inspect()).await?;
        let extras = Extras { oldest: true, ticks: false, survey: Some(LEASE) };
        log.step("measure the queue", self.queue.snapshot_with(extras)).await?;
        log.step("count, take a sample", self.statistics()).await?;
        log.step("keep a journal", self.journal()).await?;
        log.step("leave", self.leave(&blocking)).await
    }

    async fn live(&self) -> Result<(), Error> {
        let facts = [("state", "rehearsing".to_owned()), ("queues", self.queue.name().to_string())];
        let link = self.broker.link_for(&self.consumer);
        self.broker.beat(&link, &self.consumer, GENERATIONS, &facts).await?;
        let drain = Drain::new("the rehearsal", "");
        let drained = self.broker.drain_worker(&self.consumer, &drain).await?;
        expect_same("worker_drain", drained, DrainOutcome::Noted)?;
        self.broker.keep_drain(&self.consumer, &drain).await?;
        let resumed = self.broker.resume_worker(&self.consumer, &drain.by, "").await?;
        expect_same("worker_drain", resumed, DrainOutcome::Noted)
    }

    async fn enqueue(&self) -> Result<(), Error> {
        self.queue.append(&[job(Due::Now)], None, None).await.map(drop).map_err(Into::into)
    }

    async fn call(&self, blocking: &Link) -> Result<(), Error> {
        self.queue.call(1).await?;
        expect_same("wake_standby", self.queue.await_call(blocking, GENERATIONS).await?, true)
    }

    /// Submits jobs with ids: one with nothing else, and one with a unique key.
    async fn submit(&self) -> Result<(), Error> {
        self.submit_twice("own", None).await?;
        let cancelled = self.queue.cancel(&self.id("own"), "the rehearsal", GENERATIONS).await?;
        expect_same("cancel", cancelled, Cancellation::Done)?;
        let (scope, mode) = (UniqueScope::Window(GENERATIONS), UniqueMode::Reject);
        let key = "once".parse().expect("a plain word is a valid key");
        self.submit_twice("once", Some(Unique { key, scope, mode })).await?;
        let [first, second] = [(); 2].map(|()| self.named_call());
        let due = self.queue.reschedule_as(&first, &self.id("once"), Due::In(2 * LEASE)).await?;
        let edited = self.queue.replace_payload_as(&second, &self.id("once"), b"[]", Encoding::Json).await?;
        expect_same("amend", (due.is_some(), edited), (true, due))?;
        let cancelled = self.queue.cancel(&self.id("once"), "the rehearsal", GENERATIONS).await?;
        expect_same("cancel", cancelled, Cancellation::Done)
    }

    /// Submits a job twice, which makes one job in the delayed set.
    async fn submit_twice(&self, id: &str, unique: Option<Unique>) -> Result<(), Error> {
        let new = job(Due::In(LEASE));
        self.note_receipt(call([(new.generation, &None::<LockHolder>); 2].into_iter()));
        let once = JobWithId::new(self.id(id), new, GENERATIONS, unique);
        let placed = self.queue.submit(&[once.clone(), once], Some(100)).await?;
        let known = SubmitOutcome::Known(self.id(id), State::Scheduled);
        expect_same("submit", placed, vec![SubmitOutcome::New, known])
    }

    async fn start(&self) -> Result<(), Error> {
        let (_, job) = self.read().await?;
        let lost = self.queue.keep_alive(self.queue.link(), &self.consumer, job.lane, &[job.entry]).await?;
        expect_same("keepalive", lost, vec![])?;
        self.begin(&job).await?;
        let report =
            UnsentReport { job: &job, progress: Some((1, 50, "rehearsed".to_owned())), lines: Vec::new() };
        self.queue.report(&self.consumer, &[report], GENERATIONS).await
    }

    async fn fail(&self) -> Result<(), Error> {
        let (envelope, job) = self.read_pending().await?;
        let error = Some("rehearsed".to_owned());
        let to = Deferral { delay: Duration::ZERO, attempt: 1, lost: 0, error };
        self.apply(&envelope, &job, &Settlement::Defer(to)).await
    }

    async fn promote(&self, blocking: &Link) -> Result<(), Error> {
        self.schedule("later", Due::In(Duration::ZERO)).await?;
        self.queue.await_nudge(blocking, BLOCK).await?;
        let promoted = self.queue.promote(10).await?;
        expect_same("promote", promoted.moved, 2)
    }

    async fn cancel(&self) -> Result<(), Error> {
        let id = self.id("never");
        self.schedule("never", Due::In(LEASE)).await?;
        let cancelled = self.queue.cancel(&id, "the rehearsal", LEASE).await?;
        expect_same("cancel", cancelled, Cancellation::Done)?;
        self.queue.cancel_requests(self.queue.link(), &[]).await.map(drop)
    }

    async fn schedule(&self, id: &str, due: Due) -> Result<(), Error> {
        let new = job(due);
        self.note_receipt(call(std::iter::once(new.generation)));
        self.queue.schedule(&[(self.id(id), new)], None).await.map_err(Into::into)
    }

    /// Notes that this call leaves a receipt.
    fn note_receipt(&self, call: String) {
        self.note_key(self.queue.keys.receipt(&call));
    }

    /// Draws the name of a call that leaves a receipt.
    fn named_call(&self) -> String {
        let call = drawn_call();
        self.note_receipt(call.clone());
        call
    }

    /// Notes a key that no step deletes.
    fn note_key(&self, key: Key) {
        lock(&self.receipts).push(key);
    }

    /// Runs a delayed job whose payload has a key of its own, to its end.
    async fn offload(&self) -> Result<(), Error> {
        let mut new = job(Due::In(LEASE));
        new.fields.push((Bytes::from_static(b"h.large"), vec![b'x'; Envelope::LARGE_BYTES].into()));
        let fields = new.fields.iter().map(|(name, value)| (&name[..], &value[..]));
        let generation = new.generation_text().parse().map_err(|error| Error::contract("set", error))?;
        if let Some(light) = Envelope::new(fields).without_large_fields(&generation) {
            // A fleet can do without this, but here it is an error.
            let carried = self.queue.offload(light).await?;
            lock(&self.receipts).push(carried.offloaded);
        }
        self.note_receipt(call(std::iter::once(new.generation)));
        self.queue.schedule(&[(self.id("large"), new)], None).await?;
        let page = self.queue.delayed().page(0, 1).await?;
        let is_whole =
            page.first().and_then(|job| job.fields.as_ref()).is_some_and(|(_, fields)| fields.is_whole());
        expect_same("get", is_whole, true)?;
        let cancelled = self.queue.cancel(&self.id("large"), "the rehearsal", GENERATIONS).await?;
        expect_same("cancel", cancelled, Cancellation::Done)
    }

    async fn release(&self, blocking: &Link) -> Result<(), Error> {
        let entries = self.queue.read_waiting(blocking, &self.consumer, &Lane::ALL, (1, BLOCK)).await?;
        let (envelope, job) = parsed(entries)?;
        self.apply(&envelope, &job, &Settlement::Release).await
    }

    async fn bury(&self) -> Result<(), Error> {
        let (_, job) = self.read().await?;
        self.orphan(job.entry).await?;
        let stale = self.queue.stale(Duration::ZERO).await?;
        let start = stale.first[Lane::Normal as usize].1;
        let start = start.ok_or_else(|| Error::contract("stale", "nothing"))?;
        let from = ClaimFrom { start, silence: Duration::ZERO, count: 1, window: [0, i64::MAX] };
        let claimed = self.queue.claim(&self.consumer, Lane::Normal, from).await?;
        let taken = claimed.map(|claimed| claimed.entries.iter().map(|silent| silent.id).collect());
        expect_same("claim", taken, Some(vec![start]))?;
        self.queue.redate().await?;
        let (envelope, job) =
            parsed(self.queue.read_entry(Lane::Normal, start).await?.into_iter().collect())?;
        self.apply(&envelope, &job, &burial()).await
    }

    async fn replay(&self) -> Result<(), Error> {
        let letter = self.queue.dead_letters().page(None, 1).await?.pop();
        let letter = letter.ok_or_else(|| Error::contract("xrange", "no dead letter"))?;
        let edited = self.edit(&letter).await?;
        let replayed =
            self.queue.dead_letters().replay_as(&self.named_call(), edited, &letter.job(), "").await?;
        expect_same("replay", replayed.is_done(), true)?;
        let (envelope, job) = self.read().await?;
        self.apply(&envelope, &job, &Settlement::Ack).await
    }

    /// Changes the payload of a letter.
    async fn edit(&self, letter: &DeadLetter) -> Result<EntryId, Error> {
        let by = Action::new("rehearsal", "the rehearsal");
        let edit = LetterEdit::default().payload("[]");
        let edited = self.queue.dead_letters().edit(letter, &edit, &by).await.map_err(|error| {
            let EditError::Redis(error) = error else { return Error::contract("edit", error.to_string()) };
            error
        })?;
        let edited = edited.value;
        self.note_key(self.queue.keys.edited(letter.entry));
        expect_same("edit", self.queue.dead_letters().edited(letter.entry).await?, Some(edited))?;
        self.queue.audit().note(&by).await?;
        // The edit is noted, too.
        expect_same("audit", self.queue.audit().recent(None, 10).await?.len(), 2)?;
        Ok(edited)
    }

    async fn drop(&self) -> Result<(), Error> {
        let (envelope, job) = self.read().await?;
        self.apply(&envelope, &job, &burial()).await?;
        let dead = self.queue.dead_letters();
        // Burying works without the counts, but here their absence is an error.
        let counts = |counted: DeadGroups| counted.groups.iter().map(|group| group.count).collect::<Vec<_>>();
        expect_same("groups", counts(dead.groups().await?), vec![1])?;
        expect_same("recount", dead.recount(|_| ()).await?, Some(1))?;
        expect_same("groups", counts(dead.groups().await?), vec![1])?;
        let letter = dead.recent(None, 1).await?.pop();
        let letter = letter.ok_or_else(|| Error::contract("xrevrange", "no dead letter"))?;
        let limits = LetterLimits::default();
        let dropped = dead.evict_as(&self.named_call(), letter.entry, &letter.job(), limits).await?;
        expect_same("drop", dropped, Evicted::Dropped)?;
        self.forget().await?;
        self.file().await
    }

    async fn acknowledge(&self) -> Result<(), Error> {
        self.enqueue().await?;
        let (_, job) = self.read().await?;
        let settled = self.queue.acknowledge(self.queue.link(), job.lane, &[job.entry]).await?;
        expect_same("acknowledge", settled, Vec::new())?;
        self.enqueue().await?;
        let (_, job) = self.read().await?;
        let (link, entries) = (self.queue.link(), [job.entry]);
        let settled = self.queue.acknowledge_held(link, &self.consumer, job.lane, &entries).await?;
        expect_same("xack", settled, Acknowledged::All)
    }

    async fn recur(&self) -> Result<(), Error> {
        let yearly = Schedule::new("@yearly", "UTC")
            .and_then(|schedule| Entry::new("rehearsal", schedule, "rehearsal"));
        let entry = yearly.expect("a plain word is a valid name and type");
        let kept = self.queue.cron().put(&entry).await?;
        expect_same("cron_put", kept, Kept::Added)?;
        let agenda = self.queue.cron().agenda(None, &[]).await?;
        let (_, state) = agenda.states.first().ok_or_else(|| Error::contract("agenda", "no state"))?;
        let next = state.moved(&state.progress().moved(&[agenda.now], agenda.now, 0));
        let ticked =
            self.queue.cron().tick(&self.named_call(), &entry, (state, &next), &[agenda.now]).await?;
        expect_same("tick", ticked, true)?;
        expect_same("cron_move", self.queue.cron().advance(entry.name(), (&next, state)).await?, true)?;
        let (envelope, job) = self.read().await?;
        self.apply(&envelope, &job, &Settlement::Ack).await?;
        self.broker.delete(vec![self.queue.keys.record(&job.id)]).await?;
        expect_same("cron_pause", self.queue.cron().pause(entry.name()).await?, Some(true))?;
        expect_same("cron_remove", self.queue.cron().remove(entry.name()).await?, true)
    }

    async fn inspect(&self) -> Result<(), Error> {
        let snapshot = self.queue.snapshot().await?;
        expect_same("snapshot", (snapshot.jobs(), snapshot.delayed), (0, 0))?;
        self.queue.status(&self.id("later")).await?;
        self.queue.seek(&self.id("later"), 1).await?;
        self.queue.delayed().page(0, 1).await?;
        self.queue.consumers(Lane::Normal).await.map(drop)
    }

    async fn leave(&self, blocking: &Link) -> Result<(), Error> {
        self.queue.lead(&self.consumer, Duration::ZERO).await?;
        blocking.unblock().await;
        let gone = self.queue.reap(self.queue.link(), self.consumer.as_str()).await?;
        expect_same("reap", gone, true)?;
        self.broker.forget(&self.consumer).await
    }

    async fn clean_up(&self) -> Result<(), Error> {
        let mut made: Vec<Key> = self.queue.keys.streams().to_vec();
        let own = &self.queue.keys;
        made.extend([own.delayed.clone(), own.delayed_fields.clone(), own.dead.clone()]);
        made.extend([own.dead_groups.clone(), own.dead_groups_2.clone(), own.audit.clone()]);
        made.extend([own.dead_recount.clone(), own.dead_gone.clone(), own.campaigns.clone()]);
        made.extend([own.dead_letters.clone(), own.dead_offloaded.clone(), own.tasks.clone()]);
        made.extend([own.control.clone(), own.leader.clone(), own.wake.clone(), own.events.clone()]);
        made.extend([own.calls.clone(), own.endings.clone(), own.counts.clone(), own.samples.clone()]);
        made.extend([own.waitlists.clone(), own.waitlist_locations.clone(), own.waitlists_asked.clone()]);
        made.extend([own.waitlist("unknown:rehearsal"), own.waitlist("fair:normal:"), own.fair.clone()]);
        made.extend(Lane::ALL.map(|lane| own.ring(lane)));
        made.extend([
            own.cancels.clone(),
            own.cancel_locations.clone(),
            own.receipts(self.consumer.as_str()),
        ]);
        made.extend(lock(&self.receipts).drain(..));
        made.extend([own.cron.clone(), own.cron_ticks.clone()]);
        made.extend([own.journal.clone(), own.journal_writer.clone()]);
        let gate = "type:rehearsal".parse().expect("a plain word is a valid type");
        made.extend([own.gates.clone(), own.waitlist("type:rehearsal")]);
        made.extend(["held", "unstarted", "rate", "breaker"].map(|kind| own.gate(kind, &gate)));
        made.push(own.lock(Some(&"once".parse().expect("a plain word is a valid key"))));
        made.push(own.batch(Some(&"batch".parse().expect("a plain word is a valid batch name"))));
        for name in
            ["later", "never", "now", "own", "once", "large", "moved", "stepped", "stopped", "followed"]
        {
            made.extend([own.record(&self.id(name)), own.ledger(&self.id(name))]);
        }
        self.broker.delete(made).await?;
        self.broker.delete(vec![keys::worker(self.broker.namespace(), &self.consumer)]).await
    }

    /// Reads the next entry.
    async fn read(&self) -> Result<(Envelope, JobSpec), Error> {
        parsed(self.queue.read_lane(self.queue.link(), &self.consumer, Lane::Normal, 1).await?)
    }

    /// Reads the first entry that is already pending.
    async fn read_pending(&self) -> Result<(Envelope, JobSpec), Error> {
        let after = EntryId::new(0, 0);
        let link = self.queue.link();
        parsed(self.queue.read_own(link, &self.consumer, Lane::Normal, after, 1).await?)
    }

    /// Begins an attempt whose job keeps a record.
    async fn begin(&self, job: &JobSpec) -> Result<(), Error> {
        let candidate = Candidate { job, keeps_record: true };
        let begun = self.queue.begin(&self.consumer, job.lane, &[candidate]).await?;
        expect_same("begin", only("begin", begun)?, Begun::Start(None))
    }

    async fn apply(&self, envelope: &Envelope, job: &JobSpec, settlement: &Settlement) -> Result<(), Error> {
        let keep = KeepRecord {
            record: true,
            has_steps: false,
            tracking: Tracking::All,
            retention: GENERATIONS,
            result: None,
            fields: true,
        };
        let ran =
            AttemptSummary { elapsed: Duration::ZERO, outcome: "rehearsed", worker: self.consumer.as_str() };
        let taken = TakenJob { job, envelope, trace: None };
        let policy = Policy::default();
        let ended = EndedAttempt { taken, policy: &policy, settlement, keep, ran };
        expect_same("settle", self.queue.apply(&self.consumer, ended).await?, Applied::Moved)
    }

    fn id(&self, name: &str) -> JobId {
        name.parse().expect("a plain word is a valid id")
    }
}

fn job(due: Due) -> NewJob {
    let field = |name: &'static str, value: &'static str| {
        (Bytes::from_static(name.as_bytes()), Bytes::from_static(value.as_bytes()))
    };
    let mut fields = vec![field("type", "rehearsal"), field("payload", "{}")];
    if due == Due::Now {
        fields.push(field("id", "now"));
    }
    NewJob { lane: Lane::Normal, priority: None, due, fields, generation: rand::random() }
}

fn burial() -> Settlement {
    let error = "rehearsed".to_owned();
    Settlement::Bury(Burial { reason: DeadReason::Fatal, error, attempts: 1 })
}

fn parsed(entries: Vec<decode::Entry>) -> Result<(Envelope, JobSpec), Error> {
    let entry = entries.into_iter().next().ok_or_else(|| Error::contract("xreadgroup", "no entry"))?;
    let envelope = entry.envelope.ok_or_else(|| Error::contract("xreadgroup", "no fields"))?;
    let job = JobSpec::parse(&envelope, entry.id, entry.lane);
    job.map(|job| (envelope, job)).map_err(|why| Error::contract("xreadgroup", why))
}

fn expect_same<T: PartialEq + std::fmt::Debug>(
    command: &'static str,
    answer: T,
    want: T,
) -> Result<(), Error> {
    if answer == want { Ok(()) } else { Err(Error::contract(command, answer)) }
}
