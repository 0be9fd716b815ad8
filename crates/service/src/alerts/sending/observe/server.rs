//! How full the servers are.

use crate::alerts::config::Config;
use crate::broker::{Broker, Error};
use crate::job::Timestamp;
use crate::job::incident::decide::Checked;
use crate::job::incident::{IncidentKind, Observation};

/// Checks all servers. Those without a limit to their memory are never full.
pub(super) async fn check(broker: &Broker, config: &Config, now: Timestamp) -> Result<Checked, Error> {
    let servers = broker.servers().await?;
    let mut checked = Checked::default();
    for server in &servers.found {
        let number = |name: &str| server.fact(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let node = server.node.as_deref().unwrap_or_default();
        let (used, max) = (number("used_memory"), number("maxmemory"));
        checked.observations.extend(full(node, (used, max), config.redis_memory, now));
    }
    if servers.missing.is_empty() {
        checked.covered.insert((IncidentKind::RedisMemory, None));
    }
    Ok(checked)
}

fn full(node: &str, (used, max): (u64, u64), allowed: f64, now: Timestamp) -> Option<Observation> {
    let share = used as f64 / max as f64;
    if max == 0 || share < allowed {
        return None;
    }
    let of = if node.is_empty() { String::new() } else { format!(" of {node}") };
    let mib = |bytes: u64| bytes / (1024 * 1024);
    let detail = format!(
        "{} % of the memory{of} is in use: {} of {} MiB",
        (share * 100.0).round(),
        mib(used),
        mib(max)
    );
    Some(Observation::new(IncidentKind::RedisMemory, None, now).key(node).detail(&detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_with_a_limit_can_be_full() {
        let now = Timestamp::default();
        assert_eq!(full("", (1 << 40, 0), 0.9, now), None);
        assert_eq!(full("", (89, 100), 0.9, now), None);
        let seen = full("a:7000", (90 << 20, 100 << 20), 0.9, now).unwrap();
        assert_eq!(seen.key, "a:7000");
        assert_eq!(seen.detail, "90 % of the memory of a:7000 is in use: 90 of 100 MiB");
    }
}
