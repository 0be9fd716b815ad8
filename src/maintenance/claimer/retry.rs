//! Tries a command again until Redis answers.

use std::time::{Duration, Instant};

use crate::broker::Error;
use crate::event::QueueEvent;
use crate::job::{JobId, jittered};
use crate::maintenance::Context;

/// The first and the longest pause between two tries. No try begins later than `LONGEST_TRY`.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_TRY: Duration = Duration::from_secs(30);

/// Sends a command until Redis answers: without an answer, nobody would report what was done. Returns `None` if Redis
/// refuses this job alone. The other jobs continue, and this one is tried again when it is next found silent.
pub(in crate::maintenance) async fn retry<T, F: Future<Output = Result<T, Error>>>(
    context: &Context,
    job: &JobId,
    send: impl Fn() -> F,
) -> Result<Option<T>, Error> {
    match until_answered(context, send).await {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_transient() => Err(error),
        Err(error) => {
            let (queue, keys) = (context.queue.name(), context.queue.keys_of(job));
            context
                .events
                .of_queue(queue, QueueEvent::SetAside { job, keys: &keys, error: &error.to_string() });
            Ok(None)
        }
    }
}

/// Sends a command until Redis answers or refuses. Reports each error but that of the last try without an answer.
pub(super) async fn until_answered<T, F: Future<Output = Result<T, Error>>>(
    context: &Context,
    send: impl Fn() -> F,
) -> Result<T, Error> {
    let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
    loop {
        let error = match send().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        if error.is_transient() && began.elapsed() > LONGEST_TRY {
            return Err(error);
        }
        context.events.redis_error(error.kind(), &error);
        if !error.is_transient() {
            return Err(error);
        }
        tokio::time::sleep(jittered(pause, 0.5..1.5, rand::random())).await;
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}
