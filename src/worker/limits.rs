//! How many attempts of a type may run at once in this process, how many with the same key, and how many of all types that
//! share their places. It only counts: who may start now, and when a job that may not should come back.

use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::delivery::Delivery;
use super::turns::Turns;
use crate::broker::mutex::lock;
use crate::job::{JobType, Lane, Policy};

/// A job that may not start is put off for at least this long …
const SHORTEST: Duration = Duration::from_millis(20);

/// … or half as long as an attempt takes, up to this long if no others are put off, …
const ALONE: Duration = Duration::from_secs(1);

/// … and never for longer than this, however many others are put off.
const LONGEST: Duration = Duration::from_secs(60);

/// Jobs that are put off come back at least this often, one after another. Another worker may have a place for them.
const LONGEST_GAP: Duration = Duration::from_millis(20);

/// More may wait for a gate than run behind it if it lets them pass within this time.
const MOMENT: Duration = Duration::from_millis(50);

/// Up to this many keys are known, even if none of their jobs is here. Keys come and go.
const MOST_IDLE: usize = 1024;

/// The limits of all types of this process, and what runs under them. All its queues share them.
#[derive(Debug)]
pub(crate) struct Limits {
    types: FxHashMap<JobType, TypeLimit>,
    hasher: RandomState,
    gates: Mutex<Gates>,
    /// Which queue is the next one to get a place.
    pub(super) turns: Turns,
}

/// The gates, and what is behind them.
#[derive(Debug)]
struct Gates {
    passages: FxHashMap<Gate, Passage>,
    /// Idle keys are forgotten once there are more gates than this.
    most: usize,
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

/// What is limited: a type, a group of types or, if there is a key, the jobs of the type with this key, of which only the
/// hash is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Gate {
    nth: usize,
    key: Option<u64>,
}

/// A gate, and how many attempts may be behind it at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bound {
    gate: Gate,
    pub(super) most: usize,
}

/// The gates that the attempts of a job pass: that of its type, that of its key, and that of the types with which its type
/// shares places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place([Option<Bound>; 3]);

/// What is behind a gate.
#[derive(Debug)]
struct Passage {
    live: usize,
    /// When it last became full.
    full_since: Instant,
    /// How long attempts take, as a moving average; `None` before the first has ended.
    mean: Option<Duration>,
    /// How many have ended.
    ended: usize,
    /// When the next job of each lane that is put off comes back, at the earliest.
    next: [Instant; Lane::ALL.len()],
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
        let gates = Mutex::new(Gates { passages: FxHashMap::default(), most: MOST_IDLE });
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

impl Gate {
    /// Returns true if it is that of a group of types.
    fn is_shared(self) -> bool {
        self.nth > usize::MAX / 2
    }
}

impl Gates {
    fn is_full(&self, bound: Bound) -> bool {
        self.passages.get(&bound.gate).is_some_and(|passage| passage.live >= bound.most)
    }

    /// Forgets keys without attempts if there are many. Those whose jobs are about to come back keep their pace.
    fn forget_idle(&mut self, now: Instant) {
        if self.passages.len() <= self.most {
            return;
        }
        self.passages.retain(|gate, passage| gate.key.is_none() || passage.is_needed(now));
        self.most = MOST_IDLE.max(2 * self.passages.len());
    }
}

impl Place {
    pub(super) fn bounds(self) -> impl Iterator<Item = Bound> {
        self.0.into_iter().flatten()
    }

    /// Returns true if this gate is one of its own.
    pub(super) fn passes(self, bound: Bound) -> bool {
        self.bounds().any(|own| own.gate == bound.gate)
    }
}

impl Passage {
    fn new(now: Instant) -> Self {
        Self { live: 0, full_since: now, mean: None, ended: 0, next: [now; Lane::ALL.len()] }
    }

    fn is_needed(&self, now: Instant) -> bool {
        self.live > 0 || self.next.iter().any(|next| *next > now)
    }

    /// Notes how long an attempt took. The first ones that share places may have waited until their programs had started, which
    /// says nothing about the others.
    fn note(&mut self, ran: Duration, bound: Bound) {
        self.ended = self.ended.saturating_add(1);
        if !bound.gate.is_shared() || self.ended > bound.most {
            self.mean = Some(self.mean.map_or(ran, |mean| (4 * mean + ran) / 5));
        }
    }

    /// Returns how many attempts pass in a moment, if more pass than run at once. While nobody knows how long those take that
    /// share places, as many count as run at once.
    fn pass_in_a_moment(&self, bound: Bound) -> Option<usize> {
        let Some(mean) = self.mean else { return bound.gate.is_shared().then_some(bound.most) };
        let times = MOMENT.as_secs_f64() / mean.as_secs_f64();
        // A cast of a float is cut to the bounds of the integer.
        (times > 1.0).then_some((bound.most as f64 * times) as usize)
    }

    /// Returns when the next job of a lane should come back. They come back twice as fast as attempts end: so there is always
    /// one when there is room, and few come in vain. Those of a lane do not wait for those of another one.
    fn put_off(&mut self, most: usize, lane: Lane, now: Instant) -> Duration {
        let next = &mut self.next[lane as usize];
        let lasts = self.mean.unwrap_or_default().max(now.saturating_duration_since(self.full_since));
        let alone = (lasts / 2).clamp(SHORTEST, ALONE);
        let delay = next.saturating_duration_since(now).clamp(alone, LONGEST);
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        *next = now + delay + (lasts / most.saturating_mul(2)).min(LONGEST_GAP);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{EntryId, Envelope, JobSpec};
    use crate::worker::lease::HeldLease;
    use proptest::prelude::*;

    fn limits(policy: Policy) -> Limits {
        let job_type = "test".parse().unwrap();
        Limits::of([(&job_type, &policy)].into_iter(), &SharedPlaces::default()).unwrap()
    }

    fn delivery(job_type: &str, tenant: Option<&str>) -> Delivery {
        let fields = [("type", Some(job_type)), ("h.tenant", tenant)];
        let fields: Vec<_> = fields.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
        let envelope = Envelope::new(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
        let job = JobSpec::parse(&envelope, EntryId::new(1, 0), Lane::Normal).unwrap();
        Delivery::new(job, envelope, HeldLease::new(Instant::now()))
    }

    #[test]
    fn types_without_a_limit_pass_no_gate() {
        let job_type = "test".parse().unwrap();
        let policy = Policy::default();
        let unlimited = [(&job_type, &policy)].into_iter();
        assert!(Limits::of(unlimited, &SharedPlaces::default()).is_none());
        let limits = limits(Policy::default().concurrency(1));
        assert_eq!(limits.place_of(&delivery("other", None)), None);
        let by_key = self::limits(Policy::default().concurrency_per_key("h.tenant", 1));
        assert_eq!(by_key.place_of(&delivery("test", None)), None, "it has no key");
    }

    #[test]
    fn the_limits_of_all_types_together_bound_a_process() {
        let (free, three) = (Policy::default(), Policy::default().concurrency(3));
        let [first, second, third]: [JobType; 3] = ["a", "b", "c"].map(|name| name.parse().unwrap());
        let mut shared = SharedPlaces::default();
        let group = shared.add(8);
        shared.join(first.clone(), group);
        shared.join(second.clone(), group);
        let most = |policies: &[(&JobType, &Policy)]| Limits::most_at_once(policies.iter().copied(), &shared);
        assert_eq!(most(&[(&first, &free), (&second, &three)]), Some(8));
        assert_eq!(most(&[(&first, &free), (&third, &three)]), Some(11));
        assert_eq!(most(&[(&first, &free), (&third, &free)]), None);
    }

    #[test]
    fn a_type_and_each_key_of_it_have_a_bound() {
        let limits = limits(Policy::default().concurrency(3).concurrency_per_key("h.tenant", 2));
        let now = Instant::now();
        let enters = |tenant| limits.enter(limits.place_of(&delivery("test", tenant)).unwrap(), now);
        assert!(enters(Some("a")) && enters(Some("a")));
        assert!(!enters(Some("a")), "two of its key run");
        assert!(enters(Some("b")));
        assert!(!enters(Some("c")) && !enters(None), "three of the type run");
        limits.leave(limits.place_of(&delivery("test", Some("a"))).unwrap(), None);
        assert!(enters(Some("c")));
    }

    #[test]
    fn types_of_a_group_share_its_places() {
        let [one, two, own] = ["one", "two", "own"].map(|name| name.parse::<JobType>().unwrap());
        let (free, bounded) = (Policy::default(), Policy::default().concurrency(1));
        let mut shared = SharedPlaces::default();
        let group = shared.add(2);
        shared.join(one.clone(), group);
        shared.join(two.clone(), group);
        let policies = [(&one, &free), (&two, &bounded), (&own, &free)].into_iter();
        let limits = Limits::of(policies, &shared).unwrap();
        assert_eq!(limits.place_of(&delivery("own", None)), None);
        let now = Instant::now();
        let enters = |job_type| limits.enter(limits.place_of(&delivery(job_type, None)).unwrap(), now);
        assert!(enters("two"));
        assert!(!enters("two"), "its own limit is reached");
        assert!(enters("one"));
        assert!(!enters("one"), "two of the group run");
        limits.leave(limits.place_of(&delivery("two", None)).unwrap(), None);
        assert!(enters("one"));
    }

    #[test]
    fn idle_keys_are_forgotten_unless_their_jobs_are_about_to_come_back() {
        let limits = limits(Policy::default().concurrency(3).concurrency_per_key("h.tenant", 1));
        let now = Instant::now();
        let place = |nth: usize| limits.place_of(&delivery("test", Some(&nth.to_string()))).unwrap();
        assert!(limits.enter(place(0), now));
        limits.put_off(place(0), Lane::Normal, now);
        limits.leave(place(0), None);
        for nth in 1..5000 {
            assert!(limits.enter(place(nth), now));
            limits.leave(place(nth), None);
        }
        let gates = lock(&limits.gates);
        assert!(gates.passages.len() <= MOST_IDLE + 1, "{}", gates.passages.len());
        assert!(place(0).bounds().all(|bound| gates.passages.contains_key(&bound.gate)));
    }

    #[test]
    fn a_key_keeps_its_pace_while_none_of_its_jobs_runs() {
        let limits = limits(Policy::default().concurrency_per_key("h.tenant", 1));
        let place = limits.place_of(&delivery("test", Some("a"))).unwrap();
        let now = Instant::now();
        assert!(limits.enter(place, now));
        limits.leave(place, Some(Duration::from_millis(800)));
        assert!(limits.enter(place, now));
        let first = limits.put_off(place, Lane::Normal, now);
        assert_eq!(first, Duration::from_millis(400), "it is known how long they take");
        limits.leave(place, Some(Duration::from_millis(800)));
        assert!(limits.enter(place, now));
        assert!(limits.put_off(place, Lane::Normal, now) > first, "the next comes after it");
    }

    #[test]
    fn a_lane_does_not_wait_for_what_is_put_off_in_another_one() {
        let limits = limits(Policy::default().concurrency(1));
        let place = limits.place_of(&delivery("test", None)).unwrap();
        let now = Instant::now();
        assert!(limits.enter(place, now));
        assert!((0..5000).all(|_| limits.put_off(place, Lane::Low, now) >= SHORTEST));
        let later = now + Duration::from_secs(10);
        let delays: Vec<_> = (0..5000).map(|_| limits.put_off(place, Lane::Low, later)).collect();
        assert_eq!(delays.last(), Some(&LONGEST));
        assert_eq!(limits.put_off(place, Lane::High, later), ALONE);
    }

    #[test]
    fn jobs_come_back_one_after_another_and_never_later_than_a_minute() {
        let limits = limits(Policy::default().concurrency(4));
        let place = limits.place_of(&delivery("test", None)).unwrap();
        let now = Instant::now();
        assert!((0..4).all(|_| limits.enter(place, now)));
        assert_eq!(limits.put_off(place, Lane::Normal, now), SHORTEST, "nobody knows yet how long they take");
        let later = now + Duration::from_secs(10);
        let delays: Vec<_> = (0..5000).map(|_| limits.put_off(place, Lane::Normal, later)).collect();
        assert_eq!(delays[..3], [1000, 1020, 1040].map(Duration::from_millis));
        assert_eq!(delays.last(), Some(&LONGEST));
    }

    #[test]
    fn quick_jobs_come_back_twice_as_fast_as_they_end() {
        let limits = limits(Policy::default().concurrency(2));
        let place = limits.place_of(&delivery("test", None)).unwrap();
        let now = Instant::now();
        assert!(limits.enter(place, now));
        limits.leave(place, Some(Duration::from_millis(8)));
        assert!(limits.enter(place, now) && limits.enter(place, now));
        let delays = [(); 3].map(|()| limits.put_off(place, Lane::Normal, now));
        assert_eq!(delays, [20, 22, 24].map(Duration::from_millis));
    }

    #[test]
    fn more_may_wait_for_a_gate_that_lets_them_pass_in_a_moment() {
        let limits = limits(Policy::default().concurrency(2));
        let place = limits.place_of(&delivery("test", None)).unwrap();
        let now = Instant::now();
        let pass = |ran| {
            assert!(limits.enter(place, now));
            limits.leave(place, Some(Duration::from_millis(ran)));
            assert!(limits.enter(place, now) && limits.enter(place, now));
            let pass = limits.quick_gate(place).map(|(_, pass)| pass);
            limits.leave(place, None);
            limits.leave(place, None);
            pass
        };
        assert_eq!(limits.quick_gate(place), None, "it is not full");
        assert_eq!([pass(5), pass(5)], [Some(20), Some(20)]);
        assert_eq!(pass(1000), None, "they take 204 ms");
    }

    #[test]
    fn the_first_jobs_that_share_places_do_not_show_how_long_the_others_take() {
        let (job_type, mut shared, now) = ("test".parse().unwrap(), SharedPlaces::default(), Instant::now());
        let group = shared.add(2);
        shared.join(JobType::clone(&job_type), group);
        let limits = Limits::of([(&job_type, &Policy::default())].into_iter(), &shared).unwrap();
        let place = limits.place_of(&delivery("test", None)).unwrap();
        assert!(limits.enter(place, now) && limits.enter(place, now));
        assert_eq!(limits.quick_gate(place).map(|(_, pass)| pass), Some(2));
        assert!(!limits.enter(place, now));
        for pass in [Some(2), Some(2), None] {
            limits.leave(place, Some(Duration::from_secs(1)));
            assert!(limits.enter(place, now) && !limits.enter(place, now));
            assert_eq!(limits.quick_gate(place).map(|(_, pass)| pass), pass);
        }
    }

    proptest! {
        #[test]
        fn never_more_than_the_limit_are_behind_a_gate(most in 1usize..5, steps in prop::collection::vec(any::<bool>(), 1..50)) {
            let limits = limits(Policy::default().concurrency(most));
            let place = limits.place_of(&delivery("test", None)).unwrap();
            let (now, mut live) = (Instant::now(), 0);
            for enters in steps {
                if enters {
                    let entered = limits.enter(place, now);
                    prop_assert_eq!(entered, live < most);
                    live += usize::from(entered);
                } else if live > 0 {
                    limits.leave(place, None);
                    live -= 1;
                }
                let delay = limits.put_off(place, Lane::Normal, now);
                prop_assert!((SHORTEST..=LONGEST).contains(&delay));
            }
        }
    }
}
