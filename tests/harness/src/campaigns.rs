//! Tasks that replay dead letters.

use std::collections::BTreeMap;
use std::time::Duration;

use streamfleet::Queue;
use streamfleet_engine::admin::{Action, Filter, ReplayCounts, ReplayRules, Task, TaskState};

use crate::redis_server::RedisServer;
use crate::wait::until_async;

const DEAD: &str = "sf:{default}:dead";
const ENDED: Duration = Duration::from_secs(60);

/// What a person does to letters.
pub fn ann() -> Action {
    Action::new("dead replay", "ann").why("a test")
}

/// Begins a task that replays all letters.
pub async fn begin(queue: &Queue, rules: ReplayRules) -> String {
    let selection = queue.dead_letters().select(Filter::new()).await.unwrap();
    queue.tasks().start_replay(&selection, rules, &ann()).await.unwrap().value
}

/// Waits until the task is in this state.
pub async fn until_campaign(queue: &Queue, id: &str, state: TaskState) -> Task {
    until_async(&format!("the task to be {}", state.as_str()), ENDED, async || {
        queue.tasks().get(id).await.unwrap().filter(|task| task.state == state)
    })
    .await
}

/// How the jobs of a task have ended so far.
pub async fn counts(queue: &Queue, id: &str) -> ReplayCounts {
    queue.tasks().get(id).await.unwrap().unwrap().replay.unwrap()
}

/// The tasks that replay letters, and whether each is not over.
pub async fn known(queue: &Queue) -> BTreeMap<String, bool> {
    let known = queue.tasks().known().await.unwrap().into_iter().filter(|task| task.is_replay);
    known.map(|task| (task.id, task.is_active)).collect()
}

/// Writes letters by hand, as an older version did.
pub fn write(server: &RedisServer, count: usize, job_type: &str) {
    let mut all = redis::pipe();
    for nth in 0..count {
        let id = format!("{job_type}-{nth}");
        let fields = [
            "type",
            job_type,
            "id",
            &id,
            "dead_reason",
            "fatal",
            "dead_error",
            "no",
            "dead_fingerprint",
            "00ff",
        ];
        all.cmd("XADD").arg(DEAD).arg("*").arg(&fields[..]).ignore();
    }
    all.exec(&mut server.client()).unwrap();
}
