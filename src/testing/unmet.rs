//! A condition that was not met in time, and what the queues held instead.

use std::fmt::{self, Write};
use std::time::Duration;

use crate::broker::{self, Queue};
use crate::job::EntryId;

/// How many jobs of each kind the message lists.
const MAX_LISTED: u64 = 5;

/// A condition that was not met in time. Its message lists what the queues held by then: how many jobs were in each
/// state, and the next delayed and the latest dead ones.
#[derive(Debug, Clone)]
pub struct Unmet {
    what: String,
    waited: Duration,
    held: String,
}

impl std::error::Error for Unmet {}

impl fmt::Display for Unmet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "timed out after {:?} waiting until {}{}", self.waited, self.what, self.held)
    }
}

impl Unmet {
    pub(super) async fn find(what: &str, waited: Duration, queues: impl Iterator<Item = Queue>) -> Self {
        let mut held = String::new();
        for queue in queues {
            let description = describe(&queue).await;
            let description = description.unwrap_or_else(|error| format!("\n{}: {error}", queue.name()));
            held.push_str(&description);
        }
        Self { what: what.to_owned(), waited, held }
    }
}

async fn describe(queue: &Queue) -> Result<String, broker::Error> {
    let snapshot = queue.snapshot().await?;
    let mut text = format!(
        "\nqueue {}: {} waiting, {} running, {} delayed, {} dead",
        queue.name(),
        snapshot.waiting(),
        snapshot.running(),
        snapshot.delayed,
        snapshot.dead
    );
    for next in queue.delayed().page(0, MAX_LISTED).await? {
        let fields = next.fields.as_ref().and_then(|(_, fields)| fields.get(b"type"));
        let job_type = String::from_utf8_lossy(fields.unwrap_or_default());
        let due = next.due.since(snapshot.now).as_secs_f64();
        write!(text, "\n  delayed {} {job_type}: due in {due:.1} s", next.id)
            .expect("writing to a String cannot fail");
    }
    for letter in queue.dead_letters().recent(None::<EntryId>, MAX_LISTED).await? {
        let (job, job_type) = (letter.job(), letter.text("type"));
        let (reason, error) = (letter.text("dead_reason"), letter.text("dead_error"));
        write!(text, "\n  dead {job} {job_type}: {reason}: {error}")
            .expect("writing to a String cannot fail");
    }
    Ok(text)
}
