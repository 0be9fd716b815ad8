//! When a failed job runs again, and when it has failed too often. Pure: randomness comes in as `roll`.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::gate::{IN_PAYLOAD, is_in_payload};
use super::number::{count, fraction, some_count};
use super::{ErrorRules, JobSpec, JobType, OutOfBounds, bounds, duration, jittered};

/// How the delay before a retry grows with the number of failures.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Backoff {
    /// Always the same delay.
    Fixed(#[serde(with = "duration")] Duration),
    /// One delay per failure; the last one repeats.
    List(#[serde(with = "duration::list")] Vec<Duration>),
    /// `step`, 2 x `step`, 3 x `step`, … up to `max`.
    Linear {
        /// What each failure adds.
        #[serde(with = "duration")]
        step: Duration,
        /// The longest delay.
        #[serde(with = "duration")]
        max: Duration,
    },
    /// `base`, `base` x `factor`, `base` x `factor`², … up to `max`.
    Exponential {
        /// The first delay.
        #[serde(with = "duration")]
        base: Duration,
        /// What each further failure multiplies the delay by; at least 1. In a configuration, 2 is the default.
        #[serde(default = "doubling", deserialize_with = "fraction")]
        factor: f64,
        /// The longest delay.
        #[serde(with = "duration")]
        max: Duration,
    },
}

fn doubling() -> f64 {
    2.0
}

impl Backoff {
    /// The longest delay, whatever the policy says: 365 days.
    pub const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

    /// Returns the delay after the `failures`-th failure (the first is 1).
    ///
    /// The delay varies by up to `jitter` (0 to 1) of itself in either direction, so that jobs that failed together do
    /// not return together. `roll` is a random number in 0..1.
    pub fn delay(&self, failures: u32, jitter: f64, roll: f64) -> Duration {
        let nth = failures.max(1);
        let base = match self {
            Self::Fixed(delay) => delay.as_secs_f64(),
            Self::List(delays) => {
                let index =
                    usize::try_from(nth - 1).unwrap_or(usize::MAX).min(delays.len().saturating_sub(1));
                delays.get(index).copied().unwrap_or(Duration::ZERO).as_secs_f64()
            }
            Self::Linear { step, max } => (step.as_secs_f64() * f64::from(nth)).min(max.as_secs_f64()),
            Self::Exponential { base, factor, max } => {
                let exponent = i32::try_from(nth - 1).unwrap_or(i32::MAX);
                (base.as_secs_f64() * factor.powi(exponent)).min(max.as_secs_f64())
            }
        };
        let base = Duration::from_secs_f64(base.clamp(0.0, Self::LONGEST.as_secs_f64()));
        let jitter = jitter.clamp(0.0, 1.0);
        jittered(base, 1.0 - jitter..1.0 + jitter, roll).min(Self::LONGEST)
    }

    /// Checks these numbers.
    ///
    /// # Errors
    ///
    /// A sentence fragment that names the broken rule.
    pub fn validate(&self) -> Result<(), String> {
        let within = |delay: &Duration, what: &str| {
            (*delay <= Self::LONGEST).then_some(()).ok_or_else(|| format!("{what} is longer than 365 days"))
        };
        match self {
            Self::Fixed(delay) => within(delay, "fixed"),
            Self::List(delays) if delays.is_empty() => Err("list is empty".to_owned()),
            Self::List(delays) => delays.iter().try_for_each(|delay| within(delay, "a pause in list")),
            Self::Linear { step, max } => {
                within(step, "linear.step").and_then(|()| within(max, "linear.max"))
            }
            Self::Exponential { factor, .. } if !(1.0..=1000.0).contains(factor) => {
                Err(format!("exponential.factor is {factor}, but must be between 1 and 1000"))
            }
            Self::Exponential { base, max, .. } => {
                within(base, "exponential.base").and_then(|()| within(max, "exponential.max"))
            }
        }
    }
}

with_defaults! {
    /// What a type allows its jobs. A job's own fields (`max_attempts`, `timeout_ms`) take precedence.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # use streamfleet_domain as streamfleet;
    /// use streamfleet::job::{Backoff, Policy};
    ///
    /// let hourly = Policy::default().max_attempts(24).backoff(Backoff::Fixed(Duration::from_secs(3600)));
    /// ```
    #[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
    #[serde(default, deny_unknown_fields)]
    #[non_exhaustive]
    pub struct Policy {
        /// How long one attempt may run; 1 ms to 7 days, by default 5 min.
        #[serde(with = "duration")]
        pub timeout: Duration = Duration::from_secs(300),
        /// The number of failures that bury a job; at least 1, by default 4.
        #[serde(deserialize_with = "count")]
        pub max_attempts: u32 = 4,
        /// The number of lost workers that bury a job; at least 1, by default 3.
        #[serde(deserialize_with = "count")]
        pub max_losses: u32 = 3,
        /// The delay before a retry; by default 10 s, then 30 s, and 60 s from then on.
        pub backoff: Backoff = Backoff::List([10, 30, 60].map(Duration::from_secs).to_vec()),
        /// How much of a delay randomness may add or take away; 0 to 1, by default 0.2.
        #[serde(deserialize_with = "fraction")]
        pub jitter: f64 = 0.2,
        /// Which jobs leave a record; `None` for the queue's setting.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub tracking: Option<Tracking> = None,
        /// The type of the job that follows each success of a job that names none itself; by default, none. It is submitted for each
        /// generation, so also for each replay that succeeds. A type that names itself is ignored, because its jobs would never end.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub on_success: Option<JobType> = None,
        /// The type of the job that follows each death of a job that names none itself; by default, none. It is submitted for each generation,
        /// so a replayed job that dies again is followed again. A type that names itself is ignored, because its jobs would never end.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub on_failure: Option<JobType> = None,
        /// What follows from the errors of its jobs, by the classes that the programs of a pool report: these rules come before those of the pool
        /// with the same names. Other handlers report no classes.
        #[serde(skip_serializing_if = "ErrorRules::is_empty")]
        pub errors: ErrorRules = ErrorRules::default(),
        /// How many attempts of the type may run at once in one process, over all its queues: 1 to 100,000, or `None`, the default, for as many
        /// as there are slots. Other jobs go on meanwhile; see `docs/concurrency.md`.
        #[serde(deserialize_with = "some_count", skip_serializing_if = "Option::is_none")]
        pub concurrency: Option<usize> = None,
        /// The field of a job that has its key, such as `h.tenant` for the header `tenant`. Jobs without it have no key.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub limit_key: Option<String> = None,
        /// How many attempts of the type with the same key may run at once in one process, 1 to 100,000.
        #[serde(deserialize_with = "some_count", skip_serializing_if = "Option::is_none")]
        pub concurrency_per_key: Option<usize> = None,
    }
}

impl Policy {
    pub(super) const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(1)..=JobSpec::LONGEST_TIMEOUT;
    const CONCURRENCY: RangeInclusive<usize> = 1..=100_000;
    /// `h.` and the longest name of a header.
    const LIMIT_KEY_BYTES: usize = 130;

    setters! {
        timeout: Duration;
        max_attempts: u32;
        max_losses: u32;
        backoff: Backoff;
        jitter: f64;
        tracking: impl Into<Option<Tracking>> => tracking.into();
        on_success: impl Into<Option<JobType>> => on_success.into();
        on_failure: impl Into<Option<JobType>> => on_failure.into();
        errors: ErrorRules;
        concurrency: impl Into<Option<usize>> => concurrency.into();
    }

    /// Sets how many attempts of the type may run at once in one process with the same value of this field: 1 to 100,000. The
    /// field is one of the job's, such as `h.tenant` for the header `tenant`. Jobs without it are not limited. Nothing looks
    /// into payloads: a fleet with a policy by `payload.…` does not start.
    ///
    /// ```
    /// # use streamfleet_domain as streamfleet;
    /// use streamfleet::job::Policy;
    ///
    /// let fair = Policy::default().concurrency(8).concurrency_per_key("h.tenant", 1);
    /// ```
    #[must_use]
    pub fn concurrency_per_key(self, field: impl Into<String>, concurrency: usize) -> Self {
        Self { limit_key: Some(field.into()), concurrency_per_key: Some(concurrency), ..self }
    }

    /// Returns the field that has the key of a job, and how many attempts with the same key may run at once.
    #[doc(hidden)]
    pub fn key_limit(&self) -> Option<(&str, usize)> {
        Some((self.limit_key.as_deref()?, self.concurrency_per_key?))
    }

    /// Returns everything that is out of its bounds.
    pub fn check(&self) -> Vec<OutOfBounds> {
        let key_concurrency = self.concurrency_per_key;
        let jitter = format!("is {}, but must be between 0 and 1", self.jitter);
        let one_by_one = [
            bounds::time("timeout", self.timeout, &Self::TIMEOUT),
            bounds::at_least_one("max_attempts", self.max_attempts),
            bounds::at_least_one("max_losses", self.max_losses),
            (!(0.0..=1.0).contains(&self.jitter)).then(|| OutOfBounds::new("jitter", jitter)),
            self.backoff.validate().err().map(|reason| OutOfBounds::new("backoff", reason)),
            self.concurrency.and_then(|most| bounds::number("concurrency", most, &Self::CONCURRENCY)),
            key_concurrency.and_then(|most| bounds::number("concurrency_per_key", most, &Self::CONCURRENCY)),
        ];
        let errors = self.errors.validate().into_iter();
        let errors = errors.map(|(class, reason)| OutOfBounds::new(&class, reason).below(&["errors"]));
        one_by_one.into_iter().flatten().chain(self.wrong_key()).chain(errors).collect()
    }

    /// Returns what is wrong with the key of a limit: it goes with a number, and its field must be one that jobs can have.
    fn wrong_key(&self) -> Vec<OutOfBounds> {
        let alone = match (&self.limit_key, self.concurrency_per_key) {
            (Some(_), None) => Some(OutOfBounds::new(
                "limit_key",
                "has no effect without concurrency_per_key, the most attempts per key",
            )),
            (None, Some(_)) => Some(OutOfBounds::new(
                "concurrency_per_key",
                "needs limit_key, the field that has the key, such as \"h.tenant\" for a header",
            )),
            (Some(_), Some(_)) | (None, None) => None,
        };
        let field = self.limit_key.as_ref().and_then(|field| {
            let most = Self::LIMIT_KEY_BYTES;
            let why = match field.len() {
                _ if is_in_payload(field) => IN_PAYLOAD.to_owned(),
                bytes if (1..=most).contains(&bytes) => return None,
                _ => format!("must be a field of 1 to {most} bytes"),
            };
            Some(OutOfBounds::new("limit_key", format!("is {field:?}, but {why}")))
        });
        alone.into_iter().chain(field).collect()
    }
}

/// The policies of the types that this process knows. All other types have the default policy.
#[derive(Debug, Clone, Default)]
pub struct Policies {
    by_type: HashMap<JobType, Policy>,
    default: Policy,
}

impl Policies {
    /// Creates policies by type.
    pub fn new(policies: impl IntoIterator<Item = (JobType, Policy)>) -> Self {
        Self { by_type: policies.into_iter().collect(), default: Policy::default() }
    }

    /// Returns the policy of a type.
    pub fn of(&self, job_type: &JobType) -> &Policy {
        self.by_type.get(job_type).unwrap_or(&self.default)
    }
}

variants! {
    /// Which jobs leave a record (`job:<id>`) that `status` can answer from. The job's own field wins over its type's
    /// setting, and that over the queue's.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Tracking {
        /// None. What a retry needs is recorded while the job lives, and deleted when it ends.
        None = "none",
        /// Jobs that failed at least once, lost a worker, or have an id that their producer chose.
        #[default]
        Failures = "failures",
        /// Every job.
        All = "all",
    }
}

impl Tracking {
    /// Returns the tracking with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::named(name)
    }
}

impl<'de> Deserialize<'de> for Tracking {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(from)?;
        let wrong = || D::Error::custom(format!("expected \"none\", \"failures\" or \"all\", not {value}"));
        value.as_str().and_then(Self::parse).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_list_repeats_its_last_pause() {
        let backoff = Backoff::List(vec![secs(10), secs(30), secs(60)]);
        let delays: Vec<_> = (1..=5).map(|nth| backoff.delay(nth, 0.0, 0.5).as_secs()).collect();
        assert_eq!(delays, [10, 30, 60, 60, 60]);
    }

    #[test]
    fn linear_and_exponential_stop_at_their_maximum() {
        let linear = Backoff::Linear { step: secs(5), max: secs(12) };
        assert_eq!((1..=3).map(|n| linear.delay(n, 0.0, 0.9).as_secs()).collect::<Vec<_>>(), [5, 10, 12]);
        let doubling = Backoff::Exponential { base: secs(1), factor: 2.0, max: secs(600) };
        assert_eq!((1..=4).map(|n| doubling.delay(n, 0.0, 0.1).as_secs()).collect::<Vec<_>>(), [1, 2, 4, 8]);
        assert_eq!(doubling.delay(u32::MAX, 0.0, 0.5), secs(600));
    }

    fn any_backoff() -> impl Strategy<Value = Backoff> {
        let pause = || (0u64..100_000_000).prop_map(Duration::from_millis);
        prop_oneof![
            pause().prop_map(Backoff::Fixed),
            prop::collection::vec(pause(), 1..6).prop_map(Backoff::List),
            (pause(), pause()).prop_map(|(step, max)| Backoff::Linear { step, max }),
            (pause(), 1.0f64..1000.0, pause()).prop_map(|(base, factor, max)| Backoff::Exponential {
                base,
                factor,
                max
            }),
        ]
    }

    proptest! {
        #[test]
        fn a_pause_stays_within_its_jitter(backoff in any_backoff(), nth: u32, jitter in 0.0f64..=1.0, roll in 0.0f64..1.0) {
            let plain = backoff.delay(nth, 0.0, roll).as_secs_f64();
            let spread = backoff.delay(nth, jitter, roll).as_secs_f64();
            prop_assert!(spread >= plain * (1.0 - jitter) - 1e-6);
            prop_assert!(spread <= plain * (1.0 + jitter) + 1e-6);
        }

        #[test]
        fn pauses_never_shrink_without_jitter(step in 0u64..1_000_000, factor in 1.0f64..50.0, nth in 1u32..1000) {
            let max = Duration::from_secs(86_400);
            let base = Duration::from_millis(step);
            for backoff in [Backoff::Linear { step: base, max }, Backoff::Exponential { base, factor, max }] {
                prop_assert!(backoff.delay(nth, 0.0, 0.5) <= backoff.delay(nth + 1, 0.0, 0.5));
            }
        }
    }
}
