//! The keys of the queue `q` that scripts are called with, and what its job `j` is made of.

pub const STREAM: &str = "sf:{q}:jobs";
pub const HIGH: &str = "sf:{q}:jobs:high";
pub const LOW: &str = "sf:{q}:jobs:low";
pub const DELAYED: &str = "sf:{q}:delayed";
pub const FIELDS: &str = "sf:{q}:delayed:fields";
pub const DEAD: &str = "sf:{q}:dead";
pub const CANCELS: &str = "sf:{q}:cancels";
pub const PLACES: &str = "sf:{q}:cancels:places";
pub const RECEIPTS: &str = "sf:{q}:receipts:me";
pub const CALLS: &str = "sf:{q}:calls";
pub const WAKE: &str = "sf:{q}:wake";
pub const RECORD: &str = "sf:{q}:job:j";
pub const STEPS: &str = "sf:{q}:steps:j";
pub const LOCK: &str = "sf:{q}:unique:k";
pub const BATCH: &str = "sf:{q}:batch:b";
pub const CREATED: &str = "1700000000000";
pub const GENERATION: &str = "1650000000000-0";

/// The key of large fields, for a job that has none.
pub const NOTHING: &str = "sf:{q}:offloaded:";
pub const PROMOTE_KEYS: [&str; 6] = [DELAYED, FIELDS, DEAD, HIGH, STREAM, LOW];
