//! Whether the history of a queue gets all ends of its jobs.

use std::time::Duration;

use super::QueueCheck;
use crate::broker::{Error, JournalFigures};
use crate::job::incident::{IncidentKind, Observation};
use crate::job::{QueueName, Timestamp, format_duration};

/// How long an end may wait in the journal, or the database may fail.
const WAIT: Duration = Duration::from_secs(300);

impl QueueCheck<'_> {
    /// Finds out what its journal says. A queue without a history has none.
    pub(super) async fn check_history(&mut self, now: Timestamp) -> Result<(), Error> {
        let figures = self.queue.journal_figures().await?;
        self.cover(IncidentKind::HistoryBehind);
        self.cover(IncidentKind::HistoryLost);
        let queue = self.queue.name().clone();
        let seen = [behind(&queue, &figures, now), lost(&queue, &figures)];
        self.checked.observations.extend(seen.into_iter().flatten());
        Ok(())
    }
}

/// Whether ends wait for too long, or take too much room. While they are spilled, the journal itself may be short and young.
fn behind(queue: &QueueName, figures: &JournalFigures, now: Timestamp) -> Option<Observation> {
    let most = figures.most?;
    let is_late = |since: &Timestamp| now.since(*since) > WAIT;
    let late = figures.oldest.filter(is_late);
    let failing = figures.error.as_ref().map(|(_, since)| *since).filter(is_late);
    let is_large = figures.bytes > most / 2;
    let what = if let Some(oldest) = late {
        format!("the oldest end in the journal has waited for {}", shown(now.since(oldest)))
    } else if is_large {
        format!("the journal is {} % full", figures.bytes.saturating_mul(100) / most.max(1))
    } else {
        format!("the database has failed for {}", shown(now.since(failing?)))
    };
    let since = late.or(failing).unwrap_or(now);
    let error =
        figures.error.as_ref().map_or_else(String::new, |(error, _)| format!(". Last error: {error}"));
    let seen = Observation::new(IncidentKind::HistoryBehind, Some(queue), since).count(figures.waiting);
    Some(seen.detail(&format!("{what}{error}")))
}

/// Whether the history lacks ends for which the journal had no room.
fn lost(queue: &QueueName, figures: &JournalFigures) -> Option<Observation> {
    let (lost, since) = figures.lost?;
    let seen = Observation::new(IncidentKind::HistoryLost, Some(queue), since).count(lost);
    Some(seen.detail(&format!("the history lacks {lost} ends, because its journal was full")))
}

fn shown(time: Duration) -> String {
    format_duration(Duration::from_secs(time.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_ms(1_000_000_000 + seconds * 1000).unwrap()
    }

    fn seen(change: impl FnOnce(&mut JournalFigures)) -> Option<Observation> {
        let mut figures = JournalFigures { most: Some(1000), waiting: 7, ..JournalFigures::default() };
        change(&mut figures);
        behind(&"mail".parse().unwrap(), &figures, at(1000))
    }

    #[test]
    fn a_history_is_behind_if_ends_wait_the_journal_is_large_or_the_database_fails() {
        assert_eq!(seen(|_| ()), None);
        assert_eq!(seen(|figures| figures.oldest = Some(at(700))), None, "exactly as long as allowed");
        assert_eq!(seen(|figures| figures.error = Some(("no".to_owned(), at(900)))), None, "not for long");
        let late = seen(|figures| figures.oldest = Some(at(400))).unwrap();
        assert_eq!(late.detail, "the oldest end in the journal has waited for 10m");
        assert_eq!((late.since, late.count), (at(400), 7));
        let large = seen(|figures| {
            (figures.bytes, figures.error) = (600, Some(("the connection is lost".to_owned(), at(990))));
        });
        let large = large.unwrap();
        assert_eq!(large.detail, "the journal is 60 % full. Last error: the connection is lost");
        let failing = seen(|figures| figures.error = Some(("no".to_owned(), at(100)))).unwrap();
        assert_eq!(failing.detail, "the database has failed for 15m. Last error: no");
        assert_eq!(seen(|figures| (figures.most, figures.bytes) = (None, 600)), None, "it has no history");
    }

    #[test]
    fn ends_that_were_lost_are_counted() {
        let figures = JournalFigures { lost: Some((3, at(7))), ..JournalFigures::default() };
        let seen = lost(&"mail".parse().unwrap(), &figures).unwrap();
        assert_eq!((seen.count, seen.since, seen.kind), (3, at(7), IncidentKind::HistoryLost));
        assert_eq!(lost(&"mail".parse().unwrap(), &JournalFigures::default()), None);
    }
}
