//! Who gets room, a slot and a place, and who waits.

use super::*;
use crate::job::{EntryId, Envelope, JobSpec, Lane, Policy};
use crate::worker::lease::HeldLease;
use crate::worker::limits::SharedPermits;
use crate::worker::memory_budget::MOST_BYTES;

#[tokio::test]
async fn room_is_handed_out_once_and_waited_for() {
    let dispatcher = Dispatcher::new(3, 1, 2);
    assert_eq!(dispatcher.reserve(10).await, 4);
    let waiting = dispatcher.reserve(10);
    let mut waiting = std::pin::pin!(waiting);
    assert!(futures_util::poll!(&mut waiting).is_pending());
    dispatcher.free(2);
    assert_eq!(waiting.await, 2);
}

fn delivery(bytes: usize) -> Arc<Delivery> {
    delivery_in(Lane::Normal, bytes)
}

fn delivery_in(lane: Lane, bytes: usize) -> Arc<Delivery> {
    let payload = vec![0; bytes];
    let fields = [(b"type".as_slice(), b"test".as_slice()), (b"payload", &payload)];
    let envelope = Envelope::new(fields.into_iter());
    let job = JobSpec::parse(&envelope, EntryId::new(1, 0), lane).unwrap();
    Arc::new(Delivery::new(job, envelope, HeldLease::new(Instant::now())))
}

#[tokio::test]
async fn nothing_is_read_while_waiting_jobs_are_too_large() {
    let dispatcher = Dispatcher::new(8, 8, 2);
    dispatcher.reserve_anyway(2);
    dispatcher.push(vec![delivery(MOST_BYTES / 2), delivery(MOST_BYTES / 2)]);
    let reading = dispatcher.reserve_unless_heavy(10);
    let mut reading = std::pin::pin!(reading);
    assert!(futures_util::poll!(&mut reading).is_pending());
    let first = dispatcher.try_next();
    assert!(first.is_some());
    assert_eq!(reading.await, 10, "one of them runs, the other may wait");
    dispatcher.free(10);
    dispatcher.push(vec![delivery(MOST_BYTES)]);
    assert_eq!(dispatcher.withdraw(|_| true).len(), 2);
    assert_eq!(dispatcher.reserve_unless_heavy(3).await, 3);
}

/// Returns a dispatcher whose type `test` may run twice at once.
fn limited() -> Arc<Dispatcher> {
    let (job_type, policy) = ("test".parse().unwrap(), Policy::default().concurrency(2));
    let limits = Limits::of([(&job_type, &policy)].into_iter(), &SharedPermits::default()).unwrap();
    Dispatcher::new(8, 0, 2).with_limits(Some(Arc::new(limits))).shared()
}

/// Ends one of those that run.
fn end(dispatcher: &Dispatcher) {
    let permit = dispatcher.place_of(&delivery(1)).unwrap();
    dispatcher.done(Some((permit, Duration::ZERO)));
}

#[tokio::test]
async fn what_may_not_start_holds_no_room_and_starts_when_another_ends() {
    let dispatcher = limited();
    dispatcher.reserve_anyway(6);
    let Pushed { ready, put_off } = dispatcher.push((0..6).map(|_| delivery(1)).collect());
    assert_eq!((ready, put_off.len()), (2, 2), "two run, two wait");
    dispatcher.free(4);
    assert_eq!(dispatcher.try_reserve(10), 6);
    let first = dispatcher.try_next().unwrap();
    assert!(dispatcher.try_next().is_some() && dispatcher.try_next().is_none());
    let permit = dispatcher.place_of(&first).unwrap();
    dispatcher.done(Some((permit, Duration::ZERO)));
    assert!(dispatcher.try_next().is_some() && dispatcher.try_next().is_none());
    assert_eq!(dispatcher.try_reserve(10), 0, "the one that started uses the room of the one that ended");
    assert!(dispatcher.overdue().is_empty(), "the other has not waited long");
    assert_eq!(dispatcher.close().len(), 1);
    dispatcher.done(Some((permit, Duration::ZERO)));
    assert!(dispatcher.try_next().is_none(), "nothing starts any more");
}

#[test]
fn queues_of_one_process_share_the_bound_in_turn() {
    let one = limited();
    let limits = one.limited.as_ref().map(|limited| Arc::clone(&limited.limits));
    let other = Dispatcher::new(8, 0, 2).with_limits(limits).shared();
    one.reserve_anyway(4);
    assert_eq!(one.push((0..4).map(|_| delivery(1)).collect()).ready, 2);
    assert_eq!(other.push(vec![delivery(1)]).ready, 0);
    let starts = |queue: &Dispatcher| queue.try_next().is_some();
    assert!(starts(&one) && starts(&one) && !starts(&one) && !starts(&other));
    end(&one);
    assert!(starts(&one) && !starts(&other), "the first queue had its turn");
    end(&one);
    assert!(!starts(&one) && starts(&other), "the second queue has its turn");
    end(&one);
    assert!(starts(&one));
    assert!(one.overdue().is_empty() && other.overdue().is_empty());
}

#[test]
fn lower_lanes_neither_keep_higher_ones_out_nor_starve() {
    let dispatcher = limited();
    dispatcher.reserve_anyway(2);
    let push = |lane, count| dispatcher.push((0..count).map(|_| delivery_in(lane, 1)).collect());
    assert_eq!(push(Lane::Low, 5).put_off.len(), 1, "two run, two wait");
    assert_eq!(push(Lane::High, 3).put_off.len(), 1, "two wait before those of the lower lane");
    assert_eq!(push(Lane::Low, 1).put_off.len(), 1);
    assert!((0..2).all(|_| dispatcher.try_next().is_some()));
    let mut started = Vec::new();
    for _ in 0..6 {
        end(&dispatcher);
        started.push(dispatcher.try_next().unwrap().job.lane);
        // There is always one more in the highest lane.
        assert_eq!(push(Lane::High, 1).ready, 0);
    }
    let (high, low) = (Lane::High, Lane::Low);
    assert_eq!(started, [high, high, high, low, high, high]);
}

#[tokio::test]
async fn nothing_is_read_while_what_is_put_off_is_too_large() {
    let dispatcher = limited();
    dispatcher.reserve_anyway(5);
    let deliveries = [1, 1, 1, 1, MOST_BYTES].map(delivery).to_vec();
    let Pushed { ready, put_off } = dispatcher.push(deliveries);
    assert_eq!((ready, put_off.len()), (2, 1), "two run, two wait");
    dispatcher.free(3);
    assert!((0..2).all(|_| dispatcher.try_next().is_some()), "they do not wait for a slot");
    let reading = dispatcher.reserve_unless_heavy(10);
    let mut reading = std::pin::pin!(reading);
    assert!(futures_util::poll!(&mut reading).is_pending());
    drop(put_off);
    assert_eq!(reading.await, 6);
}

#[tokio::test]
async fn the_reader_gathers_room_for_as_long_as_it_may() {
    let (dispatcher, long) = (Dispatcher::new(4, 0, 1), Duration::from_secs(20));
    dispatcher.reserve_anyway(4);
    let mut gathering = std::pin::pin!(tokio::time::timeout(long / 2, dispatcher.gather(3, long)));
    assert!(futures_util::poll!(&mut gathering).is_pending());
    dispatcher.free(2);
    assert!(futures_util::poll!(&mut gathering).is_pending());
    dispatcher.free(1);
    gathering.await.expect("there is enough room");
    dispatcher.gather(4, Duration::from_millis(1)).await;
    assert_eq!(dispatcher.try_reserve(4), 3);
}

#[tokio::test]
async fn the_reader_waits_while_more_wait_than_start_in_a_moment_and_none_is_put_off() {
    let dispatcher = limited();
    dispatcher.reserve_anyway(2);
    let push = |count| dispatcher.push((0..count).map(|_| delivery(1)).collect());
    assert_eq!(push(2).ready, 2);
    let permit = dispatcher.place_of(&delivery(1)).unwrap();
    // Now 20 pass in a moment.
    dispatcher.done(Some((permit, Duration::from_millis(5))));
    assert_eq!(push(1).ready, 1);
    assert_eq!(push(64).put_off.len(), 0);
    let relieved = dispatcher.relieved();
    let mut relieved = std::pin::pin!(relieved);
    for _ in 0..53 {
        assert!(futures_util::poll!(&mut relieved).is_pending());
        dispatcher.done(Some((permit, Duration::from_millis(5))));
    }
    assert_eq!(dispatcher.in_backlog(), 11);
    assert!(futures_util::poll!(&mut relieved).is_pending());
    dispatcher.done(Some((permit, Duration::from_millis(5))));
    relieved.await;
    dispatcher.relieved().await;
}

#[tokio::test]
async fn the_reader_waits_for_the_backlog_no_longer_than_its_patience() {
    let dispatcher = limited();
    dispatcher.relieved().await;
    let permit = dispatcher.place_of(&delivery(1)).unwrap();
    dispatcher.reserve_anyway(3);
    assert_eq!(dispatcher.push(vec![delivery(1), delivery(1)]).ready, 2);
    dispatcher.done(Some((permit, Duration::from_millis(5))));
    assert_eq!(dispatcher.push((0..65).map(|_| delivery(1)).collect()).put_off.len(), 0);
    dispatcher.relieved().await;
    assert_eq!(dispatcher.in_backlog(), 64);
}

#[tokio::test]
async fn what_is_withdrawn_gives_its_place_to_another() {
    let dispatcher = limited();
    dispatcher.reserve_anyway(3);
    let cancelled = delivery(1);
    cancelled.held_lease.cancel();
    assert_eq!(dispatcher.push(vec![cancelled, delivery(1), delivery(1)]).ready, 2);
    dispatcher.free(1);
    let withdrawn = dispatcher.withdraw(|delivery| delivery.held_lease.is_cancelled());
    assert_eq!(withdrawn.len(), 1);
    assert!((0..2).all(|_| dispatcher.try_next().is_some()));
    assert_eq!(dispatcher.try_reserve(10), 6);
}

#[tokio::test]
async fn a_closed_dispatcher_hands_out_nothing_to_any_slot() {
    let dispatcher = Dispatcher::new(2, 0, 1);
    let slots = futures_util::future::join(dispatcher.next(), dispatcher.next());
    let mut slots = std::pin::pin!(slots);
    assert!(futures_util::poll!(&mut slots).is_pending());
    assert!(dispatcher.close().is_empty());
    assert!(matches!(slots.await, (None, None)));
    assert!(dispatcher.next().await.is_none());
}
