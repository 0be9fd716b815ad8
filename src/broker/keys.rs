//! Every key's name. All keys of a queue share one hash tag, so a script may touch them all in a cluster.

use fred::types::Key;

use crate::job::{ConsumerName, JobId, Lane, Namespace, QueueName};

/// The names of one queue's keys, built once.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    prefix: String,
    lanes: [Key; 3],
    /// The delayed set: job id to due time.
    pub(crate) delayed: Key,
    /// The packed fields of the delayed jobs.
    pub(crate) delayed_fields: Key,
    /// The dead letters.
    pub(crate) dead: Key,
    /// Facts that the fleet agrees on.
    pub(crate) control: Key,
    /// The lease of the process that does the chores.
    pub(crate) leader: Key,
    /// A list of at most one item, whose arrival wakes the promoter.
    pub(crate) wake: Key,
}

impl Keys {
    pub(crate) fn new(namespace: &Namespace, queue: &QueueName) -> Self {
        let prefix = format!("{namespace}:{{{queue}}}");
        let key = |rest: &str| Key::from(format!("{prefix}:{rest}"));
        Self {
            lanes: [key("jobs:high"), key("jobs"), key("jobs:low")],
            delayed: key("delayed"),
            delayed_fields: key("delayed:fields"),
            dead: key("dead"),
            control: key("control"),
            leader: key("leader"),
            wake: key("wake"),
            prefix,
        }
    }

    /// The stream of one lane.
    pub(crate) fn stream(&self, lane: Lane) -> &Key {
        match lane {
            Lane::High => &self.lanes[0],
            Lane::Normal => &self.lanes[1],
            Lane::Low => &self.lanes[2],
        }
    }

    /// The streams in the order of [`Lane::ALL`].
    pub(crate) fn streams(&self) -> &[Key; 3] {
        &self.lanes
    }

    /// A job's record.
    pub(crate) fn record(&self, id: &JobId) -> Key {
        Key::from(format!("{}:job:{id}", self.prefix))
    }
}

/// What a live worker says of itself.
pub(crate) fn worker(namespace: &Namespace, consumer: &ConsumerName) -> Key {
    Key::from(format!("{namespace}:worker:{consumer}"))
}

/// A pattern that finds every worker.
pub(crate) fn workers(namespace: &Namespace) -> String {
    format!("{namespace}:worker:*")
}

/// A pattern that finds every queue, by the one key that each has.
pub(crate) fn queues(namespace: &Namespace) -> String {
    format!("{namespace}:{{*}}:control")
}

/// The queue whose control key this is.
pub(crate) fn queue_of(namespace: &Namespace, control: &str) -> Option<QueueName> {
    let tag = control.strip_prefix(namespace.as_str())?.strip_prefix(":{")?.strip_suffix("}:control")?;
    tag.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_a_queue_share_one_hash_tag() {
        let keys = Keys::new(&"sf".parse().unwrap(), &"mail".parse().unwrap());
        let id: JobId = "order-7".parse().unwrap();
        let mut all =
            vec![keys.delayed.clone(), keys.delayed_fields.clone(), keys.dead.clone(), keys.control.clone()];
        all.extend([keys.leader.clone(), keys.wake.clone(), keys.record(&id)]);
        all.extend(keys.streams().clone());
        for key in all {
            assert!(key.as_str_lossy().starts_with("sf:{mail}:"), "{key:?}");
        }
        assert_eq!(keys.record(&id).as_str_lossy(), "sf:{mail}:job:order-7");
    }

    #[test]
    fn a_queue_is_found_again_from_its_control_key() {
        let namespace: Namespace = "sf".parse().unwrap();
        let found = queue_of(&namespace, "sf:{mail}:control").unwrap();
        assert_eq!(found.as_str(), "mail");
        assert!(queue_of(&namespace, "other:{mail}:control").is_none());
    }
}
