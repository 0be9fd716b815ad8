//! What is known about the jobs that wait in a queue, read without changing anything: what `Backlog` needs to tell when the queue
//! is empty, and why its jobs wait.

use crate::client::error::Error;
use crate::inspect::pools::PoolDown;
use crate::job::backlog::{Backlog, Cause, HeldJobs, Hold, Minute, TimeToEmpty};
use crate::job::{Closed, JobType};
use crate::{Part, Queue, QueueSnapshot, Sample};

/// The most types that no live worker knows.
const MAX_TYPES: usize = 20;

/// Older samples say nothing about now.
const FRESH_MS: u64 = 180_000;

impl Queue {
    /// Reads what is known about the jobs that wait, beyond a snapshot with its oldest entries. What nothing waits for is not
    /// asked, so an idle queue costs two commands.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses, or if the snapshot lacks a part of the waiting jobs.
    #[doc(hidden)]
    pub async fn backlog(&self, snapshot: &QueueSnapshot) -> Result<Backlog, Error> {
        let counts_waiting = |part: Part| matches!(part, Part::Lane(_) | Part::Rooms | Part::Queue);
        if let Some(unread) = snapshot.unread.iter().find(|unread| counts_waiting(unread.part)) {
            return Err(unread.to_error("snapshot"));
        }
        // Each of these is large.
        let (paused, gates, unserved, pools_down, minutes, live_workers, memory) = tokio::try_join!(
            Box::pin(self.paused(snapshot)),
            Box::pin(self.held(snapshot)),
            Box::pin(self.unserved(snapshot)),
            Box::pin(self.pools_down()),
            Box::pin(self.minutes(snapshot)),
            Box::pin(self.live_members(snapshot)),
            Box::pin(self.memory_in_use()),
        )?;
        Ok(Backlog {
            waiting: snapshot.waiting(),
            in_lanes: snapshot.waiting_in_lanes() + snapshot.in_fair_rooms,
            running: snapshot.running(),
            oldest_in_lanes: snapshot.oldest_in_lanes(),
            live_workers,
            memory,
            paused,
            gates,
            unserved,
            pools_down: pools_down.into_iter().map(cause).collect(),
            minutes,
        })
    }

    /// Returns who has paused the whole queue, if somebody has.
    async fn paused(&self, snapshot: &QueueSnapshot) -> Result<Option<Closed>, Error> {
        match snapshot.closed_since {
            Some(_) => Ok(self.gates().rules().await?.closed().cloned()),
            None => Ok(None),
        }
    }

    /// Returns the gates at which jobs wait. Those of a paused queue all wait for one thing.
    async fn held(&self, snapshot: &QueueSnapshot) -> Result<Vec<HeldJobs>, Error> {
        if snapshot.in_rooms == 0 || snapshot.closed_since.is_some() {
            return Ok(Vec::new());
        }
        let gates = self.gates().list().await?.into_iter().filter(|gate| gate.waiting > 0);
        let held = gates.map(|gate| HeldJobs {
            hold: Hold::of(&gate.rule, gate.tripped_until, snapshot.now),
            gate: gate.rule.gate,
            jobs: gate.waiting,
        });
        Ok(held.collect())
    }

    /// Returns the types that no live worker knows, and how many of their jobs wait.
    async fn unserved(&self, snapshot: &QueueSnapshot) -> Result<Vec<(JobType, u64)>, Error> {
        // Of very many rooms, some count as those of gates.
        if snapshot.in_unknown_rooms + snapshot.in_rooms == 0 {
            return Ok(Vec::new());
        }
        let unknown = self.unknown_types(MAX_TYPES).await?.into_iter();
        let unserved = unknown.filter(|one| one.jobs > 0 && one.unserved_for.is_some());
        Ok(unserved.map(|one| (one.job_type, one.jobs)).collect())
    }

    /// Returns what happened lately, if the last sample is fresh.
    async fn minutes(&self, snapshot: &QueueSnapshot) -> Result<Vec<Minute>, Error> {
        if snapshot.waiting() == 0 {
            return Ok(Vec::new());
        }
        let samples = self.samples(TimeToEmpty::WINDOW).await?;
        let is_fresh = |last: &Sample| snapshot.now.as_ms().saturating_sub(last.at.as_ms()) < FRESH_MS;
        Ok(if samples.last().is_some_and(is_fresh) {
            samples.iter().map(minute).collect()
        } else {
            Vec::new()
        })
    }

    /// Counts the live workers, if jobs wait for them.
    async fn live_members(&self, snapshot: &QueueSnapshot) -> Result<Option<u64>, Error> {
        if snapshot.waiting() == 0 {
            return Ok(None);
        }
        Ok(Some(self.members(&snapshot.unread).await?.live))
    }

    /// Returns how much memory Redis uses, and how much it may use. Some logins must not ask.
    async fn memory_in_use(&self) -> Result<Option<(u64, u64)>, Error> {
        let Ok(server) = self.server().await else { return Ok(None) };
        let number = |name: &str| server.fact(name).and_then(|text| text.parse::<u64>().ok());
        let most = number("maxmemory").filter(|most| *most > 0);
        Ok(number("used_memory").zip(most))
    }
}

fn minute(sample: &Sample) -> Minute {
    let ended = sample.done.saturating_add(sample.died).saturating_add(sample.cancelled);
    Minute { span: sample.span, arrived: sample.arrived, ended }
}

fn cause(down: PoolDown) -> Cause {
    let PoolDown { worker, pool, types, why } = down;
    Cause::PoolDown { pool, worker, types, why }
}
