//! Following a task.

use std::time::Duration;

use streamfleet::Queue;
use streamfleet_engine::admin::{Advance, TaskAction};

use super::TaskReport;
use super::list::show;
use crate::{Control, Error};

/// How often it looks whether there is more to do.
const LOOK: Duration = Duration::from_millis(200);

/// Carries a task on until it is over, also beside others who do. If the stop is requested first, the task is left as it is: the
/// fleet goes on with it. The progress is how many jobs or letters it has looked at.
///
/// A task that replays letters is only watched: the leader, which carries it on, also reports how its jobs fare.
///
/// # Errors
///
/// [`Error::NotFound`]; [`Error::Redis`]. The task goes on as far as the fleet can.
pub async fn follow(queue: &Queue, id: &str, control: Control<'_>) -> Result<TaskReport, Error> {
    loop {
        let report = show(queue, id).await?;
        (control.progress)(report.looked);
        if report.task.state.is_over() || control.stop.is_requested() {
            return Ok(report);
        }
        let led_to = match &report.task.action {
            TaskAction::Replay(_) => Advance::Later,
            TaskAction::Change(_) => {
                let advanced = queue.tasks().advance(id).await;
                advanced.map_err(Error::redis(format!("failed to carry on the task {id}")))?.0
            }
        };
        if led_to != Advance::Again {
            tokio::select! {
                () = control.stop.requested() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }
}
