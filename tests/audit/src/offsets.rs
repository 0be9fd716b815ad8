//! How far the server's clock was off, and when it was set.

/// The steps of the server's clock, in the order in which they happened.
#[derive(Clone, Debug, Default)]
pub struct Offsets {
    /// The moment, by the monotonic clock in nanoseconds, and the offset from then on, in milliseconds.
    steps: Vec<(u64, i64)>,
}

impl Offsets {
    pub fn step(&mut self, at: u64, by_ms: i64) {
        let offset = self.at(at) + by_ms;
        self.steps.push((at, offset));
    }

    fn at(&self, ns: u64) -> i64 {
        self.steps.iter().rev().find(|(at, _)| *at <= ns).map_or(0, |(_, offset)| *offset)
    }

    /// Returns by how many milliseconds a time span measured by the server's clock between the two moments may differ from the
    /// time that really passed.
    pub fn spread(&self, from: u64, until: u64) -> u64 {
        let (mut least, mut most) = (self.at(from), self.at(from));
        for (_, offset) in self.steps.iter().filter(|(at, _)| *at > from && *at <= until) {
            least = least.min(*offset);
            most = most.max(*offset);
        }
        most.abs_diff(least)
    }

    /// Returns the monotonic moments at which the server's clock showed this time. `wall_less_monotonic_ms` is the wall clock of
    /// this machine minus its monotonic clock. There is none if the server's clock jumped over that time.
    pub fn when(&self, server_ms: u64, wall_less_monotonic_ms: u64) -> Vec<u64> {
        let begins = std::iter::once((0, 0)).chain(self.steps.iter().copied());
        let ends = self.steps.iter().map(|(at, _)| *at).chain([u64::MAX]);
        let found = begins.zip(ends).filter_map(|((from, offset), until)| {
            let ms = i128::from(server_ms) - i128::from(offset) - i128::from(wall_less_monotonic_ms);
            u64::try_from(ms * 1_000_000).ok().filter(|moment| (from..until).contains(moment))
        });
        found.collect()
    }

    /// Whether the clock was set between the two moments.
    pub fn is_set_within(&self, from: u64, until: u64) -> bool {
        self.steps.iter().any(|(at, _)| *at >= from && *at <= until)
    }
}
