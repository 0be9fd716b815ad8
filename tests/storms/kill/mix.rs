//! The jobs of a storm, with a kind for every way to end.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use streamfleet::Submission;
use streamfleet::job::Lane;

use harness::scene::job;

/// Returns this many jobs, the same for the same seed.
pub(super) fn jobs(seed: u64, count: usize) -> Vec<Submission> {
    let mut random = StdRng::seed_from_u64(seed);
    (0..count).map(|_| one(&mut random)).collect()
}

fn one(random: &mut StdRng) -> Submission {
    let payload = match random.random_range(0..100) {
        0..60 => "ok".to_owned(),
        60..80 => format!("sleep {}", random.random_range(0..1_500)),
        80..88 => format!("fail {}", random.random_range(1..4)),
        88..92 => "fail 99".to_owned(),
        92..94 => "fatal".to_owned(),
        94..96 => "panic".to_owned(),
        _ => return job("ok").delay(Duration::from_millis(random.random_range(0..2_000))),
    };
    let lane = Lane::ALL[random.random_range(0..3)];
    job(payload).lane(lane)
}
