//! The time of this machine, for metrics that Prometheus compares with its own.

/// Returns the seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "Prometheus compares it with its own clock, not with Redis's")]
pub(super) fn unix_seconds() -> f64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64()
}
