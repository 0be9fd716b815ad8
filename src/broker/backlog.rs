//! How much work a queue has now and soon: the figure by which the number of workers is chosen.

use std::time::Duration;

use serde::Serialize;

use super::error::Error;
use super::{CronTable, Queue, decode, millis, script};

/// How much work a queue has now and soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Backlog {
    /// Jobs that nobody has taken.
    pub waiting: u64,
    /// Jobs that a worker has.
    pub running: u64,
    /// Delayed jobs that are due within [`Backlog::SOON`], or overdue.
    pub due: u64,
    /// Jobs that recurring jobs will submit within [`Backlog::SOON`], or should have submitted.
    pub ticks: u64,
}

impl Backlog {
    /// What is due within this time counts: it takes about as long until another worker is there.
    pub const SOON: Duration = Duration::from_secs(60);

    /// All of them together. 0 only where nothing is there and nothing is due soon, so that a fleet that follows this
    /// figure may go to sleep at 0.
    pub fn jobs(&self) -> u64 {
        self.waiting + self.running + self.due + self.ticks
    }
}

impl Queue {
    /// How much work there is now and soon. One script; a second one where the queue has recurring jobs.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses.
    pub async fn backlog(&self) -> Result<Backlog, Error> {
        let mut keys = vec![self.keys.delayed.clone(), self.keys.cron.clone()];
        keys.extend(self.keys.streams().clone());
        let answer = self.run(&script::BACKLOG, keys, vec![millis(Backlog::SOON)]).await?;
        let number = |at: usize| answer.rest.get(at).and_then(decode::number);
        let (Some(waiting), Some(running), Some(due), Some(entries)) =
            (number(0), number(1), number(2), number(3))
        else {
            return Err(Error::contract("backlog", answer));
        };
        let ticks = if entries == 0 { 0 } else { ticks(&self.cron().await?) };
        Ok(Backlog { waiting, running, due, ticks })
    }
}

/// How many jobs the recurring jobs will have submitted by the end of this minute.
fn ticks(table: &CronTable) -> u64 {
    let live = table.entries.iter().filter(|status| !status.paused);
    let of = |status: &super::CronStatus| {
        let entry = status.entry.as_ref().ok()?;
        Some(entry.missed().due_within(entry.schedule(), (status.handled, table.now), Backlog::SOON))
    };
    live.filter_map(of).sum::<usize>() as u64
}
