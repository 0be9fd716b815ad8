//! Many submissions, cut into round trips.

use super::Submission;

/// One round trip carries at most so many jobs …
const BATCH_JOBS: usize = 250;

/// … and about so many bytes.
const BATCH_BYTES: usize = 512 * 1024;

/// Cuts submissions into round trips, by number and by size.
pub(super) struct Batches<I: Iterator<Item = Submission>> {
    pub(super) submissions: std::iter::Peekable<I>,
}

impl<I: Iterator<Item = Submission>> Iterator for Batches<I> {
    type Item = Vec<Submission>;

    fn next(&mut self) -> Option<Vec<Submission>> {
        let first = self.submissions.next()?;
        let (mut bytes, mut batch) = (first.bytes, vec![first]);
        while batch.len() < BATCH_JOBS
            && let Some(next) = self.submissions.next_if(|next| bytes + next.bytes <= BATCH_BYTES)
        {
            bytes += next.bytes;
            batch.push(next);
        }
        Some(batch)
    }
}
