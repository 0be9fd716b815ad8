//! How many attempts of a type may run at once in this process, how many with the same key, and how many of all types that
//! share their places. It only counts: who may start now, and when a job that may not should come back.

mod limiters;

use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

pub(super) use self::limiters::Bound;
pub(crate) use self::limiters::Permit;
use self::limiters::{LimitKey, Limiter, Limiters, SHORTEST};
use super::delivery::Delivery;
use super::round_robin::RoundRobin;
use crate::broker::mutex::lock;
use crate::job::{JobType, Lane, Policy};

/// The limits of all types of this process, and what runs under them. All its queues share them.
#[derive(Debug)]
pub(crate) struct Limits {
    types: FxHashMap<JobType, TypeLimit>,
    hasher: RandomState,
    limiters: Mutex<Limiters>,
    /// Which queue is the next one to get a place.
    pub(super) round_robin: RoundRobin,
}

#[derive(Debug)]
struct TypeLimit {
    /// Stands for the type.
    nth: usize,
    concurrency: Option<usize>,
    /// The field that has a job's key, and how many attempts with the same key may run at once.
    per_key: Option<(String, usize)>,
    /// The gate of the places that it shares with other types.
    shared: Option<Bound>,
}

/// The types that share places, such as those whose jobs run in the same programs.
#[derive(Debug, Default)]
pub(super) struct SharedPermits {
    /// How many places each group has.
    groups: Vec<usize>,
    of_type: FxHashMap<JobType, usize>,
}

impl SharedPermits {
    /// Adds a group of types that have this many places together, and returns what stands for it.
    pub(super) fn add(&mut self, permits: usize) -> usize {
        self.groups.push(permits);
        self.groups.len() - 1
    }

    /// Adds a type to a group.
    pub(super) fn join(&mut self, job_type: JobType, group: usize) {
        self.of_type.insert(job_type, group);
    }

    /// Takes a type out of its group.
    pub(super) fn leave(&mut self, job_type: &JobType) {
        self.of_type.remove(job_type);
    }

    /// Returns the gate of a type's group.
    fn bound(&self, job_type: &JobType) -> Option<Bound> {
        let group = *self.of_type.get(job_type)?;
        // Types count from the other end.
        let limit_key = LimitKey { nth: usize::MAX - group, key: None };
        debug_assert!(limit_key.is_shared());
        Some(Bound { limit_key, most: (*self.groups.get(group)?).max(1) })
    }
}

impl Limits {
    /// Returns the limits that these policies set; `None` if they set none.
    pub(super) fn of<'a>(
        policies: impl Iterator<Item = (&'a JobType, &'a Policy)>,
        shared: &SharedPermits,
    ) -> Option<Self> {
        let is_limited = |(job_type, policy): &(&JobType, &Policy)| {
            let own = policy.concurrency.is_some() || policy.key_limit().is_some();
            own || shared.bound(job_type).is_some()
        };
        let limit = |(nth, (job_type, policy)): (usize, (&JobType, &Policy))| {
            let per_key = policy.key_limit().map(|(field, most)| (field.to_owned(), most));
            let limit =
                TypeLimit { nth, concurrency: policy.concurrency, per_key, shared: shared.bound(job_type) };
            (job_type.clone(), limit)
        };
        let types: FxHashMap<_, _> = policies.filter(is_limited).enumerate().map(limit).collect();
        let limiters = Mutex::new(Limiters::new());
        let (hasher, round_robin) = (RandomState::new(), RoundRobin::default());
        (!types.is_empty()).then_some(Self { types, hasher, limiters, round_robin })
    }

    /// Returns how many attempts may run at once, whatever their types; `None` if some type has no limit. Types that share
    /// places count once.
    pub(super) fn most_at_once<'a>(
        policies: impl Iterator<Item = (&'a JobType, &'a Policy)>,
        shared: &SharedPermits,
    ) -> Option<usize> {
        let (mut groups, mut most) = (Vec::new(), 0_usize);
        for (job_type, policy) in policies {
            match shared.bound(job_type) {
                Some(bound) if groups.contains(&bound.limit_key) => {}
                Some(bound) => {
                    groups.push(bound.limit_key);
                    most = most.saturating_add(bound.most);
                }
                None => most = most.saturating_add(policy.concurrency?),
            }
        }
        Some(most)
    }

    /// Returns the gates that a delivery passes; `None` if there are none.
    pub(super) fn place_of(&self, delivery: &Delivery) -> Option<Permit> {
        let TypeLimit { nth, concurrency, per_key, shared } = self.types.get(&delivery.job.job_type)?;
        let bound = |key, most: usize| Bound { limit_key: LimitKey { nth: *nth, key }, most: most.max(1) };
        let of_type = concurrency.map(|most| bound(None, most));
        let of_key = per_key.as_ref().and_then(|(field, most)| {
            let key = delivery.envelope.get(field.as_bytes())?;
            Some(bound(Some(self.hasher.hash_one(key)), *most))
        });
        let bounds = [of_type, of_key, *shared];
        bounds.iter().any(Option::is_some).then_some(Permit(bounds))
    }

    /// Takes a place behind all its gates, and returns true; takes none and returns false if one of them is full.
    pub(super) fn enter(&self, permit: Permit, now: Instant) -> bool {
        let mut limiters = lock(&self.limiters);
        if permit.bounds().any(|bound| limiters.is_full(bound)) {
            return false;
        }
        limiters.forget_idle(now);
        for bound in permit.bounds() {
            let limiter = limiters.by_key.entry(bound.limit_key).or_insert_with(|| Limiter::new(now));
            limiter.live += 1;
            if limiter.live == bound.most {
                limiter.full_since = now;
            }
        }
        true
    }

    /// Gives a place back. `ran` is how long the attempt took, if it started.
    pub(super) fn leave(&self, permit: Permit, ran: Option<Duration>) {
        let mut limiters = lock(&self.limiters);
        for bound in permit.bounds() {
            let Some(limiter) = limiters.by_key.get_mut(&bound.limit_key) else { continue };
            limiter.live = limiter.live.saturating_sub(1);
            if let Some(ran) = ran {
                limiter.note(ran, bound);
            }
        }
    }

    /// Returns the gate that a delivery waits for, and how many pass it in a moment. `None` if it waits for one that lets fewer
    /// pass than run behind it.
    pub(super) fn quick_gate(&self, permit: Permit) -> Option<(Bound, usize)> {
        let limiters = lock(&self.limiters);
        let mut quickest = None;
        for bound in permit.bounds().filter(|bound| limiters.is_full(*bound)) {
            let pass = limiters.by_key.get(&bound.limit_key)?.pass_in_a_moment(bound)?;
            if quickest.is_none_or(|(_, fewest)| pass < fewest) {
                quickest = Some((bound, pass));
            }
        }
        quickest
    }

    /// Returns after how long a job of this lane that may not start should come back.
    pub(super) fn put_off(&self, permit: Permit, lane: Lane, now: Instant) -> Duration {
        let mut limiters = lock(&self.limiters);
        let full: Vec<Bound> = permit.bounds().filter(|bound| limiters.is_full(*bound)).collect();
        let put_off =
            |bound: &Bound| Some(limiters.by_key.get_mut(&bound.limit_key)?.put_off(bound.most, lane, now));
        full.iter().filter_map(put_off).max().unwrap_or(SHORTEST)
    }
}

#[cfg(test)]
mod tests;
