//! What scripts derive from a key of the queue `q`: calls of functions in `prelude/keys.lua`, and the names in `keys.rs` of what
//! they return. A test of this crate compares the names with `keys.rs`, and one in `tests/jobs` calls the functions in Redis.

/// Each call, about the key `KEYS[1]`, with the names of the keys that it returns.
pub(crate) const DERIVED: &[(&str, &[&str])] = &[
    ("lane_key(KEYS[1], 'high')", &["sf:{q}:jobs:high"]),
    ("lane_key(KEYS[1], 'normal')", &["sf:{q}:jobs"]),
    ("lane_key(KEYS[1], 'low')", &["sf:{q}:jobs:low"]),
    ("waitlist_key(KEYS[1], 'type:mail')", &["sf:{q}:room:type:mail"]),
    ("waitlist_locations_key(KEYS[1])", &["sf:{q}:rooms:places"]),
    ("gate_key(KEYS[1], 'held', 'type:mail')", &["sf:{q}:held:type:mail"]),
    ("delayed_key(KEYS[1])", &["sf:{q}:delayed"]),
    ("packs_key(KEYS[1])", &["sf:{q}:delayed:fields"]),
    ("record_key(KEYS[1], 'a:1')", &["sf:{q}:job:a:1"]),
    ("lock_key(KEYS[1], 'k')", &["sf:{q}:unique:k"]),
    ("lock_key(KEYS[1], '')", &["sf:{q}:unique:"]),
    ("offloaded_key(KEYS[1], '5-1-00ff')", &["sf:{q}:offloaded:5-1-00ff"]),
    ("dead_key(KEYS[1])", &["sf:{q}:dead"]),
    ("letters_key(KEYS[1])", &["sf:{q}:dead:letters"]),
    ("copied_key(KEYS[1])", &["sf:{q}:dead:offloaded"]),
    ("group_keys(KEYS[1])", &["sf:{q}:dead:groups", "sf:{q}:dead:groups:2"]),
    ("recount_keys(KEYS[1])", &["sf:{q}:dead:recount", "sf:{q}:dead:recount:gone"]),
    ("campaign_key(KEYS[1], '00ff')", &["sf:{q}:campaign:00ff"]),
    ("task_key(KEYS[1], '00ff')", &["sf:{q}:task:00ff"]),
    ("endings_key(KEYS[1])", &["sf:{q}:endings"]),
    ("control_key(KEYS[1])", &["sf:{q}:control"]),
    ("journal_key(KEYS[1])", &["sf:{q}:journal"]),
];
