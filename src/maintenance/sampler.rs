//! Adds a sample of the queue's figures to its samples once a minute. It takes the figures that the gauge has just read, so
//! an idle queue costs one command a minute. If two processes do it, each minute still has one sample.

use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::Context;
use crate::broker::{Error, Extras, Part, QueueSnapshot};
use crate::job::{Timestamp, jittered};

/// Older figures of the gauge are not used. By default, the gauge reads them every 10 s.
const FRESH: Duration = Duration::from_secs(15);

const MINUTE: Duration = Duration::from_secs(60);

/// The longest delay after the minute has begun, so that not all queues are sampled in the same instant.
const SPREAD: Duration = Duration::from_secs(3);

/// The figures that the gauge last read, and when.
pub(super) type LastSurvey = Option<(Instant, QueueSnapshot)>;

/// Takes samples until stopped.
pub(super) async fn run(context: Context, survey: watch::Receiver<LastSurvey>) {
    let (mut chore, mut failing) = (context.chore(MINUTE), None);
    while chore.tick().await {
        let pause = match sample(&context, &survey).await {
            Ok(now) => {
                failing = None;
                until_next(now)
            }
            Err(error) => {
                // What lasts is reported once.
                let kind = error.kind();
                if failing.replace(kind) != Some(kind) {
                    context.events.redis_error(kind, &error);
                }
                MINUTE
            }
        };
        chore.next_in(pause + jittered(SPREAD, 0.0..1.0, rand::random()));
    }
}

/// Adds a sample, unless the figures are incomplete: a zero that means nothing would look like an empty queue. Returns the
/// time of the server's clock.
async fn sample(context: &Context, survey: &watch::Receiver<LastSurvey>) -> Result<Timestamp, Error> {
    let fresh = survey.borrow().clone().filter(|(read, _)| read.elapsed() < FRESH);
    let (read, snapshot) = match fresh {
        Some(fresh) => fresh,
        None => {
            let extras = Extras { oldest: true, ..Extras::default() };
            (Instant::now(), context.queue.snapshot_with(extras).await?)
        }
    };
    if is_complete(&snapshot) {
        context.queue.sample(&snapshot).await
    } else {
        Ok(snapshot.now.after(read.elapsed()))
    }
}

/// True if every figure of a sample was read. The gauge reports those that were not.
fn is_complete(snapshot: &QueueSnapshot) -> bool {
    snapshot.uncounted().all(|unread| unread.part == Part::Cron)
        && !snapshot.unread.iter().any(|unread| unread.part == Part::Dead)
}

/// The time until the next minute begins.
fn until_next(now: Timestamp) -> Duration {
    const MINUTE_MS: u64 = 60_000;
    Duration::from_millis(MINUTE_MS - now.as_ms() % MINUTE_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Unread;

    #[test]
    fn the_next_minute_is_at_most_a_minute_away() {
        let until = |ms| until_next(Timestamp::from_ms(ms).unwrap()).as_millis();
        assert_eq!([0, 1, 59_999, 60_000].map(until), [60_000, 59_999, 1, 60_000]);
    }

    #[test]
    fn figures_that_were_not_read_are_no_sample() {
        let without = |part| {
            let mut snapshot = QueueSnapshot::default();
            snapshot.unread.push(Unread::new(part, "", ""));
            is_complete(&snapshot)
        };
        let parts =
            [Part::Delayed, Part::Dead, Part::Waitlists, Part::Queue, Part::Leader, Part::Cron, Part::Gates];
        assert_eq!(parts.map(without), [false, false, false, false, true, true, true]);
    }
}
