//! What is probably a mistake in a change of a gate: a name that nobody knows.

use streamfleet::job::{GateName, JobType, QueueName};
use streamfleet::{Broker, Queue};

use crate::unserved;

/// Says that a queue does not exist: Redis has nothing of it but gates and an audit, there are other queues, and `configured` does not
/// name it. `None` if it exists, or if nobody can find out. It names a similar queue of those that the person may see.
pub async fn unknown_queue(
    (broker, configured): (&Broker, &[QueueName]),
    queue: &Queue,
    may_see: impl Fn(&QueueName) -> bool,
) -> Option<String> {
    let (name, snapshot) = (queue.name(), queue.snapshot().await.ok()?);
    // To list all queues may take long, so a queue that has anything is not looked for.
    let jobs = snapshot.jobs().saturating_add(snapshot.delayed).saturating_add(snapshot.dead);
    if jobs > 0 || snapshot.leader.is_some() || snapshot.closed_since.is_some() || configured.contains(name) {
        return None;
    }
    let listed = broker.queues().await.ok()?;
    // It may be on a server that could not be asked.
    if listed.found.is_empty() || !listed.missing.is_empty() || listed.found.contains(name) {
        return None;
    }
    let seen = listed.found.iter().filter(|one| may_see(one));
    let hint = unserved::hint(name.as_str(), seen.map(QueueName::as_str));
    Some(format!("there is no queue {name} yet{hint}"))
}

/// Says that no live worker of the queue knows the type of a gate; `None` if one does, or if that is not known.
pub(super) async fn unknown_type(queue: &Queue, gate: &GateName) -> Option<String> {
    let job_type: JobType = gate.as_str().strip_prefix("type:")?.parse().ok()?;
    unserved::remark(queue, &job_type).await
}
