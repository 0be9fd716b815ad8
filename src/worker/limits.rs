//! How many attempts of a type may run at once in this process, how many with the same key, and how many of all types that
//! share their places. It only counts: who may start now, and when a job that may not should come back.

mod gates;

use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

pub(super) use self::gates::Bound;
pub(crate) use self::gates::Place;
use self::gates::{Gate, Gates, Passage, SHORTEST};
use super::delivery::Delivery;
use super::turns::Turns;
use crate::broker::mutex::lock;
use crate::job::{JobType, Lane, Policy};

/// The limits of all types of this process, and what runs under them. All its queues share them.
#[derive(Debug)]
pub(crate) struct Limits {
    types: FxHashMap<JobType, TypeLimit>,
    hasher: RandomState,
    gates: Mutex<Gates>,
    /// Which queue is the next one to get a place.
    pub(super) turns: Turns,
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
pub(super) struct SharedPlaces {
    /// How many places each group has.
    groups: Vec<usize>,
    of_type: FxHashMap<JobType, usize>,
}

impl SharedPlaces {
    /// Adds a group of types that have this many places together, and returns what stands for it.
    pub(super) fn add(&mut self, places: usize) -> usize {
        self.groups.push(places);
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
        let gate = Gate { nth: usize::MAX - group, key: None };
        debug_assert!(gate.is_shared());
        Some(Bound { gate, most: (*self.groups.get(group)?).max(1) })
    }
}

impl Limits {
    /// Returns the limits that these policies set; `None` if they set none.
    pub(super) fn of<'a>(
        policies: impl Iterator<Item = (&'a JobType, &'a Policy)>,
        shared: &SharedPlaces,
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
        let gates = Mutex::new(Gates::new());
        let (hasher, turns) = (RandomState::new(), Turns::default());
        (!types.is_empty()).then_some(Self { types, hasher, gates, turns })
    }

    /// Returns how many attempts may run at once, whatever their types; `None` if some type has no limit. Types that share
    /// places count once.
    pub(super) fn most_at_once<'a>(
        policies: impl Iterator<Item = (&'a JobType, &'a Policy)>,
        shared: &SharedPlaces,
    ) -> Option<usize> {
        let (mut groups, mut most) = (Vec::new(), 0_usize);
        for (job_type, policy) in policies {
            match shared.bound(job_type) {
                Some(bound) if groups.contains(&bound.gate) => {}
                Some(bound) => {
                    groups.push(bound.gate);
                    most = most.saturating_add(bound.most);
                }
                None => most = most.saturating_add(policy.concurrency?),
            }
        }
        Some(most)
    }

    /// Returns the gates that a delivery passes; `None` if there are none.
    pub(super) fn place_of(&self, delivery: &Delivery) -> Option<Place> {
        let TypeLimit { nth, concurrency, per_key, shared } = self.types.get(&delivery.job.job_type)?;
        let bound = |key, most: usize| Bound { gate: Gate { nth: *nth, key }, most: most.max(1) };
        let of_type = concurrency.map(|most| bound(None, most));
        let of_key = per_key.as_ref().and_then(|(field, most)| {
            let key = delivery.envelope.get(field.as_bytes())?;
            Some(bound(Some(self.hasher.hash_one(key)), *most))
        });
        let bounds = [of_type, of_key, *shared];
        bounds.iter().any(Option::is_some).then_some(Place(bounds))
    }

    /// Takes a place behind all its gates, and returns true; takes none and returns false if one of them is full.
    pub(super) fn enter(&self, place: Place, now: Instant) -> bool {
        let mut gates = lock(&self.gates);
        if place.bounds().any(|bound| gates.is_full(bound)) {
            return false;
        }
        gates.forget_idle(now);
        for bound in place.bounds() {
            let passage = gates.passages.entry(bound.gate).or_insert_with(|| Passage::new(now));
            passage.live += 1;
            if passage.live == bound.most {
                passage.full_since = now;
            }
        }
        true
    }

    /// Gives a place back. `ran` is how long the attempt took, if it started.
    pub(super) fn leave(&self, place: Place, ran: Option<Duration>) {
        let mut gates = lock(&self.gates);
        for bound in place.bounds() {
            let Some(passage) = gates.passages.get_mut(&bound.gate) else { continue };
            passage.live = passage.live.saturating_sub(1);
            if let Some(ran) = ran {
                passage.note(ran, bound);
            }
        }
    }

    /// Returns the gate that a delivery waits for, and how many pass it in a moment. `None` if it waits for one that lets fewer
    /// pass than run behind it.
    pub(super) fn quick_gate(&self, place: Place) -> Option<(Bound, usize)> {
        let gates = lock(&self.gates);
        let mut quickest = None;
        for bound in place.bounds().filter(|bound| gates.is_full(*bound)) {
            let pass = gates.passages.get(&bound.gate)?.pass_in_a_moment(bound)?;
            if quickest.is_none_or(|(_, fewest)| pass < fewest) {
                quickest = Some((bound, pass));
            }
        }
        quickest
    }

    /// Returns after how long a job of this lane that may not start should come back.
    pub(super) fn put_off(&self, place: Place, lane: Lane, now: Instant) -> Duration {
        let mut gates = lock(&self.gates);
        let full: Vec<Bound> = place.bounds().filter(|bound| gates.is_full(*bound)).collect();
        let put_off =
            |bound: &Bound| Some(gates.passages.get_mut(&bound.gate)?.put_off(bound.most, lane, now));
        full.iter().filter_map(put_off).max().unwrap_or(SHORTEST)
    }
}

#[cfg(test)]
mod tests;
