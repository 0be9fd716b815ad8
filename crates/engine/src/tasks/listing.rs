//! The tasks of a queue, newest first.

use std::fmt;
use std::str::FromStr;

use fred::types::Value;

use super::registry::Tasks;
use super::task::Task;
use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::scripts;

scripts! { TASKS "tasks" }

/// A task that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
#[doc(hidden)]
pub struct KnownTask {
    /// Its id.
    pub id: String,
    /// Whether it replays dead letters.
    pub is_replay: bool,
    /// Whether it is not over.
    pub is_active: bool,
    begun_ms: u64,
}

/// Where a page of tasks begins: after this one. Its text can be kept and given back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskCursor {
    begun_ms: u64,
    id: String,
}

impl fmt::Display for TaskCursor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}", self.begun_ms, self.id)
    }
}

impl FromStr for TaskCursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('-').and_then(|(ms, id)| Some((ms.parse().ok()?, id.to_owned())));
        let (begun_ms, id) = parts.ok_or_else(|| "it must be the `next` of an earlier page".to_owned())?;
        Ok(Self { begun_ms, id })
    }
}

/// A page of tasks; see [`Tasks::page`].
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct TaskPage {
    /// The tasks, the newest first.
    pub tasks: Vec<Task>,
    /// The ids of those that this version cannot read.
    pub unreadable: Vec<String>,
    /// Where the next page begins; `None` if this was the last one.
    pub next: Option<TaskCursor>,
}

impl KnownTask {
    fn cursor(&self) -> TaskCursor {
        TaskCursor { begun_ms: self.begun_ms, id: self.id.clone() }
    }
}

impl Tasks<'_> {
    /// Returns a page of the tasks, the newest first, after this one. Those that are over are kept for 30 days.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn page(self, after: Option<&TaskCursor>, count: usize) -> Result<TaskPage, Error> {
        let mut cursors: Vec<TaskCursor> = self.known().await?.iter().map(KnownTask::cursor).collect();
        cursors.sort();
        cursors.reverse();
        cursors.retain(|cursor| after.is_none_or(|after| cursor < after));
        let count = count.max(1);
        let next = cursors.get(count - 1).filter(|_| cursors.len() > count).cloned();
        let mut page = TaskPage { next, ..TaskPage::default() };
        for cursor in cursors.into_iter().take(count) {
            match self.find(&cursor.id).await? {
                Some(Ok(task)) => page.tasks.push(task),
                Some(Err(_)) => page.unreadable.push(cursor.id),
                None => {}
            }
        }
        Ok(page)
    }

    /// Returns what is known about all tasks, in no order.
    #[doc(hidden)]
    pub async fn known(self) -> Result<Vec<KnownTask>, Error> {
        let own = &self.queue.keys;
        let answer = self.queue.run(&TASKS, vec![own.campaigns.clone(), own.tasks.clone()], vec![]).await?;
        let [Value::Array(replays), Value::Array(others)] = &answer.rest[..] else {
            return Err(Error::contract("tasks", answer));
        };
        let known = |list: &[Value], is_replay: bool| {
            let task = |task: &[Value]| KnownTask {
                id: decode::text(&task[0]),
                is_replay,
                is_active: decode::text(&task[1]) == "active",
                begun_ms: decode::number(&task[2]).unwrap_or(0),
            };
            list.chunks_exact(3).map(task).collect::<Vec<_>>()
        };
        Ok([known(replays, true), known(others, false)].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_from_its_text() {
        let cursor = TaskCursor { begun_ms: 1_700_000_000_000, id: "00ff00ff".to_owned() };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in ["", "5", "x-00ff"] {
            assert!(text.parse::<TaskCursor>().is_err(), "{text}");
        }
    }
}
