//! The time until a queue is empty, compared with the truth of six scenes, and the causes that a queue names.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// What happens in a scene in one minute.
#[derive(Clone, Copy, Default)]
struct Act {
    arrive: u64,
    /// How many jobs the workers can run.
    run: u64,
    /// The share of these that fails, and is tried again a minute later.
    fail: f64,
    /// How many are moved away before.
    leave: u64,
}

/// A queue that is watched for ten minutes. Then it goes on until it is empty.
struct Scene {
    waiting: u64,
    delayed: u64,
}

impl Scene {
    fn minute(&mut self, act: Act) -> Minute {
        self.waiting = (self.waiting + act.arrive + self.delayed).saturating_sub(act.leave);
        let run = act.run.min(self.waiting);
        let failed = (run as f64 * act.fail) as u64;
        self.waiting -= run;
        self.delayed = failed;
        Minute { span: Duration::from_secs(60), arrived: act.arrive, ended: run - failed }
    }

    /// Returns what is known after ten minutes, and in how many seconds the queue is empty if it goes on like this.
    fn play(waiting: u64, act: impl Fn(usize) -> Act) -> (Backlog, f64) {
        let mut scene = Self { waiting, delayed: 0 };
        let minutes = (0..10).map(|nth| scene.minute(act(nth))).collect();
        let known = Backlog { waiting: scene.waiting, live_workers: Some(3), minutes, ..Backlog::default() };
        let mut nth = 10;
        while scene.waiting + scene.delayed > 0 && nth < 1_000_000 {
            scene.minute(Act { leave: 0, ..act(nth) });
            nth += 1;
        }
        (known, (nth - 10) as f64 * 60.0)
    }
}

fn assert_within(known: &Backlog, truth: f64) {
    let Some(time) = known.time_to_empty().time() else { panic!("{:?}", known.time_to_empty()) };
    let share = time.as_secs_f64() / truth;
    assert!((0.8..=1.2).contains(&share), "{time:?} instead of {truth} s");
}

fn held(gate: &str, jobs: u64, hold: Hold) -> HeldJobs {
    HeldJobs { gate: gate.parse().unwrap(), jobs, hold }
}

fn rate(text: &str) -> Hold {
    Hold::Rate(text.parse().unwrap())
}

fn closed(text: &str) -> Closed {
    Closed::read(text).unwrap()
}

#[test]
fn a_steady_queue_lasts_as_long_as_its_pace_says() {
    let (known, truth) = Scene::play(600_000, |_| Act { arrive: 3_000, run: 9_000, ..Act::default() });
    assert_within(&known, truth);
}

#[test]
fn a_gated_queue_lasts_as_long_as_its_slowest_gate() {
    // All have just been submitted, so the halves disagree.
    let act = |nth| Act { arrive: if nth == 7 { 168_000 } else { 0 }, run: 120, ..Act::default() };
    let (mut known, truth) = Scene::play(0, act);
    let waiting = known.waiting;
    known.gates = vec![
        held("type:mail.newsletter", waiting - 500, rate("2/s")),
        held("type:mail.send", 500, rate("100/s")),
        held("type:report", 0, Hold::Unreadable),
    ];
    assert_within(&known, truth);
}

#[test]
fn jobs_behind_a_gate_that_is_shut_have_no_time() {
    let (mut known, _) = Scene::play(60_000, |_| Act { run: 1_000, ..Act::default() });
    for hold in [
        Hold::Paused { by: "lena".to_owned(), reason: String::new() },
        Hold::Tripped(Duration::from_secs(30)),
        Hold::Unreadable,
    ] {
        known.gates = vec![held("type:pay", 3, hold)];
        assert_eq!(known.time_to_empty(), TimeToEmpty::Stopped);
    }
    known.gates.clear();
    assert!(known.time_to_empty().time().is_some());
    for stopped in [
        Backlog { paused: Some(closed("1 0 lena\nthe bank is down")), ..known.clone() },
        Backlog { live_workers: Some(0), ..known.clone() },
        Backlog { unserved: vec![("report".parse().unwrap(), 1)], ..known.clone() },
    ] {
        assert_eq!(stopped.time_to_empty(), TimeToEmpty::Stopped);
    }
}

#[test]
fn jobs_that_were_moved_away_did_not_end() {
    let act = |nth| Act { run: 6_000, leave: if nth == 6 { 68_846 } else { 0 }, ..Act::default() };
    let (known, truth) = Scene::play(400_000, act);
    assert_within(&known, truth);
}

#[test]
fn bursts_have_no_steady_pace() {
    let act = |nth| Act { arrive: if nth % 10 < 4 { 9_000 } else { 0 }, run: 5_000, ..Act::default() };
    let (known, _) = Scene::play(200_000, act);
    assert_eq!(known.time_to_empty(), TimeToEmpty::Unsteady);
    let (grows, _) = Scene::play(200_000, |nth| Act {
        arrive: if nth < 100 { 9_000 } else { 0 },
        run: 5_000,
        ..Act::default()
    });
    assert_eq!(grows.time_to_empty(), TimeToEmpty::NotShrinking);
}

#[test]
fn jobs_that_fail_and_are_tried_again_do_not_end() {
    let (known, truth) = Scene::play(500_000, |_| Act { run: 9_000, fail: 0.3, ..Act::default() });
    assert_within(&known, truth);
    let (known, _) = Scene::play(500_000, |nth| Act {
        run: 9_000,
        fail: if nth < 100 { 1.0 } else { 0.0 },
        ..Act::default()
    });
    assert_eq!(known.time_to_empty(), TimeToEmpty::NotShrinking);
}

#[test]
fn nothing_is_known_before_two_minutes_were_counted() {
    let span = Duration::from_secs(60);
    let minutes = vec![Minute::default(), Minute { span, arrived: 0, ended: 60 }];
    let mut known = Backlog { waiting: 600, minutes, ..Backlog::default() };
    assert_eq!(known.time_to_empty(), TimeToEmpty::Unknown);
    known.minutes.push(Minute { span, arrived: 0, ended: 60 });
    assert_eq!(known.time_to_empty(), TimeToEmpty::After(Duration::from_secs(600)));
    // Without enough minutes, a gate alone tells if it holds nearly all jobs.
    known.minutes.clear();
    known.gates = vec![held("queue", 590, rate("1/s"))];
    assert_eq!(known.time_to_empty(), TimeToEmpty::After(Duration::from_secs(590)));
    known.gates = vec![held("queue", 300, rate("1/s"))];
    assert_eq!(known.time_to_empty(), TimeToEmpty::Unknown);
    assert_eq!(Backlog::default().time_to_empty(), TimeToEmpty::After(Duration::ZERO));
}

#[test]
fn a_cause_is_one_line() {
    let reason = "the bank\n is down".to_owned();
    for (cause, line) in [
        (Cause::RedisFull { used: 268_000_000, most: 256 << 20 }, "Redis is full: 99 % of 256 MiB in use"),
        (Cause::Paused { by: "lena".to_owned(), reason }, "paused by lena: the bank is down"),
        (Cause::Paused { by: String::new(), reason: String::new() }, "paused"),
        (Cause::NoWorker { jobs: 1_204 }, "no worker is live: 1,204 waiting"),
        (
            Cause::PoolDown {
                pool: "php".to_owned(),
                worker: "w1".to_owned(),
                types: vec!["mail".to_owned()],
                why: "DB_HOST is not set\nexit status: 1\nhint: pass_env".to_owned(),
            },
            "pool php cannot start: DB_HOST is not set",
        ),
        (
            Cause::Unserved { job_type: "report".to_owned(), jobs: 12 },
            "no worker serves type report: 12 waiting",
        ),
        (
            Cause::Held(held("type:mail.newsletter", 168_000, rate("2/s"))),
            "168,000 held by type:mail.newsletter (2/s): 23h 20m",
        ),
        (Cause::Held(held("queue", 5, Hold::Concurrency(2))), "5 held by queue (2 at once)"),
        (
            Cause::Held(held("type:pay", 5, Hold::Tripped(Duration::from_secs(30)))),
            "5 held by type:pay, which its breaker has shut for 30s",
        ),
        (
            Cause::Held(held("type:pay", 5, Hold::Paused { by: "lena".to_owned(), reason: String::new() })),
            "5 held by type:pay, paused by lena",
        ),
        (Cause::Held(held("type:pay", 5, Hold::Unreadable)), "5 held by type:pay, whose rule is unreadable"),
        (Cause::Busy { jobs: 1_204, running: 64 }, "1,204 waiting for a free slot, 64 running"),
    ] {
        assert_eq!(cause.to_string(), line);
    }
}

#[test]
fn the_worst_cause_comes_first() {
    let pool = |pool: &str| Cause::PoolDown {
        pool: pool.to_owned(),
        worker: "w1".to_owned(),
        types: Vec::new(),
        why: "no".to_owned(),
    };
    let mut known = Backlog {
        waiting: 900,
        in_lanes: 40,
        running: 8,
        oldest_in_lanes: Some(Duration::from_secs(60)),
        live_workers: Some(2),
        memory: Some((99, 100)),
        gates: vec![
            held("type:a", 500, rate("100/s")),
            held("type:b", 100, rate("1/s")),
            held("type:c", 1, Hold::Unreadable),
            held("type:d", 7, Hold::Open),
            held("type:f", 7, rate("10/s")),
            held("type:e", 0, rate("1/s")),
        ],
        unserved: vec![("report".parse().unwrap(), 3), ("none".parse().unwrap(), 0)],
        pools_down: vec![pool("php")],
        ..Backlog::default()
    };
    let kinds = |known: &Backlog| known.causes().iter().map(Cause::kind).collect::<Vec<_>>();
    assert_eq!(kinds(&known), ["redis_full", "pool_down", "unserved_type", "held", "held", "held", "busy"]);
    let gates: Vec<String> = known.causes()[3..6].iter().map(ToString::to_string).collect();
    assert!(gates[0].contains("type:c") && gates[1].contains("type:b"), "{gates:?}");
    known.paused = Some(closed("1 0 lena\nthe bank is down"));
    assert_eq!(kinds(&known), ["redis_full", "paused"]);
    let idle = Backlog { live_workers: Some(0), ..Backlog::default() };
    assert_eq!(kinds(&idle), Vec::<&str>::new());
    assert_eq!(kinds(&Backlog { waiting: 1, ..idle }), ["no_worker"]);
    let oldest_in_lanes = Some(Duration::from_secs(1));
    let quick = Backlog { waiting: 5, in_lanes: 5, oldest_in_lanes, ..Backlog::default() };
    assert_eq!(kinds(&quick), Vec::<&str>::new());
}

proptest! {
    #[test]
    fn a_steady_pace_is_never_off_and_no_figures_make_it_panic(
        waiting in 0..u64::MAX,
        minutes in prop::collection::vec((0..3_u64, 0..u64::MAX, 0..u64::MAX), 0..12),
        held_jobs in 0..u64::MAX,
    ) {
        let minutes = minutes.into_iter().map(|(span, arrived, ended)| {
            Minute { span: Duration::from_secs(60 * span), arrived, ended }
        });
        let gates = vec![held("queue", held_jobs, rate("3/s"))];
        let known = Backlog { waiting, minutes: minutes.collect(), gates, ..Backlog::default() };
        let is_empty = known.time_to_empty() == TimeToEmpty::After(Duration::ZERO);
        prop_assert!(waiting > 0 || is_empty);
        prop_assert!(known.causes().iter().all(|cause| !cause.to_string().contains('\n')));
    }

    #[test]
    fn a_constant_pace_gives_the_exact_time(waiting in 1..10_000_000_u64, ended in 1..100_000_u64, count in 2..12_usize) {
        let minute = Minute { span: Duration::from_secs(60), arrived: 0, ended };
        let known = Backlog { waiting, minutes: vec![minute; count], ..Backlog::default() };
        let time = known.time_to_empty().time().map_or(0.0, |time| time.as_secs_f64());
        let truth = waiting as f64 * 60.0 / ended as f64;
        prop_assert!((time / truth - 1.0).abs() < 0.001, "{time} instead of {truth}");
    }
}
