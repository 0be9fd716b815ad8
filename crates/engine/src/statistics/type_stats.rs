//! What the jobs of each type did lately: how they ended, how long they waited and ran. Redis keeps one key for every ten
//! minutes of the last two hours, and one for every hour of the last day. See `tally.lua`, which writes them.

use std::collections::BTreeMap;
use std::time::Duration;

use fred::types::Value;
use futures_util::future::try_join_all;
use serde::Deserialize;

use crate::Queue;
use crate::client::decode::{self, timestamp};
use crate::client::error::Error;
use crate::client::script::scripts;
use crate::job::distribution::Distribution;
use crate::job::{JobType, Timestamp};

scripts! { TYPE_STATS "type_stats" }

/// The field of all types beyond the most that a key has. No type has such a name.
const OTHERS: &str = "(other)";

const TEN_MINUTES: Duration = Duration::from_secs(600);
const HOUR: Duration = Duration::from_secs(3600);

/// What the jobs of each type did in a time; see the [example](Distribution).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeStats {
    /// When this time began. It ends with the [time](Self::now) of the server's clock, except for what workers have not
    /// reported yet: a worker reports types once a minute.
    pub from: Timestamp,
    /// The time of the server's clock.
    pub now: Timestamp,
    /// The types that had jobs, in alphabetical order, and last of all the other types.
    pub types: Vec<TypeFigures>,
}

/// What the jobs of one type did; see the [example](Distribution).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeFigures {
    /// The type. `None` stands for all types beyond the first hundred of a key, and for entries that are not jobs.
    pub job_type: Option<JobType>,
    /// Jobs that succeeded.
    pub done: u64,
    /// Attempts that failed, or whose worker died.
    pub failed: u64,
    /// Jobs that became dead letters.
    pub dead: u64,
    /// How long attempts waited, from being ready to being started.
    pub wait: Distribution,
    /// How long attempts ran.
    pub run: Distribution,
}

impl TypeFigures {
    /// Returns figures of a type that has done nothing.
    #[doc(hidden)]
    pub fn of(job_type: JobType) -> Self {
        Self { job_type: Some(job_type), ..Self::of_others() }
    }

    /// Returns figures of all other types, which have done nothing.
    #[doc(hidden)]
    pub fn of_others() -> Self {
        Self::default()
    }

    /// Returns how much there is to report.
    #[doc(hidden)]
    pub fn weight(&self) -> u64 {
        let counts = [self.done, self.failed, self.dead, self.wait.count(), self.run.count()];
        counts.into_iter().fold(0, u64::saturating_add)
    }

    /// Adds other figures.
    #[doc(hidden)]
    pub fn merge(&mut self, other: &Self) {
        self.done = self.done.saturating_add(other.done);
        self.failed = self.failed.saturating_add(other.failed);
        self.dead = self.dead.saturating_add(other.dead);
        self.wait.merge(&other.wait);
        self.run.merge(&other.run);
    }

    /// The field of the type in a key.
    pub(super) fn field(&self) -> String {
        self.job_type.as_ref().map_or_else(|| OTHERS.to_owned(), ToString::to_string)
    }

    /// The figures as a packed list.
    pub(super) fn packed(&self) -> Vec<u8> {
        let cells = |of: &Distribution| of.cells().collect::<BTreeMap<usize, u64>>();
        let packed = (self.done, self.failed, self.dead, cells(&self.wait), cells(&self.run));
        rmp_serde::to_vec(&packed).expect("numbers can be written as MessagePack")
    }

    fn read(field: &str, packed: &[u8]) -> Option<Self> {
        let job_type = match field {
            OTHERS => None,
            name => Some(name.parse().ok()?),
        };
        let Packed(done, failed, dead, wait, run) = rmp_serde::from_slice(packed).ok()?;
        Some(Self { job_type, done, failed, dead, wait: wait.distribution(), run: run.distribution() })
    }
}

/// The packed list of figures.
#[derive(Deserialize)]
struct Packed(u64, u64, u64, Cells, Cells);

/// A packed distribution: the number of each cell and its count. Lua writes a list if the numbers are 1, 2, 3 and so on.
#[derive(Deserialize)]
#[serde(untagged)]
enum Cells {
    Listed(Vec<u64>),
    Numbered(BTreeMap<usize, u64>),
}

impl Cells {
    fn distribution(self) -> Distribution {
        let mut all = Distribution::default();
        match self {
            Self::Listed(counts) => (1..).zip(counts).for_each(|(cell, count)| all.add(cell, count)),
            Self::Numbered(counts) => counts.into_iter().for_each(|(cell, count)| all.add(cell, count)),
        }
        all
    }
}

/// The time that one key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Window {
    TenMinutes,
    Hour,
}

impl Window {
    /// The longest time that the keys of ten minutes cover together.
    const MAX_FINE: Duration = Duration::from_secs(2 * 3600);

    /// The longest time that is known.
    const MAX: Duration = Duration::from_secs(24 * 3600);

    /// Returns the part of a key's name that stands for the window.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::TenMinutes => "10m",
            Self::Hour => "1h",
        }
    }

    fn length(self) -> Duration {
        match self {
            Self::TenMinutes => TEN_MINUTES,
            Self::Hour => HOUR,
        }
    }

    fn ms(self) -> u64 {
        self.length().as_secs() * 1000
    }

    /// Returns the number, since 1970, of the window that this instant is in.
    pub(crate) fn number_at(self, at: Timestamp) -> u64 {
        at.as_ms() / self.ms()
    }

    /// Returns which windows cover the time of this length that ends now.
    fn covering(length: Duration, now: Timestamp) -> (Self, std::ops::RangeInclusive<u64>) {
        let length = length.min(Self::MAX);
        let window = if length <= Self::MAX_FINE { Self::TenMinutes } else { Self::Hour };
        let from = now.before(length).as_ms() / window.ms();
        (window, from..=window.number_at(now))
    }
}

impl Queue {
    /// Returns what the jobs of each type have done within `window`, at most the last 24 hours.
    ///
    /// Redis keeps sums for every ten minutes, and for windows of more than two hours for every hour. So the time that the
    /// answer covers may begin earlier than the window: see [`TypeStats::from`]. The counts are approximate: a worker that
    /// is killed has not reported its last minute. This takes up to 26 short commands.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn type_stats(&self, window: Duration) -> Result<TypeStats, Error> {
        let (_, windows) = self.type_stats_over_time(window).await?;
        let from = windows.first().map(|first| first.from).unwrap_or_default();
        let now = windows.last().map(|last| last.now).unwrap_or_default();
        let mut types: BTreeMap<Option<JobType>, TypeFigures> = BTreeMap::new();
        for figures in windows.into_iter().flat_map(|window| window.types) {
            match types.get_mut(&figures.job_type) {
                Some(sum) => sum.merge(&figures),
                None => drop(types.insert(figures.job_type.clone(), figures)),
            }
        }
        let others = types.remove(&None);
        Ok(TypeStats { from, now, types: types.into_values().chain(others).collect() })
    }

    /// Returns what [`type_stats`](Self::type_stats) sums up: how long each window is that Redis keeps, and each of them, oldest
    /// first. [`TypeStats::now`] is its end, or the time of the server's clock for the last one, which has not ended.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    #[doc(hidden)]
    pub async fn type_stats_over_time(&self, window: Duration) -> Result<(Duration, Vec<TypeStats>), Error> {
        let now = self.clock().await?;
        let (window, numbers) = Window::covering(window, now);
        let windows = numbers.map(|number| async move {
            let types = self.type_figures(window, number).await?;
            let [from, end] = [number, number + 1].map(|number| timestamp(number * window.ms()));
            Ok::<_, Error>(TypeStats { from, now: end.min(now), types })
        });
        Ok((window.length(), try_join_all(windows).await?))
    }

    async fn type_figures(&self, window: Window, number: u64) -> Result<Vec<TypeFigures>, Error> {
        let answer = self.run(&TYPE_STATS, vec![self.keys.type_stats(window, number)], Vec::new()).await?;
        let Some(Value::Array(flat)) = answer.rest.first() else {
            return Err(Error::contract("type_stats", answer));
        };
        let read = |pair: &[Value]| TypeFigures::read(&decode::text(&pair[0]), decode::data(&pair[1]));
        Ok(flat.chunks_exact(2).filter_map(read).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64) -> Timestamp {
        timestamp(seconds * 1000)
    }

    #[test]
    fn short_windows_are_read_in_steps_of_ten_minutes_and_long_ones_in_hours() {
        let now = at(100 * 3600 + 900);
        let covering = |seconds| Window::covering(Duration::from_secs(seconds), now);
        assert_eq!(covering(0), (Window::TenMinutes, 601..=601));
        assert_eq!(covering(600), (Window::TenMinutes, 600..=601));
        assert_eq!(covering(7200), (Window::TenMinutes, 589..=601));
        assert_eq!(covering(7201), (Window::Hour, 98..=100));
        assert_eq!(covering(86_400), (Window::Hour, 76..=100));
        assert_eq!(covering(u64::MAX), (Window::Hour, 76..=100));
        assert_eq!(Window::covering(HOUR, at(60)), (Window::TenMinutes, 0..=0));
    }

    #[test]
    fn what_others_wrote_is_ignored() {
        let sound = TypeFigures::of("a.b".parse().unwrap());
        assert_eq!(TypeFigures::read("a.b", &sound.packed()), Some(sound.clone()));
        for (field, packed) in [("A B", sound.packed()), ("a.b", b"garbage".to_vec()), ("a.b", Vec::new())] {
            assert_eq!(TypeFigures::read(field, &packed), None, "{field}");
        }
    }

    #[test]
    fn a_list_of_counts_begins_with_the_second_cell_as_lua_counts_from_one() {
        // [1, 2, 3, [], [7, 8]]
        let read = TypeFigures::read(OTHERS, &[0x95, 1, 2, 3, 0x90, 0x92, 7, 8]).unwrap();
        assert_eq!((read.job_type, read.done, read.failed, read.dead), (None, 1, 2, 3));
        assert_eq!(read.run.cells().collect::<Vec<_>>(), [(1, 7), (2, 8)]);
    }

    proptest! {
        #[test]
        fn packed_figures_are_read_as_they_were_written(
            counts in prop::array::uniform3(any::<u64>()),
            waits in prop::collection::btree_map(0..Distribution::CELLS, 1..u64::MAX, 0..20),
        ) {
            let mut figures = TypeFigures::of_others();
            [figures.done, figures.failed, figures.dead] = counts;
            waits.into_iter().for_each(|(cell, count)| figures.wait.add(cell, count));
            prop_assert_eq!(TypeFigures::read(OTHERS, &figures.packed()), Some(figures));
        }
    }
}
