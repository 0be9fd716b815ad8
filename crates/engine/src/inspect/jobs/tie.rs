//! A position among jobs of the delayed set that are due in the same millisecond.

use crate::job::EntryId;

/// How many jobs that are due in one millisecond were read, and of how many. If some of them are gone when the next page is read,
/// because they became due or a task has changed them, it goes back by as many, so that it misses none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tie {
    pub(super) ms: u64,
    pub(super) read: u32,
    /// 0 if nobody has counted.
    of: u32,
}

impl Tie {
    pub(super) fn new(ms: u64, read: u64) -> Self {
        Self { ms, read: u32::try_from(read).unwrap_or(u32::MAX), of: 0 }
    }

    /// Notes of how many each of these is, in the order of a page. `last` are as due as the last one.
    pub(super) fn count(page: &mut [Self], last: u64) {
        let Some(mut end) = page.last().copied() else { return };
        end.of = u32::try_from(last).unwrap_or(u32::MAX).max(end.read);
        for tie in page.iter_mut().rev() {
            // Before the last ones, a page has all that are due in one millisecond.
            if tie.ms != end.ms {
                end = Self { of: tie.read, ..*tie };
            }
            tie.of = end.of;
        }
    }

    /// Returns how many of these to skip if `now` of them are left.
    pub(super) fn skip(self, now: u64) -> u64 {
        let gone = u64::from(self.of).saturating_sub(now);
        u64::from(self.read).saturating_sub(gone).min(now)
    }

    pub(super) fn packed(self) -> EntryId {
        EntryId::new(self.ms, u64::from(self.of) << 32 | u64::from(self.read))
    }

    pub(super) fn unpacked(EntryId { ms, seq }: EntryId) -> Self {
        let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        Self { ms, read: half(seq), of: half(seq >> 32) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_goes_back_by_as_many_jobs_as_are_gone() {
        let mut page = [Tie::new(5, 1), Tie::new(5, 2), Tie::new(7, 1), Tie::new(9, 1), Tie::new(9, 2)];
        Tie::count(&mut page, 10);
        assert_eq!(page.map(|tie| tie.of), [2, 2, 1, 10, 10]);
        let last = page[4];
        assert_eq!([10, 9, 8, 1, 0].map(|now| last.skip(now)), [2, 1, 0, 0, 0]);
        assert_eq!(last.skip(12), 2, "others came");
        assert_eq!(Tie::unpacked(last.packed()), last);
        assert_eq!(Tie::unpacked(EntryId::new(9, 2)).skip(1), 1, "of an earlier version");
    }
}
