//! What happened in a queue lately: its samples, its types, and how long its jobs waited and ran.

mod by_type;
mod durations;
mod samples;

use std::time::Duration;

pub use by_type::{DurationSpread, TypeList, TypeStats, TypeStatsFacts, busiest, types};
pub use durations::{DurationFacts, DurationList, DurationWindow, durations};
pub use samples::{Sample, SampleFacts, Samples, samples};

use crate::times::duration;

/// How long statistics are kept.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// How far back to look if nobody says so.
pub const USUAL: Duration = Duration::from_secs(3600);

/// Reads how far back to look: a duration of at most 24 hours.
///
/// # Errors
///
/// Says what a valid text looks like.
pub fn since(text: &str) -> Result<Duration, String> {
    let since = duration(text)?;
    if since > KEPT { Err("statistics are kept for 24h".to_owned()) } else { Ok(since) }
}
