//! The samples of a queue, for charts.

use std::time::Duration;

use streamfleet::Queue;
use streamfleet_engine::admin::Sample;

use super::chart::Minute;

/// How far back charts go.
const SINCE: Duration = Duration::from_secs(3600);

/// The samples of the last hour, the oldest first; none if the queue has none, or if they cannot be read: the rest of the page
/// is worth seeing without a chart.
pub(super) async fn last_hour(queue: &Queue) -> Vec<Minute> {
    match queue.samples(SINCE).await {
        Ok(samples) => samples.iter().map(minute).collect(),
        Err(error) => {
            tracing::warn!(queue = %queue.name(), %error, "the samples of a queue cannot be read");
            Vec::new()
        }
    }
}

fn minute(sample: &Sample) -> Minute {
    let Sample { at, waiting, arrived, done, failed, .. } = *sample;
    Minute { at, waiting, arrived, done, failed }
}
