//! A random sequence of operations.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use streamfleet::job::{State, Verdict};

use super::expected::{End, Model, Op, Wish};
use super::world::World;
use harness::nemesis::seed;

const OPERATIONS: usize = 400;

/// At most this many jobs live at once.
const ALIVE: usize = 40;

/// An operation that is possible now.
fn choose(random: &mut StdRng, model: &Model) -> Op {
    use State::{Cancelled, Dead, Done, Retrying, Running, Scheduled};
    const ALL: [State; 6] = [Running, Scheduled, Retrying, Done, Dead, Cancelled];
    loop {
        let among = |states: &[State], random: &mut StdRng| model.those(states).choose(random).copied();
        let op = match random.random_range(0..100) {
            0..30 if model.those(&[Running, Scheduled, Retrying]).len() < ALIVE => Some(Op::Submit(Wish {
                later: random.random_bool(0.3),
                calls_back: random.random_bool(0.4),
                has_steps: random.random_bool(0.3),
            })),
            30..58 => among(&[Running], random).map(|job| {
                let ends = [End::Success, End::Success, End::Failure, End::Failure, End::Fatal, End::Snooze];
                Op::Finish(job, *ends.choose(random).expect("there are some"))
            }),
            58..73 => among(&[Scheduled, Retrying], random).map(Op::MakeDue),
            73..79 => among(&ALL, random).map(Op::Cancel),
            79..86 => among(&[Dead], random).map(Op::Replay),
            86..90 => model
                .undecided()
                .choose(random)
                .map(|job| Op::Decide(*job, *Verdict::ALL.choose(random).expect("there are some"))),
            90..92 => Some(Op::Tick),
            92..94 => among(&[Dead], random).map(Op::Drop),
            94..97 => among(&ALL, random).map(Op::Resend),
            _ => Some(Op::Kill),
        };
        if let Some(op) = op {
            return op;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fleet_agrees_with_its_model_after_every_random_operation() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let (mut world, mut model) = (World::new().await, Model::default());
    for nth in 0..OPERATIONS {
        let op = choose(&mut random, &model);
        world.perform(op, &model).await;
        model.apply(op);
        world.until_agreed(&model, &format!("operation {nth}, {op:?} (SEED={seed})")).await;
    }
    for (nth, job) in model.jobs.iter().filter(|(_, job)| job.once.is_some()) {
        assert_eq!(world.begun(*nth), job.begun, "runs of the step of job {nth}, SEED={seed}");
    }
}
