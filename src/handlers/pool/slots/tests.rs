//! Who gets which job, and when one more program is wanted.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::*;
use crate::JobContext;
use crate::handlers::fixture::context;
use crate::handlers::pool::cuts::CutFlag;
use crate::handlers::pool::program_capacity::{ProgramCapacity, Starting};
use crate::handlers::pool::request::{Answer, DOUBT_EVERY};

const PATIENCE: Duration = Duration::from_secs(60);

fn push_with(
    slots: &Slots,
    context: JobContext,
    patience: Duration,
) -> (u64, oneshot::Receiver<Answer>, Arc<CutFlag>) {
    push_as(slots, (context, false), patience)
}

fn push_as(
    slots: &Slots,
    (context, is_alone): (JobContext, bool),
    patience: Duration,
) -> (u64, oneshot::Receiver<Answer>, Arc<CutFlag>) {
    let (answer, receiver) = oneshot::channel();
    let flag = Arc::<CutFlag>::default();
    let cut = Arc::clone(&flag);
    let request = |number| Request {
        number,
        context,
        payload: Bytes::new(),
        max_attempts: 1,
        is_alone,
        patience,
        until: Instant::now() + patience,
        answer,
        cut,
    };
    (slots.push(request), receiver, flag)
}

fn push(slots: &Slots) -> (u64, oneshot::Receiver<Answer>, Arc<CutFlag>) {
    push_with(slots, context(&[]), PATIENCE)
}

fn taken(slots: &Slots) -> Option<u64> {
    taken_by(slots, 0)
}

fn taken_by(slots: &Slots, program: u64) -> Option<u64> {
    slots.take(program).now_or_never().map(|request| request.number)
}

fn push_alone(slots: &Slots, patience: Duration) -> (u64, oneshot::Receiver<Answer>, Arc<CutFlag>) {
    push_as(slots, (context(&[]), true), patience)
}

#[test]
fn jobs_are_taken_in_order_and_one_that_is_put_back_comes_first() {
    let slots = Slots::new(1);
    let kept: Vec<_> = (0..3).map(|_| push(&slots)).collect();
    let first = slots.take(0).now_or_never().unwrap();
    slots.put_back(first);
    assert_eq!([taken(&slots), taken(&slots)], [Some(0), Some(1)]);
    kept[2].2.raise();
    assert_eq!(taken(&slots), None, "nobody waits for it");
}

#[test]
fn a_job_that_waits_can_be_withdrawn() {
    let slots = Slots::new(1);
    let (number, _answer, _flag) = push(&slots);
    assert!(slots.withdraw(number));
    assert!(!slots.withdraw(number));
    assert_eq!(taken(&slots), None);
}

#[tokio::test]
async fn a_job_that_waits_for_too_long_is_dropped_also_after_it_was_put_back() {
    let slots = Slots::new(1);
    let (_, mut kept, _flag) = push(&slots);
    let dropping = async {
        tokio::task::yield_now().await;
        for _ in 0..2 {
            let patience = Duration::from_millis(20);
            let (number, answer, _flag) = push_with(&slots, context(&[]), patience);
            let request = slots.take_overdue(Instant::now() + patience).pop().expect("it is overdue");
            assert_eq!(request.number, number);
            let put_back_at = Instant::now();
            slots.put_back(request);
            assert!(answer.await.is_err() && put_back_at.elapsed() >= patience);
        }
    };
    tokio::select! {
        () = slots.drop_overdue() => {}
        ended = tokio::time::timeout(PATIENCE / 2, dropping) => ended.expect("it is dropped in time"),
    }
    assert_eq!(kept.try_recv(), Err(oneshot::error::TryRecvError::Empty), "it has more patience");
    assert_eq!(taken(&slots), Some(0));
}

fn all(slots: &Slots, capacity: &ProgramCapacity<'_>, places: OpenPlaces) -> (Vec<u64>, Vec<u64>) {
    let Taken { begin, ahead } = slots.try_take_all(capacity.program(), places);
    let numbers = |requests: Vec<Request>| requests.iter().map(|request| request.number).collect();
    (numbers(begin), numbers(ahead))
}

#[test]
fn a_program_takes_what_it_begins_and_its_share_of_the_rest_at_once() {
    let slots = Slots::new(2);
    let (one, other) = (Starting::new(&slots, 1).ready(2, 8), Starting::new(&slots, 1).ready(2, 8));
    let kept: Vec<_> = (0..10).map(|_| push(&slots)).collect();
    kept[1].2.raise();
    let places = OpenPlaces { begin: 2, ahead: 8, ahead_bytes: 10_000 };
    assert_eq!(
        all(&slots, &one, places),
        (vec![0, 2], vec![3, 4, 5]),
        "7 wait, and the other one begins 2 of them"
    );
    assert_eq!(
        all(&slots, &one, OpenPlaces { begin: 0, ahead_bytes: 1, ..places }),
        (vec![], vec![6]),
        "no more bytes"
    );
    assert_eq!(all(&slots, &one, OpenPlaces { begin: 0, ahead: 0, ..places }), (vec![], vec![]));
    assert_eq!(all(&slots, &other, places.at_most(1)), (vec![7], vec![]));
    assert_eq!(all(&slots, &other, OpenPlaces { begin: 1, ..places }), (vec![8], vec![9]));
    assert!(places.at_most(0).is_empty() && !places.at_most(3).is_empty());
}

#[test]
fn programs_are_wanted_while_there_are_more_jobs_than_programs() {
    let slots = Slots::new(2);
    let wanted = || Starting::wanted(&slots).now_or_never();
    assert!(wanted().is_none());
    let _kept: Vec<_> = (0..2).map(|_| push(&slots)).collect();
    let one = wanted().expect("two jobs and no program");
    let two = wanted().expect("two jobs and one program");
    assert!(wanted().is_none());
    let mut capacity = one.ready(2, 0);
    drop(two);
    drop(wanted().expect("the second failed to start"));
    for nth in 0..2 {
        assert_eq!(taken(&slots), Some(nth));
        capacity.take();
    }
    drop(wanted().expect("both jobs share a program"));
    capacity.end();
    capacity.tell();
    assert!(wanted().is_none() && capacity.is_free());
    capacity.close();
    assert!(wanted().is_none(), "the last job stays where it is");
    let _another = push(&slots);
    assert!(wanted().is_some());
}

#[test]
fn jobs_are_spread_over_the_programs_that_are_ready() {
    let slots = Slots::new(50);
    let (one, other) = (Starting::new(&slots, 1).ready(50, 0), Starting::new(&slots, 1).ready(50, 0));
    let _kept: Vec<_> = (0..10).map(|_| push(&slots)).collect();
    let places = OpenPlaces { begin: 50, ahead: 0, ahead_bytes: 0 };
    assert_eq!(all(&slots, &one, places).0.len(), 5);
    assert_eq!(all(&slots, &one, OpenPlaces { begin: 45, ..places }).0.len(), 0);
    assert_eq!(taken_by(&slots, one.program()), None, "nor does it when it waits for one");
    assert_eq!(all(&slots, &other, places).0.len(), 5);
}

#[test]
fn the_job_that_is_left_over_goes_to_the_program_that_has_the_fewest() {
    let slots = Slots::new(50);
    let capacities = [9, 9, 1].map(|most| Starting::new(&slots, 1).ready(most, 0));
    let [one, other, small] = capacities.each_ref().map(ProgramCapacity::program);
    let _kept: Vec<_> = (0..4).map(|_| push(&slots)).collect();
    assert_eq!([taken_by(&slots, one), taken_by(&slots, one)], [Some(0), None]);
    let mut waiting = pin!(slots.take(one));
    assert!(waiting.as_mut().now_or_never().is_none(), "the others have none");
    assert_eq!([taken_by(&slots, other), taken_by(&slots, small)], [Some(1), Some(2)]);
    assert_eq!(waiting.now_or_never().map(|request| request.number), Some(3), "it was woken");
    let _more: Vec<_> = (0..2).map(|_| push(&slots)).collect();
    assert_eq!(
        [taken_by(&slots, small), taken_by(&slots, one), taken_by(&slots, other)],
        [None, None, Some(4)]
    );
    assert_eq!(taken_by(&slots, one), Some(5), "the one that has fewer is full");
}

#[test]
fn a_job_runs_alone_and_the_others_go_to_other_programs() {
    let slots = Slots::new(50);
    let (mut one, other) = (Starting::new(&slots, 1).ready(50, 8), Starting::new(&slots, 1).ready(50, 8));
    let _busy: Vec<_> = (0..2).map(|_| push(&slots)).collect();
    assert_eq!([taken_by(&slots, one.program()), taken_by(&slots, other.program())], [Some(0), Some(1)]);
    one.take();
    let mut waiting = pin!(slots.take(one.program()));
    assert!(waiting.as_mut().now_or_never().is_none());
    let _alone = push_alone(&slots, PATIENCE);
    let _others: Vec<_> = (0..3).map(|_| push(&slots)).collect();
    assert!(waiting.as_mut().now_or_never().is_none(), "it has a job");
    let places = OpenPlaces { begin: 49, ahead: 8, ahead_bytes: 10_000 };
    assert_eq!(all(&slots, &one, places), (vec![], vec![]), "it gets no others");
    assert_eq!(all(&slots, &other, places), (vec![3, 4, 5], vec![]), "they wait for nothing");
    one.end();
    one.tell();
    let last = push(&slots);
    assert_eq!(all(&slots, &one, places), (vec![2], vec![]), "it is alone");
    assert_eq!(all(&slots, &one, places), (vec![], vec![]));
    assert_eq!(
        taken_by(&slots, other.program()),
        Some(last.0),
        "it has more jobs, but the first one is kept"
    );
}

#[test]
fn a_program_stays_chosen_until_the_job_that_waited_is_back() {
    let slots = Slots::new(50);
    let mut only = Starting::new(&slots, 1).ready(50, 0);
    let _busy = push(&slots);
    assert_eq!(taken_by(&slots, only.program()), Some(0));
    only.take();
    let first = push_alone(&slots, Duration::ZERO);
    let _other = push(&slots);
    assert_eq!(taken_by(&slots, only.program()), None);
    assert_eq!(slots.take_overdue(Instant::now()).len(), 1, "it has waited for too long");
    assert_eq!((taken_by(&slots, only.program()), slots.withdraw(first.0)), (None, false));
    only.end();
    only.tell();
    let second = push_alone(&slots, PATIENCE);
    assert_eq!(taken_by(&slots, only.program()), Some(second.0));
    only.take();
    only.end();
    only.tell();
    let third = push_alone(&slots, PATIENCE);
    assert_eq!(taken_by(&slots, only.program()), Some(2), "after one, the others come first");
    let another = push(&slots);
    assert_eq!(taken_by(&slots, only.program()), None);
    assert!(slots.withdraw(third.0));
    assert_eq!(taken_by(&slots, only.program()), Some(another.0), "no job has to run alone any more");
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn taken_ahead(slots: &Slots) -> Option<u64> {
    slots.take_ahead(0, soon()).now_or_never().flatten().map(|request| request.number)
}

#[test]
fn only_jobs_that_no_program_would_begin_are_taken_ahead() {
    let slots = Slots::new(1);
    let (mut busy, _idle) = (Starting::new(&slots, 1).ready(1, 2), Starting::new(&slots, 1).ready(1, 2));
    let _kept: Vec<_> = (0..4).map(|_| push(&slots)).collect();
    assert_eq!(taken(&slots), Some(0));
    assert!(!busy.is_free_ahead());
    busy.take();
    assert!(!busy.is_free() && busy.is_free_ahead());
    assert_eq!(lock(&slots.state).share(), 1, "two jobs for two programs");
    for want in [1, 2] {
        assert_eq!(taken_ahead(&slots), Some(want));
        busy.take_ahead();
    }
    assert_eq!(taken_ahead(&slots), None, "the other program begins the last one");
    assert!(!busy.is_free_ahead());
    assert_eq!(taken(&slots), Some(3));
}

#[test]
fn a_program_that_leaves_makes_its_share_a_surplus() {
    let slots = Slots::new(1);
    let (mut busy, idle) = (Starting::new(&slots, 1).ready(1, 2), Starting::new(&slots, 1).ready(1, 2));
    let _kept: Vec<_> = (0..2).map(|_| push(&slots)).collect();
    assert_eq!(taken(&slots), Some(0));
    busy.take();
    let mut waiting = pin!(slots.take_ahead(0, soon()));
    assert!(waiting.as_mut().now_or_never().is_none());
    drop(idle);
    let late = slots.take_ahead(0, Instant::now() - Duration::from_secs(1));
    assert!(late.now_or_never().is_some_and(|request| request.is_none()), "it is too late for this one");
    assert_eq!(waiting.now_or_never().flatten().map(|request| request.number), Some(1));
}

#[test]
fn jobs_that_were_taken_ahead_want_one_more_program() {
    let slots = Slots::new(1);
    let mut capacity = Starting::new(&slots, 1).ready(1, 8);
    let _kept: Vec<_> = (0..2).map(|_| push(&slots)).collect();
    assert_eq!((taken(&slots), taken_ahead(&slots)), (Some(0), Some(1)));
    capacity.take();
    capacity.take_ahead();
    drop(Starting::wanted(&slots).now_or_never().expect("one job could begin in another program"));
    capacity.follow();
    capacity.tell();
    assert!(Starting::wanted(&slots).now_or_never().is_none(), "it has begun in this one");
    capacity.end();
    assert!(capacity.is_free());
}

#[test]
fn a_step_is_never_taken_ahead() {
    let slots = Slots::new(1);
    let mut capacity = Starting::new(&slots, 1).ready(1, 8);
    let first = push(&slots);
    assert_eq!(taken(&slots), Some(first.0));
    capacity.take();
    let step = push_with(&slots, context(&[]).with_step("charge"), PATIENCE);
    assert_eq!(taken_ahead(&slots), None);
    capacity.end();
    assert_eq!(taken(&slots), Some(step.0));
}

#[test]
fn a_job_that_may_soon_have_expired_is_not_taken_ahead() {
    let slots = Slots::new(1);
    let mut capacity = Starting::new(&slots, 1).ready(1, 8);
    let first = push(&slots);
    assert_eq!(taken(&slots), Some(first.0));
    capacity.take();
    let expiring = context(&[]);
    let (number, _answer, _flag) = push_with(&slots, expiring.clone(), PATIENCE);
    let now = Instant::now();
    let ahead = |left: Duration| {
        expiring.held_lease().expires_at((now + left).into_std());
        lock(&slots.state).next_ahead(0, now).map(|request| request.number)
    };
    assert_eq!(ahead(DOUBT_EVERY), None);
    assert_eq!(ahead(3 * DOUBT_EVERY), Some(number));
}

#[tokio::test]
async fn a_pool_that_has_stopped_drops_its_jobs() {
    let slots = Slots::new(1);
    let (_, waiting, _flag) = push(&slots);
    slots.close();
    let (_, late, _flag) = push(&slots);
    assert!(waiting.await.is_err() && late.await.is_err());
    slots.open();
    let (number, _answer, _flag) = push(&slots);
    assert_eq!(taken(&slots), Some(number));
}
