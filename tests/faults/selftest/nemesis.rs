//! Tests of `harness::nemesis`.

use std::time::Duration;

use harness::nemesis::{Blow, Intensity, Plan, seed};
use harness::process::{Launch, Worker};
use harness::weather::Cause;

fn intensity(over: Duration) -> Intensity {
    let freeze_for = Duration::from_millis(5)..=Duration::from_millis(20);
    Intensity { workers: 3, kills: 6, freezes: 4, freeze_for, over }
}

#[test]
fn a_seed_determines_the_plan() {
    let intensity = intensity(Duration::from_secs(60));
    let plan = Plan::new(7, &intensity);
    assert_eq!(plan, Plan::new(7, &intensity));
    assert_ne!(plan.strikes, Plan::new(8, &intensity).strikes);
    assert_eq!(plan.seed, 7);
    assert!(plan.strikes.is_sorted_by_key(|strike| strike.after));
    assert!(plan.strikes.iter().all(|strike| strike.worker < 3 && strike.after.as_secs() <= 60));
    assert_eq!(plan.strikes.iter().filter(|strike| strike.blow == Blow::Kill).count(), 6);
    assert_eq!(plan.strikes.len(), 10);
}

#[test]
fn an_unleashed_plan_kills_and_freezes_as_often_as_it_says() {
    let start = || Launch::program("/bin/sleep", &["60"]).start();
    let mut workers: Vec<Worker> = (0..3).map(|_slot| start()).collect();
    let first: Vec<u32> = workers.iter().map(Worker::pid).collect();
    let mut restarted = Vec::new();
    let plan = Plan::new(seed(), &intensity(Duration::from_millis(300)));
    let events = plan.unleash(&mut workers, |slot| {
        restarted.push(slot);
        start()
    });
    let count = |cause| events.iter().filter(|event| event.cause == cause).count();
    assert_eq!((count(Cause::Kill), count(Cause::Freeze)), (6, 4));
    assert_eq!(restarted.len(), 6);
    assert!(workers.iter().all(|worker| worker.exit_status().is_none()));
    assert!(restarted.iter().all(|slot| workers[*slot].pid() != first[*slot]));
    assert!(events.iter().all(|event| event.pid.is_some() && event.from < event.until));
}

#[test]
#[should_panic(expected = "a worker ended on its own")]
fn a_worker_that_ended_on_its_own_is_reported() {
    let mut workers = vec![Launch::program("/bin/true", &[]).start()];
    workers[0].wait_exit(Duration::from_secs(10));
    let none = Duration::ZERO..=Duration::ZERO;
    let intensity = Intensity { workers: 1, kills: 1, freezes: 0, freeze_for: none, over: Duration::ZERO };
    Plan::new(1, &intensity).unleash(&mut workers, |_slot| unreachable!("nothing was killed"));
}
