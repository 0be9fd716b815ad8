//! A queue's samples: its figures once a minute, for a day. The leader takes them, see `sample.lua`.

use std::str::FromStr;
use std::time::Duration;

use crate::client::decode::{self, Entry, timestamp};
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::job::{Envelope, Lane, Timestamp};
use crate::{Queue, QueueSnapshot, millis};

scripts! { SAMPLE "sample" }

/// About how many samples are kept: one a minute for a day.
const KEPT: i64 = 24 * 60;

/// The most samples that are read. Redis deletes whole blocks of them, so a few more are there.
const MAX_READ: u64 = 2 * KEPT.cast_unsigned();

/// The figures of a queue at one minute, and what happened since the sample before.
///
/// The counts are approximate: a worker reports what it counts every 10 s, and what it has not reported is lost if it is
/// killed. Do not settle accounts with them.
///
/// ```no_run
/// # use streamfleet_engine as streamfleet;
/// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// for sample in queue.samples(Duration::from_secs(3600)).await? {
///     let per_second = sample.done as f64 / sample.span.as_secs_f64().max(1.0);
///     println!("{}: {} wait, {per_second:.1} jobs/s", sample.at.as_ms(), sample.waiting);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sample {
    /// The beginning of the minute in which it was taken, by the server's clock.
    pub at: Timestamp,
    /// The time that the counts cover, in whole minutes: since the sample before. Usually one minute, more if the queue had
    /// no leader, and zero for the first sample, which has no counts.
    pub span: Duration,
    /// Jobs that no worker had taken, over all lanes and waiting lists.
    pub waiting: u64,
    /// Jobs that a worker held.
    pub running: u64,
    /// Jobs in the delayed set.
    pub delayed: u64,
    /// Dead letters.
    pub dead: u64,
    /// Those of the waiting jobs that were in waiting lists, for whatever reason.
    pub in_rooms: u64,
    /// How long the oldest waiting job had waited; `None` if none did.
    pub oldest_waiting: Option<Duration>,
    /// Jobs that were accepted or replayed: by how many the jobs became more, and those that ended. Jobs that were moved between
    /// queues do not count. Jobs that somebody deletes make it too small.
    pub arrived: u64,
    /// Jobs that succeeded.
    pub done: u64,
    /// Attempts that failed, or whose worker died.
    pub failed: u64,
    /// Jobs that are tried again because of that.
    pub retried: u64,
    /// Jobs that became dead letters.
    pub died: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// How many more jobs were moved here from other queues than away.
    pub(crate) moved: i64,
    /// By how many milliseconds later than `at` the figures were read; less than zero if they were read before.
    off_ms: i64,
}

impl Sample {
    /// When the figures were read, by the clock of Redis.
    pub(crate) fn read_at(&self) -> Timestamp {
        timestamp(self.at.as_ms().saturating_add_signed(self.off_ms))
    }

    fn read(entry: &Entry) -> Self {
        let fields = entry.envelope.as_ref();
        let signed = |name: &str| fields.and_then(|fields| number::<i64>(fields, name)).unwrap_or(0);
        let number = |name: &str| fields.and_then(|fields| number::<u64>(fields, name));
        let count = |name: &str| number(name).unwrap_or(0);
        Self {
            at: timestamp(entry.id.ms),
            span: Duration::from_millis(count("span_ms")),
            waiting: count("waiting"),
            running: count("running"),
            delayed: count("delayed"),
            dead: count("dead"),
            in_rooms: count("in_rooms"),
            oldest_waiting: number("oldest_ms").map(Duration::from_millis),
            arrived: count("arrived"),
            done: count("done"),
            failed: count("failed"),
            retried: count("retried"),
            died: count("died"),
            cancelled: count("cancelled"),
            moved: signed("moved"),
            off_ms: signed("off_ms"),
        }
    }
}

/// Returns a field that is a number.
fn number<T: FromStr>(fields: &Envelope, name: &str) -> Option<T> {
    std::str::from_utf8(fields.get(name.as_bytes())?).ok()?.parse().ok()
}

impl Queue {
    /// Adds a sample with these figures, unless this minute has one. Returns the time of the server's clock.
    #[doc(hidden)]
    pub async fn sample(&self, snapshot: &QueueSnapshot) -> Result<Timestamp, Error> {
        let in_rooms = snapshot.in_rooms + snapshot.in_unknown_rooms + snapshot.in_fair_rooms;
        let [moved_in, moved_out] = snapshot.moved;
        let figure = |figure: u64| i64::try_from(figure).unwrap_or(i64::MAX);
        let args = Vec::from(args![SAMPLE;
            most = KEPT,
            waiting = figure(snapshot.waiting()),
            running = figure(snapshot.running()),
            delayed = figure(snapshot.delayed),
            dead = figure(snapshot.dead),
            in_rooms = figure(in_rooms),
            moved_in = figure(moved_in),
            moved_out = figure(moved_out),
            oldest_ms = snapshot.oldest_waiting().map_or_else(|| "".into(), millis),
            read_ms = figure(snapshot.now.as_ms()),
        ]);
        let keys = vec![self.keys.samples.clone(), self.keys.counts.clone()];
        let answer = self.run(&SAMPLE, keys, args).await?;
        let now = answer.rest.first().and_then(decode::number).map(timestamp);
        now.ok_or_else(|| Error::contract("sample", answer))
    }

    /// Returns the samples of the last `since`, the oldest first: one a minute, for at most about 24 hours. A minute in which
    /// the queue had no leader has none.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn samples(&self, since: Duration) -> Result<Vec<Sample>, Error> {
        let now = self.clock().await?;
        let from = now.before(since).as_ms().to_string();
        let range = (from, "+".to_owned());
        let samples = self.link.xrange(&self.keys.samples, range, MAX_READ, Lane::Normal).await?;
        Ok(samples.iter().map(Sample::read).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::EntryId;

    #[test]
    fn a_sample_is_read_from_its_fields_and_what_is_not_a_number_is_left_out() {
        let fields = [
            ("span_ms", "60000"),
            ("waiting", "5"),
            ("running", "many"),
            ("oldest_ms", ""),
            ("died", "2"),
            ("moved", "-7"),
            ("off_ms", "-500"),
        ];
        let fields = fields.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let entry = |envelope| Entry { id: EntryId::new(120_000, 0), lane: Lane::Normal, envelope };
        let read = Sample::read(&entry(Some(Envelope::new(fields.into_iter()))));
        let (span, at) = (Duration::from_secs(60), timestamp(120_000));
        let (moved, off_ms) = (-7, -500);
        assert_eq!(read, Sample { at, span, waiting: 5, died: 2, moved, off_ms, ..Sample::default() });
        assert_eq!(read.read_at(), timestamp(119_500));
        assert_eq!(Sample::read(&entry(None)), Sample { at, ..Sample::default() });
    }
}
