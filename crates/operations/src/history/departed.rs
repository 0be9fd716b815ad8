//! The dead letter as which a job of the history comes back, and what keeps it from coming back.

use streamfleet::job::{DeadReason, Envelope, JobId, Timestamp};
use streamfleet_domain::job::cut;
use streamfleet_engine::admin::Departed;
use streamfleet_sql::history::questions::Row;
use streamfleet_sql::history::{Body, Ending, PayloadState};

use crate::Actor;
use crate::times::rfc3339;

/// The header that names the job which a new one repeats. If that repeats another one, it names the first.
pub(super) const AGAIN_OF: &str = "h.again-of";

/// The most bytes of an error, as in letters of jobs that died.
const ERROR_BYTES: usize = 4096;

/// What ties a job to others or to its own past. A new job must not count as a member of a batch that is over, free a lock that it has not
/// taken, be moved back by a task, or leave out steps.
const OF_THE_FORMER: [&[u8]; 6] = [b"batch", b"unique", b"unique_scope", b"once", b"by_task", b"dead_steps"];

/// Why a job of the history does not come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// The history has none of its fields.
    NoPayload,
    /// The history has its fields without their secrets.
    Masked,
    /// Its fields were too large for the history.
    TooLarge,
    /// It was not a job, or its fields cannot be read.
    Unreadable,
    /// It is dead, and a later life of it has ended: it was replayed, or submitted again.
    EndedLater,
    /// Redis knows a job with the id.
    Exists,
}

impl Kept {
    /// The key in reports.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::NoPayload => "no_payload",
            Self::Masked => "masked",
            Self::TooLarge => "too_large",
            Self::Unreadable => "unreadable",
            Self::EndedLater => "ended_later",
            Self::Exists => "exists",
        }
    }

    /// What keeps a life from coming back, as far as its row says. `last_end`: when the last life of its id has ended.
    pub(super) fn of(row: &Row, last_end: Option<u64>) -> Option<Self> {
        if row.job_type.is_empty() {
            return Some(Self::Unreadable);
        }
        if row.state == Ending::Dead && last_end.is_some_and(|last| last > row.ended_ms) {
            return Some(Self::EndedLater);
        }
        match row.payload_state {
            PayloadState::Stored => None,
            PayloadState::None => Some(Self::NoPayload),
            PayloadState::Masked => Some(Self::Masked),
            PayloadState::TooLarge => Some(Self::TooLarge),
        }
    }
}

/// The letter of a life. A dead one keeps its id, so that those who wait for the job find it. One that was done or cancelled becomes a new
/// job, because its effects are to happen again; its id follows from the life, so that it is run again only once.
///
/// # Errors
///
/// [`Kept::Unreadable`] if it was not a job, or its fields are missing.
pub(super) fn departed(row: &Row, body: Body, actor: &Actor, group: &str) -> Result<Departed, Kept> {
    let Body::Stored(stored) = body else { return Err(Kept::Unreadable) };
    let job_type = row.job_type.parse().map_err(|_| Kept::Unreadable)?;
    let (id, life, fields) = match row.state {
        Ending::Dead => (row.id.clone(), Some(row.life.clone()), stored),
        Ending::Done | Ending::Cancelled => {
            let id = format!("again-{}", row.life).parse().map_err(|_| Kept::Unreadable)?;
            (id, None, again(&stored, &row.id))
        }
    };
    let [created, died] = [row.created_ms, row.ended_ms].map(|ms| Timestamp::from_ms(ms).unwrap_or_default());
    let (reason, error) = death(row, died, actor);
    Ok(Departed {
        id,
        life,
        job_type,
        lane: row.lane,
        fields,
        reason,
        error,
        attempts: u32::try_from(row.attempts).unwrap_or(u32::MAX),
        created,
        died,
        group: Some(group.to_owned()),
    })
}

/// The fields of a new job that repeats this one.
fn again(stored: &Envelope, former: &JobId) -> Envelope {
    let former = former.to_string();
    let named = stored.get(AGAIN_OF.as_bytes()).unwrap_or(former.as_bytes());
    let is_left_out = |name: &[u8]| name == AGAIN_OF.as_bytes() || OF_THE_FORMER.contains(&name);
    stored.edited(is_left_out, &[(AGAIN_OF.as_bytes(), named)])
}

/// Why the job is a dead letter. A reason that this version does not know counts as fatal.
fn death(row: &Row, died: Timestamp, actor: &Actor) -> (DeadReason, String) {
    let state = match row.state {
        Ending::Dead => {
            let reason = row.reason.as_deref().and_then(DeadReason::named).unwrap_or(DeadReason::Fatal);
            return (reason, cut(row.error.clone().unwrap_or_default(), ERROR_BYTES));
        }
        Ending::Done | Ending::Cancelled => row.state,
    };
    let why = match actor.reason() {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    let error = format!("it was {state} {}: run it again on behalf of {}{why}", rfc3339(died), actor.name());
    (DeadReason::Restored, cut(error, ERROR_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_job_names_the_first_that_it_repeats_and_belongs_to_nothing_that_is_over() {
        let producers: [(&[u8], &[u8]); 3] = [(b"type", b"mail"), (b"payload", b"{}"), (b"h.tenant", b"9")];
        let former = OF_THE_FORMER.map(|name| (name, b"7".as_slice()));
        let stored = Envelope::new(former.into_iter().chain(producers));
        let new = again(&stored, &"order-7".parse().unwrap());
        let named = (AGAIN_OF.as_bytes(), b"order-7".as_slice());
        let wanted = Envelope::new(producers.into_iter().chain([named]));
        assert_eq!(new, wanted);
        assert_eq!(again(&new, &"again-5-0".parse().unwrap()), wanted);
    }
}
