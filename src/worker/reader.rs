//! Stage 1: reads new entries while there is room for them. It reads only entries that nobody has been given (`>`). If
//! a reply is lost, its entries are delivered to us anyway, and the reader finds them among our own pending entries.

mod mode;
mod order;
mod recover;
mod standby;
mod take;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use self::mode::Mode;
use self::order::{most_of, order, per_lane};
use super::admission::{Admission, FRESH_FOR};
use super::backoff::RedisBackoff;
use super::delivery::{Delivery, SettlerInput};
use super::dispatcher::{Dispatcher, Pushed};
use super::duty::Duty;
use super::held_leases::HeldLeases;
use super::lease::HeldLease;
use super::outbox::Outbox;
use super::read_clock::ReadClock;
use super::type_waitlists::TypeWaitlists;
use crate::broker::{Class, Entry, Error, Link, Queue};
use crate::event::{Events, QueueEvent};
use crate::health::{Monitor, QueueHealth};
use crate::job::{ConsumerName, JobSpec, Lane, Outcome, Portion};

/// An answer that is late by more than this is not coming: the connection is lost.
const LATE: Duration = Duration::from_secs(2);

/// A new connection must end a read within this time.
const REPLACED_WITHIN: Duration = Duration::from_secs(8);

/// How often a reader without room reports that it has a reason not to read.
const REST_EVERY: Duration = Duration::from_secs(2);

/// The most entries that one read takes of all lanes.
const MAX_ENTRIES: usize = 500;

/// The most that a read takes while there is a backlog. A larger reply arrives in more pieces, and with each piece the client
/// parses the reply from its start.
const DRAIN_ENTRIES: usize = 200;

/// The number of entries that the first read takes, and the first one after a pause: what has arrived meanwhile may be large.
const FIRST_ENTRIES: usize = 16;

/// The approximate number of bytes that one read takes.
const READ_BYTES: usize = 16 * 1024 * 1024;

/// While another lane has a backlog, a lane that was empty is checked again only after this long: each check is a round
/// trip that the backlog waits for.
const QUIET_FOR: Duration = Duration::from_millis(5);

/// When each lane was last found empty, in the order of [`Lane::ALL`].
type Empty = [Option<Instant>; 3];

/// While a queue is closed, the readers of a large fleet ask this many times more rarely than those of a small one: all of
/// them read again within 2 s once it is opened.
const MOST_RARELY: u32 = 5;

/// How often other tasks get their turn before a reader without much room sleeps.
const YIELDS: usize = 32;

/// How long a reader without much room sleeps at most.
const SHORT_REST: Duration = Duration::from_millis(1);

/// What the readers of one queue share.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// Locked for reading while new entries are read, and for writing while lost ones are searched: an entry that
    /// another reader is just being given must not be taken for lost.
    gate: tokio::sync::RwLock<()>,
    /// Notified while there is a backlog that one connection cannot drain as fast as Redis could deliver it.
    help: tokio::sync::Notify,
    /// Set while a reply may be lost that delivered entries.
    unsure: AtomicBool,
}

/// Reads one queue. The first reader waits for entries. The second one only helps while there is a backlog.
pub(crate) struct Reader {
    pub(crate) reading: Arc<Reading>,
    pub(crate) helps: bool,
    pub(crate) queue: Queue,
    pub(crate) link: Link,
    pub(crate) consumer: ConsumerName,
    pub(crate) lease: Duration,
    /// The most jobs that the queue accepts. It is agreed on again if the queue's keys were lost.
    pub(crate) max_depth: Option<u64>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) held_leases: Arc<HeldLeases>,
    pub(crate) outbox: Arc<Outbox>,
    /// The waiting lists of unknown types that the first reader takes jobs from.
    pub(crate) waitlists: Arc<TypeWaitlists>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) duty: Arc<Duty>,
    pub(crate) health: Arc<QueueHealth>,
    pub(crate) monitor: Monitor,
    pub(crate) events: Events,
    pub(crate) stop: CancellationToken,
}

/// The result of one read.
struct ReadBatch {
    entries: Vec<Entry>,
    /// A time at which the entries had certainly not been given to it: their leases count from then on. The reply may
    /// have arrived long before now if this process was frozen, or its threads were busy.
    since: Instant,
}

impl Reader {
    /// Reads until stopped. No error ends it.
    pub(crate) async fn run(self) {
        let (mut mode, mut round, mut backoff) = (Mode::Drain, 0u32, RedisBackoff::new());
        let (mut empty, mut has_taken) = (Empty::default(), false);
        let mut portion = Portion::new(FIRST_ENTRIES, MAX_ENTRIES, READ_BYTES);
        while !self.stop.is_cancelled() {
            if !self.is_sure(&mut backoff).await {
                continue;
            }
            if self.helps && mode != Mode::Drain {
                if !self.is_called().await {
                    return;
                }
                mode = Mode::Drain;
            }
            if !self.is_open().await {
                return;
            }
            let Some(free_slots) = self.free_slots().await else { return };
            // After each waiting list the lanes have their turn, without waiting, because there may be other waiting lists.
            has_taken = !has_taken && self.take_next(free_slots, &mut backoff).await;
            if has_taken {
                mode = Mode::Drain;
                continue;
            }
            if mode == Mode::Wait && self.health.pacing().stands_by(rand::random()) {
                let called = self.stand_by().await;
                self.dispatcher.free(free_slots);
                match called {
                    Ok(true) => mode = Mode::Attend,
                    Ok(false) => {}
                    Err(error) => self.repair(&error, &mut backoff).await,
                }
                continue;
            }
            round = round.wrapping_add(1);
            let reading = self.reading.gate.read().await;
            let wanted = free_slots.min(portion.count());
            let read = match mode {
                Mode::Drain => self.drain(wanted.min(DRAIN_ENTRIES), round, &mut empty).await,
                Mode::Wait | Mode::Attend => self.wait(wanted, round).await,
            };
            match read {
                Ok(batch) => {
                    backoff = RedisBackoff::new();
                    // Only a read of all lanes proves something about all lanes.
                    if mode != Mode::Drain {
                        self.report_served();
                    }
                    let (before, read) = (mode, batch.entries.len());
                    mode = mode.after(read, wanted);
                    if read == 0 {
                        portion.reset();
                    }
                    portion.record_sizes(batch.entries.iter().map(Entry::size));
                    if read > 0 {
                        self.admission.refresh(self.queue.link()).await;
                    }
                    let taken = self.accept(batch, free_slots).await;
                    drop(reading);
                    self.dispatcher.free(free_slots - taken);
                    self.seek_help(before, mode, read).await;
                }
                Err(error) => {
                    drop(reading);
                    self.dispatcher.free(free_slots);
                    self.repair(&error, &mut backoff).await;
                }
            }
        }
    }

    /// Waits until the other reader calls for help. Returns false if the reader is stopped.
    async fn is_called(&self) -> bool {
        self.monitor.idle();
        self.stop.run_until_cancelled(self.reading.help.notified()).await.is_some()
    }

    /// Wakes others if there may be more than this reader can take, or if it stops waiting on the streams.
    async fn seek_help(&self, before: Mode, now: Mode, read: usize) {
        if read >= DRAIN_ENTRIES {
            self.reading.help.notify_one();
        }
        let leaves = before != Mode::Drain && now == Mode::Drain;
        if leaves
            && self.health.pacing().is_large()
            && let Err(error) = self.queue.call(1).await
        {
            // The leader calls too if jobs wait.
            tracing::debug!(%error, "failed to call standby workers");
        }
    }

    /// Waits while the queue is closed, or the process drains. Returns false if the reader is stopped.
    async fn is_open(&self) -> bool {
        if self.admission.is_crowded() {
            self.admission.refresh(self.queue.link()).await;
        }
        while self.takes_nothing() {
            // Many workers ask less often each.
            let members = u32::try_from(self.health.pacing().members() / 64).unwrap_or(u32::MAX);
            let pause = FRESH_FOR.saturating_mul(members.clamp(1, MOST_RARELY));
            self.monitor.idle();
            let Some(()) = self.stop.run_until_cancelled(tokio::time::sleep(pause)).await else {
                return false;
            };
            let answered = self.admission.refresh(self.queue.link()).await;
            self.note(answered.then_some(0));
        }
        true
    }

    /// Returns true while what is read goes back.
    fn takes_nothing(&self) -> bool {
        self.admission.is_closed() || self.duty.is_draining()
    }

    /// Waits for room, then a little longer for more of it: a few large reads cost Redis less than many small ones.
    async fn free_slots(&self) -> Option<usize> {
        self.stop.run_until_cancelled(self.dispatcher.relieved()).await?;
        let mut free_slots = loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                free_slots = self.dispatcher.reserve_unless_heavy(MAX_ENTRIES) => break free_slots,
                // Having no free slot is a good reason not to read.
                () = tokio::time::sleep(REST_EVERY) => self.monitor.idle(),
            }
        };
        let enough = DRAIN_ENTRIES.min(self.dispatcher.capacity / 4);
        // Quick jobs end while other tasks have their turn. Only slower ones are worth a sleep.
        for _ in 0..YIELDS {
            if free_slots >= enough {
                return Some(free_slots);
            }
            tokio::task::yield_now().await;
            free_slots += self.dispatcher.try_reserve(MAX_ENTRIES - free_slots);
        }
        self.dispatcher.gather(enough.saturating_sub(free_slots), SHORT_REST).await;
        Some(free_slots + self.dispatcher.try_reserve(MAX_ENTRIES - free_slots))
    }

    /// Reads what is waiting, lane by lane.
    async fn drain(&self, free_slots: usize, round: u32, empty: &mut Empty) -> Result<ReadBatch, Error> {
        let (since, mut entries) = (Instant::now(), Vec::new());
        let crowded = self.admission.is_crowded();
        for lane in order(round) {
            let quiet = empty[lane as usize].is_some_and(|since| since.elapsed() < QUIET_FOR);
            let count = free_slots.saturating_sub(entries.len()).min(most_of(lane, round, crowded));
            if count > 0 && !quiet {
                let read = self.queue.read_lane(&self.link, &self.consumer, lane, count);
                match self.await_read(read, Duration::ZERO).await {
                    Ok(more) => {
                        empty[lane as usize] = more.entries.is_empty().then(Instant::now);
                        entries.extend(more.entries);
                    }
                    // What was read before is ours, and must run.
                    Err(error) if !entries.is_empty() => {
                        self.events.redis_error(error.kind(), &error);
                        self.doubt(&error);
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(ReadBatch { entries, since })
    }

    /// Waits for the first entry of any lane, or in most rounds of the high one alone while too many jobs wait for the queue's
    /// own gate.
    async fn wait(&self, free_slots: usize, round: u32) -> Result<ReadBatch, Error> {
        let crowded = self.admission.is_crowded();
        let longest = if crowded { FRESH_FOR } else { self.health.pacing().read_wait(rand::random()) };
        let all: &'static [Lane] = &Lane::ALL;
        let first = order(round)[0];
        let lanes = if crowded && first == Lane::High { &all[..1] } else { all };
        let count = per_lane(free_slots).min(most_of(first, round, crowded));
        let read = self.queue.read_waiting(&self.link, &self.consumer, lanes, (count, longest));
        self.await_read(read, longest).await
    }

    /// Awaits a read to its end, and makes sure that it ends: a dropped read would still be delivered, to nobody.
    async fn await_read(
        &self,
        read: impl Future<Output = Result<Vec<Entry>, Error>>,
        longest: Duration,
    ) -> Result<ReadBatch, Error> {
        let mut read = std::pin::pin!(self.monitor.ask(longest, read));
        let (asked, deadline) = (Instant::now(), longest.max(LATE) + LATE);
        let mut clock = ReadClock::new(asked, self.lease);
        let (mut unblocked, mut due) = (false, asked + deadline);
        // Only a read that waits is ended for a waiting list, or because the process drains.
        let (waits, mut has_waitlist) = (!self.helps && !longest.is_zero(), false);
        let ends =
            |has_waitlist: bool| self.stop.is_cancelled() || has_waitlist || waits && self.duty.is_draining();
        loop {
            let rest = due.saturating_duration_since(Instant::now());
            // A waiting reader checks often enough to know roughly when it was given something.
            let pause = if ends(has_waitlist) { Duration::from_millis(100) } else { clock.pause() };
            tokio::select! {
                biased;
                result = &mut read => {
                    self.note(result.as_ref().ok().map(Vec::len));
                    return result.map(|entries| ReadBatch { entries, since: clock.unanswered });
                }
                () = self.stop.cancelled(), if !unblocked => unblocked = true,
                () = self.waitlists.arrived(), if waits && !has_waitlist => has_waitlist = self.waitlists.have_any(),
                () = self.duty.draining(), if waits && !self.duty.is_draining() => {}
                () = tokio::time::sleep(pause.min(rest)) => {}
            }
            clock.observe(Instant::now());
            if ends(has_waitlist) {
                self.link.unblock().await;
            }
            if asked.elapsed() >= deadline + REPLACED_WITHIN {
                // Not even a new connection ended it. What it may still deliver is found among our pending entries.
                self.link.reconnect();
                let detail = "the read did not end with its connection".to_owned();
                return Err(Error::Unknown { command: "xreadgroup", detail });
            }
            if Instant::now() >= due {
                tracing::warn!(queue = %self.queue.name(), "a read was not answered in time; reconnecting");
                self.link.reconnect();
                due = Instant::now() + LATE;
            }
        }
    }

    /// Notes how many entries a read returned, or that it was not answered.
    fn note(&self, read: Option<usize>) {
        self.health.set_in_touch(read.is_some());
        if let Some(entries) = read {
            self.events.of_queue(self.queue.name(), QueueEvent::Read { entries });
        }
    }

    /// Recovers from an error: waits, and creates what is missing. What a lost reply delivered is found before the next read.
    async fn repair(&self, error: &Error, backoff: &mut RedisBackoff) {
        self.events.redis_error(error.kind(), &error);
        self.doubt(error);
        if !error.is_transient() {
            // Joining finds out which key it is.
            let why = self.rejoin().await.err().unwrap_or_else(|| error.clone());
            self.report_unserved(&why);
        }
        let Some(()) = self.stop.run_until_cancelled(backoff.wait(error)).await else { return };
        if error.class() == Some(Class::NoGroup) {
            match self.rejoin().await {
                Ok(()) => self.report_served(),
                Err(error) if !error.is_transient() => self.report_unserved(&error),
                Err(error) => tracing::debug!(%error, "failed to recreate the group"),
            }
        }
    }

    /// Creates missing streams and groups.
    async fn rejoin(&self) -> Result<(), Error> {
        let joined = self.queue.rejoin_limited(self.lease, self.max_depth).await?;
        if joined.groups_created > 0 {
            self.events.of_queue(self.queue.name(), QueueEvent::GroupRecreated);
            self.admission.restore().await;
        }
        Ok(())
    }

    /// Notes that Redis refuses what this queue needs.
    fn report_unserved(&self, error: &Error) {
        let why = self.queue.with_keys(error);
        if self.health.set_refused(why.clone()) {
            self.events.of_queue(self.queue.name(), QueueEvent::Unserved { why: &why });
        }
    }

    /// Notes that Redis does not refuse what this queue needs.
    fn report_served(&self) {
        if self.health.clear_refusal() {
            self.events.of_queue(self.queue.name(), QueueEvent::Served);
        }
    }

    /// Hands entries on, and returns how many of them use slots. Those beyond the free ones go back at once. So do those whose type or
    /// key runs as often as it may, for a while.
    async fn accept(&self, ReadBatch { entries, since }: ReadBatch, free_slots: usize) -> usize {
        let mut deliveries = Vec::with_capacity(entries.len());
        let (mut held, mut quarantine) = (Vec::with_capacity(entries.len()), Vec::new());
        // What was read while somebody closed the queue, or drained the process, goes back.
        let free_slots = if self.takes_nothing() { 0 } else { free_slots };
        for entry in entries {
            let key = (entry.lane, entry.id);
            match parse(entry) {
                Ok((job, envelope)) => {
                    let delivery = Arc::new(Delivery::new(job, envelope, HeldLease::new(since)));
                    held.push((key, Some(Arc::clone(&delivery))));
                    if deliveries.len() < free_slots {
                        deliveries.push(delivery);
                    } else {
                        quarantine.push(SettlerInput::not_run(delivery, Outcome::Interrupted));
                    }
                }
                Err((entry, why)) => {
                    held.push((key, None));
                    quarantine.push(SettlerInput::Malformed(entry, why));
                }
            }
        }
        self.held_leases.insert(held.into_iter());
        let Pushed { ready: taken, put_off } = self.dispatcher.push(deliveries);
        let wait = |(delivery, delay)| SettlerInput::not_run(delivery, Outcome::NotDue(delay));
        quarantine.extend(put_off.into_iter().map(wait));
        if quarantine.is_empty() {
            return taken;
        }
        for work in quarantine {
            self.outbox.push_now(work);
        }
        // While Redis takes no outcomes, there is no room, and a worker that stops must not wait for any.
        self.stop.run_until_cancelled(self.outbox.await_space()).await;
        taken
    }
}

fn parse(entry: Entry) -> Result<(JobSpec, crate::job::Envelope), (Entry, String)> {
    let Some(envelope) = &entry.envelope else {
        return Err((entry, "the entry's body was deleted".to_owned()));
    };
    match JobSpec::parse(envelope, entry.id, entry.lane) {
        Ok(job) => Ok((job, entry.envelope.unwrap_or_default())),
        Err(malformed) => Err((entry, malformed.to_string())),
    }
}
