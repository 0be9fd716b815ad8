//! Who may start, and when those come back that may not.

use proptest::prelude::*;

use super::limiters::{ALONE, LONGEST, MOST_IDLE};
use super::*;
use crate::job::{EntryId, Envelope, JobSpec};
use crate::worker::lease::HeldLease;

fn limits(policy: Policy) -> Limits {
    let job_type = "test".parse().unwrap();
    Limits::of([(&job_type, &policy)].into_iter(), &SharedPermits::default()).unwrap()
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
    assert!(Limits::of(unlimited, &SharedPermits::default()).is_none());
    let limits = limits(Policy::default().concurrency(1));
    assert_eq!(limits.place_of(&delivery("other", None)), None);
    let by_key = self::limits(Policy::default().concurrency_per_key("h.tenant", 1));
    assert_eq!(by_key.place_of(&delivery("test", None)), None, "it has no key");
}

#[test]
fn the_limits_of_all_types_together_bound_a_process() {
    let (free, three) = (Policy::default(), Policy::default().concurrency(3));
    let [first, second, third]: [JobType; 3] = ["a", "b", "c"].map(|name| name.parse().unwrap());
    let mut shared = SharedPermits::default();
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
    let mut shared = SharedPermits::default();
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
    let permit = |nth: usize| limits.place_of(&delivery("test", Some(&nth.to_string()))).unwrap();
    assert!(limits.enter(permit(0), now));
    limits.put_off(permit(0), Lane::Normal, now);
    limits.leave(permit(0), None);
    for nth in 1..5000 {
        assert!(limits.enter(permit(nth), now));
        limits.leave(permit(nth), None);
    }
    let limiters = lock(&limits.limiters);
    assert!(limiters.by_key.len() <= MOST_IDLE + 1, "{}", limiters.by_key.len());
    assert!(permit(0).bounds().all(|bound| limiters.by_key.contains_key(&bound.limit_key)));
}

#[test]
fn a_key_keeps_its_pace_while_none_of_its_jobs_runs() {
    let limits = limits(Policy::default().concurrency_per_key("h.tenant", 1));
    let permit = limits.place_of(&delivery("test", Some("a"))).unwrap();
    let now = Instant::now();
    assert!(limits.enter(permit, now));
    limits.leave(permit, Some(Duration::from_millis(800)));
    assert!(limits.enter(permit, now));
    let first = limits.put_off(permit, Lane::Normal, now);
    assert_eq!(first, Duration::from_millis(400), "it is known how long they take");
    limits.leave(permit, Some(Duration::from_millis(800)));
    assert!(limits.enter(permit, now));
    assert!(limits.put_off(permit, Lane::Normal, now) > first, "the next comes after it");
}

#[test]
fn a_lane_does_not_wait_for_what_is_put_off_in_another_one() {
    let limits = limits(Policy::default().concurrency(1));
    let permit = limits.place_of(&delivery("test", None)).unwrap();
    let now = Instant::now();
    assert!(limits.enter(permit, now));
    assert!((0..5000).all(|_| limits.put_off(permit, Lane::Low, now) >= SHORTEST));
    let later = now + Duration::from_secs(10);
    let delays: Vec<_> = (0..5000).map(|_| limits.put_off(permit, Lane::Low, later)).collect();
    assert_eq!(delays.last(), Some(&LONGEST));
    assert_eq!(limits.put_off(permit, Lane::High, later), ALONE);
}

#[test]
fn jobs_come_back_one_after_another_and_never_later_than_a_minute() {
    let limits = limits(Policy::default().concurrency(4));
    let permit = limits.place_of(&delivery("test", None)).unwrap();
    let now = Instant::now();
    assert!((0..4).all(|_| limits.enter(permit, now)));
    assert_eq!(limits.put_off(permit, Lane::Normal, now), SHORTEST, "nobody knows yet how long they take");
    let later = now + Duration::from_secs(10);
    let delays: Vec<_> = (0..5000).map(|_| limits.put_off(permit, Lane::Normal, later)).collect();
    assert_eq!(delays[..3], [1000, 1020, 1040].map(Duration::from_millis));
    assert_eq!(delays.last(), Some(&LONGEST));
}

#[test]
fn quick_jobs_come_back_twice_as_fast_as_they_end() {
    let limits = limits(Policy::default().concurrency(2));
    let permit = limits.place_of(&delivery("test", None)).unwrap();
    let now = Instant::now();
    assert!(limits.enter(permit, now));
    limits.leave(permit, Some(Duration::from_millis(8)));
    assert!(limits.enter(permit, now) && limits.enter(permit, now));
    let delays = [(); 3].map(|()| limits.put_off(permit, Lane::Normal, now));
    assert_eq!(delays, [20, 22, 24].map(Duration::from_millis));
}

#[test]
fn more_may_wait_for_a_gate_that_lets_them_pass_in_a_moment() {
    let limits = limits(Policy::default().concurrency(2));
    let permit = limits.place_of(&delivery("test", None)).unwrap();
    let now = Instant::now();
    let pass = |ran| {
        assert!(limits.enter(permit, now));
        limits.leave(permit, Some(Duration::from_millis(ran)));
        assert!(limits.enter(permit, now) && limits.enter(permit, now));
        let pass = limits.quick_gate(permit).map(|(_, pass)| pass);
        limits.leave(permit, None);
        limits.leave(permit, None);
        pass
    };
    assert_eq!(limits.quick_gate(permit), None, "it is not full");
    assert_eq!([pass(5), pass(5)], [Some(20), Some(20)]);
    assert_eq!(pass(1000), None, "they take 204 ms");
}

#[test]
fn the_first_jobs_that_share_places_do_not_show_how_long_the_others_take() {
    let (job_type, mut shared, now) = ("test".parse().unwrap(), SharedPermits::default(), Instant::now());
    let group = shared.add(2);
    shared.join(JobType::clone(&job_type), group);
    let limits = Limits::of([(&job_type, &Policy::default())].into_iter(), &shared).unwrap();
    let permit = limits.place_of(&delivery("test", None)).unwrap();
    assert!(limits.enter(permit, now) && limits.enter(permit, now));
    assert_eq!(limits.quick_gate(permit).map(|(_, pass)| pass), Some(2));
    assert!(!limits.enter(permit, now));
    for pass in [Some(2), Some(2), None] {
        limits.leave(permit, Some(Duration::from_secs(1)));
        assert!(limits.enter(permit, now) && !limits.enter(permit, now));
        assert_eq!(limits.quick_gate(permit).map(|(_, pass)| pass), pass);
    }
}

proptest! {
    #[test]
    fn never_more_than_the_limit_are_behind_a_gate(most in 1usize..5, steps in prop::collection::vec(any::<bool>(), 1..50)) {
        let limits = limits(Policy::default().concurrency(most));
        let permit = limits.place_of(&delivery("test", None)).unwrap();
        let (now, mut live) = (Instant::now(), 0);
        for enters in steps {
            if enters {
                let entered = limits.enter(permit, now);
                prop_assert_eq!(entered, live < most);
                live += usize::from(entered);
            } else if live > 0 {
                limits.leave(permit, None);
                live -= 1;
            }
            let delay = limits.put_off(permit, Lane::Normal, now);
            prop_assert!((SHORTEST..=LONGEST).contains(&delay));
        }
    }
}
