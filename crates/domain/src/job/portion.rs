//! How many entries to ask Redis for. Redis counts entries, but their bytes matter. So ask for few at first, then for
//! as many as fit a budget of bytes if they are like those before.

/// The largest factor by which the count may grow from one portion to the next.
const GROWTH: usize = 8;

/// How many entries the next portion takes. Nobody knows how large the next entries are before they are read. So the
/// heaviest entry of the last portions stands for all of them, and each portion halves its remembered weight.
#[derive(Debug, Clone)]
pub struct Portion {
    most: usize,
    bytes: usize,
    first: usize,
    count: usize,
    heaviest: usize,
}

impl Portion {
    /// Creates portions of at most `most` entries and, as far as can be foreseen, `bytes` bytes. The first has `first` entries.
    pub fn new(first: usize, most: usize, bytes: usize) -> Self {
        let first = first.clamp(1, most.max(1));
        Self { most: most.max(1), bytes, first, count: first, heaviest: 0 }
    }

    /// Returns how many entries to ask for now.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Notes how many bytes each entry of a portion had.
    pub fn record_sizes(&mut self, sizes: impl Iterator<Item = usize>) {
        let Some(heaviest) = sizes.max() else { return };
        self.heaviest = heaviest.max(self.heaviest / 2);
        let fit = self.bytes / self.heaviest.max(1);
        self.count = fit.clamp(1, self.most).min(self.count.saturating_mul(GROWTH));
    }

    /// Starts over: the next entries need not be like the previous ones.
    pub fn reset(&mut self) {
        (self.count, self.heaviest) = (self.first.min(self.count), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: usize = 1024 * 1024;

    #[test]
    fn small_entries_are_soon_taken_in_full_portions() {
        let mut portion = Portion::new(16, 500, 16 * MIB);
        for want in [16, 128, 500, 500] {
            assert_eq!(portion.count(), want);
            portion.record_sizes(std::iter::repeat_n(300, want));
        }
    }

    #[test]
    fn one_heavy_entry_shrinks_the_next_portion_and_is_slowly_forgotten() {
        let mut portion = Portion::new(16, 500, 16 * MIB);
        portion.record_sizes([300, 8 * MIB].into_iter());
        let next = || {
            let count = portion.count();
            portion.record_sizes([300].into_iter());
            count
        };
        let counts: Vec<_> = std::iter::repeat_with(next).take(10).collect();
        assert_eq!(counts, [2, 4, 8, 16, 32, 64, 128, 256, 500, 500]);
    }

    #[test]
    fn no_entries_change_no_estimate() {
        let mut portion = Portion::new(1, 10, MIB);
        portion.record_sizes(std::iter::empty());
        assert_eq!(portion.count(), 1);
    }

    proptest! {
        #[test]
        fn entries_like_those_before_stay_within_the_budget(
            sizes in prop::collection::vec(0usize..16 * MIB, 1..50), bytes in 1usize..64 * MIB,
        ) {
            let mut portion = Portion::new(1, 500, bytes);
            for size in sizes {
                portion.record_sizes(std::iter::once(size));
                prop_assert!((1..=500).contains(&portion.count()));
                prop_assert!(portion.count() == 1 || portion.count() * size <= bytes);
            }
        }
    }
}
