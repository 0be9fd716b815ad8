//! Deliveries that wait in this process because as many of their type or key run as may. They hold no slot. The
//! backlog is small, and nothing stays in it for long: another worker may have room for it.
//!
//! More of them wait for a gate that lets them pass in a moment, such as that of programs with short jobs: to put them off would
//! cost more than to run them. Then the reader pauses, but only for so long that other jobs hardly notice.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::delivery::Delivery;
use super::limits::{Bound, Limits, Permit};
use crate::job::Lane;

/// The most deliveries that wait, of one lane and those before it.
const MOST: usize = 100;

/// The most deliveries that wait for gates that let them pass in a moment.
const MOST_QUICK: usize = 1000;

/// The reader waits once this many wait for such a gate: what one read brings has room too.
const MOST_PRESSING: usize = 500;

/// How long the reader waits for the backlog, from when it presses until all that waited have started.
const PATIENCE: Duration = Duration::from_secs(1);

/// Nothing more waits once those of its lane, and of those before it, have this many bytes together.
const MOST_BYTES: usize = 16 << 20;

/// In one of this many rounds, the oldest starts first whatever its lane is, so that no lane starves.
const ROUNDS: usize = 4;

/// How long a delivery waits.
const LONGEST: Duration = Duration::from_secs(1);

/// The deliveries of one queue that wait for others of their type or key.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// Few, however many wait, unless each has a key of its own. None is empty.
    groups: Vec<Group>,
    /// How many have come so far.
    arrived: u64,
    /// How often some of them started.
    rounds: usize,
    /// The gate for which more wait than it lets pass in a moment, and how many that is.
    pressing: Option<(Bound, usize)>,
    /// Since when more have waited for one gate or another.
    pressed_since: Option<Instant>,
}

/// Deliveries of one lane that wait for the same gates: if the first may not start, none may.
#[derive(Debug)]
struct Group {
    lane: Lane,
    permit: Permit,
    /// The oldest first.
    waiting: VecDeque<Waiting>,
    bytes: usize,
    /// How many wait for a gate that lets many pass in a moment.
    quick: usize,
}

#[derive(Debug)]
struct Waiting {
    /// How many came before it.
    nth: u64,
    delivery: Arc<Delivery>,
    since: Instant,
    /// Whether it waits for a gate that lets many pass in a moment.
    is_quick: bool,
}

impl Group {
    fn new(lane: Lane, permit: Permit) -> Self {
        Self { lane, permit, waiting: VecDeque::new(), bytes: 0, quick: 0 }
    }

    fn push(&mut self, waiting: Waiting) {
        self.bytes += waiting.delivery.envelope.size();
        self.quick += usize::from(waiting.is_quick);
        self.waiting.push_back(waiting);
    }

    fn pop(&mut self) -> Option<Arc<Delivery>> {
        let Waiting { delivery, is_quick, .. } = self.waiting.pop_front()?;
        self.bytes -= delivery.envelope.size();
        self.quick -= usize::from(is_quick);
        Some(delivery)
    }

    /// When it has its turn in a round: by its lane, unless the oldest of all comes first, then by its oldest.
    fn turn(&self, by_lane: bool) -> Option<(Option<Lane>, u64)> {
        Some((by_lane.then_some(self.lane), self.waiting.front()?.nth))
    }
}

/// Returns how many wait in these groups.
fn jobs_of<'a>(groups: impl Iterator<Item = &'a Group>) -> usize {
    groups.map(|group| group.waiting.len()).sum()
}

impl Backlog {
    /// Returns how many wait.
    pub(super) fn len(&self) -> usize {
        jobs_of(self.groups.iter())
    }

    /// Returns true if nothing waits, neither a delivery nor the reader.
    pub(super) fn is_idle(&self) -> bool {
        self.groups.is_empty() && self.pressing.is_none()
    }

    /// Takes a delivery, unless there is too much already: for each of its gates, as many wait as may run, or as pass in a moment.
    /// Only those of its lane and of the lanes before it count.
    pub(super) fn offer(
        &mut self,
        delivery: Arc<Delivery>,
        permit: Permit,
        (limits, now): (&Limits, Instant),
    ) -> Result<(), Arc<Delivery>> {
        let lane = delivery.job.lane;
        let before = || self.groups.iter().filter(|group| group.lane <= lane);
        let at = |bound: Bound| jobs_of(before().filter(|group| group.permit.passes(bound)));
        let (all, alike): (usize, usize) = (jobs_of(before()), before().map(|group| group.quick).sum());
        let bytes: usize = before().map(|group| group.bytes).sum();
        let quick = limits.quick_gate(permit).map(|(bound, pass)| (bound, pass.min(MOST_PRESSING)));
        let (is_full, pressing) = match quick {
            // What one read has brought may wait, since the reader then pauses.
            Some((bound, pass)) => {
                let (waiting, is_patient) = (at(bound) + 1, self.patient_until(now) > now);
                (alike >= MOST_QUICK || (waiting > pass && !is_patient), waiting >= pass)
            }
            None => (all - alike >= MOST || permit.bounds().any(|bound| at(bound) >= bound.most), false),
        };
        if pressing {
            self.pressing = quick;
            self.pressed_since.get_or_insert(now);
        }
        if is_full || bytes >= MOST_BYTES {
            return Err(delivery);
        }
        self.push(delivery, permit, (now, quick.is_some()));
        Ok(())
    }

    /// Takes a delivery, whether or not there is too much already.
    pub(super) fn keep(&mut self, delivery: Arc<Delivery>, permit: Permit, since: Instant) {
        self.push(delivery, permit, (since, false));
    }

    fn push(&mut self, delivery: Arc<Delivery>, permit: Permit, (since, is_quick): (Instant, bool)) {
        let (lane, nth) = (delivery.job.lane, self.arrived);
        self.arrived += 1;
        let waiting = Waiting { nth, delivery, since, is_quick };
        let is_its = |group: &&mut Group| group.lane == lane && group.permit == permit;
        if let Some(group) = self.groups.iter_mut().find(is_its) {
            return group.push(waiting);
        }
        let mut group = Group::new(lane, permit);
        group.push(waiting);
        self.groups.push(group);
    }

    /// Returns until when the reader waits for what presses; `None` if it does not wait.
    pub(super) fn presses_until(&self, now: Instant) -> Option<Instant> {
        let until = self.patient_until(now);
        (self.pressing.is_some() && until > now).then_some(until)
    }

    /// Returns until when what waits for a gate that lets many pass in a moment is not put off.
    fn patient_until(&self, now: Instant) -> Instant {
        self.pressed_since.unwrap_or(now) + PATIENCE
    }

    /// Notes that some have left.
    fn relieve(&mut self) {
        self.groups.retain(|group| !group.waiting.is_empty());
        if let Some((bound, pass)) = self.pressing {
            let left = jobs_of(self.groups.iter().filter(|group| group.permit.passes(bound)));
            self.pressing = self.pressing.filter(|_| left > pass / 2);
        }
        if self.groups.is_empty() {
            self.pressed_since = None;
        }
    }

    /// Takes out those that may start now, in the order of their lanes, and within a lane in the order in which they came. Each
    /// takes its place.
    pub(super) fn startable(&mut self, limits: &Limits, now: Instant) -> Vec<Arc<Delivery>> {
        let by_lane = self.rounds % ROUNDS < ROUNDS - 1;
        let turn_of = |group: &Group, at| group.turn(by_lane).map(|turn| Reverse((turn, at)));
        let round_robin = self.groups.iter().zip(0..).filter_map(|(group, at)| turn_of(group, at));
        let mut round_robin: BinaryHeap<_> = round_robin.collect();
        let mut startable = Vec::new();
        while let Some(Reverse((_, at))) = round_robin.pop() {
            let group = &mut self.groups[at];
            if limits.enter(group.permit, now) {
                startable.extend(group.pop());
                round_robin.extend(turn_of(group, at));
            }
        }
        if startable.is_empty() {
            return startable;
        }
        self.rounds = self.rounds.wrapping_add(1);
        self.relieve();
        startable
    }

    /// Takes out those that match.
    pub(super) fn withdraw(&mut self, matches: impl Fn(&Delivery) -> bool) -> Vec<Arc<Delivery>> {
        let taken = self.take(|waiting| matches(&waiting.delivery));
        taken.into_iter().map(|(delivery, _)| delivery).collect()
    }

    /// Takes out those that have waited for too long, with the gates that they wait for.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<(Arc<Delivery>, Permit)> {
        self.take(|waiting| now.saturating_duration_since(waiting.since) >= LONGEST)
    }

    /// Takes some out, in the order in which they came.
    fn take(&mut self, is_wanted: impl Fn(&Waiting) -> bool) -> Vec<(Arc<Delivery>, Permit)> {
        let mut taken = Vec::new();
        for group in &mut self.groups {
            let Group { lane, permit, .. } = *group;
            let all = std::mem::replace(group, Group::new(lane, permit));
            for waiting in all.waiting {
                if is_wanted(&waiting) { taken.push((waiting, permit)) } else { group.push(waiting) }
            }
        }
        self.relieve();
        taken.sort_unstable_by_key(|(waiting, _)| waiting.nth);
        taken.into_iter().map(|(waiting, permit)| (waiting.delivery, permit)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::lease::HeldLease;
    use super::super::limits::SharedPermits;
    use super::*;
    use crate::job::{EntryId, Envelope, JobSpec, JobType, Policy};

    /// Two types, of which one job may run at once each, and a backlog.
    struct Scene {
        limits: Limits,
        backlog: Backlog,
        now: Instant,
    }

    impl Scene {
        fn new() -> Self {
            let types: [JobType; 2] = ["a", "b"].map(|name| name.parse().unwrap());
            let policy = Policy::default().concurrency(1);
            let limits =
                Limits::of(types.iter().map(|name| (name, &policy)), &SharedPermits::default()).unwrap();
            Self { limits, backlog: Backlog::default(), now: Instant::now() }
        }

        /// Lets the jobs with these numbers wait, in this order.
        fn keep(&mut self, jobs: &[(u64, &str, Lane)]) {
            for (nth, job_type, lane) in jobs {
                let delivery = delivery(*nth, job_type, *lane);
                let permit = self.limits.place_of(&delivery).unwrap();
                self.backlog.keep(delivery, permit, self.now);
            }
        }

        fn place_of(&self, job_type: &str) -> Permit {
            self.limits.place_of(&delivery(0, job_type, Lane::Normal)).unwrap()
        }

        fn started(&mut self) -> Vec<u64> {
            numbers(self.backlog.startable(&self.limits, self.now))
        }
    }

    fn delivery(nth: u64, job_type: &str, lane: Lane) -> Arc<Delivery> {
        let envelope = Envelope::new([(b"type".as_slice(), job_type.as_bytes())].into_iter());
        let job = JobSpec::parse(&envelope, EntryId::new(nth, 0), lane).unwrap();
        Arc::new(Delivery::new(job, envelope, HeldLease::new(Instant::now())))
    }

    fn numbers(deliveries: Vec<Arc<Delivery>>) -> Vec<u64> {
        deliveries.iter().map(|delivery| delivery.job.entry.ms).collect()
    }

    #[test]
    fn the_first_lane_comes_first_and_in_every_fourth_round_the_oldest_job() {
        use Lane::{High, Low, Normal};
        let mut scene = Scene::new();
        let permit = scene.place_of("a");
        assert!(scene.limits.enter(permit, scene.now));
        scene.keep(&[(1, "a", Low), (2, "a", Normal), (3, "a", High), (4, "a", High), (5, "a", High)]);
        assert_eq!(scene.started(), Vec::<u64>::new());
        let rounds = (0..5).map(|_| {
            scene.limits.leave(permit, None);
            scene.started()
        });
        assert_eq!(rounds.collect::<Vec<_>>(), [[3], [4], [5], [1], [2]]);
        assert!(scene.backlog.is_idle());
    }

    #[test]
    fn jobs_of_a_full_type_hold_up_no_others() {
        let mut scene = Scene::new();
        assert!(scene.limits.enter(scene.place_of("a"), scene.now));
        scene.keep(&[(1, "a", Lane::High), (2, "b", Lane::Low), (3, "b", Lane::Normal)]);
        assert_eq!(scene.started(), [3], "the first of type b");
        assert_eq!(scene.started(), Vec::<u64>::new());
        assert_eq!(scene.backlog.len(), 2);
    }

    #[test]
    fn jobs_are_taken_out_in_the_order_in_which_they_came() {
        let mut scene = Scene::new();
        scene.keep(&[(1, "a", Lane::Low), (2, "b", Lane::High), (3, "a", Lane::Low), (4, "b", Lane::High)]);
        assert_eq!(numbers(scene.backlog.withdraw(|delivery| delivery.job.entry.ms == 3)), [3]);
        assert!(scene.backlog.overdue(scene.now).is_empty());
        let overdue = scene.backlog.overdue(scene.now + LONGEST);
        let permits = [scene.place_of("a"), scene.place_of("b"), scene.place_of("b")];
        assert_eq!(overdue.iter().map(|(_, permit)| *permit).collect::<Vec<_>>(), permits);
        assert_eq!(numbers(overdue.into_iter().map(|(delivery, _)| delivery).collect()), [1, 2, 4]);
        assert!(scene.backlog.is_idle());
    }

    #[test]
    fn a_burst_gets_all_patience_however_the_one_before_ended() {
        let mut scene = Scene::new();
        let permit = scene.place_of("a");
        // Five pass in a moment.
        scene.limits.enter(permit, scene.now);
        scene.limits.leave(permit, Some(Duration::from_millis(10)));
        assert!(scene.limits.enter(permit, scene.now));
        let ends: [fn(&mut Scene); 3] = [
            |scene| assert_eq!(scene.backlog.withdraw(|_| true).len(), 7),
            |scene| assert_eq!(scene.backlog.overdue(scene.now + LONGEST).len(), 7),
            |scene| {
                while !scene.started().is_empty() {
                    scene.limits.leave(scene.place_of("a"), None);
                }
            },
        ];
        for end in ends {
            for nth in 0..7 {
                let delivery = delivery(nth, "a", Lane::Normal);
                let taken = scene.backlog.offer(delivery, permit, (&scene.limits, scene.now));
                assert!(taken.is_ok(), "there is no patience for job {nth}");
            }
            assert_eq!(scene.backlog.presses_until(scene.now), Some(scene.now + PATIENCE));
            end(&mut scene);
            scene.now += Duration::from_secs(3600);
        }
    }
}
