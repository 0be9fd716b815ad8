//! The generation of incidents, check by check.

use proptest::prelude::*;

use super::*;
use crate::job::incident::delivery::Delivery;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

const TIMING: Timing = Timing {
    no_worker_for: MINUTE,
    unserved_for: MINUTE,
    remind_after: HOUR,
    remind_most: Duration::from_secs(24 * 3600),
    resolve_after: Duration::from_secs(120),
};

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_ms(1_700_000_000_000 + seconds * 1000).unwrap()
}

fn queue() -> QueueName {
    "mail".parse().unwrap()
}

fn seen(kind: IncidentKind, key: &str, since: u64) -> Observation {
    Observation::new(kind, Some(&queue()), at(since)).key(key).count(7).detail("it is so")
}

/// What Redis would hold, and all messages so far.
#[derive(Default)]
struct World {
    known: Vec<(Incident, Delivery)>,
    acknowledged_until: Option<Timestamp>,
    ended: usize,
    draws: u32,
    news: usize,
}

impl World {
    /// Checks, and lets the one sink accept every message that is due, unless it is down. Returns what it got.
    fn check(
        &mut self,
        now: u64,
        observations: Vec<Observation>,
        is_down: bool,
    ) -> Vec<(IncidentState, u32)> {
        let covered = IncidentKind::ALL.into_iter().map(|kind| (kind, Some(queue()))).collect();
        self.apply(now, Checked { observations, covered }, is_down)
    }

    fn apply(&mut self, now: u64, checked: Checked, is_down: bool) -> Vec<(IncidentState, u32)> {
        let known: Vec<_> = self
            .known
            .iter()
            .map(|(incident, delivery)| {
                let is_delivered = delivery.is_complete(incident);
                (incident.clone(), Standing { acknowledged_until: self.acknowledged_until, is_delivered })
            })
            .collect();
        let draws = &mut self.draws;
        let draw = || {
            *draws += 1;
            *draws
        };
        for transition in decide(&known, checked, &TIMING, at(now), draw).transitions {
            match transition {
                Transition::Put { incident, is_news } => {
                    self.news += usize::from(is_news);
                    match self.known.iter_mut().find(|(known, _)| known.id == incident.id) {
                        Some((known, _)) => *known = incident,
                        None => self.known.push((incident, Delivery::default())),
                    }
                }
                Transition::End(incident) => {
                    self.ended += 1;
                    self.known.retain(|(known, _)| known.id != incident.id);
                }
                Transition::Forget(id) => self.known.retain(|(known, _)| known.id != id),
            }
        }
        let mut got = Vec::new();
        for (incident, delivery) in &mut self.known {
            if !delivery.is_due(incident) {
                continue;
            }
            if is_down {
                delivery.given_up = incident.notices;
            } else {
                delivery.handed = incident.notices;
                got.push((incident.state, incident.notices));
            }
        }
        got
    }
}

use IncidentState::{Open, Pending, Resolved};

#[test]
fn trouble_of_a_whole_queue_is_told_although_very_many_groups_die() {
    let of = |queue: usize, kind, key: &str| {
        let queue = format!("q{queue}").parse().unwrap();
        Observation::new(kind, Some(&queue), at(0)).key(key)
    };
    let dying: Vec<_> = (0..100)
        .flat_map(|queue| (0..5).map(move |nth| of(queue, IncidentKind::DeadGroup, &nth.to_string())))
        .collect();
    let mut world = World::default();
    world.check(0, dying.clone(), false);
    assert_eq!(world.known.len(), 200);
    let mut all = dying;
    all.push(of(0, IncidentKind::NoWorker, ""));
    world.check(15, all, false);
    let kinds: Vec<_> = world.known.iter().map(|(incident, _)| incident.kind).collect();
    assert_eq!((kinds.len(), kinds.contains(&IncidentKind::NoWorker)), (201, true));
}

#[test]
fn a_storm_is_one_message_then_reminders_then_resolved() {
    let mut world = World::default();
    let storm = |count| vec![seen(IncidentKind::DeadGroup, "00ff", 0).count(count)];
    assert_eq!(world.check(0, storm(300), false), [(Open, 1)]);
    let mut reminded = Vec::new();
    for second in (15..8 * 3600).step_by(15) {
        let got = world.check(second, storm(10_000), false);
        reminded.extend(got.into_iter().map(|(_, notice)| (second, notice)));
    }
    assert_eq!(reminded, [(3600, 2), (3 * 3600, 3), (7 * 3600, 4)]);
    let end = 8 * 3600;
    assert_eq!(world.check(end, vec![], false), []);
    assert_eq!(world.check(end + 119, vec![], false), []);
    assert_eq!(world.check(end + 120, vec![], false), [(Resolved, 5)]);
    assert_eq!(world.check(end + 135, vec![], false), []);
    assert_eq!((world.known.len(), world.ended, world.news), (0, 1, 2));
}

#[test]
fn what_cannot_be_checked_is_neither_resolved_nor_forgotten() {
    let mut world = World::default();
    world.check(0, vec![seen(IncidentKind::Backlog, "", 0)], false);
    for second in (15..3600).step_by(15) {
        assert_eq!(world.apply(second, Checked::default(), false), []);
    }
    assert_eq!(world.apply(3600, Checked::default(), false), [(Open, 2)]);
}

#[test]
fn an_incident_that_comes_and_goes_is_one() {
    let mut world = World::default();
    let mut messages = 0;
    for second in (0..3000).step_by(15) {
        let is_wrong = second / 60 % 2 == 0;
        let found = if is_wrong { vec![seen(IncidentKind::Backlog, "", second)] } else { vec![] };
        messages += world.check(second, found, false).len();
    }
    assert_eq!(messages, 1);
}

#[test]
fn no_worker_must_last_before_it_opens() {
    let mut world = World::default();
    let found = |since| vec![seen(IncidentKind::NoWorker, "", since)];
    assert_eq!(world.check(0, found(0), false), []);
    assert_eq!(world.known[0].0.state, Pending);
    assert_eq!(world.check(15, vec![], false), []);
    assert_eq!((world.known.len(), world.ended), (0, 0));
    assert_eq!(world.check(30, found(30), false), []);
    assert_eq!(world.check(75, found(75), false), []);
    assert_eq!(world.check(90, found(90), false), [(Open, 1)]);
}

#[test]
fn a_sink_that_was_down_gets_the_next_reminder_and_at_last_the_end() {
    let mut world = World::default();
    let found = || vec![seen(IncidentKind::DeadGroup, "00ff", 0)];
    assert_eq!(world.check(0, found(), true), []);
    assert_eq!(world.check(15, found(), false), [], "it waits for the reminder");
    assert_eq!(world.check(3600, found(), false), [(Open, 2)]);
    assert_eq!(world.check(3615, vec![], false), []);
    assert_eq!(world.check(3800, vec![], true), []);
    assert_eq!(world.check(3815, vec![], false), []);
    assert_eq!(world.check(3800 + 3600, vec![], false), [(Resolved, 4)]);
    world.check(7500, vec![], false);
    assert_eq!((world.known.len(), world.ended), (0, 1));
}

#[test]
fn an_end_that_nobody_takes_is_given_up_after_a_day() {
    let mut world = World::default();
    world.check(0, vec![seen(IncidentKind::DeadGroup, "00ff", 0)], true);
    world.check(15, vec![], true);
    for second in (150..90_000).step_by(150) {
        world.check(second, vec![], true);
    }
    assert_eq!((world.known.len(), world.ended), (0, 1));
}

#[test]
fn an_acknowledged_incident_is_not_repeated_until_then() {
    let mut world = World::default();
    let found = || vec![seen(IncidentKind::Backlog, "", 0)];
    assert_eq!(world.check(0, found(), false).len(), 1);
    world.acknowledged_until = Some(at(10_000));
    for second in (15..10_000).step_by(15) {
        assert_eq!(world.check(second, found(), false), []);
    }
    assert_eq!(world.check(10_005, found(), false), [(Open, 2)]);
}

#[test]
fn what_exceeds_the_bound_of_a_queue_shares_one_incident() {
    let mut world = World::default();
    let groups = |from: u32, to: u32| -> Vec<_> {
        (from..to).map(|nth| seen(IncidentKind::DeadGroup, &format!("{nth:04x}"), 0)).collect()
    };
    assert_eq!(world.check(0, groups(0, 100), false).len(), 6);
    let others = world.known.iter().find(|(incident, _)| incident.key == OTHERS).unwrap();
    assert_eq!(others.0.count, 95 * 7);
    assert_eq!(world.check(15, groups(0, 100), false), []);
    assert_eq!(world.known.len(), 6);
    // One of those with an incident of their own is gone; the others keep theirs.
    assert_eq!(world.check(30, groups(1, 100), false), []);
    assert_eq!(world.known.len(), 6);
}

#[test]
fn a_new_incident_opens_while_the_end_of_the_last_one_is_not_delivered() {
    let mut world = World::default();
    let found = || vec![seen(IncidentKind::Backlog, "", 0)];
    world.check(0, found(), true);
    world.check(15, vec![], true);
    world.check(150, vec![], true);
    assert_eq!(world.known[0].0.state, Resolved);
    assert_eq!(world.check(165, found(), false), [(Open, 1)]);
    assert_eq!(world.known.len(), 2);
}

proptest! {
    /// Whatever happens: ids are unique, the number of incidents is bounded, numbers of messages only grow, and an incident
    /// says that it opens before it says anything else.
    #[test]
    fn any_course_keeps_the_rules(
        steps in prop::collection::vec((1_u64..5000, 0_usize..8, any::<bool>(), any::<bool>()), 1..60),
    ) {
        let (mut world, mut now) = (World::default(), 0);
        let mut last: std::collections::BTreeMap<IncidentId, u32> = std::collections::BTreeMap::new();
        for (pause, groups, is_down, is_covered) in steps {
            now += pause;
            let observations = (0..groups).map(|nth| seen(IncidentKind::DeadGroup, &nth.to_string(), now)).collect();
            if is_covered {
                world.check(now, observations, is_down);
            } else {
                world.apply(now, Checked { observations, ..Checked::default() }, is_down);
            }
            let ids: BTreeSet<_> = world.known.iter().map(|(incident, _)| incident.id.clone()).collect();
            prop_assert_eq!(ids.len(), world.known.len());
            prop_assert!(world.known.len() <= MAX_INCIDENTS);
            for (incident, delivery) in &world.known {
                let before = last.insert(incident.id.clone(), incident.notices).unwrap_or(0);
                prop_assert!(incident.notices >= before);
                prop_assert!(incident.notices <= before + 1);
                prop_assert!(delivery.handed <= incident.notices && delivery.given_up <= incident.notices);
                prop_assert_eq!(incident.resolved.is_some(), incident.resolving > 0);
                prop_assert!(incident.since <= incident.seen);
            }
        }
    }
}
