//! Dead letters at scale: groups that are counted exactly, letters that are edited, and the audit of what people did.

mod campaign;
mod edit;
mod file;
mod gone;
mod groups;
mod outcome;

use std::time::Duration;

use streamfleet::job::State;
use streamfleet::{JobError, Queue};

use harness::fleet::{Acts, Running, quick, submit, until_state};
use harness::redis_server::RedisServer;

const GROUPS: &str = "sf:{default}:dead:groups";
const SOON: Duration = Duration::from_secs(20);

/// Starts a fleet whose jobs all die, with their payloads as their errors.
fn deadly(server: &RedisServer) -> Running {
    let handler = Acts::new(|_, payload| Err(JobError::fatal(String::from_utf8_lossy(payload).into_owned())));
    Running::start(&server.url(), quick(1), handler)
}

/// Lets such a fleet bury jobs with these payloads, one after the other.
async fn bury(server: &RedisServer, queue: &Queue, payloads: &[&str]) {
    let fleet = deadly(server);
    for payload in payloads {
        let job = submit(queue, payload).await;
        until_state(queue, &job, State::Dead).await;
    }
    fleet.stop().await;
}
