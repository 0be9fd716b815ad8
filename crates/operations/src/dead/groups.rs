//! The dead letters by what killed their jobs. As fast with a million letters as with one.

use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::DeadReason;
use streamfleet_engine::admin::DeadGroup;

use crate::times::rfc3339;
use crate::{Error, List};

/// The name of the group that counts the letters of all groups beyond the table's size.
pub const OTHER: &str = "other";

/// What is known about all groups.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = DeadGroupFacts)]
#[non_exhaustive]
pub struct GroupFacts {
    /// The queue.
    pub queue: String,
    /// How many dead letters the queue has.
    pub total: u64,
    /// How many groups there are, also those beyond the limit.
    pub groups: usize,
    /// How many letters no group counts.
    pub uncounted: u64,
    /// How many letters are counted that do not exist.
    #[serde(skip)]
    pub overcounted: u64,
}

/// One group.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = DeadGroup)]
#[non_exhaustive]
pub struct Group {
    /// The fingerprint of its letters, or `other`.
    pub group: String,
    /// How many letters it has.
    pub count: u64,
    /// How many jobs have died since it was last empty.
    pub deaths: u64,
    /// The type of the jobs.
    #[serde(rename = "type")]
    pub job_type: Option<String>,
    /// Why the jobs are dead.
    pub reason: Option<&'static str>,
    /// When the first job died.
    pub first: String,
    /// When the first job died, in milliseconds since 1970.
    pub first_ms: u64,
    /// When the last job died.
    pub last: String,
    /// When the last job died, in milliseconds since 1970.
    pub last_ms: u64,
    /// The letter that was the last to die, unless it is gone.
    pub letter: Option<String>,
    /// The error of the last job, at most 200 bytes.
    pub error: String,
}

/// Lists the largest groups of a queue, at most this many.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn groups(queue: &Queue, limit: u64) -> Result<List<Group, GroupFacts>, Error> {
    let dead = queue.dead_letters().groups().await.map_err(Error::redis("failed to read the groups"))?;
    let facts = GroupFacts {
        queue: queue.name().to_string(),
        total: dead.letters,
        groups: dead.groups.len(),
        uncounted: dead.uncounted(),
        overcounted: dead.overcounted(),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let items = dead.groups.into_iter().take(limit).map(Group::from).collect();
    Ok(List { items, next: None, facts, former: None })
}

impl From<DeadGroup> for Group {
    fn from(group: DeadGroup) -> Self {
        Self {
            group: group.fingerprint.unwrap_or_else(|| OTHER.to_owned()),
            count: group.count,
            deaths: group.deaths,
            job_type: group.job_type.map(|name| name.to_string()),
            reason: group.reason.map(DeadReason::as_str),
            first: rfc3339(group.first),
            first_ms: group.first.as_ms(),
            last: rfc3339(group.last),
            last_ms: group.last.as_ms(),
            letter: group.sample.map(|letter| letter.to_string()),
            error: group.error,
        }
    }
}
