//! What the jobs of each type of a queue did.

use std::time::Duration;

use serde::Serialize;
use streamfleet::{Queue, RedisError};
use streamfleet_engine::admin::{self, Distribution, TypeFigures};

use crate::times::rfc3339;
use crate::{Error, List};

/// The types, those with the most attempts first.
pub type TypeList = List<TypeStats, TypeStatsFacts>;

/// What is known about all types.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct TypeStatsFacts {
    /// The queue.
    pub queue: String,
    /// Since when the jobs are counted.
    pub from: String,
    /// Since when the jobs are counted, in milliseconds since 1970.
    pub from_ms: u64,
}

/// What the jobs of one type did.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct TypeStats {
    /// The type; `null` for all other types.
    #[serde(rename = "type")]
    pub job_type: Option<String>,
    /// How many jobs were done.
    pub done: u64,
    /// How many attempts failed.
    pub failed: u64,
    /// How many jobs died.
    pub dead: u64,
    /// How long jobs waited.
    pub wait: DurationSpread,
    /// How long attempts ran.
    pub run: DurationSpread,
    /// The figures as they are stored.
    #[serde(skip)]
    pub figures: TypeFigures,
}

/// How durations are distributed.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct DurationSpread {
    /// How many were measured.
    pub count: u64,
    /// Half of them were shorter, in milliseconds; `null` if none was measured.
    pub p50_ms: Option<f64>,
    /// Of a hundred, 95 were shorter, in milliseconds; `null` if none was measured.
    pub p95_ms: Option<f64>,
}

impl From<&Distribution> for DurationSpread {
    fn from(distribution: &Distribution) -> Self {
        let ms = |share| distribution.percentile(share).map(|found| found.as_micros() as f64 / 1000.0);
        Self { count: distribution.count(), p50_ms: ms(0.5), p95_ms: ms(0.95) }
    }
}

impl From<TypeFigures> for TypeStats {
    fn from(figures: TypeFigures) -> Self {
        Self {
            job_type: figures.job_type.as_ref().map(ToString::to_string),
            done: figures.done,
            failed: figures.failed,
            dead: figures.dead,
            wait: DurationSpread::from(&figures.wait),
            run: DurationSpread::from(&figures.run),
            figures,
        }
    }
}

/// Lists what the jobs of each type did in this time.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn types(queue: &Queue, since: Duration) -> Result<TypeList, Error> {
    let read = busiest(queue, since).await.map_err(Error::redis("failed to read the statistics of types"))?;
    let (queue, from) = (queue.name().to_string(), read.from);
    let facts = TypeStatsFacts { queue, from: rfc3339(from), from_ms: from.as_ms() };
    let items = read.types.into_iter().map(TypeStats::from).collect();
    Ok(TypeList { items, next: None, facts, former: None })
}

/// Reads the figures of the types, those with the most attempts first.
///
/// # Errors
///
/// [`RedisError`] if Redis does not answer or refuses.
pub async fn busiest(queue: &Queue, since: Duration) -> Result<admin::TypeStats, RedisError> {
    let mut stats = queue.type_stats(since).await?;
    stats.types.sort_by_key(|figures| std::cmp::Reverse(figures.run.count()));
    Ok(stats)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_has_no_percentile() {
        let spread = DurationSpread::from(&Distribution::default());
        assert_eq!((spread.count, spread.p50_ms, spread.p95_ms), (0, None, None));
    }
}
