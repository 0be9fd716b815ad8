//! `delayed reschedule`, `delayed run` and `delayed edit`: change one job of the delayed set.

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::{Encoding, JobId, Timestamp};
use streamfleet_engine::admin::Due;

use crate::Context;
use crate::enqueue;
use crate::exit::Exit;
use crate::output;
use crate::status;
use crate::times::rfc3339;

/// What to change.
pub(super) enum Change {
    /// When it is due.
    Due(Due),
    /// Its payload.
    Payload(Vec<u8>, Encoding),
}

/// The job after the change.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Amended)]
pub(crate) struct Amended {
    id: String,
    queue: String,
    due: String,
    due_ms: u64,
}

impl Amended {
    /// The job is due then.
    pub(crate) fn of(queue: &Queue, id: &JobId, due: Timestamp) -> Self {
        Self { id: id.to_string(), queue: queue.name().to_string(), due: rfc3339(due), due_ms: due.as_ms() }
    }
}

/// Changes the job. A job that is not in the delayed set counts as not found.
pub(super) async fn run(
    queue: &Queue,
    id: &JobId,
    change: Change,
    context: &Context,
) -> anyhow::Result<Exit> {
    let producer = enqueue::producer(queue.clone(), &context.effective);
    let amended = match change {
        Change::Due(due) => producer.reschedule(id, due).await,
        Change::Payload(payload, encoding) => {
            producer.schemas(context.schemas()?).edit(id, payload, encoding).await
        }
    };
    let amended = amended.map_err(enqueue::refused).context("the job was not changed")?;
    if let Some(due) = amended {
        let amended = Amended::of(queue, id, due);
        let show = |amended: &Amended| format!("{} is due {}", amended.id, context.clock.time(due));
        context.output.print_named(&amended, |amended| vec![amended.id.clone()], show)?;
        return Ok(Exit::Done);
    }
    let why = match status::find(queue, id).await? {
        Some(status) => format!("it is {}", status.state),
        None => "there is no record of it".to_owned(),
    };
    output::print_stderr(&format!("{id} is not among the delayed jobs of the queue {}: {why}", queue.name()));
    Ok(Exit::NotFound)
}
