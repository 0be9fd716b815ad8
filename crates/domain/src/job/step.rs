//! One step of a job: its kinds and states, what the end of a run means for it, and what a person's verdict does to it.
//!
//! | from | to | by |
//! |---|---|---|
//! | pending | started | a worker, before it calls the handler |
//! | started | done | the handler succeeded |
//! | started | pending | auto: it failed and has attempts left, or was interrupted; once: the handler snoozed |
//! | started | exhausted | auto: it failed too often, or permanently |
//! | started | failed | once: the handler returned an error |
//! | started | unknown | once: its end was not reported, its run was cut short, or its handler does not know |
//! | unknown | done, failed, pending | once: the run reported late how it really ended |
//! | started, exhausted | started | auto: it runs again, in another attempt or after a replay |
//! | failed, unknown, exhausted | pending | a person: run again |
//! | any but given up | done | a person: it is done |
//! | any but done | given up | a person: it will not be done |

use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::number::some_count;
use super::{
    Backoff, Failure, FailureKind, OutOfBounds, Outcome, Policy, Retry, bounds, duration, format_duration,
};

variants! {
    /// How often a step may run.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum StepKind: Display {
        /// The step runs as often as needed, until it succeeds or reaches its limit.
        Auto = "auto",
        /// The step never runs twice, unless a person says so: what it does cannot be undone.
        Once = "once",
    }
}

impl FromStr for StepKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::named(text).ok_or_else(|| "a step's kind must be auto or once".to_owned())
    }
}

as_text!(StepKind);

variants! {
    /// Where a step is in its life.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub enum StepState: Display {
        /// It has not run, or should run again.
        #[default]
        Pending = "pending",
        /// A run began, and has not reported how it ended.
        Started = "started",
        /// It succeeded, or a person says that it is done.
        Done = "done",
        /// `once` only: its handler returned an error. A person decides.
        Failed = "failed",
        /// `auto` only: it reached its limit of failures, or failed permanently. A replay runs it again.
        Exhausted = "exhausted",
        /// `once` only: nobody knows whether it did its work. A person decides.
        Unknown = "unknown",
        /// A person decided that it will not be done.
        GivenUp = "given_up",
    }
}

impl FromStr for StepState {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::named(text).ok_or(())
    }
}

/// The limits of a step. A limit that is not set is that of the job's type.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct StepLimits {
    /// The number of failures that exhaust an `auto` step; at least 1, by default that of the type. A job's smaller limit wins.
    #[serde(deserialize_with = "some_count", skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// The delay before an `auto` step is retried; by default that of the type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// How long one run may take: 1 ms to 7 days, and at most the type's timeout, which is also the default. A job's shorter timeout wins.
    #[serde(with = "duration::some", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

impl StepLimits {
    setters! {
        max_attempts: impl Into<Option<u32>> => max_attempts.into();
        backoff: impl Into<Option<Backoff>> => backoff.into();
        timeout: impl Into<Option<Duration>> => timeout.into();
    }

    /// Returns everything that is out of its bounds for a step of this kind, whose type has this timeout.
    pub fn check(&self, kind: StepKind, longest: Duration) -> Vec<OutOfBounds> {
        let Self { max_attempts, backoff, timeout } = self;
        let useless = match (kind, max_attempts, backoff) {
            (StepKind::Once, Some(_), _) => Some("max_attempts"),
            (StepKind::Once, None, Some(_)) => Some("backoff"),
            (StepKind::Once, None, None) | (StepKind::Auto, _, _) => None,
        };
        let reason = "has no effect on a once step, which never runs again automatically";
        let pause = backoff.as_ref().and_then(|backoff| backoff.validate().err());
        let problems = [
            useless.map(|key| OutOfBounds::new(key, reason)),
            max_attempts.and_then(|most| bounds::at_least_one("max_attempts", most)),
            pause.map(|reason| OutOfBounds::new("backoff", reason)),
            timeout.and_then(|timeout| wrong_timeout(timeout, longest)),
        ];
        problems.into_iter().flatten().collect()
    }

    /// Returns the number of failures that exhaust an `auto` step, in a job that allows `by_job` and a type that allows
    /// `by_type`. A job's own limit replaces its type's, and caps that of the step.
    pub fn attempts(&self, by_job: Option<u32>, by_type: u32) -> u32 {
        let own = self.max_attempts.or((by_job.is_none()).then_some(by_type));
        own.into_iter().chain(by_job).min().unwrap_or(by_type)
    }

    /// Returns how long a run may take in an attempt that may take `attempt`.
    #[doc(hidden)]
    pub fn timeout_within(&self, attempt: Duration) -> Duration {
        self.timeout.map_or(attempt, |timeout| timeout.min(attempt))
    }
}

fn wrong_timeout(timeout: Duration, longest: Duration) -> Option<OutOfBounds> {
    let shorter = || {
        let (own, types) = (format_duration(timeout), format_duration(longest));
        OutOfBounds::new("timeout", format!("is {own}, but the type's timeout is shorter: {types}"))
    };
    let wrong = bounds::time("timeout", timeout, &Policy::TIMEOUT);
    wrong.or_else(|| (timeout > longest).then(shorter))
}

/// What the end of one run means for its step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepEnd {
    /// The step's new state.
    pub state: StepState,
    /// The number of runs that count, including this one if it does.
    pub attempts: u32,
    /// How long to wait before the step may run again; for [`StepState::Pending`].
    pub delay: Option<Duration>,
    /// What went wrong: its kind in one word, and the text.
    pub error: Option<(&'static str, String)>,
    /// What success returned, as JSON.
    pub result: Option<Bytes>,
}

/// Decides what the end of a run means for its step.
///
/// `attempts` is the number of runs that counted before. `by_job` is the job's own limit of failures per step, if it
/// has one. `roll` is a random number in 0..1 that spreads retries.
pub fn end_step(
    (kind, attempts, by_job): (StepKind, u32, Option<u32>),
    limits: &StepLimits,
    policy: &Policy,
    outcome: &Outcome,
    roll: f64,
) -> StepEnd {
    let counted = attempts.saturating_add(1);
    let end = |state, attempts| StepEnd { state, attempts, delay: None, error: None, result: None };
    match outcome {
        Outcome::Done(result) => StepEnd { result: result.clone(), ..end(StepState::Done, counted) },
        // The handler says that it did nothing.
        Outcome::Snoozed(delay) | Outcome::NotDue(delay) => {
            StepEnd { delay: Some(*delay), ..end(StepState::Pending, attempts) }
        }
        Outcome::Failed(failure) => {
            let error = Some((failure.kind.as_str(), failure.error.clone()));
            match kind {
                StepKind::Once => StepEnd { error, ..end(once_failed(failure.kind), counted) },
                StepKind::Auto => {
                    let limit = limits.attempts(by_job, policy.max_attempts);
                    let backoff = limits.backoff.as_ref().unwrap_or(&policy.backoff);
                    let by_policy = backoff.delay(counted, policy.jitter, roll);
                    match auto_delay(failure, by_policy).filter(|_| counted < limit) {
                        Some(delay) => {
                            StepEnd { delay: Some(delay), error, ..end(StepState::Pending, counted) }
                        }
                        None => StepEnd { error, ..end(StepState::Exhausted, counted) },
                    }
                }
            }
        }
        // The handler says that the whole job should not be done.
        Outcome::Dropped(_) => end(StepState::Pending, attempts),
        // Nobody knows how far it got. An auto step runs again, and spends no attempt.
        Outcome::Interrupted
        | Outcome::Cancelled
        | Outcome::Lost(_)
        | Outcome::Expired
        | Outcome::Parked(_)
        | Outcome::Unroutable
        | Outcome::Malformed(_)
        | Outcome::Invalid(_) => match kind {
            StepKind::Auto => end(StepState::Pending, attempts),
            StepKind::Once => {
                let error = Some((
                    "interrupted",
                    "its run was interrupted before it reported how it ended".to_owned(),
                ));
                StepEnd { error, ..end(StepState::Unknown, counted) }
            }
        },
    }
}

/// A handler that returns an error has answered, unless the error says that the outcome is unknown. A run that timed
/// out or panicked has not.
fn once_failed(kind: FailureKind) -> StepState {
    match kind {
        FailureKind::Error => StepState::Failed,
        FailureKind::Timeout | FailureKind::Panic | FailureKind::Unknown => StepState::Unknown,
    }
}

fn auto_delay(failure: &Failure, by_policy: Duration) -> Option<Duration> {
    match failure.retry {
        Retry::Policy => Some(by_policy),
        Retry::After(delay) => Some(delay.max(by_policy)),
        Retry::Steps(delay) => Some(delay),
        Retry::Never | Retry::Bury(_) => None,
    }
}

variants! {
    /// What a person decides about a step.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Verdict: Display {
        /// Its work is done.
        Done = "done",
        /// It should run again.
        Run = "run",
        /// It should not be done.
        GiveUp = "give-up",
    }
}

impl FromStr for Verdict {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::named(text).ok_or_else(|| "a verdict must be done, run or give-up".to_owned())
    }
}

/// Why a verdict is not possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Undecidable {
    /// The step is done.
    #[error("the step is done; if its job is dead, replay it: the steps that are done do not run again")]
    Done,
    /// The step was given up, which is final.
    #[error("the step was given up, which is final; to start the job over, replay it with all its steps")]
    GivenUp,
    /// The step runs on its own when its turn comes.
    #[error("the step runs automatically when its turn comes; there is nothing to decide")]
    Open,
    /// The step is running, as far as is known.
    #[error(
        "the step has been started and its job is not dead: wait until it has ended or its worker's lease has expired"
    )]
    Running,
}

/// Returns the state that a verdict leads to.
///
/// # Errors
///
/// [`Undecidable`] if the step's state does not permit this verdict. A started step can be decided about only if its job is dead.
pub fn judge(state: StepState, is_dead: bool, verdict: Verdict) -> Result<StepState, Undecidable> {
    match (state, verdict) {
        (StepState::Done, _) => Err(Undecidable::Done),
        (StepState::GivenUp, _) => Err(Undecidable::GivenUp),
        (StepState::Started, _) if !is_dead => Err(Undecidable::Running),
        (StepState::Pending, Verdict::Run) => Err(Undecidable::Open),
        (_, Verdict::Done) => Ok(StepState::Done),
        (_, Verdict::Run) => Ok(StepState::Pending),
        (_, Verdict::GiveUp) => Ok(StepState::GivenUp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl StepState {
        /// Returns true if a single transition may lead from this state to `next`; see the module's table.
        pub(in crate::job) fn may_become(self, kind: StepKind, next: Self) -> bool {
            let once = kind == StepKind::Once;
            match self {
                Self::Pending => matches!(next, Self::Started | Self::Done | Self::GivenUp),
                Self::Started => match next {
                    Self::Pending | Self::Done | Self::GivenUp => true,
                    Self::Failed | Self::Unknown => once,
                    Self::Started | Self::Exhausted => !once,
                },
                Self::Unknown => {
                    once && matches!(next, Self::Done | Self::Failed | Self::Pending | Self::GivenUp)
                }
                Self::Failed => once && matches!(next, Self::Done | Self::Pending | Self::GivenUp),
                Self::Exhausted => {
                    !once && matches!(next, Self::Done | Self::Pending | Self::Started | Self::GivenUp)
                }
                Self::Done | Self::GivenUp => false,
            }
        }
    }

    fn failed(kind: FailureKind, retry: Retry) -> Outcome {
        Outcome::Failed(Failure::new(kind, "card declined", retry))
    }

    fn ended(kind: StepKind, attempts: u32, outcome: &Outcome) -> StepEnd {
        let policy = Policy { max_attempts: 3, jitter: 0.0, ..Policy::default() };
        end_step((kind, attempts, None), &StepLimits::default(), &policy, outcome, 0.5)
    }

    #[test]
    fn an_auto_step_may_run_until_its_limit_and_no_further() {
        let outcome = failed(FailureKind::Error, Retry::Policy);
        let states = [0, 1, 2].map(|attempts| ended(StepKind::Auto, attempts, &outcome).state);
        assert_eq!(states, [StepState::Pending, StepState::Pending, StepState::Exhausted]);
        let own = StepLimits { max_attempts: Some(1), ..StepLimits::default() };
        let end = end_step((StepKind::Auto, 0, None), &own, &Policy::default(), &outcome, 0.5);
        assert_eq!((end.state, end.attempts), (StepState::Exhausted, 1));
    }

    #[test]
    fn a_jobs_own_limit_replaces_its_types_and_bounds_its_steps() {
        let own = StepLimits { max_attempts: Some(3), ..StepLimits::default() };
        let none = StepLimits::default();
        let cases = [(&own, None, 3), (&own, Some(2), 2), (&own, Some(9), 3)];
        for (limits, by_job, want) in
            cases.into_iter().chain([(&none, None, 4), (&none, Some(9), 9), (&none, Some(1), 1)])
        {
            assert_eq!(limits.attempts(by_job, 4), want, "{limits:?} {by_job:?}");
        }
    }

    #[test]
    fn a_once_step_failed_if_its_handler_answered_else_is_unknown() {
        let answered = ended(StepKind::Once, 0, &failed(FailureKind::Error, Retry::Policy));
        assert_eq!(answered.state, StepState::Failed);
        let cut = [
            failed(FailureKind::Timeout, Retry::Policy),
            failed(FailureKind::Panic, Retry::Policy),
            failed(FailureKind::Unknown, Retry::Policy),
            Outcome::Interrupted,
        ];
        for outcome in cut {
            assert_eq!(ended(StepKind::Once, 0, &outcome).state, StepState::Unknown, "{outcome:?}");
        }
    }

    #[test]
    fn snoozing_and_interruption_cost_a_step_no_attempt() {
        let hour = Duration::from_secs(3600);
        for kind in StepKind::ALL {
            let end = ended(kind, 2, &Outcome::Snoozed(hour));
            assert_eq!((end.state, end.attempts, end.delay), (StepState::Pending, 2, Some(hour)));
        }
        let end = ended(StepKind::Auto, 2, &Outcome::Interrupted);
        assert_eq!((end.state, end.attempts), (StepState::Pending, 2));
    }

    #[test]
    fn a_running_step_can_only_be_decided_if_its_job_is_dead() {
        assert_eq!(judge(StepState::Started, false, Verdict::Done), Err(Undecidable::Running));
        assert_eq!(judge(StepState::Started, true, Verdict::Done), Ok(StepState::Done));
        assert_eq!(judge(StepState::GivenUp, true, Verdict::Run), Err(Undecidable::GivenUp));
    }

    #[test]
    fn every_name_is_read_back() {
        assert!(StepState::ALL.iter().all(|state| state.as_str().parse() == Ok(*state)));
        assert!(StepKind::ALL.iter().all(|kind| kind.as_str().parse() == Ok(*kind)));
        assert!(Verdict::ALL.iter().all(|verdict| verdict.as_str().parse() == Ok(*verdict)));
    }

    fn any_outcome() -> impl Strategy<Value = Outcome> {
        prop_oneof![
            Just(Outcome::Done(None)),
            Just(Outcome::Interrupted),
            (0u64..5).prop_map(|secs| Outcome::Snoozed(Duration::from_secs(secs))),
            Just(failed(FailureKind::Error, Retry::Policy)),
            Just(failed(FailureKind::Error, Retry::Never)),
            Just(failed(FailureKind::Timeout, Retry::Policy)),
            Just(failed(FailureKind::Panic, Retry::After(Duration::from_secs(9)))),
            Just(failed(FailureKind::Unknown, Retry::Policy)),
        ]
    }

    proptest! {
        #[test]
        fn ends_and_decisions_follow_the_table(
            once: bool, attempts in 0u32..6, outcome in any_outcome(), from in 0usize..7, verdict in 0usize..3, dead: bool,
        ) {
            let kind = if once { StepKind::Once } else { StepKind::Auto };
            let end = ended(kind, attempts, &outcome);
            prop_assert!(StepState::Started.may_become(kind, end.state), "{outcome:?}: {end:?}");
            // A late report of a run that was considered unknown.
            prop_assert!(!once || end.state == StepState::Unknown || StepState::Unknown.may_become(kind, end.state));
            let from = StepState::ALL[from];
            let reachable = StepState::ALL.iter().any(|before| before.may_become(kind, from)) || from == StepState::Pending;
            if let (true, Ok(next)) = (reachable, judge(from, dead, Verdict::ALL[verdict])) {
                prop_assert!(from.may_become(kind, next), "{from} to {next}");
            }
        }
    }
}
