//! Submits the jobs of recurring jobs when they are due.
//!
//! Every process looks after every entry, and none leads: a tick's jobs and the entry's new state are one script, which
//! does nothing where somebody else was first. What is due is decided by the clock of Redis; the clock of this process
//! only says how long to sleep. Where many processes live, each but the leader leaves most ticks to the others, so that about
//! [`ASKING`] of them ask, whatever their number. How many live is known late: of those that are counted most may be dead. So
//! whoever left a tick to the others looks a little later whether somebody submitted it. Changes of the entries are noticed by the revision that the leader's script brings along for nothing: by the
//! leader within two seconds, by the others when they next ask for its place.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::Duty;
use super::leader::LeaderView;
use crate::broker::{CronState, Error, Kept};
use crate::cron::{Entry, Progress};
use crate::event::Event;
use crate::job::{CronName, Timestamp};
use crate::sabotage::{self, Sabotage};

/// About so many processes ask about each tick.
const ASKING: f64 = 8.0;

/// They do so within this time, so that the first is done before most of them ask.
const SPREAD: Duration = Duration::from_millis(100);

/// Whoever left a tick to the others looks after it within this time, or, where they are many, within so long for each:
/// together they do so twenty times per second at the most.
const AFTER: Duration = Duration::from_secs(2);
const AFTER_EACH: Duration = Duration::from_millis(50);

/// All processes of a queue together read the entries about so often, should nothing else make them.
const REFRESH_EVERY: Duration = Duration::from_secs(2);

/// A single process, so often.
const REFRESH_LEAST: Duration = Duration::from_secs(30);

/// After an error, or where somebody else was first.
const PAUSE: Duration = Duration::from_millis(500);

/// One script submits at most so many jobs …
const BATCH_JOBS: usize = 200;

/// … and about so many bytes.
const BATCH_BYTES: usize = 512 * 1024;

/// Looks after the recurring jobs of one queue until stopped.
pub(super) async fn run(duty: Duty, told: watch::Receiver<LeaderView>, owed: Arc<Owed>) {
    let mut keeper = Keeper { duty, told, table: Table::new(), is_laid: false, owed, steps: 0 };
    while !keeper.duty.stop.is_cancelled() {
        keeper.steps = keeper.told.borrow_and_update().steps;
        let turn = keeper.turn().await;
        keeper.owed.note(keeper.table.rows.values().filter_map(|row| row.owed).min());
        match turn {
            Ok(true) => keeper.sleep().await,
            Ok(false) => keeper.pause().await,
            Err(error) => {
                keeper.duty.events.tell(&Event::RedisError { kind: error.kind(), error: &error.to_string() });
                keeper.pause().await;
                keeper.pause().await;
            }
        }
    }
}

/// The earliest tick that this process does not know to be dealt with. The leader tells how overdue it is, and therefore
/// asks about every tick itself.
#[derive(Debug)]
pub(super) struct Owed(AtomicU64);

impl Default for Owed {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl Owed {
    fn note(&self, tick: Option<Timestamp>) {
        self.0.store(tick.map_or(u64::MAX, Timestamp::as_ms), Ordering::Relaxed);
    }

    /// By how much it is overdue.
    pub(super) fn overdue(&self, now: Timestamp) -> Duration {
        Duration::from_millis(now.as_ms().saturating_sub(self.0.load(Ordering::Relaxed)))
    }
}

struct Keeper {
    duty: Duty,
    /// The entries' revision, and whether this process leads, as the leader's script last told it.
    told: watch::Receiver<LeaderView>,
    owed: Arc<Owed>,
    table: Table,
    /// True once this process's own entries are in Redis.
    is_laid: bool,
    /// How often the server's clock had been set back when this process last looked.
    steps: u64,
}

/// What this process knows of the entries.
struct Table {
    revision: Option<u64>,
    live: u64,
    now: Timestamp,
    read_at: Instant,
    rows: BTreeMap<CronName, Row>,
    /// Of the entries that this process cannot read.
    unread: BTreeMap<CronName, CronState>,
}

struct Row {
    entry: Entry,
    state: CronState,
    progress: Progress,
    /// The first tick that is not dealt with.
    owed: Option<Timestamp>,
}

impl Row {
    fn new(entry: Entry, state: CronState) -> Self {
        let progress = state.progress();
        let owed = if state.is_paused() { None } else { progress.owed(entry.schedule()) };
        Self { entry, state, progress, owed }
    }

    fn set(&mut self, state: CronState) {
        if self.state != state {
            *self = Self::new(self.entry.clone(), state);
        }
    }
}

impl Keeper {
    /// Reads, and submits what is due. False where it has to be read again soon.
    async fn turn(&mut self) -> Result<bool, Error> {
        self.read().await?;
        if !self.is_laid {
            self.is_laid = self.lay().await?;
            return Ok(false);
        }
        let mut all = true;
        for name in self.table.ahead() {
            all &= self.set_back(&name).await?;
        }
        for name in self.table.due() {
            all &= self.submit(&name).await?;
        }
        Ok(all)
    }

    /// Lets an entry go on that comes once more to ticks that were passed over. False where somebody else was first.
    async fn set_back(&mut self, name: &CronName) -> Result<bool, Error> {
        let Some(row) = self.table.rows.get_mut(name) else { return Ok(true) };
        let Some(progress) = row.progress.set_back(self.table.now) else { return Ok(true) };
        let (queue, next) = (&self.duty.queue, row.state.moved(&progress));
        if !queue.move_cron(name, (&row.state, &next)).await? {
            return Ok(false);
        }
        tracing::warn!(
            queue = %queue.name(), entry = %name, by = ?row.state.handled().since(self.table.now),
            "the clock of redis was ahead and was set back; a recurring job goes on, without what was submitted meanwhile"
        );
        row.set(next);
        Ok(true)
    }

    async fn read(&mut self) -> Result<(), Error> {
        let asked = self.table.due_soon();
        let agenda = self.duty.queue.agenda(self.table.revision, &asked).await?;
        let was_emptied = self.table.revision.is_some_and(|known| agenda.revision < known);
        let table = &mut self.table;
        (table.revision, table.live) = (Some(agenda.revision), agenda.live);
        (table.now, table.read_at) = (agenda.now, Instant::now());
        let mut states: BTreeMap<_, _> = agenda.states.into_iter().collect();
        let Some(entries) = agenda.entries else {
            for name in asked {
                match (states.remove(&name), table.rows.get_mut(&name)) {
                    (Some(_), Some(_)) if sabotage::is(Sabotage::TickUnguarded) => {}
                    (Some(state), Some(row)) => row.set(state),
                    // Somebody has deleted the keys, and they have the same revision again: read all of it next time.
                    (None, _) => table.revision = None,
                    (Some(_), None) => {}
                }
            }
            return Ok(());
        };
        // Where somebody has deleted the keys, what this process brings along is kept once more.
        self.is_laid &= !was_emptied;
        table.rows.clear();
        table.unread.clear();
        for (name, entry) in entries {
            let queue = self.duty.queue.name();
            match (entry, states.remove(&name)) {
                (Ok(entry), Some(state)) => {
                    table.rows.insert(name, Row::new(entry, state));
                }
                (Ok(_), None) => {}
                (Err(error), state) => {
                    tracing::warn!(%queue, entry = %name, %error, "a recurring job cannot be read");
                    table.unread.extend(state.map(|state| (name, state)));
                }
            }
        }
        Ok(())
    }

    /// Keeps the entries that this process brings along, where they differ from those that are there. False where somebody
    /// else changed one at the same time.
    async fn lay(&self) -> Result<bool, Error> {
        let queue = self.duty.queue.name();
        let mut all = true;
        for entry in &*self.duty.cron {
            let row = self.table.rows.get(entry.name());
            if row.is_some_and(|row| row.entry == *entry) {
                continue;
            }
            let old = row.map(|row| (&row.entry, &row.state));
            let state = row.map(|row| &row.state).or_else(|| self.table.unread.get(entry.name()));
            let kept = self.duty.queue.replace_cron(entry, old, state).await?;
            match kept {
                Some(Kept::TooMany) => {
                    tracing::error!(%queue, entry = %entry.name(), "a recurring job is not kept: there are too many");
                }
                Some(kept) => tracing::info!(%queue, entry = %entry.name(), %kept, "a recurring job"),
                None => all = false,
            }
        }
        Ok(all)
    }

    /// Submits what is due of one entry. False where somebody else was first.
    async fn submit(&mut self, name: &CronName) -> Result<bool, Error> {
        let Some(row) = self.table.rows.get_mut(name) else { return Ok(true) };
        let now = self.table.now;
        let Some(due) = row.progress.due(row.entry.missed(), row.entry.schedule(), now) else {
            return Ok(true);
        };
        let (queue, events) = (&self.duty.queue, &self.duty.events);
        let most = (BATCH_BYTES / row.entry.job_bytes()).clamp(1, BATCH_JOBS);
        // Where nothing is submitted, the state moves all the same.
        let batches =
            if due.ticks.is_empty() { vec![&due.ticks[..]] } else { due.ticks.chunks(most).collect() };
        let count = batches.len();
        for (nth, ticks) in batches.into_iter().enumerate() {
            let last = ticks.last().copied().unwrap_or(due.handled);
            let (handled, skipped) =
                (if nth + 1 == count { due.handled } else { last }, if nth == 0 { due.skipped } else { 0 });
            let next = row.state.moved(&row.progress.moved(ticks, handled, skipped));
            if !queue.tick(&row.entry, (&row.state, &next), ticks).await? {
                return Ok(false);
            }
            row.set(next);
            if skipped > 0 {
                events.tell(&Event::CronSkipped { queue: queue.name(), entry: name, ticks: skipped });
            }
            if !ticks.is_empty() {
                let (jobs, late) = (ticks.len(), now.since(last));
                events.tell(&Event::CronTicked { queue: queue.name(), entry: name, jobs, late });
            }
        }
        Ok(true)
    }

    /// Sleeps until a tick that this process asks about, a change of the entries, or the time to read them anyway.
    async fn sleep(&mut self) {
        let live = self.table.live.max(1) as f64;
        let refresh = REFRESH_EVERY.mul_f64(live).max(REFRESH_LEAST).mul_f64(0.5 + rand::random::<f64>());
        let refresh = Instant::now() + refresh;
        let (mut passed, mut after) = (self.table.now, None);
        let steps = self.steps;
        loop {
            let tick = self.table.next_after(passed);
            let spread = if live > 1.0 { SPREAD.mul_f64(rand::random()) } else { Duration::ZERO };
            let at = tick.map(|tick| Instant::now() + tick.since(self.table.reckoned()) + spread);
            let ends = after.map_or(refresh, |after: Instant| after.min(refresh));
            let at = at.filter(|at| *at < ends);
            tokio::select! {
                biased;
                () = self.duty.stop.cancelled() => return,
                () = changed(&mut self.told, (self.table.revision, steps)) => return,
                () = tokio::time::sleep_until(at.unwrap_or(ends).into()) => {}
            }
            let is_asking = self.told.borrow().leads || rand::random::<f64>() < ASKING / live;
            match tick.filter(|_| at.is_some() && !is_asking) {
                Some(tick) => {
                    passed = tick;
                    let within = AFTER.max(AFTER_EACH.mul_f64(live)).mul_f64(rand::random());
                    after.get_or_insert(Instant::now() + within);
                }
                None => return,
            }
        }
    }

    async fn pause(&self) {
        tokio::select! {
            () = self.duty.stop.cancelled() => {}
            () = tokio::time::sleep(PAUSE.mul_f64(rand::random())) => {}
        }
    }
}

impl Table {
    fn new() -> Self {
        let never = Timestamp::from_ms(0).expect("1970 is before the year 10000");
        let (rows, unread) = (BTreeMap::new(), BTreeMap::new());
        Self { revision: None, live: 0, now: never, read_at: Instant::now(), rows, unread }
    }

    /// About what the clock of Redis shows now.
    fn reckoned(&self) -> Timestamp {
        self.now.after(self.read_at.elapsed())
    }

    /// The entries that were due when they were read.
    fn due(&self) -> Vec<CronName> {
        self.until(self.now)
    }

    /// The entries that passed over ticks by a clock that was ahead, and has been set back. A paused one goes on from when it is
    /// resumed.
    fn ahead(&self) -> Vec<CronName> {
        let is_ahead = |row: &Row| !row.state.is_paused() && row.progress.set_back(self.now).is_some();
        let ahead = self.rows.iter().filter(|(_, row)| is_ahead(row));
        ahead.map(|(name, _)| name.clone()).collect()
    }

    /// The entries that may be due now.
    fn due_soon(&self) -> Vec<CronName> {
        self.until(self.reckoned().after(Duration::from_secs(1)))
    }

    fn until(&self, time: Timestamp) -> Vec<CronName> {
        let due = self.rows.iter().filter(|(_, row)| row.owed.is_some_and(|owed| owed <= time));
        due.map(|(name, _)| name.clone()).collect()
    }

    /// The next tick of any entry.
    fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        let next = |row: &Row| match row.owed? {
            owed if owed > time => Some(owed),
            _ => row.progress.next(row.entry.schedule(), time),
        };
        self.rows.values().filter_map(next).min()
    }
}

/// Waits until another revision is told than the one that is known, or that the clock was set back once more.
async fn changed(told: &mut watch::Receiver<LeaderView>, (known, steps): (Option<u64>, u64)) {
    loop {
        if told.changed().await.is_err() {
            // The teller has stopped, so this process is stopping.
            return std::future::pending().await;
        }
        let news = *told.borrow_and_update();
        if Some(news.revision) != known || news.steps != steps {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_owed_is_overdue_from_its_tick_on_and_nothing_never() {
        let at = |ms| Timestamp::from_ms(ms).expect("before the year 10000");
        let owed = Owed::default();
        assert_eq!(owed.overdue(at(5_000)), Duration::ZERO);
        owed.note(Some(at(6_000)));
        assert_eq!(owed.overdue(at(5_000)), Duration::ZERO);
        assert_eq!(owed.overdue(at(7_500)), Duration::from_millis(1_500));
        owed.note(None);
        assert_eq!(owed.overdue(at(7_500)), Duration::ZERO);
    }
}
