//! Jobs whose type a worker does not know: they wait in the waiting list of their type, and delay nobody.

mod fleet;
mod scripts;
mod told;

use std::time::Duration;

use streamfleet::job::Lane;
use streamfleet::{Fleet, FleetConfig};

use harness::fleet::{Acts, Running, quick};
use harness::scene::{SOON, Scene};
use harness::wait::until_async;

const LIST: &str = "sf:{default}:room:unknown:test";
const LISTS: &str = "sf:{default}:rooms";
const DEAD: &str = "sf:{default}:dead";

/// Starts a process that knows these types.
fn start(config: FleetConfig, types: &[&str], handler: &Acts) -> Running {
    let mut builder = Fleet::builder(config);
    for name in types {
        builder = builder.handler_with(name, quick(3), handler.clone()).unwrap();
    }
    Running::of(builder.build())
}

/// Waits until the group has this many members.
async fn until_joined(scene: &Scene, members: usize) {
    until_async("the members to join", SOON, async || {
        scene.queue.consumers(Lane::Normal).await.is_ok_and(|consumers| {
            consumers.iter().filter(|member| !member.name.ends_with(".claims")).count() == members
        })
    })
    .await;
}

/// Waits until this many jobs wait in the waiting list of the type `test`.
async fn until_parked(scene: &Scene, jobs: i64) {
    until_async("the jobs to be in their room", SOON, async || scene.int(&["XLEN", LIST]) == jobs).await;
}

/// A time after which jobs of unknown types are dead in these tests.
const PATIENCE: Duration = Duration::from_secs(3);
