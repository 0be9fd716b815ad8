//! The random play.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use streamfleet::job::State;

use super::expected::{End, Model, Op, Wish};
use super::world::World;
use crate::harness::nemesis::seed;
use crate::harness::wait::until_async;

const OPERATIONS: usize = 400;

/// So many jobs live at once at most.
const ALIVE: usize = 40;

/// An operation that is possible now.
fn choose(random: &mut StdRng, model: &Model) -> Op {
    use State::{Cancelled, Dead, Done, Retrying, Running, Scheduled};
    loop {
        let among = |states: &[State], random: &mut StdRng| model.those(states).choose(random).copied();
        let op = match random.random_range(0..100) {
            0..30 if model.those(&[Running, Scheduled, Retrying]).len() < ALIVE => {
                Some(Op::Submit(Wish { later: random.random_bool(0.3), calls_back: random.random_bool(0.4) }))
            }
            30..58 => among(&[Running], random).map(|job| {
                let ends = [End::Success, End::Success, End::Failure, End::Failure, End::Fatal, End::Snooze];
                Op::Finish(job, *ends.choose(random).expect("there are some"))
            }),
            58..73 => among(&[Scheduled, Retrying], random).map(Op::MakeDue),
            73..82 => among(&[Scheduled, Retrying, Done, Dead, Cancelled], random).map(Op::Cancel),
            82..92 => among(&[Dead], random).map(Op::Replay),
            92..94 => among(&[Dead], random).map(Op::Drop),
            94..97 => among(&[Running, Scheduled, Retrying, Done, Dead, Cancelled], random).map(Op::Resend),
            _ => Some(Op::Kill),
        };
        if let Some(op) = op {
            return op;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fleet_and_a_model_of_it_agree_after_each_of_many_random_operations() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let (mut world, mut model) = (World::new().await, Model::default());
    for nth in 0..OPERATIONS {
        let op = choose(&mut random, &model);
        world.perform(op, &model).await;
        model.apply(op);
        world.until_agreed(&model, &format!("operation {nth}, {op:?} (SEED={seed})")).await;
    }
    let want = model.callbacks();
    let (what, soon) = (format!("{want} callbacks"), Duration::from_secs(20));
    let called =
        until_async(&what, soon, async || (world.callbacks() >= want).then(|| world.callbacks())).await;
    assert_eq!(called, want, "callbacks, SEED={seed}");
}
