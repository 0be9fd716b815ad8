//! Every key's name. All keys of a queue share one hash tag, so a script may touch them all in a cluster.

use fred::types::Key;

use crate::job::{BatchId, ConsumerName, JobId, Lane, Namespace, QueueName, UniqueKey};

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
    /// The lives of jobs that somebody wants cancelled: life to when that was said.
    pub(crate) cancels: Key,
    /// The lane and the entry that each of these had then, where that is known.
    pub(crate) cancel_places: Key,
    /// A list of what nobody has told yet: jobs that were cancelled while no worker held them.
    pub(crate) endings: Key,
    /// A list, of which each item calls one worker that stands by.
    pub(crate) calls: Key,
    /// A list of at most one item, whose arrival wakes the promoter.
    pub(crate) wake: Key,
    /// The recurring jobs.
    pub(crate) cron: Key,
    /// How far the recurring jobs have come.
    pub(crate) cron_ticks: Key,
    /// What happened to the queue's jobs, for whoever wants to know.
    pub(crate) events: Key,
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
            cancels: key("cancels"),
            cancel_places: key("cancels:places"),
            endings: key("endings"),
            calls: key("calls"),
            wake: key("wake"),
            cron: key("cron"),
            cron_ticks: key("cron:ticks"),
            events: key("events"),
            prefix,
        }
    }

    /// All these keys, as ACLs write it.
    pub(crate) fn pattern(&self) -> String {
        format!("{}:*", self.prefix)
    }

    /// What Redis said of one of these keys, and which they are where it does not name one.
    pub(crate) fn named(&self, said: &str) -> String {
        let names_one = said.contains(&format!("{}:", self.prefix));
        if names_one { said.to_owned() } else { format!("{said} (its keys are {})", self.pattern()) }
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

    /// The lock of a unique key; of none, a key that never exists.
    pub(crate) fn lock(&self, key: Option<&UniqueKey>) -> Key {
        Key::from(format!("{}:unique:{}", self.prefix, key.map_or("", UniqueKey::as_str)))
    }

    /// What is known of a batch; of none, a key that never exists.
    pub(crate) fn batch(&self, batch: Option<&BatchId>) -> Key {
        Key::from(format!("{}:batch:{}", self.prefix, batch.map_or("", BatchId::as_str)))
    }

    /// The answer that a producer's call got, for the case that it did not get there.
    pub(crate) fn receipt(&self, call: &str) -> Key {
        Key::from(format!("{}:receipt:{call}", self.prefix))
    }

    /// How often a user's test has let time pass.
    #[cfg(feature = "testing")]
    pub(crate) fn advanced(&self) -> Key {
        Key::from(format!("{}:advanced", self.prefix))
    }

    /// What became of the entries that a consumer settled, until it has heard the answers.
    pub(crate) fn receipts(&self, consumer: &str) -> Key {
        Key::from(format!("{}:receipts:{consumer}", self.prefix))
    }

    /// The large fields of a job; of no token, a key that never exists.
    pub(crate) fn offloaded(&self, token: &str) -> Key {
        Key::from(format!("{}:offloaded:{token}", self.prefix))
    }

    /// A job's record.
    pub(crate) fn record(&self, id: &JobId) -> Key {
        Key::from(format!("{}:job:{id}", self.prefix))
    }

    /// The ledger of a job's steps.
    pub(crate) fn ledger(&self, id: &JobId) -> Key {
        Key::from(format!("{}:steps:{id}", self.prefix))
    }
}

/// The name of the stream that a lane's jobs are added to, for those who submit without this crate.
pub fn stream_name(namespace: &Namespace, queue: &QueueName, lane: Lane) -> String {
    Keys::new(namespace, queue).stream(lane).as_str_lossy().into_owned()
}

/// What a live worker says of itself.
pub(crate) fn worker(namespace: &Namespace, consumer: &ConsumerName) -> Key {
    Key::from(format!("{namespace}:worker:{consumer}"))
}

/// A pattern that finds every worker.
pub(crate) fn workers(namespace: &Namespace) -> String {
    format!("{namespace}:worker:*")
}

/// A pattern that finds every queue by its `control`, `jobs…`, `delayed`, `dead` or `cron` keys: a queue that nobody has
/// joined yet has no `control`. It spells out no more than keeps the records (`job:…`), which may be millions, out of the answer.
pub(crate) fn queues(namespace: &Namespace) -> String {
    format!("{namespace}:{{*}}:[cjd][oer][nbalo][tsadn]*")
}

/// The queue whose key this is, if it is one of those that [`queues`] is meant to find.
pub(crate) fn queue_of(namespace: &Namespace, key: &str) -> Option<QueueName> {
    let rest = key.strip_prefix(namespace.as_str())?.strip_prefix(":{")?;
    let (queue, key) = rest.split_once("}:")?;
    let telling = ["control", "jobs", "jobs:high", "jobs:low", "delayed", "dead", "cron"].contains(&key);
    telling.then(|| queue.parse().ok()).flatten()
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
        all.extend([keys.lock(None), keys.batch(None)]);
        all.extend([
            keys.calls.clone(),
            keys.leader.clone(),
            keys.wake.clone(),
            keys.events.clone(),
            keys.record(&id),
        ]);
        all.extend([keys.ledger(&id), keys.offloaded("5-1-00ff")]);
        all.extend([keys.cron.clone(), keys.cron_ticks.clone()]);
        all.extend(keys.streams().clone());
        for key in all {
            assert!(key.as_str_lossy().starts_with("sf:{mail}:"), "{key:?}");
        }
        assert_eq!(keys.record(&id).as_str_lossy(), "sf:{mail}:job:order-7");
    }

    #[test]
    fn a_queue_is_found_again_from_its_keys_but_not_from_a_record() {
        let namespace: Namespace = "sf".parse().unwrap();
        for key in ["control", "jobs", "jobs:low", "delayed", "dead", "cron"] {
            let found = queue_of(&namespace, &format!("sf:{{mail}}:{key}")).unwrap();
            assert_eq!(found.as_str(), "mail");
        }
        for key in ["other:{mail}:control", "sf:{mail}:job:jobs", "sf:{mail}:job:x}:jobs", "sf:{Mail}:jobs"] {
            assert_eq!(queue_of(&namespace, key), None, "{key}");
        }
    }
}
