//! The time until a queue is empty, compared with the truth of simulated scenes, and the causes that a queue names.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// What happens in a scene in one second.
#[derive(Clone, Copy, Default)]
struct Act {
    arrive: f64,
    /// How many jobs the workers can run.
    run: f64,
    /// The share of these that fails, and is tried again a minute later.
    fail: f64,
    /// How many are moved away before.
    leave: f64,
}

/// A queue that is counted once a minute for some time. Then it goes on until it is empty.
struct Scene {
    second: u64,
    waiting: f64,
    /// How many jobs are tried again, by the second of a minute.
    delayed: [f64; 60],
    /// What happened since the last reading.
    since: Act,
    failed: f64,
}

impl Scene {
    fn step(&mut self, act: Act) {
        let back = &mut self.delayed[self.second as usize % 60];
        self.waiting += act.arrive + *back;
        let leave = act.leave.min(self.waiting);
        let run = act.run.min(self.waiting - leave);
        let failed = run * act.fail;
        *back = failed;
        self.waiting -= leave + run;
        self.second += 1;
        self.since.arrive += act.arrive;
        self.since.run += run - failed;
        self.since.leave += leave;
        self.failed += failed;
    }

    fn at(second: u64) -> Timestamp {
        Timestamp::from_ms(1_800_000_000_000 + second * 1000).unwrap()
    }

    fn reading(&mut self) -> Reading {
        let (since, failed) = (std::mem::take(&mut self.since), std::mem::take(&mut self.failed));
        Reading {
            at: Self::at(self.second),
            waiting: self.waiting.round() as u64,
            arrived: since.arrive.round() as u64,
            done: since.run.round() as u64,
            failed: failed.round() as u64,
            retried: failed.round() as u64,
            moved: -(since.leave.round() as i64),
            ..Reading::default()
        }
    }

    /// Returns what is known after these minutes and these seconds, and in how many seconds the queue is empty if it goes on like
    /// this; infinity if it takes days.
    fn play_for(minutes: u64, seconds: u64, waiting: f64, act: impl Fn(u64) -> Act) -> (Backlog, f64) {
        let (since, delayed) = (Act::default(), [0.0; 60]);
        let mut scene = Self { second: 0, waiting, delayed, since, failed: 0.0 };
        let mut readings = vec![scene.reading()];
        for _ in 0..minutes {
            (0..60).for_each(|_| scene.step(act(scene.second)));
            readings.push(scene.reading());
        }
        (0..seconds).for_each(|_| scene.step(act(scene.second)));
        let (now, waiting) = (Self::at(scene.second), scene.waiting.round() as u64);
        let known = Backlog { now, waiting, live_workers: Some(3), readings, ..Backlog::default() };
        let from = scene.second;
        while scene.waiting >= 0.5 {
            if scene.second - from > 400_000 {
                return (known, f64::INFINITY);
            }
            scene.step(Act { leave: 0.0, ..act(scene.second) });
        }
        (known, (scene.second - from) as f64)
    }

    /// Plays ten minutes.
    fn play(waiting: f64, act: impl Fn(u64) -> Act) -> (Backlog, f64) {
        Self::play_for(10, 0, waiting, act)
    }
}

/// Returns true if a time is within 20 % of the truth, or as many seconds from that as cannot be told.
fn is_true(time: Duration, truth: f64, untold: f64) -> bool {
    (0.8 * truth - untold..=1.2 * truth + untold).contains(&time.as_secs_f64())
}

fn assert_within(known: &Backlog, truth: f64) {
    let Some(time) = known.time_to_empty().time() else { panic!("{:?}", known.time_to_empty()) };
    assert!(is_true(time, truth, 2.0), "{time:?} instead of {truth} s");
}

fn held(gate: &str, jobs: u64, hold: Hold) -> HeldJobs {
    HeldJobs { gate: gate.parse().unwrap(), jobs, hold }
}

fn cause(gate: &str, jobs: u64, hold: Hold) -> Cause {
    let held = held(gate, jobs, hold);
    Cause::Held { lasts: held.lasts(), held }
}

fn rate(text: &str) -> Hold {
    Hold::Rate(text.parse().unwrap())
}

fn closed(text: &str) -> Closed {
    Closed::read(text).unwrap()
}

#[test]
fn a_steady_queue_lasts_as_long_as_its_pace_says() {
    let (known, truth) = Scene::play(600_000.0, |_| Act { arrive: 50.0, run: 150.0, ..Act::default() });
    assert_within(&known, truth);
}

#[test]
fn a_gated_queue_lasts_as_long_as_its_slowest_gate() {
    // All have just been submitted, so nothing is steady.
    let act = |second: u64| Act {
        arrive: if (458..462).contains(&second) { 42_000.0 } else { 0.0 },
        run: 2.0,
        ..Act::default()
    };
    let (mut known, truth) = Scene::play(0.0, act);
    known.readings.iter_mut().for_each(|reading| reading.in_rooms = reading.waiting);
    let waiting = known.waiting;
    known.gates = vec![
        held("type:mail.newsletter", waiting - 500, rate("2/s")),
        held("type:mail.send", 500, rate("100/s")),
        held("type:report", 0, Hold::Unreadable),
    ];
    assert_within(&known, truth);
}

#[test]
fn a_job_that_waits_at_one_gate_has_to_pass_that_of_the_queue_too() {
    let at = |gates: [(u64, &str); 2]| {
        let [queue, gated] = [("queue", gates[0]), ("type:gated", gates[1])]
            .map(|(name, (jobs, per))| held(name, jobs, rate(per)));
        let gates = vec![gated, queue];
        Backlog { waiting: 60, live_workers: Some(1), gates, ..Backlog::default() }
    };
    // Wherever the jobs wait, the queue lets out one in two seconds.
    for waits in [60, 40, 0] {
        let known = at([(60, "30/m"), (waits, "60/m")]);
        assert_eq!(known.time_to_empty(), TimeToEmpty::After(Duration::from_secs(120)));
        assert!(known.causes()[0].to_string().starts_with("60 held by queue"), "{:?}", known.causes());
    }
    assert_eq!(
        at([(60, "60/m"), (60, "30/m")]).time_to_empty(),
        TimeToEmpty::After(Duration::from_secs(120))
    );
    // Those that wait at the gate of the queue may have to pass the slower one, or may not, also if none waits there yet.
    assert_eq!(at([(60, "60/m"), (0, "30/m")]).time_to_empty(), TimeToEmpty::Unknown);
    assert_eq!(at([(60, "60/m"), (35, "30/m")]).time_to_empty(), TimeToEmpty::Unknown);
    assert_eq!(at([(60, "60/m"), (55, "30/m")]).time_to_empty().time(), Some(Duration::from_secs(110)));
}

#[test]
fn jobs_that_still_arrive_at_a_gate_make_its_queue_last_longer_than_its_rate_says() {
    let gated = |act: &dyn Fn(u64) -> Act| {
        let (mut known, truth) = Scene::play(20_000.0, act);
        known.readings.iter_mut().for_each(|reading| reading.in_rooms = reading.waiting);
        known.gates = vec![held("queue", known.waiting, rate("10/s"))];
        (known, truth)
    };
    let (known, truth) = gated(&|_: u64| Act { arrive: 5.0, run: 10.0, ..Act::default() });
    assert_within(&known, truth);
    let burst = |second: u64| if second % 180 < 30 { 30.0 } else { 0.0 };
    let (known, _) = gated(&|second: u64| Act { arrive: burst(second), run: 10.0, ..Act::default() });
    assert_eq!(known.time_to_empty(), TimeToEmpty::Unsteady);
    assert!(known.causes()[0].to_string().ends_with(" held by queue (10/s)"), "{:?}", known.causes());
}

#[test]
fn jobs_behind_a_gate_that_is_shut_have_no_time() {
    let (mut known, _) = Scene::play(60_000.0, |_| Act { run: 16.0, ..Act::default() });
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
    let act =
        |second: u64| Act { run: 100.0, leave: if second == 400 { 68_846.0 } else { 0.0 }, ..Act::default() };
    let (known, truth) = Scene::play(400_000.0, act);
    assert_within(&known, truth);
}

#[test]
fn bursts_have_no_steady_pace() {
    let act = |second: u64| Act {
        arrive: if second % 600 < 240 { 150.0 } else { 0.0 },
        run: 83.0,
        ..Act::default()
    };
    let (known, _) = Scene::play(200_000.0, act);
    assert_eq!(known.time_to_empty(), TimeToEmpty::Unsteady);
    let grows = |_: u64| Act { arrive: 150.0, run: 83.0, ..Act::default() };
    assert_eq!(Scene::play(200_000.0, grows).0.time_to_empty(), TimeToEmpty::NotShrinking);
}

#[test]
fn bursts_shorter_than_the_time_between_two_readings_are_not_taken_for_a_steady_pace() {
    // Each minute looks like the others, but the queue is empty before or after the next burst.
    let act = |second: u64| Act {
        arrive: if second % 60 < 10 { 300.0 } else { 0.0 },
        run: 100.0,
        ..Act::default()
    };
    for seconds in [0, 15, 40] {
        let (known, _) = Scene::play_for(10, seconds, 32_000.0, act);
        assert_eq!(known.time_to_empty(), TimeToEmpty::Unsteady, "{seconds}");
    }
    let (known, truth) = Scene::play(400_000.0, act);
    assert_within(&known, truth);
}

#[test]
fn a_queue_that_its_workers_empty_again_and_again_is_not_one_that_does_not_shrink() {
    let act =
        |second: u64| Act { arrive: if second % 60 < 5 { 100.0 } else { 0.0 }, run: 50.0, ..Act::default() };
    let (known, truth) = Scene::play_for(10, 5, 0.0, act);
    assert!(known.waiting > 0 && truth < 10.0, "{truth}");
    assert_eq!(known.time_to_empty(), TimeToEmpty::Unsteady);
}

#[test]
fn what_happened_since_the_last_reading_counts() {
    let act =
        |second: u64| Act { arrive: if second == 620 { 30_000.0 } else { 0.0 }, run: 50.0, ..Act::default() };
    let (before, truth) = Scene::play_for(10, 15, 90_000.0, act);
    assert!(before.time_to_empty().time().is_some(), "{truth}");
    let (after, _) = Scene::play_for(10, 30, 90_000.0, act);
    assert_eq!(after.time_to_empty(), TimeToEmpty::Unsteady);
}

#[test]
fn jobs_that_fail_and_are_tried_again_do_not_end() {
    let (known, truth) = Scene::play(500_000.0, |_| Act { run: 150.0, fail: 0.3, ..Act::default() });
    assert_within(&known, truth);
    assert!(known.causes().is_empty());
    let (known, _) = Scene::play(500_000.0, |_| Act { run: 150.0, fail: 1.0, ..Act::default() });
    assert_eq!(known.time_to_empty().time(), None);
    let causes: Vec<String> = known.causes().iter().map(ToString::to_string).collect();
    assert_eq!(causes, ["100 % of attempts fail: 90,000 of 90,000 in 10m, 90,000 retried"]);
}

#[test]
fn nothing_is_known_before_three_minutes_were_counted() {
    let reading = |minute: u64| Reading {
        at: Scene::at(60 * minute),
        waiting: 780 - 60 * minute,
        ..Reading::default()
    };
    let readings = (0..3).map(reading).collect();
    let mut known = Backlog { waiting: 600, now: Scene::at(180), readings, ..Backlog::default() };
    assert_eq!(known.time_to_empty(), TimeToEmpty::Unknown);
    known.readings.push(reading(3));
    assert_eq!(known.time_to_empty(), TimeToEmpty::After(Duration::from_secs(600)));
    // Without enough readings, a gate alone tells if it holds nearly all jobs.
    known.readings.clear();
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
        (
            Cause::RedisFull { used: 268_000_000, most: 256 << 20 },
            "Redis is full: 255.6 MiB of 256.0 MiB used (99 %)",
        ),
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
            cause("type:mail.newsletter", 168_000, rate("2/s")),
            "168,000 held by type:mail.newsletter (2/s): 23h 20m",
        ),
        (cause("queue", 5, Hold::Concurrency(2)), "5 held by queue (2 at once)"),
        (
            cause("type:pay", 5, Hold::Tripped(Duration::from_secs(30))),
            "5 held by type:pay, which its breaker has shut for 30s",
        ),
        (
            cause("type:pay", 5, Hold::Paused { by: "lena".to_owned(), reason: String::new() }),
            "5 held by type:pay, paused by lena",
        ),
        (cause("type:pay", 5, Hold::Unreadable), "5 held by type:pay, whose rule is unreadable"),
        (
            Cause::Failing { failed: 1_156, attempts: 1_204, retried: 1_100, time: Duration::from_secs(540) },
            "96 % of attempts fail: 1,156 of 1,204 in 9m, 1,100 retried",
        ),
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
        readings: vec![Reading::default(), Reading { failed: 6, done: 4, ..Reading::default() }],
        ..Backlog::default()
    };
    let kinds = |known: &Backlog| known.causes().iter().map(Cause::kind).collect::<Vec<_>>();
    assert_eq!(
        kinds(&known),
        ["redis_full", "pool_down", "unserved_type", "held", "failing", "held", "held", "busy"]
    );
    let gates = [3, 5].map(|nth| known.causes()[nth].to_string());
    assert!(gates[0].contains("type:c") && gates[1].contains("type:b"), "{gates:?}");
    known.readings.clear();
    known.paused = Some(closed("1 0 lena\nthe bank is down"));
    assert_eq!(kinds(&known), ["redis_full", "paused"]);
    let idle = Backlog { live_workers: Some(0), ..Backlog::default() };
    assert_eq!(kinds(&idle), Vec::<&str>::new());
    assert_eq!(kinds(&Backlog { waiting: 1, ..idle }), ["no_worker"]);
    let oldest_in_lanes = Some(Duration::from_secs(1));
    let quick = Backlog { waiting: 5, in_lanes: 5, oldest_in_lanes, ..Backlog::default() };
    assert_eq!(kinds(&quick), Vec::<&str>::new());
}

#[test]
fn a_gate_that_holds_jobs_for_long_is_worse_than_attempts_that_fail() {
    let counted = Reading { failed: 60, done: 40, retried: 60, ..Reading::default() };
    let readings = vec![Reading::default(), counted];
    let gates = vec![held("type:mail", 193_926, rate("2/s"))];
    let mut known = Backlog { waiting: 193_926, gates, readings, ..Backlog::default() };
    let kinds = |known: &Backlog| known.causes().iter().map(Cause::kind).collect::<Vec<_>>();
    assert_eq!(kinds(&known), ["held", "failing"]);
    known.gates[0].jobs = 1_000;
    assert_eq!(kinds(&known), ["failing", "held"]);
    // Attempts that fail delay no job if none waits, nor waits to be tried again.
    known.gates.clear();
    known.waiting = 0;
    assert_eq!(kinds(&known), Vec::<&str>::new());
    known.delayed = 60;
    assert_eq!(kinds(&known), ["failing"]);
}

/// How long a pattern lasts until it repeats. It is seen if it happens three times while it is watched.
fn period(minutes: u64, part: f64) -> f64 {
    5.0 + (minutes as f64 * 20.0 - 5.0) * part
}

/// A scene with a plan of its own: how many jobs run in a second, how long these last in seconds, and three shares that mean something
/// else in each scene.
fn random_act(scene: u8, minutes: u64, run: f64, [much, part, at]: [f64; 3]) -> impl Fn(u64) -> Act {
    let period = period(minutes, part);
    let is_on = move |second: u64, share: f64| (second as f64 + at * period) % period < share * period;
    let change = (at * (minutes as f64 - 1.0) * 60.0) as u64;
    move |second| {
        let usual = Act { arrive: 0.9 * much * run, run, ..Act::default() };
        let few = Act { arrive: 0.3 * much * run, ..usual };
        match scene {
            0 => usual,
            1 => {
                let share = 0.1 + 0.8 * at;
                let arrive = if is_on(second, share) { 0.6 * much * run / share } else { 0.0 };
                Act { arrive, ..usual }
            }
            2 => Act { run: if is_on(second, 0.3 + 0.6 * much) { run } else { 0.0 }, arrive: 0.0, ..usual },
            3 => Act { fail: 0.9 * much, arrive: 0.0, ..usual },
            4 => Act { leave: if second == change { 100.0 * run * much } else { 0.0 }, ..few },
            5 => Act { run: if second < change { run } else { run * (0.4 + 2.0 * part) }, ..few },
            _ => Act { arrive: usual.arrive * if second < change { 1.0 } else { 2.0 * part }, ..usual },
        }
    }
}

proptest! {
    #[test]
    fn a_time_that_is_named_is_true(
        scene in 0..7_u8,
        (minutes, seconds) in (3..=10_u64, 0..60_u64),
        run in 2.0..200.0_f64,
        // The logarithm of how many seconds of work wait.
        lasts in 1.0..4.0_f64,
        shares in prop::array::uniform3(0.0..1.0_f64),
    ) {
        let waiting = run * 10_f64.powf(lasts);
        let act = random_act(scene, minutes, run, shares);
        let (known, truth) = Scene::play_for(minutes, seconds, waiting, act);
        if let Some(time) = known.time_to_empty().time() {
            // Readings of each minute do not show a pause within one: the last may still come, or may be over.
            let pause = period(minutes, shares[1]) * 0.9;
            let untold = if (1..=2).contains(&scene) && pause < 60.0 { pause } else { 2.0 };
            prop_assert!(is_true(time, truth, untold), "{time:?} instead of {truth} s");
        }
    }

    #[test]
    fn no_figures_make_it_panic(
        waiting in 0..u64::MAX,
        readings in prop::collection::vec((0..3_u64, 0..u64::MAX, 0..u64::MAX, i64::MIN..i64::MAX), 0..12),
        held_jobs in 0..u64::MAX,
    ) {
        let readings = readings.into_iter().map(|(minute, jobs, count, moved)| Reading {
            at: Scene::at(60 * minute),
            waiting: jobs,
            in_rooms: count,
            running: jobs,
            arrived: count,
            done: jobs,
            failed: count,
            retried: count,
            moved,
        });
        let gates = vec![held("queue", held_jobs, rate("3/s"))];
        let known = Backlog { waiting, readings: readings.collect(), gates, ..Backlog::default() };
        let is_empty = known.time_to_empty() == TimeToEmpty::After(Duration::ZERO);
        prop_assert!(waiting > 0 || is_empty);
        prop_assert!(known.causes().iter().all(|cause| !cause.to_string().contains('\n')));
    }

    #[test]
    fn a_constant_pace_gives_the_exact_time(waiting in 1..10_000_000_u64, ended in 100..100_000_u64, count in 3..12_u64) {
        let reading = |minute: u64| Reading {
            at: Scene::at(60 * minute),
            waiting: waiting + ended * (count - minute),
            ..Reading::default()
        };
        let (now, readings) = (Scene::at(60 * count), (0..=count).map(reading).collect());
        let known = Backlog { now, waiting, readings, ..Backlog::default() };
        let time = known.time_to_empty().time().map_or(0.0, |time| time.as_secs_f64());
        let truth = waiting as f64 * 60.0 / ended as f64;
        prop_assert!((time / truth - 1.0).abs() < 0.001, "{time} instead of {truth}");
    }
}
