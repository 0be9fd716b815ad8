//! Stage 2: hands deliveries to free slots. A slot is one task that runs one attempt at a time. So the number of slots
//! is the concurrency, and a job costs no extra task.
//!
//! A delivery whose type or key already runs as often as it may waits in the [backlog](Backlog), or is put off.
//!
//! A slot takes its next delivery as soon as it is done, so quick jobs need no wake-ups at all. Slots are woken when
//! deliveries arrive, one for each thread, and whenever a handler has to wait: then the next slot takes over.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::backlog::Backlog;
use super::delivery::Delivery;
use super::limits::{Limits, Place};
use super::load::{Burden, Load, MOST_BYTES};
use super::quota::Quota;

/// The deliveries that wait for a slot, and their total bytes.
#[derive(Debug, Default)]
struct Waiting {
    deliveries: VecDeque<Arc<Delivery>>,
    bytes: usize,
}

impl Waiting {
    fn is_heavy(&self) -> bool {
        self.bytes > MOST_BYTES
    }

    fn push(&mut self, deliveries: Vec<Arc<Delivery>>) {
        self.bytes += bytes(&deliveries);
        self.deliveries.extend(deliveries);
    }

    fn pop(&mut self) -> Option<Arc<Delivery>> {
        let delivery = self.deliveries.pop_front()?;
        self.bytes -= delivery.envelope.size();
        Some(delivery)
    }

    /// Takes out the deliveries that match.
    fn withdraw(&mut self, matches: impl Fn(&Delivery) -> bool) -> Vec<Arc<Delivery>> {
        let all = std::mem::take(&mut self.deliveries);
        let (matching, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|delivery| matches(delivery));
        self.deliveries = VecDeque::from(others);
        self.bytes -= bytes(&matching);
        matching
    }
}

fn bytes(deliveries: &[Arc<Delivery>]) -> usize {
    deliveries.iter().map(|delivery| delivery.envelope.size()).sum()
}

/// The limits of types and keys, and the deliveries that wait for them. Code that takes the [turn](super::turns::Turn), and locks the backlog
/// and `waiting`, does so in this order.
#[derive(Debug)]
struct Limited {
    limits: Arc<Limits>,
    backlog: Mutex<Backlog>,
    /// Notified when the reader need not wait for the backlog any more.
    relieved: Notify,
}

impl Limited {
    fn lock(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the reader go on if it need not wait for the backlog any more.
    fn tell_reader(&self, backlog: &Backlog) {
        if backlog.presses_until(Instant::now()).is_none() {
            self.relieved.notify_waiters();
        }
    }
}

/// What became of deliveries that were handed over.
#[derive(Debug)]
pub(crate) struct Pushed {
    /// How many of them use room. The others do not.
    pub(crate) ready: usize,
    /// Those for which there is no place, and after how long they should come back.
    pub(crate) put_off: Vec<PutOff>,
}

/// The deliveries that wait for a slot, and the room for more.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    waiting: Mutex<Waiting>,
    /// The bytes of the deliveries that are put off. Its `lightened` is also notified when the waiting deliveries are no longer
    /// too large together.
    load: Arc<Load>,
    arrived: Notify,
    threads: usize,
    capacity: usize,
    room: AtomicIsize,
    freed: Notify,
    /// How much room the reader waits for, if it waits for more than some.
    enough: AtomicIsize,
    gathered: Notify,
    running: AtomicUsize,
    closed: AtomicBool,
    /// How many attempts may start, if that is limited.
    quota: Option<Arc<Quota>>,
    /// How many attempts of a type or key may run at once, if that is limited.
    limited: Option<Limited>,
}

impl Dispatcher {
    /// Creates a dispatcher with room for `slots` running and `prefetch` waiting deliveries, run by `threads` threads.
    pub(crate) fn new(slots: usize, prefetch: usize, threads: usize) -> Self {
        Self {
            waiting: Mutex::default(),
            load: Arc::default(),
            arrived: Notify::new(),
            threads,
            capacity: slots + prefetch,
            room: AtomicIsize::new((slots + prefetch).cast_signed()),
            freed: Notify::new(),
            enough: AtomicIsize::new(isize::MAX),
            gathered: Notify::new(),
            running: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            quota: None,
            limited: None,
        }
    }

    /// Limits the dispatcher to a quota. Once it is spent, nothing more is handed out.
    pub(crate) fn with_quota(self, quota: Option<Arc<Quota>>) -> Self {
        Self { quota, ..self }
    }

    /// Limits how many attempts of a type or key are handed out at once.
    pub(crate) fn with_limits(self, limits: Option<Arc<Limits>>) -> Self {
        let limited =
            limits.map(|limits| Limited { limits, backlog: Mutex::default(), relieved: Notify::new() });
        Self { limited, ..self }
    }

    /// Shares it with its slots, and with the other queues under the same limits.
    pub(crate) fn shared(self) -> Arc<Self> {
        let shared = Arc::new(self);
        if let Some(limited) = &shared.limited {
            limited.limits.turns.join(Arc::downgrade(&shared));
        }
        shared
    }

    /// Returns true if a type or key is limited.
    pub(crate) fn is_limited(&self) -> bool {
        self.limited.is_some()
    }

    /// Returns the place that a delivery takes while it runs, if its type or key is limited.
    pub(crate) fn place_of(&self, delivery: &Delivery) -> Option<Place> {
        self.limited.as_ref()?.limits.place_of(delivery)
    }

    /// Returns the total room.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Takes all free room, up to `most`; waits if there is none. Unused room must be given back.
    pub(crate) async fn reserve(&self, most: usize) -> usize {
        loop {
            let freed = self.freed.notified();
            match self.try_reserve(most) {
                0 => freed.await,
                room => return room,
            }
        }
    }

    /// Takes all free room, up to `most`, but not while the deliveries that wait for a slot, or those that are put off or set
    /// aside, are too large together.
    pub(crate) async fn reserve_unless_heavy(&self, most: usize) -> usize {
        loop {
            let lightened = self.load.lightened.notified();
            let mut lightened = std::pin::pin!(lightened);
            // From here on, no wake-up is lost. Only now check the bytes.
            lightened.as_mut().enable();
            if !self.lock().is_heavy() && !self.load.is_heavy() {
                return self.reserve(most).await;
            }
            lightened.await;
        }
    }

    /// Returns the load of what is put off or set aside. While it is heavy, nothing is read.
    pub(super) fn load(&self) -> Arc<Load> {
        Arc::clone(&self.load)
    }

    /// Takes the room that is free now, up to `most`, perhaps none.
    pub(crate) fn try_reserve(&self, most: usize) -> usize {
        let take = |room: isize| (room > 0).then(|| room - room.min(most.cast_signed()));
        let before = self.room.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        before.map_or(0, |room| room.cast_unsigned().min(most))
    }

    /// Waits until there is this much room, but no longer than this.
    pub(crate) async fn gather(&self, count: usize, longest: Duration) {
        self.enough.store(count.cast_signed(), Ordering::Relaxed);
        let gathered = async {
            while self.room.load(Ordering::Acquire) < count.cast_signed() {
                self.gathered.notified().await;
            }
        };
        // Having less in time is as good.
        tokio::time::timeout(longest, gathered).await.ok();
        self.enough.store(isize::MAX, Ordering::Relaxed);
    }

    /// Takes room for what is already ours, whether or not any is free. Nothing new is read until there is room again.
    pub(crate) fn reserve_anyway(&self, count: usize) {
        self.room.fetch_sub(count.cast_signed(), Ordering::AcqRel);
    }

    /// Gives room back.
    pub(crate) fn free(&self, count: usize) {
        if count > 0 {
            let room = self.room.fetch_add(count.cast_signed(), Ordering::AcqRel) + count.cast_signed();
            self.freed.notify_one();
            if room >= self.enough.load(Ordering::Relaxed) {
                self.gathered.notify_one();
            }
        }
    }

    /// Returns how many handlers are running.
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// Queues deliveries for which room was reserved. Those that may not start yet use none, and the caller gives it back.
    pub(crate) fn push(&self, deliveries: Vec<Arc<Delivery>>) -> Pushed {
        let (ready, put_off) = match &self.limited {
            None => (deliveries, Vec::new()),
            Some(limited) => limited.admit(deliveries),
        };
        for (delivery, _) in &put_off {
            delivery.burden.get_or_init(|| Burden::new(&self.load, delivery.envelope.size()));
        }
        let pushed = Pushed { ready: ready.len(), put_off };
        self.enqueue(ready);
        pushed
    }

    /// Hands deliveries to the slots.
    fn enqueue(&self, deliveries: Vec<Arc<Delivery>>) {
        let count = deliveries.len();
        self.lock().push(deliveries);
        for _ in 0..count.min(self.threads) {
            self.arrived.notify_one();
        }
    }

    /// Requeues a delivery for which there is no room, so that one less is read. Returns the delivery if nothing is handed
    /// out any more.
    pub(crate) fn requeue(&self, delivery: Arc<Delivery>) -> Result<(), Arc<Delivery>> {
        if let (Some(limited), Some(place)) = (&self.limited, self.place_of(&delivery)) {
            let _turn = limited.limits.turns.take();
            let (mut backlog, now) = (limited.lock(), Instant::now());
            if self.closed.load(Ordering::Acquire) {
                return Err(delivery);
            }
            if !limited.limits.enter(place, now) {
                backlog.keep(delivery, place, now);
                return Ok(());
            }
        }
        let mut waiting = self.lock();
        // `close` sets this before it takes out what waits.
        if self.closed.load(Ordering::Acquire) {
            return Err(delivery);
        }
        self.reserve_anyway(1);
        waiting.push(vec![delivery]);
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    /// Returns the next delivery for a slot; `None` when there will be no more.
    pub(crate) async fn next(&self) -> Option<Arc<Delivery>> {
        loop {
            let arrived = self.arrived.notified();
            let mut arrived = std::pin::pin!(arrived);
            // From here on, no wake-up is lost. Only now check the queue.
            arrived.as_mut().enable();
            if let Some(delivery) = self.pop() {
                self.running.fetch_add(1, Ordering::Relaxed);
                return Some(delivery);
            }
            if self.closed.load(Ordering::Acquire) {
                // Pass the news on to the next slot.
                self.arrived.notify_one();
                return None;
            }
            arrived.await;
        }
    }

    /// Returns the delivery that a slot takes after its last one, if any.
    pub(crate) fn try_next(&self) -> Option<Arc<Delivery>> {
        let delivery = self.pop();
        if delivery.is_some() {
            self.running.fetch_add(1, Ordering::Relaxed);
        }
        delivery
    }

    fn pop(&self) -> Option<Arc<Delivery>> {
        if self.quota.as_ref().is_some_and(|quota| quota.is_spent()) {
            return None;
        }
        self.update_waiting(Waiting::pop)
    }

    /// Changes what waits, and notifies if it was too large before and is not any more.
    fn update_waiting<T>(&self, change: impl FnOnce(&mut Waiting) -> T) -> T {
        let mut waiting = self.lock();
        let was_heavy = waiting.is_heavy();
        let result = change(&mut waiting);
        let is_heavy = waiting.is_heavy();
        drop(waiting);
        if was_heavy && !is_heavy {
            self.load.lightened.notify_waiters();
        }
        result
    }

    /// Notes that an attempt starts.
    pub(crate) fn started(&self) {
        if let Some(quota) = &self.quota {
            quota.count();
        }
    }

    /// Notes that a slot has to wait for its handler, so that another one takes over.
    pub(crate) fn yield_to_next(&self) {
        if !self.lock().deliveries.is_empty() {
            self.arrived.notify_one();
        }
    }

    /// Notes that a slot is done with its delivery. If that had a place, the slot says which, and how long it took.
    pub(crate) fn done(&self, place: Option<(Place, Duration)>) {
        self.running.fetch_sub(1, Ordering::Relaxed);
        if let (Some(limited), Some((place, ran))) = (&self.limited, place) {
            let mut turn = limited.limits.turns.take();
            limited.limits.leave(place, Some(ran));
            turn.serve(Self::start_backlog);
        }
        self.free(1);
    }

    /// Hands to the slots what may start now that there are places. Returns true if there is anything.
    fn start_backlog(&self) -> bool {
        let Some(limited) = &self.limited else { return false };
        let mut backlog = limited.lock();
        // `close` sets this before it takes out what waits.
        if self.closed.load(Ordering::Acquire) {
            return false;
        }
        // Usually, all may start at once.
        if backlog.is_idle() {
            return false;
        }
        let startable = backlog.startable(&limited.limits, Instant::now());
        limited.tell_reader(&backlog);
        let starts = !startable.is_empty();
        if starts {
            self.reserve_anyway(startable.len());
            self.enqueue(startable);
        }
        starts
    }

    /// Waits while more deliveries wait for others of their type or key than can start in a moment, but not for long.
    pub(crate) async fn relieved(&self) {
        let Some(limited) = &self.limited else { return };
        loop {
            let mut relieved = std::pin::pin!(limited.relieved.notified());
            // From here on, no wake-up is lost. Only now look.
            relieved.as_mut().enable();
            let Some(until) = limited.lock().presses_until(Instant::now()) else { return };
            // Whether it was relieved or not, the next look shows.
            tokio::time::timeout_at(until.into(), relieved).await.ok();
        }
    }

    /// Returns how many deliveries wait for others of their type or key.
    pub(crate) fn in_backlog(&self) -> usize {
        self.limited.as_ref().map_or(0, |limited| limited.lock().len())
    }

    /// Takes out the deliveries that have waited too long for others of their type or key. They used no room. Returns with each
    /// after how long it should come back.
    pub(crate) fn overdue(&self) -> Vec<PutOff> {
        let (Some(limited), now) = (&self.limited, Instant::now()) else { return Vec::new() };
        let overdue = {
            let mut backlog = limited.lock();
            let overdue = backlog.overdue(now);
            limited.tell_reader(&backlog);
            overdue
        };
        let put_off = |(delivery, place): (Arc<Delivery>, Place)| {
            let delay = limited.limits.put_off(place, delivery.job.lane, now);
            (delivery, delay)
        };
        overdue.into_iter().map(put_off).collect()
    }

    /// Takes the matching deliveries out of those that wait, and gives their room back.
    pub(crate) fn withdraw(&self, matches: impl Fn(&Delivery) -> bool) -> Vec<Arc<Delivery>> {
        let backlog = self.limited.as_ref().map(|limited| {
            let mut backlog = limited.lock();
            let withdrawn = backlog.withdraw(&matches);
            limited.tell_reader(&backlog);
            withdrawn
        });
        let mut taken = self.update_waiting(|waiting| waiting.withdraw(matches));
        self.free(taken.len());
        if let Some(limited) = &self.limited {
            let mut turn = limited.limits.turns.take();
            let places = taken.iter().filter_map(|delivery| limited.limits.place_of(delivery));
            places.for_each(|place| limited.limits.leave(place, None));
            turn.serve(Self::start_backlog);
        }
        taken.extend(backlog.into_iter().flatten());
        taken
    }

    /// Stops handing out deliveries, and returns those that had not started.
    pub(crate) fn close(&self) -> Vec<Arc<Delivery>> {
        self.closed.store(true, Ordering::Release);
        // From here on, nothing leaves the backlog for the slots.
        let backlog = self.limited.as_ref().map(|limited| limited.lock().withdraw(|_| true));
        let mut unstarted = self.update_waiting(|waiting| waiting.withdraw(|_| true));
        unstarted.extend(backlog.into_iter().flatten());
        self.arrived.notify_one();
        self.arrived.notify_waiters();
        unstarted
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A delivery for which there is no place, and the pause after which it may come back.
type PutOff = (Arc<Delivery>, Duration);

impl Limited {
    /// Returns which deliveries may start, and those for which there is no place at all, with their pauses. The others wait.
    fn admit(&self, deliveries: Vec<Arc<Delivery>>) -> (Vec<Arc<Delivery>>, Vec<PutOff>) {
        let (mut ready, mut put_off) = (Vec::with_capacity(deliveries.len()), Vec::new());
        // Nobody enters between a job that ends and the one that waits for its place.
        let _turn = self.limits.turns.take();
        let (mut backlog, now) = (self.lock(), Instant::now());
        for delivery in deliveries {
            let place = self.limits.place_of(&delivery);
            match place.filter(|place| !self.limits.enter(*place, now)) {
                None => ready.push(delivery),
                Some(place) => {
                    if let Err(delivery) = backlog.offer(delivery, place, (&self.limits, now)) {
                        let delay = self.limits.put_off(place, delivery.job.lane, now);
                        put_off.push((delivery, delay));
                    }
                }
            }
        }
        (ready, put_off)
    }
}

#[cfg(test)]
mod tests {
    use super::super::lease::HeldLease;
    use super::super::limits::SharedPlaces;
    use super::*;
    use crate::job::{EntryId, Envelope, JobSpec, Lane, Policy};

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
        let limits = Limits::of([(&job_type, &policy)].into_iter(), &SharedPlaces::default()).unwrap();
        Dispatcher::new(8, 0, 2).with_limits(Some(Arc::new(limits))).shared()
    }

    /// Ends one of those that run.
    fn end(dispatcher: &Dispatcher) {
        let place = dispatcher.place_of(&delivery(1)).unwrap();
        dispatcher.done(Some((place, Duration::ZERO)));
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
        let place = dispatcher.place_of(&first).unwrap();
        dispatcher.done(Some((place, Duration::ZERO)));
        assert!(dispatcher.try_next().is_some() && dispatcher.try_next().is_none());
        assert_eq!(dispatcher.try_reserve(10), 0, "the one that started uses the room of the one that ended");
        assert!(dispatcher.overdue().is_empty(), "the other has not waited long");
        assert_eq!(dispatcher.close().len(), 1);
        dispatcher.done(Some((place, Duration::ZERO)));
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
        let place = dispatcher.place_of(&delivery(1)).unwrap();
        // Now 20 pass in a moment.
        dispatcher.done(Some((place, Duration::from_millis(5))));
        assert_eq!(push(1).ready, 1);
        assert_eq!(push(64).put_off.len(), 0);
        let relieved = dispatcher.relieved();
        let mut relieved = std::pin::pin!(relieved);
        for _ in 0..53 {
            assert!(futures_util::poll!(&mut relieved).is_pending());
            dispatcher.done(Some((place, Duration::from_millis(5))));
        }
        assert_eq!(dispatcher.in_backlog(), 11);
        assert!(futures_util::poll!(&mut relieved).is_pending());
        dispatcher.done(Some((place, Duration::from_millis(5))));
        relieved.await;
        dispatcher.relieved().await;
    }

    #[tokio::test]
    async fn the_reader_waits_for_the_backlog_no_longer_than_its_patience() {
        let dispatcher = limited();
        dispatcher.relieved().await;
        let place = dispatcher.place_of(&delivery(1)).unwrap();
        dispatcher.reserve_anyway(3);
        assert_eq!(dispatcher.push(vec![delivery(1), delivery(1)]).ready, 2);
        dispatcher.done(Some((place, Duration::from_millis(5))));
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
}
