//! The amount of work that a queue has now and soon, by which the number of workers is scaled.

use std::time::Duration;

use serde::Serialize;

use crate::broker::client::decode;
use crate::broker::client::error::{Class, Error};
use crate::broker::client::script::scripts;
use crate::broker::{CronTable, Part, Queue, Unread, millis};
use crate::job::Lane;

scripts! { BACKLOG "backlog" }

/// The amount of work that a queue has now and soon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Backlog {
    /// Jobs that no worker has taken.
    pub waiting: u64,
    /// Jobs that a worker holds.
    pub running: u64,
    /// Delayed jobs that are due within [`Backlog::SOON`], or overdue.
    pub due: u64,
    /// Jobs that recurring jobs will submit within [`Backlog::SOON`], or should have submitted.
    pub ticks: u64,
    /// Keys that cannot be read. Their jobs count as 0: a key of another type holds no jobs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<Unread>,
}

impl Backlog {
    /// Work that is due within this time counts, because an additional worker takes about as long to start.
    pub const SOON: Duration = Duration::from_secs(60);

    /// The sum of all four. It is 0 only if there are no jobs and none are due soon, so a fleet that follows this
    /// figure may scale to zero.
    pub fn jobs(&self) -> u64 {
        self.waiting + self.running + self.due + self.ticks
    }
}

impl Queue {
    /// The backlog if Redis refuses all of it.
    pub(crate) fn unknown_backlog(&self, why: &str) -> Backlog {
        let unread = Unread { part: Part::Queue, key: self.keys.pattern(), error: why.to_owned() };
        Backlog { unread: vec![unread], ..Backlog::default() }
    }

    /// Returns how much work there is now and soon, by one script, and a second one if the queue has recurring jobs.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn backlog(&self) -> Result<Backlog, Error> {
        let mut keys = vec![self.keys.delayed.clone(), self.keys.cron.clone()];
        keys.extend(self.keys.streams().clone());
        let answer = self.run(&BACKLOG, keys.clone(), vec![millis(Backlog::SOON)]).await?;
        let number = |at: usize| answer.rest.get(at).and_then(decode::number);
        let (Some(unread), Some(waiting), Some(running), Some(due), Some(entries)) =
            (answer.rest.first(), number(1), number(2), number(3), number(4))
        else {
            return Err(Error::contract("backlog", answer));
        };
        let mut unread = Unread::read(unread, &PARTS, &keys);
        let mut coming = 0;
        if entries > 0 {
            match self.cron().table().await {
                Ok(table) => coming = ticks(&table),
                Err(error) if error.class() == Some(Class::Configuration) => {
                    let key = self.keys.cron_ticks.as_str_lossy().into_owned();
                    unread.push(Unread { part: Part::Cron, key, error: error.to_string() });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Backlog { waiting, running, due, ticks: coming, unread })
    }
}

/// The part of the queue behind each key of the script.
const PARTS: [Part; 5] =
    [Part::Delayed, Part::Cron, Part::Lane(Lane::High), Part::Lane(Lane::Normal), Part::Lane(Lane::Low)];

/// How many jobs the recurring jobs will have submitted by the end of this minute.
fn ticks(table: &CronTable) -> u64 {
    let live = table.entries.iter().filter(|status| !status.paused);
    let of = |status: &crate::broker::CronStatus| {
        let entry = status.entry.as_ref().ok()?;
        Some(entry.missed().due_within(entry.schedule(), (status.handled, table.now), Backlog::SOON))
    };
    live.filter_map(of).sum::<usize>() as u64
}
