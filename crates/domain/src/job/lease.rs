//! The lease of an entry: when its owner renews it, when its owner gives it up, and when others may claim it. The
//! server measures how long an entry has been silent with its wall clock, which may step, and may stop for everybody.
//! So a claimer compares that clock with its own monotonic clock.

use std::time::Duration;

/// The longest time between two checks for entries to renew.
const CHECK_AT_LEAST: Duration = Duration::from_millis(400);

/// The times that follow from a queue's lease.
///
/// An owner leaves an entry silent for at most a sixth of the lease: 1/8, plus up to 1/24 until its next check. It
/// gives the entry up at 11/12, and others claim it at 13/12. So Redis may stall for seven tenths of the lease, or an
/// owner for three quarters, and there is still time to renew.
#[derive(Debug, Clone, Copy)]
pub struct Lease(Duration);

impl Lease {
    /// Returns the times that follow from this lease.
    pub fn of(lease: Duration) -> Self {
        Self(lease)
    }

    /// An owner renews an entry that has been silent for this long.
    pub fn renewed_after(self) -> Duration {
        self.0 / 8
    }

    /// When one entry is renewed, those that have been silent for this long are renewed with it, so that they stay together.
    pub fn renewed_along(self) -> Duration {
        self.0 / 16
    }

    /// How often an owner checks for entries to renew.
    pub fn check_every(self) -> Duration {
        (self.0 / 24).min(CHECK_AT_LEAST)
    }

    /// An attempt starts only if its entry has been silent for less than this. Otherwise the worker first asks Redis
    /// who owns the entry.
    pub fn starts_within(self) -> Duration {
        self.0 / 3
    }

    /// An owner gives up an entry that has been silent for longer than this.
    pub fn given_up_after(self) -> Duration {
        self.0 - self.0 / 12
    }

    /// Others claim an entry that has been silent for this long.
    pub fn stale_after(self) -> Duration {
        self.0 + self.0 / 12
    }

    /// How often a worker searches for silent entries.
    pub fn search_every(self) -> Duration {
        self.0 / 4
    }
}

/// What one look at the server's clock showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockReading {
    /// It advanced as ours did, or there was nothing to compare it with.
    Steady,
    /// The answer came too late to say much.
    Late,
    /// It stepped forward.
    Ahead,
    /// It stepped back: the silence of earlier deliveries may look too short.
    Back,
}

/// What a claimer knows about the server's clock. Every [`Duration`] that is a point in time is read from the claimer's
/// own monotonic clock; milliseconds are the server's.
#[derive(Debug)]
pub struct ClockWatch {
    lease: Lease,
    /// How far the server's clock is ahead of ours, in milliseconds: the least and the most.
    ahead: Option<[i64; 2]>,
    /// Nothing is claimed before this time, so that owners have time to renew.
    trusted_from: Duration,
    /// Steps of the server's clock: when each was noticed, and its largest possible size in milliseconds.
    steps: Vec<(Duration, i64)>,
}

impl ClockWatch {
    /// Starts without any knowledge.
    pub fn new(lease: Lease) -> Self {
        Self { lease, ahead: None, trusted_from: Duration::ZERO, steps: Vec::new() }
    }

    /// Notes what the server's clock showed at some time between `sent` and `received`.
    pub fn observe(&mut self, [sent, received]: [Duration; 2], server_ms: u64) -> ClockReading {
        let shown = server_ms.cast_signed();
        let now = [shown - ms(received), shown - ms(sent)];
        if self.is_late([sent, received]) {
            self.fail(received);
            return ClockReading::Late;
        }
        let known = self.ahead.replace(now);
        let Some(known) = known else {
            self.wait(received, self.lease.0 / 4);
            return ClockReading::Steady;
        };
        let slack = self.slack();
        let shown = if now[0] > known[1] + slack {
            ClockReading::Ahead
        } else if now[1] < known[0] - slack {
            ClockReading::Back
        } else {
            return ClockReading::Steady;
        };
        self.steps.push((received, now[1] - known[0]));
        self.wait(received, self.lease.0 / 4);
        shown
    }

    /// Returns true if what was sent and received at these times took so long that Redis may have stalled for everybody.
    pub fn is_late(&self, [sent, received]: [Duration; 2]) -> bool {
        received.saturating_sub(sent) > self.lease.0 / 4
    }

    /// Notes that Redis did not answer, refused, or was late.
    pub fn fail(&mut self, now: Duration) {
        self.ahead = None;
        self.wait(now, self.lease.0 / 2);
    }

    /// Returns how long an entry must have been silent by the server's clock before it may be claimed; `None` if
    /// nothing may be claimed yet.
    pub fn silence(&mut self, now: Duration) -> Option<Duration> {
        let stale = self.lease.stale_after();
        self.steps.retain(|(noticed, _)| now.saturating_sub(*noticed) < stale);
        // The most that the clock may have gained since an entry was delivered, whenever that was.
        let (mut since, mut most) = (0_i64, 0_i64);
        for (_, step) in self.steps.iter().rev() {
            since = since.saturating_add(*step);
            most = most.max(since);
        }
        let trusted = self.ahead.is_some() && now >= self.trusted_from;
        trusted.then(|| stale + Duration::from_millis(most.unsigned_abs()))
    }

    /// Returns the range of server times, in milliseconds, in which a command sent now may run. The command must do
    /// nothing at any other time.
    pub fn window(&self, now: Duration) -> Option<[i64; 2]> {
        let [least, most] = self.ahead?;
        Some([ms(now) + least - self.slack(), ms(now) + most + self.slack() + ms(self.lease.0 / 4)])
    }

    fn wait(&mut self, now: Duration, pause: Duration) {
        self.trusted_from = self.trusted_from.max(now + pause);
    }

    /// How far the clocks may drift apart between two looks without a step, in milliseconds: clocks are often adjusted gradually.
    fn slack(&self) -> i64 {
        ms(self.lease.0 / 24)
    }
}

fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEASE: Duration = Duration::from_secs(6);
    const START: u64 = 1_800_000_000_000;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A watch that has observed a correct clock for half a lease.
    fn steady() -> ClockWatch {
        let mut watch = ClockWatch::new(Lease::of(LEASE));
        for millis in [0, 1_500, 3_000] {
            assert_eq!(watch.observe([at(millis), at(millis + 1)], START + millis), ClockReading::Steady);
        }
        watch
    }

    /// The longest silence of an owner, followed by a stall of Redis of seven tenths of the lease, or of the owner of three quarters.
    #[test]
    fn a_tolerated_pause_leaves_time_to_renew() {
        for lease in [500, 1_000, 6_000, 15_000, 3_600_000].map(at) {
            let times = Lease::of(lease);
            let silent = times.renewed_after() + times.check_every();
            assert!(silent + lease * 7 / 10 + lease / 25 <= times.given_up_after(), "{lease:?}");
            assert!(silent + lease * 3 / 4 + lease / 8 <= times.stale_after(), "{lease:?}");
            assert!(silent < times.starts_within());
        }
    }

    #[test]
    fn a_dead_owners_entries_are_claimed_within_four_thirds_of_the_lease() {
        let times = Lease::of(LEASE);
        assert!(times.stale_after() + times.search_every() <= LEASE * 4 / 3);
    }

    #[test]
    fn a_new_claimer_waits_until_every_owner_has_renewed() {
        let mut watch = ClockWatch::new(Lease::of(LEASE));
        assert_eq!(watch.silence(at(0)), None);
        watch.observe([at(0), at(1)], START);
        assert_eq!(watch.silence(at(1_400)), None);
        assert_eq!(watch.silence(at(1_501)), Some(at(6_500)));
    }

    #[test]
    fn a_step_forward_extends_the_allowed_silence_for_a_lease() {
        let mut watch = steady();
        assert_eq!(watch.observe([at(4_500), at(4_501)], START + 14_500), ClockReading::Ahead);
        assert_eq!(watch.silence(at(4_600)), None);
        assert_eq!(watch.silence(at(6_100)), Some(at(16_501)));
        assert_eq!(watch.silence(at(11_100)), Some(at(6_500)));
    }

    #[test]
    fn a_step_back_does_not_undo_an_earlier_step_forward() {
        let mut watch = steady();
        watch.observe([at(4_500), at(4_500)], START + 14_500);
        assert_eq!(watch.observe([at(5_500), at(5_500)], START + 5_500), ClockReading::Back);
        assert_eq!(watch.observe([at(6_500), at(6_500)], START + 16_500), ClockReading::Ahead);
        assert_eq!(watch.silence(at(8_000)), Some(at(16_501)));
    }

    #[test]
    fn a_late_claim_or_one_by_another_clock_is_outside_its_window() {
        let watch = steady();
        let [first, last] = watch.window(at(4_000)).unwrap();
        let server = |millis: u64| (START + millis).cast_signed();
        assert!((first..=last).contains(&server(4_000)) && (first..=last).contains(&server(4_900)));
        assert!(!(first..=last).contains(&server(8_100)), "Redis was frozen before it");
        assert!(!(first..=last).contains(&server(14_000)), "the clock stepped before it");
        assert!(!(first..=last).contains(&server(3_000)), "the clock stepped back before it");
    }

    #[test]
    fn after_a_late_or_missing_answer_nothing_is_claimed_for_half_a_lease() {
        let mut watch = steady();
        assert_eq!(watch.observe([at(4_500), at(6_500)], START + 6_400), ClockReading::Late);
        assert_eq!((watch.silence(at(9_000)), watch.window(at(9_000))), (None, None));
        watch.observe([at(9_500), at(9_501)], START + 9_500);
        assert_eq!(watch.silence(at(11_100)), Some(at(6_500)));
        watch.fail(at(11_200));
        assert_eq!(watch.silence(at(14_300)), None);
    }

    proptest! {
        /// Whatever the clock does between looks, an entry that has been silent for less than a lease is never stale.
        #[test]
        fn no_step_makes_an_entry_stale(
            steps in proptest::collection::vec(prop_oneof![-100_000_i64..-500, 500_i64..100_000], 1..12),
        ) {
            let mut watch = steady();
            let (mut ours, mut ahead) = (3_000_u64, 0_i64);
            let mut delivered: Vec<(u64, i64)> = Vec::new();
            for step in steps {
                delivered.push((ours + 100, (START + ours + 100).cast_signed() + ahead));
                ahead += step;
                ours += 1_500;
                let server = (START + ours).saturating_add_signed(ahead);
                watch.observe([at(ours), at(ours + 2)], server);
                // Even if nobody waits for owners to renew.
                watch.trusted_from = Duration::ZERO;
                let Some(silence) = watch.silence(at(ours + 2)) else { continue };
                for (owner, by_server) in &delivered {
                    let idle = server.cast_signed() - by_server;
                    let stale = idle >= silence.as_millis() as i64;
                    prop_assert!(!stale || ours - owner >= 6_000, "{idle} {silence:?} {}", ours - owner);
                }
            }
        }
    }
}
