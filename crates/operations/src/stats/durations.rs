//! How long the jobs of a queue waited and ran, over time.

use std::time::Duration;

use serde::Serialize;
use streamfleet::Queue;
use streamfleet_engine::admin::{Distribution, TypeStats};

use super::DurationSpread;
use crate::times::rfc3339;
use crate::{Error, List};

/// The windows in which an attempt began or ended, oldest first: at most 26.
pub type DurationList = List<DurationWindow, DurationFacts>;

/// What is known about all windows.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct DurationFacts {
    /// The queue.
    pub queue: String,
    /// When the first window begins, whether or not it is listed.
    pub from: String,
    /// When the first window begins, in milliseconds since 1970.
    pub from_ms: u64,
    /// How long a window is: ten minutes, or an hour if more than two hours were asked for. The last one has not ended.
    pub window_ms: u64,
}

/// How long jobs waited and ran in one window.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct DurationWindow {
    /// When it begins.
    pub at: String,
    /// When it begins, in milliseconds since 1970.
    pub at_ms: u64,
    /// How long jobs waited, from being ready to being started.
    pub wait: DurationSpread,
    /// How long attempts ran.
    pub run: DurationSpread,
    /// How long jobs waited, as it is stored.
    #[serde(skip)]
    pub waits: Distribution,
    /// How long attempts ran, as it is stored.
    #[serde(skip)]
    pub runs: Distribution,
}

/// Lists how long the jobs of all types of a queue waited and ran in this time. Nothing is said of a window in which no attempt began
/// or ended.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn durations(queue: &Queue, since: Duration) -> Result<DurationList, Error> {
    let read = queue.type_stats_over_time(since).await;
    let (length, windows) = read.map_err(Error::redis("failed to read the statistics of types"))?;
    let from = windows.first().map(|window| window.from).unwrap_or_default();
    let facts = DurationFacts {
        queue: queue.name().to_string(),
        from: rfc3339(from),
        from_ms: from.as_ms(),
        window_ms: u64::try_from(length.as_millis()).unwrap_or(u64::MAX),
    };
    let items = windows.iter().map(DurationWindow::of).filter(DurationWindow::has_counted).collect();
    Ok(DurationList { items, next: None, facts, former: None })
}

impl DurationWindow {
    /// Sums up the types of a window.
    fn of(window: &TypeStats) -> Self {
        let (mut waits, mut runs) = (Distribution::default(), Distribution::default());
        for figures in &window.types {
            waits.merge(&figures.wait);
            runs.merge(&figures.run);
        }
        Self {
            at: rfc3339(window.from),
            at_ms: window.from.as_ms(),
            wait: DurationSpread::from(&waits),
            run: DurationSpread::from(&runs),
            waits,
            runs,
        }
    }

    fn has_counted(&self) -> bool {
        self.wait.count + self.run.count > 0
    }
}

#[cfg(test)]
mod tests {
    use streamfleet_engine::admin::TypeFigures;

    use super::*;

    #[test]
    fn the_types_of_a_window_are_one_distribution() {
        let figures = |run: Duration| {
            let mut figures = TypeFigures::of_others();
            figures.run.add(Distribution::cell_of(run), 10);
            figures
        };
        let types = [Duration::from_millis(1), Duration::from_secs(1)].map(figures).to_vec();
        let mut window = TypeStats::default();
        window.types = types;
        let shown = DurationWindow::of(&window);
        assert_eq!((shown.run.count, shown.wait.count, shown.wait.p50_ms), (20, 0, None));
        assert!(shown.run.p50_ms.unwrap() < 2.0 && shown.run.p95_ms.unwrap() > 800.0, "{shown:?}");
        assert!(shown.has_counted() && !DurationWindow::of(&TypeStats::default()).has_counted());
    }
}
