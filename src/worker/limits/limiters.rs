//! The gates of types and keys: how many attempts are behind each, and how soon more can follow.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::job::Lane;

/// A job that may not start is put off for at least this long …
pub(super) const SHORTEST: Duration = Duration::from_millis(20);

/// … or half as long as an attempt takes, up to this long if no others are put off, …
pub(super) const ALONE: Duration = Duration::from_secs(1);

/// … and never for longer than this, however many others are put off.
pub(super) const LONGEST: Duration = Duration::from_secs(60);

/// Jobs that are put off come back at least this often, one after another. Another worker may have a place for them.
const LONGEST_GAP: Duration = Duration::from_millis(20);

/// More may wait for a gate than run behind it if it lets them pass within this time.
const MOMENT: Duration = Duration::from_millis(50);

/// Up to this many keys are known, even if none of their jobs is here. Keys come and go.
pub(super) const MOST_IDLE: usize = 1024;

/// The gates, and what is behind them.
#[derive(Debug)]
pub(super) struct Limiters {
    pub(super) by_key: FxHashMap<LimitKey, Limiter>,
    /// Idle keys are forgotten once there are more gates than this.
    most: usize,
}

/// What is limited: a type, a group of types or, if there is a key, the jobs of the type with this key, of which only the
/// hash is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct LimitKey {
    pub(super) nth: usize,
    pub(super) key: Option<u64>,
}

/// A gate, and how many attempts may be behind it at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Bound {
    pub(super) limit_key: LimitKey,
    pub(in super::super) most: usize,
}

/// The gates that the attempts of a job pass: that of its type, that of its key, and that of the types with which its type
/// shares places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Permit(pub(super) [Option<Bound>; 3]);

/// What is behind a gate.
#[derive(Debug)]
pub(super) struct Limiter {
    pub(super) live: usize,
    /// When it last became full.
    pub(super) full_since: Instant,
    /// How long attempts take, as a moving average; `None` before the first has ended.
    mean: Option<Duration>,
    /// How many have ended.
    ended: usize,
    /// When the next job of each lane that is put off comes back, at the earliest.
    next: [Instant; Lane::ALL.len()],
}

impl LimitKey {
    /// Returns true if it is that of a group of types.
    pub(super) fn is_shared(self) -> bool {
        self.nth > usize::MAX / 2
    }
}

impl Limiters {
    pub(super) fn new() -> Self {
        Self { by_key: FxHashMap::default(), most: MOST_IDLE }
    }

    pub(super) fn is_full(&self, bound: Bound) -> bool {
        self.by_key.get(&bound.limit_key).is_some_and(|limiter| limiter.live >= bound.most)
    }

    /// Forgets keys without attempts if there are many. Those whose jobs are about to come back keep their pace.
    pub(super) fn forget_idle(&mut self, now: Instant) {
        if self.by_key.len() <= self.most {
            return;
        }
        self.by_key.retain(|limit_key, limiter| limit_key.key.is_none() || limiter.is_needed(now));
        self.most = MOST_IDLE.max(2 * self.by_key.len());
    }
}

impl Permit {
    pub(in super::super) fn bounds(self) -> impl Iterator<Item = Bound> {
        self.0.into_iter().flatten()
    }

    /// Returns true if this gate is one of its own.
    pub(in super::super) fn passes(self, bound: Bound) -> bool {
        self.bounds().any(|own| own.limit_key == bound.limit_key)
    }
}

impl Limiter {
    pub(super) fn new(now: Instant) -> Self {
        Self { live: 0, full_since: now, mean: None, ended: 0, next: [now; Lane::ALL.len()] }
    }

    fn is_needed(&self, now: Instant) -> bool {
        self.live > 0 || self.next.iter().any(|next| *next > now)
    }

    /// Notes how long an attempt took. The first ones that share places may have waited until their programs had started, which
    /// says nothing about the others.
    pub(super) fn note(&mut self, ran: Duration, bound: Bound) {
        self.ended = self.ended.saturating_add(1);
        if !bound.limit_key.is_shared() || self.ended > bound.most {
            self.mean = Some(self.mean.map_or(ran, |mean| (4 * mean + ran) / 5));
        }
    }

    /// Returns how many attempts pass in a moment, if more pass than run at once. While nobody knows how long those take that
    /// share places, as many count as run at once.
    pub(super) fn pass_in_a_moment(&self, bound: Bound) -> Option<usize> {
        let Some(mean) = self.mean else { return bound.limit_key.is_shared().then_some(bound.most) };
        let times = MOMENT.as_secs_f64() / mean.as_secs_f64();
        // A cast of a float is cut to the bounds of the integer.
        (times > 1.0).then_some((bound.most as f64 * times) as usize)
    }

    /// Returns when the next job of a lane should come back. They come back twice as fast as attempts end: so there is always
    /// one when there is room, and few come in vain. Those of a lane do not wait for those of another one.
    pub(super) fn put_off(&mut self, most: usize, lane: Lane, now: Instant) -> Duration {
        let next = &mut self.next[lane as usize];
        let lasts = self.mean.unwrap_or_default().max(now.saturating_duration_since(self.full_since));
        let alone = (lasts / 2).clamp(SHORTEST, ALONE);
        let delay = next.saturating_duration_since(now).clamp(alone, LONGEST);
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        *next = now + delay + (lasts / most.saturating_mul(2)).min(LONGEST_GAP);
        delay
    }
}
