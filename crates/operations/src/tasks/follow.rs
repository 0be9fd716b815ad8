//! Carrying tasks on. Whatever is changed is counted once, also beside others who carry the same task on.

use std::time::Duration;

use streamfleet::{Queue, Shutdown};
use streamfleet_engine::admin::Advance;

use super::TaskReport;
use super::list::read;
use crate::{Control, Error};

/// How often it looks whether there is more to do.
const LOOK: Duration = Duration::from_millis(200);

/// Carries a task on until nothing is left to do, and also waits while it is paused. If the stop is requested first, the task is left
/// as it is: the fleet goes on with it. The progress is how many jobs or letters it has looked at.
///
/// A task that watches how its jobs end is only followed: the leader, which carries it on, also reports why it stops itself.
///
/// # Errors
///
/// [`Error::NotFound`]; [`Error::Redis`]. The task goes on as far as the fleet can.
pub async fn follow(queue: &Queue, id: &str, control: Control<'_>) -> Result<TaskReport, Error> {
    until(queue, id, control, TaskReport::is_settled).await
}

/// Carries a task on until nothing is left to do, it is paused, only workers can carry it on, or the stop is requested.
///
/// # Errors
///
/// The errors of [`follow`].
pub async fn carry_on(queue: &Queue, id: &str, stop: &Shutdown) -> Result<(), Error> {
    let rests = |report: &TaskReport| report.is_watched() || !report.needs_somebody();
    until(queue, id, Control { stop, progress: &|_| {} }, rests).await.map(|_| ())
}

async fn until(
    queue: &Queue,
    id: &str,
    control: Control<'_>,
    is_enough: impl Fn(&TaskReport) -> bool,
) -> Result<TaskReport, Error> {
    loop {
        let report = read(queue, id).await?;
        (control.progress)(report.looked);
        if is_enough(&report) || control.stop.is_requested() {
            return Ok(report);
        }
        let led_to = if report.is_watched() {
            Advance::Later
        } else {
            let advanced = queue.tasks().advance(id).await;
            advanced.map_err(Error::redis(format!("failed to carry on the task {id}")))?.0
        };
        if led_to != Advance::Again {
            tokio::select! {
                () = control.stop.requested() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }
}
