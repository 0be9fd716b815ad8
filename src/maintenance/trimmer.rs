//! Drops dead letters beyond the queue's limits of age and number, the oldest first. Each one is dropped by the script
//! that also drops letters by hand, which checks the limits again. So two processes that trim at once drop no letter
//! that may stay, and one that dies in the middle leaves no letter half dropped. If there is an archive, no letter goes
//! before the archive has it.

use std::time::Duration;

use super::{Archive, Context};
use crate::broker::{DeadLetter, Error, Evicted, Extras, LetterLimits, QueueSnapshot};
use crate::event::QueueEvent;

/// How often the trimmer checks whether a letter has to go.
const EVERY: Duration = Duration::from_secs(30);

/// The pause between two lots.
const PAUSE: Duration = Duration::from_millis(250);

/// The number of letters that are dropped in one go, and reported together.
const BATCH: u64 = 1000;

/// The number of letters that are read at once. It is small because an archive needs them whole.
const PAGE: u64 = 20;

/// Trims until stopped; does nothing if all letters are kept.
pub(super) async fn run(context: Context) {
    if context.letters.keep_all() {
        return;
    }
    let mut chore = context.chore(EVERY);
    while chore.tick().await {
        let mut letters = 0;
        let batch = chore.note(batch(&context, &mut letters).await);
        // Includes what was dropped before an error.
        if letters > 0 {
            context.events.of_queue(context.queue.name(), QueueEvent::Evicted { letters });
        }
        if letters >= BATCH && batch.is_some() {
            chore.next_about(PAUSE);
        }
    }
}

/// Drops a lot of letters, and counts them.
async fn batch(context: &Context, letters: &mut u64) -> Result<(), Error> {
    // The first page is the oldest letter alone, because it usually stays.
    let mut count = 1;
    let dead = context.queue.dead_letters();
    // Only an archive needs their large fields.
    let dead = if context.archive.is_some() { dead } else { dead.bare() };
    loop {
        let page = dead.page(None, count).await?;
        let page = match &context.archive {
            Some(archive) => archived(context, archive, page).await?,
            None => page,
        };
        if page.is_empty() {
            return Ok(());
        }
        for letter in page {
            match context.queue.dead_letters().evict(letter.entry, &letter.job(), context.letters).await? {
                Evicted::Dropped => *letters += 1,
                // Somebody else was first, or has replayed it.
                Evicted::Gone => {}
                Evicted::Kept => return Ok(()),
            }
        }
        // Only after a whole page: a letter that is archived is also dropped.
        if *letters >= BATCH || context.stop.is_cancelled() {
            return Ok(());
        }
        count = PAGE.min(BATCH - *letters);
    }
}

/// Writes those of these letters that exceed the limits to the archive, and returns them; none if it cannot be written. They
/// are the oldest ones of the queue, the oldest first.
async fn archived(
    context: &Context,
    archive: &Archive,
    mut letters: Vec<DeadLetter>,
) -> Result<Vec<DeadLetter>, Error> {
    if letters.is_empty() {
        return Ok(letters);
    }
    // Without the heads of the lanes, which may be large.
    let snapshot = context.queue.snapshot_with(Extras::default()).await?;
    let exceeding = letters.iter().enumerate();
    let exceeding =
        exceeding.take_while(|(nth, letter)| exceeds(context.letters, &snapshot, *nth as u64, letter));
    let exceeding = exceeding.count();
    letters.truncate(exceeding);
    if letters.is_empty() {
        return Ok(letters);
    }
    let queue = context.queue.name();
    match archive.append(&letters, snapshot.now).await {
        Ok(()) => {
            context.events.of_queue(queue, QueueEvent::Archived { letters: letters.len() as u64 });
            Ok(letters)
        }
        Err(error) => {
            context.events.of_queue(queue, QueueEvent::ArchiveFailed { why: &error.to_string() });
            Ok(Vec::new())
        }
    }
}

/// True if a letter, the `nth` of the queue, does not stay. The script that drops it decides again.
fn exceeds(limits: LetterLimits, snapshot: &QueueSnapshot, nth: u64, letter: &DeadLetter) -> bool {
    let age = snapshot.now.as_ms().saturating_sub(letter.entry.ms);
    let is_old = limits.retention.is_some_and(|retention| u128::from(age) > retention.as_millis());
    is_old || limits.most.is_some_and(|most| nth < snapshot.dead.saturating_sub(most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{EntryId, Envelope, Timestamp};

    #[test]
    fn letters_exceed_the_limits_by_age_or_by_number() {
        let mut snapshot = QueueSnapshot::default();
        (snapshot.now, snapshot.dead) = (Timestamp::from_ms(100_000).unwrap(), 10);
        let letter = |ms| DeadLetter::new(EntryId::new(ms, 0), Envelope::default());
        let exceeds = |limits, nth, ms| exceeds(limits, &snapshot, nth, &letter(ms));
        let by_age = LetterLimits::default().retention(Duration::from_secs(10));
        assert_eq!([exceeds(by_age, 0, 89_999), exceeds(by_age, 0, 90_000)], [true, false]);
        let by_number = LetterLimits::default().most(7);
        assert_eq!([exceeds(by_number, 2, 99_999), exceeds(by_number, 3, 1)], [true, false]);
        assert!(!exceeds(LetterLimits::default(), 0, 0));
    }
}
