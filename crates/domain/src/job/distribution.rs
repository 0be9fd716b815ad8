//! How durations are distributed: how many fell into each of 64 cells. Each cell is wider than the one before by the square
//! root of two, so a percentile is known to within a fifth of its value, whatever its size. Counts of several workers add up
//! without any further error.

use std::collections::BTreeMap;
use std::time::Duration;

/// The number of cells. The last one has no upper bound.
const CELLS: usize = 64;

/// The upper bounds of all cells but the last, in microseconds.
const BOUNDS_US: [u64; CELLS - 1] = bounds();

/// The upper bound of the first cell, and this times the square root of two, in nanoseconds.
const FIRST_NS: [u64; 2] = [250_000, 353_553];

const fn bounds() -> [u64; CELLS - 1] {
    let (mut bounds, mut cell) = ([0; CELLS - 1], 0);
    while cell < CELLS - 1 {
        bounds[cell] = (FIRST_NS[cell % 2] << (cell / 2)) / 1000;
        cell += 1;
    }
    bounds
}

/// How durations are distributed: the result of counting them in cells whose width grows with the duration.
///
/// A [percentile](Self::percentile) of durations between 250 µs and 6 days is at most 19 % too small or too large. A
/// shorter one is reported as 250 µs, a longer one as 6 days.
///
/// ```
/// # use streamfleet_domain::job::distribution::Distribution;
/// fn describe(run: &Distribution) {
///     if let Some(p95) = run.percentile(0.95) {
///         println!("95 % of {} attempts took at most {p95:?}", run.count());
///     }
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Cells that are not empty.
    cells: BTreeMap<usize, u64>,
}

impl Distribution {
    /// The number of cells.
    #[doc(hidden)]
    pub const CELLS: usize = CELLS;

    /// Returns the cell that a duration falls into.
    #[doc(hidden)]
    pub fn cell_of(duration: Duration) -> usize {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        BOUNDS_US.partition_point(|bound| *bound < us)
    }

    /// Counts this many durations that fall into a cell. Ignores a cell that does not exist.
    #[doc(hidden)]
    pub fn add(&mut self, cell: usize, count: u64) {
        if cell < CELLS && count > 0 {
            let own = self.cells.entry(cell).or_default();
            *own = own.saturating_add(count);
        }
    }

    /// Adds what another one has counted.
    #[doc(hidden)]
    pub fn merge(&mut self, other: &Self) {
        other.cells().for_each(|(cell, count)| self.add(cell, count));
    }

    /// Returns the cells that are not empty, and how many durations fell into each, in ascending order.
    #[doc(hidden)]
    pub fn cells(&self) -> impl ExactSizeIterator<Item = (usize, u64)> + '_ {
        self.cells.iter().map(|(cell, count)| (*cell, *count))
    }

    /// Returns how many durations were counted.
    pub fn count(&self) -> u64 {
        self.cells.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Returns the duration that this share of the durations does not exceed, such as 0.95 for the 95th percentile; `None`
    /// if none was counted. A share below 0 counts as 0, one above 1 as 1. For its error, see [`Distribution`].
    pub fn percentile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        // The nearest rank. A `u64` holds it, because a share is at most 1; a float is exact enough for a rank.
        let rank = ((count as f64 * share.clamp(0.0, 1.0)).ceil() as u64).clamp(1, count.max(1));
        let mut seen: u64 = 0;
        let found = self.cells.iter().find(|(_, own)| {
            seen = seen.saturating_add(**own);
            seen >= rank
        });
        found.map(|(cell, _)| middle(*cell))
    }
}

/// Returns the duration that stands for all of a cell: the geometric mean of its bounds.
fn middle(cell: usize) -> Duration {
    let us = match (cell.checked_sub(1).and_then(|below| BOUNDS_US.get(below)), BOUNDS_US.get(cell)) {
        (Some(low), Some(high)) => ((*low as f64) * (*high as f64)).sqrt() as u64,
        // The first cell has no lower bound, and the last one no upper bound.
        (None, Some(only)) | (Some(only), None) => *only,
        (None, None) => 0,
    };
    Duration::from_micros(us)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(durations: &[Duration]) -> Distribution {
        let mut all = Distribution::default();
        durations.iter().for_each(|duration| all.add(Distribution::cell_of(*duration), 1));
        all
    }

    #[test]
    fn a_bound_belongs_to_its_own_cell() {
        let cells =
            [0, 250, 251, 353, 354, 500, 501].map(|us| Distribution::cell_of(Duration::from_micros(us)));
        assert_eq!(cells, [0, 0, 1, 1, 2, 2, 3]);
        assert_eq!(Distribution::cell_of(Duration::MAX), CELLS - 1);
        assert!(BOUNDS_US.is_sorted());
    }

    #[test]
    fn nothing_has_no_percentile_and_one_duration_has_all() {
        assert_eq!(Distribution::default().percentile(0.5), None);
        let one = of(&[Duration::from_millis(7)]);
        let all = [f64::NEG_INFINITY, 0.0, 0.5, 1.0, 2.0, f64::NAN].map(|share| one.percentile(share));
        assert!(all.iter().all(|found| *found == all[0] && found.is_some()), "{all:?}");
    }

    #[test]
    fn what_no_cell_can_tell_apart_is_reported_as_the_bound() {
        assert_eq!(of(&[Duration::ZERO]).percentile(0.5), Some(Duration::from_micros(250)));
        let longest = of(&[Duration::MAX]).percentile(0.5).unwrap();
        assert_eq!(longest.as_secs() / 86_400, 6, "{longest:?}");
    }

    #[test]
    fn a_cell_that_does_not_exist_is_ignored() {
        let mut all = Distribution::default();
        all.add(CELLS, 5);
        all.add(0, 0);
        assert_eq!((all.count(), all.cells().len()), (0, 0));
    }

    proptest! {
        #[test]
        fn a_percentile_is_off_by_a_fifth_at_most(
            mut us in prop::collection::vec(250u64..500_000_000_000, 1..200),
            share in 0.0f64..=1.0,
        ) {
            let found = of(&us.iter().map(|us| Duration::from_micros(*us)).collect::<Vec<_>>());
            us.sort_unstable();
            let rank = ((us.len() as f64 * share).ceil() as usize).clamp(1, us.len());
            let ratio = found.percentile(share).unwrap().as_micros() as f64 / us[rank - 1] as f64;
            prop_assert!((1.0 / 1.2..=1.2).contains(&ratio), "{ratio}");
        }

        #[test]
        fn what_two_workers_counted_adds_up_to_what_one_would_have_counted(
            one in prop::collection::vec(0u64..10_000_000_000, 0..50),
            other in prop::collection::vec(0u64..10_000_000_000, 0..50),
        ) {
            let durations = |us: &[u64]| us.iter().map(|us| Duration::from_micros(*us)).collect::<Vec<_>>();
            let (one, other) = (durations(&one), durations(&other));
            let mut merged = of(&one);
            merged.merge(&of(&other));
            prop_assert_eq!(merged, of(&[one, other].concat()));
        }

        #[test]
        fn percentiles_ascend_with_the_share(us in prop::collection::vec(0u64..10_000_000_000, 1..50)) {
            let all = of(&us.iter().map(|us| Duration::from_micros(*us)).collect::<Vec<_>>());
            let found: Vec<_> = (0..=10).map(|tenths| all.percentile(f64::from(tenths) / 10.0)).collect();
            prop_assert!(found.is_sorted(), "{:?}", found);
        }
    }
}
