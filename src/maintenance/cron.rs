//! Submits the jobs of recurring jobs when they are due.
//!
//! Every process handles every entry, and no process leads. One script submits a tick's jobs and writes the entry's new
//! state; it does nothing if another process was first. The clock of Redis decides what is due. The clock of this
//! process only decides how long to sleep.
//!
//! If many processes are alive, each one except the leader leaves most ticks to the others, so that about [`ASKING`] of
//! them ask, whatever their number. The number of live processes is known late: most of those counted may be dead. So a
//! process that left a tick to the others checks a little later whether one of them submitted it. Until then the tick does
//! not count as missed.
//!
//! Processes notice changes of the entries by the revision that the leader's script returns anyway: the leader within
//! two seconds, the others when they next ask to become leader.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::Context;
use super::leader_view::LeaderView;
use crate::broker::{CronState, Error, Kept, RESEND_WITHIN, drawn_call};
use crate::cron::{Due, Entry, IN_TIME, Progress, in_time};
use crate::event::QueueEvent;
use crate::job::{CronName, Pacing, Timestamp, jittered};
use crate::sabotage::{self, Sabotage};

/// About this many processes ask about each tick.
const ASKING: f64 = 8.0;

/// They ask within this time, so that the first one is done before most of them ask.
const SPREAD: Duration = Duration::from_millis(100);

/// About how often all processes of a queue together read the entries if nothing else makes them.
const REFRESH_EVERY: Duration = Duration::from_secs(2);

/// A single process does so about this often at most.
const REFRESH_LEAST: Duration = Duration::from_secs(30);

/// The longest pause if another process was first. After an error, there are two pauses.
const PAUSE: Duration = Duration::from_millis(500);

/// The most jobs that one script submits …
const BATCH_JOBS: usize = 200;

/// … and about the most that they weigh.
const BATCH_WEIGHT: usize = 512 * 1024;

/// Handles the recurring jobs of one queue until stopped.
pub(super) async fn run(context: Context, view: watch::Receiver<LeaderView>, unhandled: Arc<UnhandledTick>) {
    let mut runner =
        CronRunner { context, view, table: Table::new(), has_stored_own: false, unhandled, steps: 0 };
    while !runner.context.stop.is_cancelled() {
        runner.steps = runner.view.borrow_and_update().steps;
        let turn = runner.turn().await;
        runner.unhandled.set(runner.table.rows.values().filter_map(|row| row.unhandled).min());
        match turn {
            Ok(true) => runner.sleep().await,
            Ok(false) => runner.pause().await,
            Err(error) => {
                runner.context.events.redis_error(error.kind(), &error);
                runner.pause().await;
                runner.pause().await;
            }
        }
    }
}

/// The earliest tick that this process does not know to be handled. The leader reports how overdue it is, and therefore
/// asks about every tick itself.
#[derive(Debug)]
pub(super) struct UnhandledTick(AtomicU64);

impl Default for UnhandledTick {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl UnhandledTick {
    fn set(&self, tick: Option<Timestamp>) {
        self.0.store(tick.map_or(u64::MAX, Timestamp::as_ms), Ordering::Relaxed);
    }

    /// Returns by how much it is overdue.
    pub(super) fn overdue(&self, now: Timestamp) -> Duration {
        Duration::from_millis(now.as_ms().saturating_sub(self.0.load(Ordering::Relaxed)))
    }
}

struct CronRunner {
    context: Context,
    /// What the leader's script last returned: the revision of the entries, and whether this process leads.
    view: watch::Receiver<LeaderView>,
    unhandled: Arc<UnhandledTick>,
    table: Table,
    /// Whether this process's own entries are in Redis.
    has_stored_own: bool,
    /// How often the server's clock had been set back when this process last checked.
    steps: u64,
}

/// What this process knows about the entries.
struct Table {
    revision: Option<u64>,
    live: u64,
    /// How late a tick may be and not be missed.
    in_time: Duration,
    now: Timestamp,
    read_at: Instant,
    rows: BTreeMap<CronName, Row>,
    /// When this process last read the states of all entries.
    compared_at: Instant,
    /// The states of entries that this process cannot read, or that somebody deleted.
    unread: BTreeMap<CronName, CronState>,
    /// Entries whose states somebody deleted.
    stateless: Vec<Entry>,
}

struct Row {
    entry: Entry,
    state: CronState,
    progress: Progress,
    /// The first tick that has not been handled.
    unhandled: Option<Timestamp>,
}

impl Row {
    fn new(entry: Entry, state: CronState) -> Self {
        let progress = state.progress();
        let unhandled = if state.is_paused() { None } else { progress.first_unhandled(entry.schedule()) };
        Self { entry, state, progress, unhandled }
    }

    fn set(&mut self, state: CronState) {
        if self.state != state {
            *self = Self::new(self.entry.clone(), state);
        }
    }
}

impl CronRunner {
    /// Reads the entries, and submits what is due. Returns false if they must be read again soon.
    async fn turn(&mut self) -> Result<bool, Error> {
        self.read().await?;
        if !self.has_stored_own {
            self.has_stored_own = self.store_own().await?;
            return Ok(false);
        }
        let mut all = true;
        for name in self.table.ahead() {
            all &= self.rewind(&name).await?;
        }
        for name in self.table.due() {
            all &= self.submit(&name).await?;
        }
        Ok(all)
    }

    /// Moves an entry back if the clock comes again to ticks that were passed over. Returns false if another process was first.
    async fn rewind(&mut self, name: &CronName) -> Result<bool, Error> {
        let Some(row) = self.table.rows.get_mut(name) else { return Ok(true) };
        let Some(progress) = row.progress.rewound(self.table.now) else { return Ok(true) };
        let (queue, next) = (&self.context.queue, row.state.moved(&progress));
        if !queue.cron().advance(name, (&row.state, &next)).await? {
            return Ok(false);
        }
        tracing::warn!(
            queue = %queue.name(), entry = %name, by = ?row.state.handled().since(self.table.now),
            "the clock of redis was ahead and was set back; a recurring job continues without the ticks that were already submitted"
        );
        row.set(next);
        Ok(true)
    }

    async fn read(&mut self) -> Result<(), Error> {
        let compares_all = self.table.compared_at.elapsed() >= refresh_after(self.table.live).mul_f64(0.5);
        // A Redis that lost its last writes has older states, also of entries that are not due.
        let asked = if compares_all { self.table.names() } else { self.table.due_soon() };
        let agenda = self.context.queue.cron().agenda(self.table.revision, &asked).await?;
        let was_emptied = self.table.revision.is_some_and(|known| agenda.revision < known);
        let table = &mut self.table;
        // A process that left a tick to the others may have counted some that do not count as alive any more.
        table.in_time = in_time(Pacing::of(table.live.max(agenda.live)).tick_checked_within());
        (table.revision, table.live) = (Some(agenda.revision), agenda.live);
        (table.now, table.read_at) = (agenda.now, Instant::now());
        if compares_all || agenda.entries.is_some() {
            table.compared_at = Instant::now();
        }
        let mut states: BTreeMap<_, _> = agenda.states.into_iter().collect();
        let Some(entries) = agenda.entries else {
            for name in asked {
                match (states.remove(&name), table.rows.get_mut(&name)) {
                    (Some(_), Some(_)) if sabotage::is(Sabotage::TickUnguarded) => {}
                    (Some(state), Some(row)) => row.set(state),
                    // Somebody deleted the keys, and they have reached the same revision again. Read everything next time.
                    (None, _) => table.revision = None,
                    (Some(_), None) => {}
                }
            }
            return Ok(());
        };
        table.rows.clear();
        table.unread.clear();
        table.stateless.clear();
        for (name, entry) in entries {
            let queue = self.context.queue.name();
            match (entry, states.remove(&name)) {
                (Ok(entry), Some(state)) => {
                    table.rows.insert(name, Row::new(entry, state));
                }
                (Ok(entry), None) => table.stateless.push(entry),
                (Err(error), state) => {
                    tracing::warn!(%queue, entry = %name, %error, "a recurring job cannot be read");
                    table.unread.extend(state.map(|state| (name, state)));
                }
            }
        }
        table.unread.extend(states);
        // If somebody deleted a key, this process stores its own entries again, and gives the others new states.
        self.has_stored_own &= !was_emptied && table.stateless.is_empty();
        Ok(())
    }

    /// Stores this process's own entries if they differ from those in Redis, and those whose states were deleted. Returns
    /// false if another process changed one at the same time.
    async fn store_own(&self) -> Result<bool, Error> {
        let queue = self.context.queue.name();
        let own = &*self.context.cron;
        let is_other = |entry: &&Entry| own.iter().all(|own| own.name() != entry.name());
        let mut all = true;
        for entry in own.iter().chain(self.table.stateless.iter().filter(is_other)) {
            let row = self.table.rows.get(entry.name());
            if row.is_some_and(|row| row.entry == *entry) {
                continue;
            }
            let old = row.map(|row| (&row.entry, &row.state));
            let state = row.map(|row| &row.state).or_else(|| self.table.unread.get(entry.name()));
            let kept = self.context.queue.cron().replace(entry, old, state).await?;
            match kept {
                Some(Kept::TooMany) => {
                    tracing::error!(%queue, entry = %entry.name(), "a recurring job is not stored: there are too many");
                }
                Some(kept) => {
                    tracing::info!(%queue, entry = %entry.name(), %kept, "checked the definition of a recurring job")
                }
                None => all = false,
            }
        }
        Ok(all)
    }

    /// Submits what is due for one entry. Returns false if another process was first.
    async fn submit(&mut self, name: &CronName) -> Result<bool, Error> {
        let (now, in_time) = (self.table.now, self.table.in_time);
        let due = |row: &Row| row.progress.due_with(row.entry.missed(), row.entry.schedule(), now, in_time);
        while let Some(due) = self.table.rows.get(name).and_then(due) {
            if !self.submit_due(name, due).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn submit_due(&mut self, name: &CronName, due: Due) -> Result<bool, Error> {
        let Some(row) = self.table.rows.get_mut(name) else { return Ok(true) };
        let now = self.table.now;
        let (queue, events) = (&self.context.queue, &self.context.events);
        let most = (BATCH_WEIGHT / row.entry.job_weight()).clamp(1, BATCH_JOBS);
        // The state moves even if nothing is submitted.
        let batches =
            if due.ticks.is_empty() { vec![&due.ticks[..]] } else { due.ticks.chunks(most).collect() };
        let count = batches.len();
        for (nth, ticks) in batches.into_iter().enumerate() {
            let last = ticks.last().copied().unwrap_or(due.handled);
            let (handled, skipped) =
                (if nth + 1 == count { due.handled } else { last }, if nth == 0 { due.skipped } else { 0 });
            let next = row.state.moved(&row.progress.moved(ticks, handled, skipped));
            if !tick(&self.context, &row.entry, (&row.state, &next), ticks).await? {
                return Ok(false);
            }
            row.set(next);
            if skipped > 0 {
                events.of_queue(queue.name(), QueueEvent::CronSkipped { entry: name, ticks: skipped });
            }
            if !ticks.is_empty() {
                let (jobs, late) = (ticks.len(), now.since(last));
                events.of_queue(queue.name(), QueueEvent::CronTicked { entry: name, jobs, late });
            }
        }
        Ok(true)
    }

    /// Sleeps until a tick that this process asks about, a change of the entries, or the next regular read.
    async fn sleep(&mut self) {
        let live = self.table.live.max(1) as f64;
        let refresh = Instant::now() + jittered(refresh_after(self.table.live), 0.5..1.5, rand::random());
        let (mut passed, mut after) = (self.table.now, None);
        let steps = self.steps;
        loop {
            let tick = self.table.next_after(passed);
            let spread = if live > 1.0 { jittered(SPREAD, 0.0..1.0, rand::random()) } else { Duration::ZERO };
            let at = tick.map(|tick| Instant::now() + tick.since(self.table.estimated_now()) + spread);
            let ends = after.map_or(refresh, |after: Instant| after.min(refresh));
            let at = at.filter(|at| *at < ends);
            tokio::select! {
                biased;
                () = self.context.stop.cancelled() => return,
                () = changed(&mut self.view, (self.table.revision, steps)) => return,
                () = tokio::time::sleep_until(at.unwrap_or(ends).into()) => {}
            }
            let is_asking = self.view.borrow().leads || rand::random::<f64>() < ASKING / live;
            match tick.filter(|_| at.is_some() && !is_asking) {
                Some(tick) => {
                    passed = tick;
                    let within = Pacing::of(self.table.live).tick_checked_within();
                    after.get_or_insert(Instant::now() + jittered(within, 0.0..1.0, rand::random()));
                }
                None => return,
            }
        }
    }

    async fn pause(&self) {
        pause(&self.context).await;
    }
}

/// About how long a process waits between two reads of the entries, by the number of live processes.
fn refresh_after(live: u64) -> Duration {
    REFRESH_EVERY.mul_f64(live.max(1) as f64).max(REFRESH_LEAST)
}

async fn pause(context: &Context) {
    let pause = jittered(PAUSE, 0.0..1.0, rand::random());
    context.stop.run_until_cancelled(tokio::time::sleep(pause)).await;
}

/// Submits these ticks. Returns false if another process was first. If an answer is lost, asks again: nothing else tells
/// what this process has to report.
async fn tick(
    context: &Context,
    entry: &Entry,
    states: (&CronState, &CronState),
    ticks: &[Timestamp],
) -> Result<bool, Error> {
    let (call, begun, mut is_lost) = (drawn_call(), Instant::now(), false);
    loop {
        let error = match context.queue.cron().tick(&call, entry, states, ticks).await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        is_lost |= matches!(error, Error::Unknown { .. });
        let is_over = context.stop.is_cancelled() || begun.elapsed() > RESEND_WITHIN;
        if is_over || !is_lost || !error.is_transient() {
            return Err(error);
        }
        context.events.redis_error(error.kind(), &error);
        pause(context).await;
    }
}

impl Table {
    fn new() -> Self {
        let never = Timestamp::from_ms(0).expect("1970 is before the year 10000");
        let (rows, unread) = (BTreeMap::new(), BTreeMap::new());
        let (live, in_time, read_at) = (0, IN_TIME, Instant::now());
        let (compared_at, stateless) = (read_at, Vec::new());
        Self { revision: None, live, in_time, now: never, read_at, rows, compared_at, unread, stateless }
    }

    /// Estimates what the clock of Redis shows now.
    fn estimated_now(&self) -> Timestamp {
        self.now.after(self.read_at.elapsed())
    }

    /// Returns the entries that were due when they were read.
    fn due(&self) -> Vec<CronName> {
        self.until(self.now)
    }

    /// Returns the entries that passed over ticks because the clock was ahead, and whose clock has been set back. A
    /// paused entry continues from when it is resumed.
    fn ahead(&self) -> Vec<CronName> {
        let is_ahead = |row: &Row| !row.state.is_paused() && row.progress.rewound(self.now).is_some();
        let ahead = self.rows.iter().filter(|(_, row)| is_ahead(row));
        ahead.map(|(name, _)| name.clone()).collect()
    }

    fn names(&self) -> Vec<CronName> {
        self.rows.keys().cloned().collect()
    }

    /// Returns the entries that may be due now.
    fn due_soon(&self) -> Vec<CronName> {
        self.until(self.estimated_now().after(Duration::from_secs(1)))
    }

    fn until(&self, time: Timestamp) -> Vec<CronName> {
        let due =
            self.rows.iter().filter(|(_, row)| row.unhandled.is_some_and(|unhandled| unhandled <= time));
        due.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the next tick of any entry.
    fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        let next = |row: &Row| match row.unhandled? {
            unhandled if unhandled > time => Some(unhandled),
            _ => row.progress.next(row.entry.schedule(), time),
        };
        self.rows.values().filter_map(next).min()
    }
}

/// Waits until the revision differs from the known one, or the clock has been set back again.
async fn changed(view: &mut watch::Receiver<LeaderView>, (known, steps): (Option<u64>, u64)) {
    loop {
        if view.changed().await.is_err() {
            // The sender has stopped, so this process is stopping.
            return std::future::pending().await;
        }
        let news = *view.borrow_and_update();
        if Some(news.revision) != known || news.steps != steps {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owed_ticks_are_overdue_from_their_due_time_on() {
        let at = |ms| Timestamp::from_ms(ms).expect("before the year 10000");
        let unhandled = UnhandledTick::default();
        assert_eq!(unhandled.overdue(at(5_000)), Duration::ZERO);
        unhandled.set(Some(at(6_000)));
        assert_eq!(unhandled.overdue(at(5_000)), Duration::ZERO);
        assert_eq!(unhandled.overdue(at(7_500)), Duration::from_millis(1_500));
        unhandled.set(None);
        assert_eq!(unhandled.overdue(at(7_500)), Duration::ZERO);
    }
}
