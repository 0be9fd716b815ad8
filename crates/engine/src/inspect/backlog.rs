//! What is known about the jobs that wait in a queue, read without changing anything: what `Backlog` needs to tell when the queue
//! is empty, and why its jobs wait.

use std::time::Duration;

use crate::client::error::Error;
use crate::inspect::pools::PoolDown;
use crate::job::backlog::{Backlog, Cause, HeldJobs, Hold, Reading, TimeToEmpty};
use crate::job::{Closed, GateName, JobType};
use crate::{GateStatus, Part, Queue, QueueSnapshot, Sample};

/// The most types that no live worker knows.
const MAX_TYPES: usize = 20;

/// Older samples say nothing about now.
const FRESH: Duration = Duration::from_secs(180);

/// The time between two samples.
const MINUTE: Duration = Duration::from_secs(60);

impl Queue {
    /// Reads what is known about the jobs that wait, beyond a snapshot with its oldest entries. What nothing waits for is not
    /// asked, so an idle queue costs two commands.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses, or if the snapshot lacks a part of the waiting jobs.
    #[doc(hidden)]
    pub async fn backlog(&self, snapshot: &QueueSnapshot) -> Result<Backlog, Error> {
        let counts_waiting = |part: Part| matches!(part, Part::Lane(_) | Part::Waitlists | Part::Queue);
        if let Some(unread) = snapshot.unread.iter().find(|unread| counts_waiting(unread.part)) {
            return Err(unread.to_error("snapshot"));
        }
        // Each of these is large.
        let (paused, gates, unserved, pools_down, readings, live_workers, memory) = tokio::try_join!(
            Box::pin(self.paused(snapshot)),
            Box::pin(self.held(snapshot)),
            Box::pin(self.unserved(snapshot)),
            Box::pin(self.pools_down()),
            Box::pin(self.readings(snapshot)),
            Box::pin(self.live_members(snapshot)),
            Box::pin(self.memory_in_use()),
        )?;
        Ok(Backlog {
            now: snapshot.now,
            waiting: snapshot.waiting(),
            in_lanes: snapshot.waiting_in_lanes() + snapshot.in_fair_rooms,
            running: snapshot.running(),
            delayed: snapshot.delayed,
            oldest_in_lanes: snapshot.oldest_in_lanes(),
            live_workers,
            memory,
            paused,
            gates,
            unserved,
            pools_down: pools_down.into_iter().map(cause).collect(),
            readings,
        })
    }

    /// Returns who has paused the whole queue, if somebody has.
    async fn paused(&self, snapshot: &QueueSnapshot) -> Result<Option<Closed>, Error> {
        match snapshot.closed_since {
            Some(_) => Ok(self.gates().rules().await?.closed().cloned()),
            None => Ok(None),
        }
    }

    /// Returns the gates that hold jobs. Those of a paused queue all wait for one thing.
    async fn held(&self, snapshot: &QueueSnapshot) -> Result<Vec<HeldJobs>, Error> {
        if snapshot.in_rooms == 0 || snapshot.closed_since.is_some() {
            return Ok(Vec::new());
        }
        let gates = self.gates().list().await?.into_iter();
        let mut held: Vec<HeldJobs> = gates.map(|gate| held_by(gate, snapshot)).collect();
        held.retain(|gate| gate.jobs > 0);
        // They were counted a moment later, and must not differ from the jobs that the snapshot shows.
        if let [only] = &mut held[..]
            && only.gate.as_str() != GateName::QUEUE
        {
            only.jobs = snapshot.in_rooms;
        }
        Ok(held)
    }

    /// Returns the types that no live worker knows, and how many of their jobs wait.
    async fn unserved(&self, snapshot: &QueueSnapshot) -> Result<Vec<(JobType, u64)>, Error> {
        // Of very many waiting lists, some count as those of gates.
        if snapshot.in_unknown_rooms + snapshot.in_rooms == 0 {
            return Ok(Vec::new());
        }
        let unknown = self.unknown_types(MAX_TYPES).await?.into_iter();
        let unserved = unknown.filter(|one| one.jobs > 0 && one.unserved_for.is_some());
        Ok(unserved.map(|one| (one.job_type, one.jobs)).collect())
    }

    /// Returns what was counted lately, if the last sample is fresh.
    async fn readings(&self, snapshot: &QueueSnapshot) -> Result<Vec<Reading>, Error> {
        if snapshot.waiting() + snapshot.running() + snapshot.delayed == 0 {
            return Ok(Vec::new());
        }
        // The first one says from where the others counted.
        let samples = self.samples(TimeToEmpty::WINDOW + MINUTE).await?;
        let is_fresh = |last: &Sample| snapshot.now.since(last.at) < FRESH;
        Ok(if samples.last().is_some_and(is_fresh) {
            samples.iter().map(reading).collect()
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

/// Returns the jobs that have yet to pass a gate. All jobs have to pass that of the queue, also those that wait for another gate.
fn held_by(gate: GateStatus, snapshot: &QueueSnapshot) -> HeldJobs {
    let hold = Hold::of(&gate.rule, gate.tripped_until, snapshot.now);
    let jobs = match (gate.rule.gate.as_str() == GateName::QUEUE, gate.waiting) {
        (false, jobs) => jobs,
        // Jobs in lanes may wait for nothing but a worker.
        (true, 0) if matches!(hold, Hold::Rate(_)) => snapshot.in_rooms,
        (true, 0) => 0,
        // Those that no worker has read yet have to pass it, too.
        (true, _) => snapshot.waiting(),
    };
    HeldJobs { gate: gate.rule.gate, jobs, hold }
}

fn reading(sample: &Sample) -> Reading {
    let Sample { waiting, in_rooms, running, arrived, done, failed, retried, moved, .. } = *sample;
    Reading { at: sample.read_at(), waiting, in_rooms, running, arrived, done, failed, retried, moved }
}

fn cause(down: PoolDown) -> Cause {
    let PoolDown { worker, pool, types, why } = down;
    Cause::PoolDown { pool, worker, types, why }
}
