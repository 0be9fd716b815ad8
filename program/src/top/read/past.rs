//! A job of which Redis has nothing any more, from the database of the history; and a job that somebody looks for by its id.

use futures_util::{StreamExt as _, stream};
use streamfleet::Queue;
use streamfleet::job::{JobId, QueueName};
use streamfleet_engine::admin::Status;
use streamfleet_operations::history::{self, PastLife};
use streamfleet_operations::{Error, jobs};

use super::detail::{facts, job};
use super::{AT_ONCE, queues};
use crate::output::listed;
use crate::top::action::Desk;
use crate::top::state::{Place, Row, Subject, View};

/// In how many queues the history is searched, at most: each costs a statement.
const MOST_QUEUES: usize = 20;

/// Finds a job in one queue, or in all of them.
///
/// # Errors
///
/// Says that several queues have it, or none.
pub(super) async fn sought(queue: Option<&QueueName>, id: &str, desk: &Desk) -> anyhow::Result<Vec<Row>> {
    let place = Place::new(View::Jobs, queue.cloned());
    let (queues, remark) = queues(&place, desk).await?;
    if let [queue] = &queues[..] {
        return job(queue, id, desk).await;
    }
    let wanted: JobId = id.parse()?;
    let looking = stream::iter(queues.clone()).map(|queue| {
        let wanted = wanted.clone();
        async move {
            let found = jobs::known(&queue, &wanted).await;
            (queue, found)
        }
    });
    let looked: Vec<_> = looking.buffered(AT_ONCE).collect().await;
    let has = |found: &Result<Option<Status>, Error>| matches!(found, Ok(Some(_)));
    let having: Vec<&Queue> = looked.iter().filter(|(_, found)| has(found)).map(|(queue, _)| queue).collect();
    match &having[..] {
        [] => {}
        [queue] => return job(queue, id, desk).await,
        several => {
            let names = listed(several.iter().map(|queue| queue.name()));
            anyhow::bail!("several queues have a job {id}: {names}; name one after it: :job {id} QUEUE");
        }
    }
    for queue in queues.iter().take(MOST_QUEUES) {
        if let Some(rows) = lives(queue, &wanted, desk).await? {
            return Ok(rows);
        }
    }
    let history = if desk.history.is_some() { ", and neither has the history" } else { "" };
    let errors = looked.into_iter().filter_map(|(_, found)| found.err()).map(|error| error.to_string());
    let errors: Vec<String> = errors.chain((!remark.is_empty()).then_some(remark)).collect();
    let unread = if errors.is_empty() { String::new() } else { format!(". Not read: {}", errors.join("; ")) };
    anyhow::bail!("no queue has a record of the job {id}{history}{unread}")
}

/// What the history has about a job, the latest life first; `None` if there is no history, or nothing in it.
pub(super) async fn lives(queue: &Queue, id: &JobId, desk: &Desk) -> anyhow::Result<Option<Vec<Row>>> {
    let is_written = desk.effective.config.history.as_ref().is_some_and(|history| history.has(queue.name()));
    let Some(database) = desk.history.as_ref().filter(|_| is_written) else { return Ok(None) };
    match history::show(database.get().await?, queue.name(), id).await {
        Ok(lives) => Ok(Some(lives.iter().flat_map(|life| rows(queue, life, desk)).collect())),
        Err(Error::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn rows(queue: &Queue, life: &PastLife, desk: &Desk) -> Vec<Row> {
    let job = &life.job;
    let runs = life.runs.iter().map(|run| {
        let error = run.error.as_deref().map_or_else(String::new, |error| format!(": {error}"));
        format!("{} {}{error}", desk.clock.time(run.ended_ms), run.outcome)
    });
    let payload = life.input.as_ref().and_then(|input| input.shown.clone());
    facts(
        &Subject::Past(job.generation.clone()),
        vec![
            ("state", Some(job.state.to_owned())),
            ("source", Some(format!("the history of {}; Redis has no record any more", queue.name()))),
            ("error", job.error.clone()),
            ("type", Some(job.job_type.clone())),
            ("lane", Some(job.lane.to_owned())),
            ("created", Some(desk.clock.time(job.created_ms))),
            ("ended", Some(desk.clock.time(job.ended_ms))),
            ("worker", job.worker.clone()),
            ("version", job.version.clone()),
            ("replay of", job.root.clone()),
            ("payload", payload.or_else(|| Some(job.payload_state.to_owned()))),
            ("result", life.result.as_ref().map(ToString::to_string)),
            ("attempts", Some(runs.collect::<Vec<_>>().join("\n"))),
        ],
    )
}
