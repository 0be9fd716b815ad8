//! The lease of an entry: when its owner renews it, when the owner gives it up, and when others may take it over. The
//! server judges how long an entry was silent by its wall clock, which may step, and may stand still for everybody; so
//! whoever takes over compares that clock with a monotonic one of its own.

use std::time::Duration;

/// Owners look for something to renew at least so often.
const LOOK_AT_LEAST: Duration = Duration::from_millis(400);

/// The times that follow from a queue's lease.
///
/// An owner's entry is silent for a sixth of the lease at most: 1/8, and 1/24 until the next look. It gives up at 11/12,
/// and others take over at 13/12. So Redis may stand still for seven tenths of the lease, and an owner for three quarters,
/// and there is time left to renew.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease(Duration);

impl Lease {
    pub(crate) fn of(lease: Duration) -> Self {
        Self(lease)
    }

    /// An owner renews what was silent for so long.
    pub(crate) fn renewed_after(self) -> Duration {
        self.0 / 8
    }

    /// When one entry is renewed, those that were silent for so long are renewed with it, so that they stay together.
    pub(crate) fn renewed_along(self) -> Duration {
        self.0 / 16
    }

    /// How often an owner looks for what is to be renewed.
    pub(crate) fn look_every(self) -> Duration {
        (self.0 / 24).min(LOOK_AT_LEAST)
    }

    /// An attempt starts only where its entry was silent for less: otherwise Redis is asked first whose it is.
    pub(crate) fn starts_within(self) -> Duration {
        self.0 / 3
    }

    /// An owner gives up what was silent for longer.
    pub(crate) fn given_up_after(self) -> Duration {
        self.0 - self.0 / 12
    }

    /// Others take over what was silent for so long.
    pub(crate) fn stale_after(self) -> Duration {
        self.0 + self.0 / 12
    }

    /// How often silent entries are looked for.
    pub(crate) fn search_every(self) -> Duration {
        self.0 / 4
    }
}

/// What one look at the server's clock showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// It has gone on as ours has, or nothing was known before.
    Steady,
    /// The answer came so late that it says little.
    Late,
    /// It has stepped forward.
    Ahead,
    /// It has stepped back: what was delivered before may look silent for too short a time.
    Back,
}

/// What somebody who takes entries over knows of the server's clock. All times without a name are those of a monotonic
/// clock of its own; milliseconds are the server's.
#[derive(Debug)]
pub(crate) struct ClockWatch {
    lease: Lease,
    /// By how much the server's clock is ahead of ours, at the least and at the most.
    ahead: Option<[i64; 2]>,
    /// Nothing is taken over before: owners get the time to renew.
    trusted_from: Duration,
    /// Steps of the server's clock: when they were noticed, and how large they were at the most.
    steps: Vec<(Duration, i64)>,
}

impl ClockWatch {
    /// Knows nothing yet.
    pub(crate) fn new(lease: Lease) -> Self {
        Self { lease, ahead: None, trusted_from: Duration::ZERO, steps: Vec::new() }
    }

    /// Notes what the server's clock showed some time between `sent` and `received`.
    pub(crate) fn look(&mut self, [sent, received]: [Duration; 2], server_ms: u64) -> Shown {
        let shown = server_ms.cast_signed();
        let now = [shown - ms(received), shown - ms(sent)];
        if received.saturating_sub(sent) > self.lease.0 / 4 {
            self.ahead = None;
            self.wait(received, self.lease.0 / 2);
            return Shown::Late;
        }
        let known = self.ahead.replace(now);
        let Some(known) = known else {
            self.wait(received, self.lease.0 / 4);
            return Shown::Steady;
        };
        let slack = self.slack();
        let shown = if now[0] > known[1] + slack {
            Shown::Ahead
        } else if now[1] < known[0] - slack {
            Shown::Back
        } else {
            return Shown::Steady;
        };
        self.steps.push((received, now[1] - known[0]));
        self.wait(received, self.lease.0 / 4);
        shown
    }

    /// Notes that there was no answer, or a refusal.
    pub(crate) fn fail(&mut self, now: Duration) {
        self.ahead = None;
        self.wait(now, self.lease.0 / 2);
    }

    /// How long an entry must have been silent by the server's clock to be taken over; `None` where nothing may be taken
    /// over yet.
    pub(crate) fn silence(&mut self, now: Duration) -> Option<Duration> {
        let stale = self.lease.stale_after();
        self.steps.retain(|(noticed, _)| now.saturating_sub(*noticed) < stale);
        // The clock may have gained so much since an entry was delivered, whenever that was.
        let (mut since, mut most) = (0_i64, 0_i64);
        for (_, step) in self.steps.iter().rev() {
            since = since.saturating_add(*step);
            most = most.max(since);
        }
        let trusted = self.ahead.is_some() && now >= self.trusted_from;
        trusted.then(|| stale + Duration::from_millis(most.unsigned_abs()))
    }

    /// What the server's clock must show when a command is carried out that is sent now: nothing else, and no later.
    pub(crate) fn window(&self, now: Duration) -> Option<[i64; 2]> {
        let [least, most] = self.ahead?;
        Some([ms(now) + least - self.slack(), ms(now) + most + self.slack() + ms(self.lease.0 / 4)])
    }

    fn wait(&mut self, now: Duration, pause: Duration) {
        self.trusted_from = self.trusted_from.max(now + pause);
    }

    /// So much the clocks may differ from one look to the next without a step: they are set right little by little.
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

    /// A watch that has looked for half a lease at a clock that was right.
    fn steady() -> ClockWatch {
        let mut watch = ClockWatch::new(Lease::of(LEASE));
        for millis in [0, 1_500, 3_000] {
            assert_eq!(watch.look([at(millis), at(millis + 1)], START + millis), Shown::Steady);
        }
        watch
    }

    /// Silence of an owner at the most, then a pause of Redis of seven tenths, or of the owner of three quarters.
    #[test]
    fn a_pause_that_is_promised_to_cost_nothing_leaves_time_to_renew() {
        for lease in [500, 1_000, 6_000, 15_000, 3_600_000].map(at) {
            let times = Lease::of(lease);
            let silent = times.renewed_after() + times.look_every();
            assert!(silent + lease * 7 / 10 + lease / 25 <= times.given_up_after(), "{lease:?}");
            assert!(silent + lease * 3 / 4 + lease / 8 <= times.stale_after(), "{lease:?}");
            assert!(silent < times.starts_within());
        }
    }

    #[test]
    fn what_a_dead_owner_had_is_taken_over_within_four_thirds_of_the_lease() {
        let times = Lease::of(LEASE);
        assert!(times.stale_after() + times.search_every() <= LEASE * 4 / 3);
    }

    #[test]
    fn whoever_has_just_begun_to_look_waits_until_everybody_has_renewed() {
        let mut watch = ClockWatch::new(Lease::of(LEASE));
        assert_eq!(watch.silence(at(0)), None);
        watch.look([at(0), at(1)], START);
        assert_eq!(watch.silence(at(1_400)), None);
        assert_eq!(watch.silence(at(1_501)), Some(at(6_500)));
    }

    #[test]
    fn a_step_forward_is_noticed_and_added_to_what_counts_as_silent_for_a_lease() {
        let mut watch = steady();
        assert_eq!(watch.look([at(4_500), at(4_501)], START + 14_500), Shown::Ahead);
        assert_eq!(watch.silence(at(4_600)), None);
        assert_eq!(watch.silence(at(6_100)), Some(at(16_501)));
        assert_eq!(watch.silence(at(11_100)), Some(at(6_500)));
    }

    #[test]
    fn a_step_back_does_not_make_a_step_forward_before_it_undone_for_what_came_between() {
        let mut watch = steady();
        watch.look([at(4_500), at(4_500)], START + 14_500);
        assert_eq!(watch.look([at(5_500), at(5_500)], START + 5_500), Shown::Back);
        assert_eq!(watch.look([at(6_500), at(6_500)], START + 16_500), Shown::Ahead);
        assert_eq!(watch.silence(at(8_000)), Some(at(16_501)));
    }

    #[test]
    fn a_claim_that_is_carried_out_late_or_by_another_clock_is_outside_its_window() {
        let watch = steady();
        let [first, last] = watch.window(at(4_000)).unwrap();
        let server = |millis: u64| (START + millis).cast_signed();
        assert!((first..=last).contains(&server(4_000)) && (first..=last).contains(&server(4_900)));
        assert!(!(first..=last).contains(&server(8_100)), "Redis stood still before it");
        assert!(!(first..=last).contains(&server(14_000)), "the clock stepped before it");
        assert!(!(first..=last).contains(&server(3_000)), "the clock stepped back before it");
    }

    #[test]
    fn after_a_late_answer_or_none_nothing_is_taken_over_for_half_a_lease() {
        let mut watch = steady();
        assert_eq!(watch.look([at(4_500), at(6_500)], START + 6_400), Shown::Late);
        assert_eq!((watch.silence(at(9_000)), watch.window(at(9_000))), (None, None));
        watch.look([at(9_500), at(9_501)], START + 9_500);
        assert_eq!(watch.silence(at(11_100)), Some(at(6_500)));
        watch.fail(at(11_200));
        assert_eq!(watch.silence(at(14_300)), None);
    }

    proptest! {
        /// Whatever the clock does between looks: an entry that was silent for less than a lease is never stale.
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
                watch.look([at(ours), at(ours + 2)], server);
                // Even where nobody waited for owners to renew.
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
