//! What Redis must do about an attempt that ended. Pure and complete: every way an attempt can end comes through here,
//! including the lost attempts that the claimer finds.

use std::time::Duration;

use super::{DeadReason, Failure, JobSpec, Outcome, Parking, Policy, Retry};

/// What must be done about one attempt, so that the job ends up in exactly one place.
#[derive(Debug, Clone, PartialEq)]
pub enum Settlement {
    /// Delete the entry: the job is done.
    Ack,
    /// Move the job to the delayed set.
    Defer(Deferral),
    /// Move the job to the dead stream.
    Bury(Burial),
    /// Delete the entry: the job is cancelled. Contains the reason, for people.
    Cancel(String),
    /// Append the job to its stream again, unchanged: no attempt was spent.
    Release,
    /// Move the job to a waiting list, unchanged: no attempt was spent.
    Park(Parking),
}

/// How a job goes to the delayed set.
#[derive(Debug, Clone, PartialEq)]
pub struct Deferral {
    /// How long from now, by the server's clock.
    pub delay: Duration,
    /// The number of failures so far, to be written into the entry.
    pub attempt: u32,
    /// The number of lost workers so far, to be written into the entry.
    pub lost: u32,
    /// What to note in the job's record; `None` if nothing failed.
    pub error: Option<String>,
}

/// How a job goes to the dead stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Burial {
    /// Why the job is dead.
    pub reason: DeadReason,
    /// The last error, for people.
    pub error: String,
    /// The total number of failures.
    pub attempts: u32,
}

/// Decides what follows from `outcome`. `roll` is a random number in 0..1 that spreads retries.
pub fn settle(job: &JobSpec, policy: &Policy, outcome: &Outcome, roll: f64) -> Settlement {
    match outcome {
        Outcome::Done(_) => Settlement::Ack,
        Outcome::Interrupted => Settlement::Release,
        Outcome::Cancelled => Settlement::Cancel("cancelled while it ran".to_owned()),
        Outcome::Dropped(why) => Settlement::Cancel(why.clone()),
        Outcome::Snoozed(delay) | Outcome::NotDue(delay) => later(job, *delay),
        Outcome::Parked(parking) => Settlement::Park(parking.clone()),
        Outcome::Unroutable => settle_unroutable(job),
        Outcome::Expired => bury(job.attempt, DeadReason::Expired, "not started by expires_at_ms".to_owned()),
        Outcome::Malformed(error) => bury(job.attempt, DeadReason::Malformed, error.clone()),
        Outcome::Invalid(error) => bury(job.attempt, DeadReason::Invalid, error.clone()),
        Outcome::Failed(failure) => settle_failure(job, policy, failure, roll),
        Outcome::Lost(why) => settle_loss(job, policy, why, roll),
    }
}

fn settle_failure(job: &JobSpec, policy: &Policy, failure: &Failure, roll: f64) -> Settlement {
    let attempt = job.attempt.saturating_add(1);
    let by_policy = policy.backoff.delay(attempt, policy.jitter, roll);
    let delay = match failure.retry {
        Retry::Never => return bury(attempt, DeadReason::Fatal, failure.error.clone()),
        Retry::After(delay) => delay.max(by_policy),
        Retry::Policy => by_policy,
        Retry::Bury(reason) => return bury(attempt, reason, failure.error.clone()),
        Retry::Steps(delay) => {
            let error = Some(failure.error.clone());
            return Settlement::Defer(Deferral { delay, attempt, lost: job.lost, error });
        }
    };
    if attempt >= job.max_attempts.unwrap_or(policy.max_attempts) {
        return bury(attempt, DeadReason::Exhausted, failure.error.clone());
    }
    let error = Some(failure.error.clone());
    Settlement::Defer(Deferral { delay, attempt, lost: job.lost, error })
}

fn settle_loss(job: &JobSpec, policy: &Policy, why: &str, roll: f64) -> Settlement {
    let lost = job.lost.saturating_add(1);
    let error = format!("{why} ({lost} of {} times allowed)", policy.max_losses);
    if lost >= policy.max_losses {
        return bury(job.attempt, DeadReason::Lost, error);
    }
    let delay = policy.backoff.delay(lost, policy.jitter, roll);
    Settlement::Defer(Deferral { delay, attempt: job.attempt, lost, error: Some(error) })
}

fn later(job: &JobSpec, delay: Duration) -> Settlement {
    Settlement::Defer(Deferral { delay, attempt: job.attempt, lost: job.lost, error: None })
}

/// Decides about a job of an unknown type: it waits in a waiting list for a worker that knows the type. A job that is offered
/// before it is due waits until then first.
fn settle_unroutable(job: &JobSpec) -> Settlement {
    if job.not_before.is_some_and(|due| due > job.entry_created()) {
        return later(job, Duration::ZERO);
    }
    Settlement::Park(Parking::unknown(&job.job_type))
}

/// Decides about a job that has waited in its waiting list for this long, while no worker knew its type.
pub fn settle_unserved(job: &JobSpec, waited: Duration) -> Settlement {
    let error = format!("no worker knew the type {} for {waited:?}", job.job_type);
    bury(job.attempt, DeadReason::Unroutable, error)
}

fn bury(attempts: u32, reason: DeadReason, error: String) -> Settlement {
    Settlement::Bury(Burial { reason, error, attempts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Backoff, EntryId, Envelope, FailureKind, Lane};
    use proptest::prelude::*;

    fn job(attempt: u32, lost: u32) -> JobSpec {
        let fields: [(&[u8], Vec<u8>); 3] = [
            (b"type", b"mail.send".to_vec()),
            (b"attempt", attempt.to_string().into()),
            (b"lost", lost.to_string().into()),
        ];
        let envelope = Envelope::new(fields.iter().map(|(name, value)| (*name, value.as_slice())));
        JobSpec::parse(&envelope, EntryId::new(1_000, 0), Lane::Normal).unwrap()
    }

    fn lost_outcome() -> Outcome {
        Outcome::Lost("the worker stopped responding".to_owned())
    }

    fn policy(max_attempts: u32, max_losses: u32) -> Policy {
        let backoff = Backoff::Fixed(Duration::from_secs(5));
        Policy { max_attempts, max_losses, backoff, jitter: 0.0, ..Policy::default() }
    }

    fn decide(job: &JobSpec, policy: &Policy, outcome: &Outcome) -> Settlement {
        settle(job, policy, outcome, 0.5)
    }

    fn failed(retry: Retry) -> Outcome {
        Outcome::Failed(Failure::new(FailureKind::Error, "smtp said no", retry))
    }

    #[test]
    fn a_job_runs_exactly_max_attempts_times() {
        let policy = policy(4, 3);
        for attempt in 0..3 {
            let settlement = decide(&job(attempt, 0), &policy, &failed(Retry::Policy));
            assert!(
                matches!(settlement, Settlement::Defer(ref to) if to.attempt == attempt + 1),
                "{settlement:?}"
            );
        }
        let settlement = decide(&job(3, 0), &policy, &failed(Retry::Policy));
        assert!(matches!(
            settlement,
            Settlement::Bury(Burial { reason: DeadReason::Exhausted, attempts: 4, .. })
        ));
    }

    #[test]
    fn a_fatal_failure_buries_at_once() {
        let settlement = decide(&job(0, 0), &policy(4, 3), &failed(Retry::Never));
        assert!(matches!(settlement, Settlement::Bury(Burial { reason: DeadReason::Fatal, .. })));
    }

    #[test]
    fn a_job_with_steps_is_buried_by_its_steps_not_by_its_own_limit() {
        let policy = policy(1, 3);
        let wait = Duration::from_secs(2);
        let settlement = decide(&job(7, 0), &policy, &failed(Retry::Steps(wait)));
        assert!(matches!(settlement, Settlement::Defer(Deferral { attempt: 8, delay, .. }) if delay == wait));
        let settlement = decide(&job(7, 0), &policy, &failed(Retry::Bury(DeadReason::NeedsDecision)));
        let Settlement::Bury(burial) = settlement else { panic!("{settlement:?}") };
        assert_eq!((burial.reason, burial.attempts), (DeadReason::NeedsDecision, 8));
    }

    #[test]
    fn lost_workers_are_counted_separately_from_failures() {
        let settlement = decide(&job(2, 1), &policy(4, 3), &lost_outcome());
        assert!(matches!(settlement, Settlement::Defer(Deferral { attempt: 2, lost: 2, .. })));
        let settlement = decide(&job(2, 2), &policy(4, 3), &lost_outcome());
        assert!(matches!(settlement, Settlement::Bury(Burial { reason: DeadReason::Lost, .. })));
    }

    #[test]
    fn interruption_and_snoozing_spend_no_attempt() {
        let policy = policy(1, 1);
        assert_eq!(decide(&job(0, 0), &policy, &Outcome::Interrupted), Settlement::Release);
        let hour = Duration::from_secs(3600);
        let settlement = decide(&job(0, 0), &policy, &Outcome::Snoozed(hour));
        assert!(
            matches!(settlement, Settlement::Defer(Deferral { attempt: 0, lost: 0, error: None, delay, .. }) if delay == hour)
        );
    }

    #[test]
    fn a_job_whose_payload_does_not_fit_is_dead_at_once_and_has_spent_no_attempt() {
        let settlement = decide(&job(2, 1), &policy(4, 3), &Outcome::Invalid("/to: no".to_owned()));
        let want = Burial { reason: DeadReason::Invalid, error: "/to: no".to_owned(), attempts: 2 };
        assert_eq!(settlement, Settlement::Bury(want));
    }

    #[test]
    fn cancelling_and_dropping_end_the_job_whatever_its_limits_say() {
        let settlement = decide(&job(3, 2), &policy(4, 3), &Outcome::Cancelled);
        assert!(matches!(settlement, Settlement::Cancel(_)), "{settlement:?}");
        let settlement = decide(&job(0, 0), &policy(4, 3), &Outcome::Dropped("a duplicate".to_owned()));
        assert_eq!(settlement, Settlement::Cancel("a duplicate".to_owned()));
    }

    #[test]
    fn a_handler_may_lengthen_the_backoff_but_not_shorten_it() {
        for (wish, want) in [(60, 60), (1, 5)] {
            let outcome = failed(Retry::After(Duration::from_secs(wish)));
            let Settlement::Defer(to) = decide(&job(0, 0), &policy(4, 3), &outcome) else { panic!() };
            assert_eq!(to.delay, Duration::from_secs(want));
        }
    }

    #[test]
    fn a_job_of_an_unknown_type_waits_in_the_waiting_list_of_its_type_once_it_is_due() {
        let due = JobSpec { entry: EntryId::new(3_600_000, 0), ..job(1, 1) };
        let parking = Parking { waitlist: "unknown:mail.send".to_owned(), gates: Vec::new() };
        assert_eq!(decide(&due, &policy(1, 1), &Outcome::Unroutable), Settlement::Park(parking));
        let not_before = crate::job::Timestamp::from_ms(3_600_001);
        let early = JobSpec { not_before, ..due };
        let settlement = decide(&early, &policy(1, 1), &Outcome::Unroutable);
        let want = Deferral { delay: Duration::ZERO, attempt: 1, lost: 1, error: None };
        assert_eq!(settlement, Settlement::Defer(want));
    }

    #[test]
    fn a_job_that_waited_for_too_long_is_dead_without_another_attempt() {
        let settlement = settle_unserved(&job(2, 1), Duration::from_secs(3600));
        let error = "no worker knew the type mail.send for 3600s".to_owned();
        let want = Burial { reason: DeadReason::Unroutable, error, attempts: 2 };
        assert_eq!(settlement, Settlement::Bury(want));
    }

    proptest! {
        #[test]
        fn counters_grow_by_at_most_one_and_stay_below_their_bounds(
            attempt in 0u32..10, lost in 0u32..10, max_attempts in 1u32..10, max_losses in 1u32..10, which in 0..5, roll in 0.0f64..1.0,
        ) {
            let outcome = match which {
                0 => failed(Retry::Policy),
                1 => failed(Retry::After(Duration::from_secs(9))),
                2 => lost_outcome(),
                3 => Outcome::Snoozed(Duration::from_secs(1)),
                _ => Outcome::NotDue(Duration::from_secs(1)),
            };
            let (job, policy) = (job(attempt, lost), policy(max_attempts, max_losses));
            if let Settlement::Defer(to) = settle(&job, &policy, &outcome, roll) {
                prop_assert!(to.attempt + to.lost <= attempt + lost + 1);
                prop_assert!(to.attempt == attempt || to.attempt < max_attempts);
                prop_assert!(to.lost == lost || to.lost < max_losses);
            }
        }
    }
}
