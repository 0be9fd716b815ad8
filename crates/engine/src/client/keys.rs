//! The names of all keys. All keys of a queue share one hash tag, so a script may touch all of them in a cluster. Scripts derive
//! some of these names themselves: see `prelude/keys.lua`.

use fred::types::Key;

use crate::job::{BatchId, ConsumerName, EntryId, GateName, JobId, Lane, Namespace, QueueName, UniqueKey};
use crate::statistics::type_stats::Window;

/// The names of one queue's keys, built once.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    namespace: Namespace,
    prefix: String,
    lanes: [Key; 3],
    /// The delayed set: job id to due time.
    pub delayed: Key,
    /// The packed fields of the delayed jobs.
    pub(crate) delayed_fields: Key,
    /// The dead letters.
    pub dead: Key,
    /// The list of the dead letters: letter to what it holds. See `gone.lua`.
    pub(crate) dead_letters: Key,
    /// The large fields of letters that are gone: token to the time of the end. See `discard.lua`.
    pub(crate) dead_offloaded: Key,
    /// How many dead letters each group has.
    pub dead_groups: Key,
    /// The other table of groups: the two take turns, see `recount.lua`.
    pub(crate) dead_groups_2: Key,
    /// Which of the two is in use, and how far a recount is.
    pub(crate) dead_recount: Key,
    /// Letters that were deleted while a recount runs.
    pub(crate) dead_gone: Key,
    /// What people did to this queue.
    pub audit: Key,
    /// Its tasks that replay dead letters.
    pub campaigns: Key,
    /// Its other tasks.
    pub tasks: Key,
    /// Facts that the fleet agrees on.
    pub control: Key,
    /// The leader's lease.
    pub leader: Key,
    /// The generations of jobs whose cancellation was requested: generation to the time of the request.
    pub cancels: Key,
    /// The lane and the entry that each of these had at that time, if known.
    pub(crate) cancel_locations: Key,
    /// A list of jobs that were cancelled while no worker held them and that have not been reported yet.
    pub endings: Key,
    /// A list with one item for each worker on standby that is called.
    pub calls: Key,
    /// A list of at most one item, whose arrival wakes the promoter.
    pub wake: Key,
    /// The recurring jobs.
    pub cron: Key,
    /// The progress of the recurring jobs.
    pub cron_ticks: Key,
    /// The stream of events about the queue's jobs.
    pub events: Key,
    /// The rules of the gates.
    pub gates: Key,
    /// The waiting lists in which jobs wait: waiting list to the time since when.
    pub waitlists: Key,
    /// The jobs that wait in waiting lists: job id to its entry and waiting list.
    pub(crate) waitlist_locations: Key,
    /// How far the lanes of a queue that is shared between the values of a field are sorted.
    pub fair: Key,
    /// The waiting lists of unknown types: waiting list to when a worker that knows the type last asked.
    pub(crate) waitlists_asked: Key,
    /// What workers have counted since the last sample.
    pub counts: Key,
    /// The figures of the queue, once a minute.
    pub samples: Key,
    /// The journal of the jobs that ended.
    pub(crate) journal: Key,
    /// The lease of the process that writes the journal to a database.
    pub(crate) journal_writer: Key,
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
            dead_letters: key("dead:letters"),
            dead_offloaded: key("dead:offloaded"),
            dead_groups: key("dead:groups"),
            dead_groups_2: key("dead:groups:2"),
            dead_recount: key("dead:recount"),
            dead_gone: key("dead:recount:gone"),
            audit: key("audit"),
            campaigns: key("campaigns"),
            tasks: key("tasks"),
            control: key("control"),
            leader: key("leader"),
            cancels: key("cancels"),
            cancel_locations: key("cancels:places"),
            endings: key("endings"),
            calls: key("calls"),
            wake: key("wake"),
            cron: key("cron"),
            cron_ticks: key("cron:ticks"),
            events: key("events"),
            gates: key("gates"),
            waitlists: key("rooms"),
            waitlist_locations: key("rooms:places"),
            waitlists_asked: key("rooms:asked"),
            fair: key("fair"),
            counts: key("counts"),
            samples: key("samples"),
            journal: key("journal"),
            journal_writer: key("journal:writer"),
            namespace: namespace.clone(),
            prefix,
        }
    }

    /// The names of the keys of another queue of the namespace.
    pub(crate) fn beside(&self, queue: &QueueName) -> Self {
        Self::new(&self.namespace, queue)
    }

    /// The pattern for all these keys, as in ACLs.
    pub(crate) fn pattern(&self) -> String {
        format!("{}:*", self.prefix)
    }

    /// Adds the queue's keys to an error of Redis that names none of them.
    pub(crate) fn with_key_names(&self, detail: &str) -> String {
        let names_one = detail.contains(&format!("{}:", self.prefix));
        if names_one { detail.to_owned() } else { format!("{detail} (its keys are {})", self.pattern()) }
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

    /// The lock of a unique key; without one, a key that never exists.
    pub(crate) fn lock(&self, key: Option<&UniqueKey>) -> Key {
        Key::from(format!("{}:unique:{}", self.prefix, key.map_or("", UniqueKey::as_str)))
    }

    /// The state of a batch; without one, a key that never exists.
    pub(crate) fn batch(&self, batch: Option<&BatchId>) -> Key {
        Key::from(format!("{}:batch:{}", self.prefix, batch.map_or("", BatchId::as_str)))
    }

    /// The answer to a producer's call, in case the reply is lost.
    pub(crate) fn receipt(&self, call: &str) -> Key {
        Key::from(format!("{}:receipt:{call}", self.prefix))
    }

    /// The mark of the request that first named this job.
    pub(crate) fn mark(&self, id: &JobId) -> Key {
        Key::from(format!("{}:mark:{id}", self.prefix))
    }

    /// How many steps a user's test has let time pass.
    pub(crate) fn advanced(&self) -> Key {
        Key::from(format!("{}:advanced", self.prefix))
    }

    /// One task that replays dead letters. The scripts that end jobs find it by the field `campaign`.
    pub(crate) fn campaign(&self, id: &str) -> Key {
        Key::from(format!("{}:campaign:{id}", self.prefix))
    }

    /// One task of another kind; for an empty id, a key that never exists.
    pub(crate) fn task(&self, id: &str) -> Key {
        Key::from(format!("{}:task:{id}", self.prefix))
    }

    /// The letter that took the place of this one when somebody edited it.
    pub(crate) fn edited(&self, letter: EntryId) -> Key {
        Key::from(format!("{}:edited:{letter}", self.prefix))
    }

    /// The receipts of the entries that a consumer settled, until the answers have arrived.
    pub(crate) fn receipts(&self, consumer: &str) -> Key {
        Key::from(format!("{}:receipts:{consumer}", self.prefix))
    }

    /// The large fields of a job; for an empty token, a key that never exists.
    pub(crate) fn offloaded(&self, token: &str) -> Key {
        Key::from(format!("{}:offloaded:{token}", self.prefix))
    }

    /// A part of a gate's state, of this kind.
    pub(crate) fn gate(&self, kind: &str, gate: &GateName) -> Key {
        Key::from(format!("{}:{kind}:{gate}", self.prefix))
    }

    /// The stream of the jobs that wait in a waiting list.
    pub(crate) fn waitlist(&self, name: &str) -> Key {
        Key::from(format!("{}:room:{name}", self.prefix))
    }

    /// The waiting lists of the values whose jobs share a lane, in the order of their turns.
    pub(crate) fn ring(&self, lane: Lane) -> Key {
        Key::from(format!("{}:fair:{lane}", self.prefix))
    }

    /// The stream of a lane, or of a waiting list if one is named.
    pub(crate) fn location(&self, lane: Lane, waitlist: Option<&str>) -> Key {
        waitlist.map_or_else(|| self.stream(lane).clone(), |waitlist| self.waitlist(waitlist))
    }

    /// A job's record.
    pub(crate) fn record(&self, id: &JobId) -> Key {
        Key::from(format!("{}:job:{id}", self.prefix))
    }

    /// The pattern for the records.
    pub(crate) fn records(&self) -> String {
        format!("{}:job:*", self.prefix)
    }

    /// The job that a record belongs to; `None` if the key is not a record of this queue.
    pub(crate) fn job_of_record(&self, key: &str) -> Option<JobId> {
        key.strip_prefix(self.prefix.as_str())?.strip_prefix(":job:")?.parse().ok()
    }

    /// What the jobs of each type did in one window, by its number since 1970.
    pub(crate) fn type_stats(&self, window: Window, number: u64) -> Key {
        Key::from(format!("{}:types:{}:{number}", self.prefix, window.as_str()))
    }

    /// The ledger of a job's steps.
    pub(crate) fn ledger(&self, id: &JobId) -> Key {
        Key::from(format!("{}:steps:{id}", self.prefix))
    }
}

/// Returns the name of the stream that a lane's jobs are added to, for producers that do not use this crate.
///
/// ```
/// # use streamfleet_engine as streamfleet;
/// use streamfleet::admin::stream_name;
/// use streamfleet::job::{Lane, Namespace, QueueName};
///
/// let namespace: Namespace = "sf".parse()?;
/// let queue: QueueName = "mail".parse()?;
/// assert_eq!(stream_name(&namespace, &queue, Lane::High), "sf:{mail}:jobs:high");
/// # Ok::<(), streamfleet::job::InvalidName>(())
/// ```
pub fn stream_name(namespace: &Namespace, queue: &QueueName, lane: Lane) -> String {
    Keys::new(namespace, queue).stream(lane).as_str_lossy().into_owned()
}

/// The names of the keys that the alerts of a namespace use. They share one hash tag.
#[derive(Debug, Clone)]
pub(crate) struct AlertKeys {
    /// The lease of the process that sends messages.
    pub sender: Key,
    /// The incidents that are not over: id to what is known.
    pub open: Key,
    /// Those that are over, the newest last.
    pub past: Key,
    /// Which sinks have got which message: id and sink to two numbers.
    pub told: Key,
    /// Until when people do not want to be reminded of incidents.
    pub(crate) acks: Key,
    /// Up to when each queue has been checked.
    pub seen: Key,
    /// What people did about incidents.
    pub audit: Key,
}

impl AlertKeys {
    /// The keys of a namespace. `tag` is `alerts`, except in a rehearsal.
    pub(crate) fn new(namespace: &Namespace, tag: &str) -> Self {
        // No queue has a key that begins so, whatever its name.
        let key = |rest: &str| Key::from(format!("{namespace}:alerts:{{{tag}}}:{rest}"));
        Self {
            sender: key("sender"),
            open: key("open"),
            past: key("past"),
            told: key("told"),
            acks: key("acks"),
            seen: key("seen"),
            audit: key("audit"),
        }
    }
}

/// The sessions of a person at the console that ended by a logout: what tells them apart to when they would have ended.
pub(crate) fn ended_sessions(namespace: &Namespace, of: &str) -> Key {
    Key::from(format!("{namespace}:console:ended:{of}"))
}

/// The lease of the process that submits the jobs of an outbox.
pub(crate) fn outbox(namespace: &Namespace) -> Key {
    Key::from(format!("{namespace}:outbox:{{outbox}}:relay"))
}

/// What the process that submits the jobs of an outbox knows about its rows.
pub(crate) fn outbox_state(namespace: &Namespace) -> Key {
    Key::from(format!("{namespace}:outbox:{{outbox}}:state"))
}

/// The stream whose last entry wakes that process.
pub(crate) fn outbox_wake(namespace: &Namespace) -> Key {
    Key::from(format!("{namespace}:outbox:{{outbox}}:wake"))
}

/// What people did to queues that no longer exist: the only trace that a deleted queue leaves.
pub(crate) fn deletions(namespace: &Namespace) -> Key {
    Key::from(format!("{namespace}:deletions"))
}

/// The hash in which a live worker reports itself.
pub(crate) fn worker(namespace: &Namespace, consumer: &ConsumerName) -> Key {
    Key::from(format!("{namespace}:worker:{consumer}"))
}

/// A pattern that matches every worker.
pub(crate) fn workers(namespace: &Namespace) -> String {
    format!("{namespace}:worker:*")
}

/// The keys by which a queue is known. One that nobody has joined yet has no `control`.
pub(crate) const OF_QUEUE: [&str; 7] =
    ["control", "jobs", "jobs:high", "jobs:low", "delayed", "dead", "cron"];

/// A pattern that matches the keys of [`OF_QUEUE`] and the audit of every queue. It is only as specific as needed to exclude the
/// records (`job:…`), of which there may be millions.
pub(crate) fn queues(namespace: &Namespace) -> String {
    format!("{namespace}:{{*}}:[acjd][eoru][abdlno][adinst]*")
}

/// The queue that this key belongs to, if it is one of these keys.
pub(crate) fn queue_of(namespace: &Namespace, key: &str, keys: &[&str]) -> Option<QueueName> {
    let rest = key.strip_prefix(namespace.as_str())?.strip_prefix(":{")?;
    let (queue, key) = rest.split_once("}:")?;
    keys.contains(&key).then(|| queue.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::derived::DERIVED;

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
        all.extend([keys.cron.clone(), keys.cron_ticks.clone(), keys.audit.clone(), keys.campaigns.clone()]);
        all.extend([keys.tasks.clone(), keys.task("00ff")]);
        all.extend([keys.dead_groups.clone(), keys.dead_groups_2.clone()]);
        all.extend([keys.dead_recount.clone(), keys.dead_gone.clone(), keys.dead_letters.clone()]);
        all.push(keys.dead_offloaded.clone());
        all.extend([
            keys.gates.clone(),
            keys.waitlists.clone(),
            keys.waitlist_locations.clone(),
            keys.waitlist("queue"),
        ]);
        all.extend([keys.waitlists_asked.clone(), keys.fair.clone(), keys.ring(Lane::Low)]);
        all.extend([keys.counts.clone(), keys.samples.clone(), keys.type_stats(Window::Hour, 7)]);
        all.extend([keys.journal.clone(), keys.journal_writer.clone()]);
        all.extend(keys.streams().clone());
        for key in all {
            assert!(key.as_str_lossy().starts_with("sf:{mail}:"), "{key:?}");
        }
        assert_eq!(keys.record(&id).as_str_lossy(), "sf:{mail}:job:order-7");
    }

    #[test]
    fn scripts_derive_the_names_that_are_built_here() {
        let keys = Keys::new(&"sf".parse().unwrap(), &"q".parse().unwrap());
        let gate: GateName = "type:mail".parse().unwrap();
        let (id, unique): (JobId, UniqueKey) = ("a:1".parse().unwrap(), "k".parse().unwrap());
        let mut built = keys.streams().to_vec();
        built.extend([
            keys.waitlist(gate.as_str()),
            keys.waitlist_locations.clone(),
            keys.gate("held", &gate),
        ]);
        built.extend([keys.delayed.clone(), keys.delayed_fields.clone(), keys.record(&id)]);
        built.extend([keys.lock(Some(&unique)), keys.lock(None), keys.offloaded("5-1-00ff")]);
        built.extend([keys.dead.clone(), keys.dead_letters.clone(), keys.dead_offloaded.clone()]);
        built.extend([keys.dead_groups.clone(), keys.dead_groups_2.clone()]);
        built.extend([keys.dead_recount.clone(), keys.dead_gone.clone()]);
        built.extend([keys.campaign("00ff"), keys.task("00ff"), keys.endings]);
        built.extend([keys.control, keys.journal]);
        let built: Vec<_> = built.iter().map(|key| key.as_str_lossy().into_owned()).collect();
        let derived: Vec<_> = DERIVED.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        assert_eq!(built, derived);
    }

    #[test]
    fn each_function_of_lua_that_derives_a_key_is_compared() {
        let locals = include_str!("prelude/keys.lua").lines().filter_map(|line| line.strip_prefix("local "));
        let locals = locals.map(|line| line.strip_prefix("function ").unwrap_or(line));
        let names = locals.filter_map(|line| line.split([' ', '(']).next());
        for name in names.filter(|name| name.ends_with("_key") || name.ends_with("_keys")) {
            let call = format!("{name}(");
            assert!(DERIVED.iter().any(|(derived, _)| derived.starts_with(&call)), "{name}");
        }
    }

    #[test]
    fn a_queue_is_found_again_from_its_keys_but_not_from_a_record() {
        let namespace: Namespace = "sf".parse().unwrap();
        for key in ["control", "jobs", "jobs:low", "delayed", "dead", "cron"] {
            let found = queue_of(&namespace, &format!("sf:{{mail}}:{key}"), &OF_QUEUE).unwrap();
            assert_eq!(found.as_str(), "mail");
        }
        for key in ["other:{mail}:control", "sf:{mail}:job:jobs", "sf:{mail}:job:x}:jobs", "sf:{Mail}:jobs"] {
            assert_eq!(queue_of(&namespace, key, &OF_QUEUE), None, "{key}");
        }
        assert_eq!(queue_of(&namespace, "sf:{mail}:audit", &OF_QUEUE), None, "an audit makes no queue");
    }
}
