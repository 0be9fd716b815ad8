//! Workers and programs that are killed at random moments: no job is lost, and no program is left behind.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use harness::pool::{SOON, Stage};
use harness::process::Worker;
use harness::wait::{until, until_instant};

/// How long there are kills.
const STORM: Duration = Duration::from_secs(10);
const WORKERS: usize = 2;

/// A small generator of numbers that look random, with a seed that a failure shows.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }
}

#[test]
fn no_job_is_lost_while_workers_and_programs_are_killed() {
    storm("inflight = 2");
}

#[test]
fn no_job_is_lost_while_programs_with_jobs_ahead_are_killed() {
    storm("ahead = 8");
}

/// Kills workers and the programs of a pool with these settings, and checks that all jobs are done.
fn storm(pool: &str) {
    let act = "max_attempts = 1000\nmax_losses = 1000\nbackoff = { fixed = \"20ms\" }";
    let mut stage = Stage::acting(&format!("processes = 3\ngrace = \"200ms\"\nmax_jobs = 50\n{pool}"), act);
    stage.toml = stage.toml.replace("lease = \"3s\"", "lease = \"1s\"");
    let mut workers: Vec<Worker> = (0..WORKERS).map(|_| stage.start()).collect();
    let (mut dice, mut submitted) = (Dice(0x9e37_79b9_7f4a_7c15), 0_usize);
    let until_calm = Instant::now() + STORM;
    while Instant::now() < until_calm {
        for _ in 0..4 {
            stage.submit(&format!("job-{submitted}"), ["0.001", "null", "0.05"][dice.roll(3)]);
            submitted += 1;
        }
        if dice.roll(8) == 0 {
            let nth = dice.roll(WORKERS);
            workers[nth].kill9();
            workers[nth] = stage.start();
        } else {
            let (alive, signal) = (stage.alive(), [Signal::KILL, Signal::TERM][dice.roll(2)]);
            let chosen = alive.get(dice.roll(alive.len().max(1)));
            let pid = chosen.and_then(|pid| Pid::from_raw(pid.parse().ok()?));
            // It may have ended meanwhile, so an error means nothing.
            if let Some(pid) = pid {
                kill_process(pid, signal).ok();
            }
        }
        until_instant(Instant::now() + Duration::from_millis(20 + dice.roll(60) as u64));
    }
    println!("{submitted} jobs, {} runs, {} programs", stage.lines("ran").len(), stage.lines("pids").len());
    for nth in 0..submitted {
        assert_eq!(stage.until_over(&format!("job-{nth}")), "done", "job-{nth}");
    }
    workers.iter().for_each(Worker::kill9);
    until("the programs to be gone", SOON, || stage.alive().is_empty());
}
