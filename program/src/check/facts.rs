//! Judges what `INFO` reports. Pure, except that it reads the local clock once, which decides nothing.

use std::time::Duration;

use streamfleet_engine::admin::Server;

use super::Finding;
use crate::times::short;

/// Memory use from this on is worth a warning …
const TIGHT_PERCENT: u64 = 75;

/// … and from this on an error: new jobs will soon be refused.
const FULL_PERCENT: u64 = 95;

/// The largest difference between two clocks that is not worth a warning.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// Judges one server. `round_trip` is how long the reply took, which bounds what is known about the clock.
pub(super) fn judge(server: &Server, address: &str, round_trip: Duration) -> Vec<Finding> {
    let judged = [
        Some(version(server)),
        eviction(server),
        persistence(server),
        memory(server),
        cluster(server, address),
        Some(replication(server)),
        clock(server, jiff::Timestamp::now(), round_trip),
    ];
    judged.into_iter().flatten().collect()
}

fn version(server: &Server) -> Finding {
    const CHECK: &str = "version";
    let Some((name, version)) = server.product() else {
        let remedy = "use Redis 7.0 or Valkey 7.2, or later";
        return Finding::warning(CHECK, "the server does not report its version", remedy);
    };
    let found = format!("{name} {version}");
    match server.least_version() {
        Some(least) => Finding::error(CHECK, found, format!("use {name} {least} or later")),
        None => Finding::ok(CHECK, found),
    }
}

fn eviction(server: &Server) -> Option<Finding> {
    const CHECK: &str = "eviction";
    let policy = server.fact("maxmemory_policy")?;
    let remedy = "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf";
    Some(match policy {
        "noeviction" => Finding::ok(CHECK, policy),
        _ if policy.starts_with("volatile-") => {
            let found = format!("{policy}: when memory is short, records of finished jobs may vanish early");
            Finding::warning(CHECK, found, remedy)
        }
        _ => Finding::error(CHECK, format!("{policy}: when memory is short, Redis deletes jobs"), remedy),
    })
}

fn persistence(server: &Server) -> Option<Finding> {
    const CHECK: &str = "persistence";
    let aof = server.fact("aof_enabled")?;
    let failing = |name: &str| server.fact(name).is_some_and(|status| status == "err");
    if aof == "1" && failing("aof_last_write_status") {
        let remedy = "check the server's log and disk: it refuses jobs until it can write again";
        return Some(Finding::error(CHECK, "the last write to the append-only file failed", remedy));
    }
    if failing("rdb_last_bgsave_status") {
        let remedy = "check the server's log and disk: a failing snapshot can make it refuse jobs";
        return Some(Finding::warning(CHECK, "the last snapshot failed", remedy));
    }
    if aof == "1" {
        return Some(Finding::ok(CHECK, "append-only file"));
    }
    let found = "no append-only file: a crash of Redis loses every job since its last snapshot";
    Some(Finding::warning(CHECK, found, "CONFIG SET appendonly yes, and the same in redis.conf"))
}

fn memory(server: &Server) -> Option<Finding> {
    const CHECK: &str = "memory";
    let number = |name: &str| server.fact(name)?.parse::<u64>().ok();
    let (used, limit) = (number("used_memory")?, number("maxmemory")?);
    if limit == 0 {
        let found =
            format!("{} used, no limit: the kernel may kill Redis when memory is short", mebibytes(used));
        let remedy = "set maxmemory to about three quarters of the machine's memory";
        return Some(Finding::warning(CHECK, found, remedy));
    }
    let percent = used.saturating_mul(100) / limit;
    let found = format!("{} of {} used ({percent} %)", mebibytes(used), mebibytes(limit));
    let remedy = "raise maxmemory, drop dead letters, or add workers";
    Some(match percent {
        FULL_PERCENT.. => Finding::error(CHECK, format!("{found}: new jobs will be refused"), remedy),
        TIGHT_PERCENT.. => Finding::warning(CHECK, found, remedy),
        _ => Finding::ok(CHECK, found),
    })
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1024 * 1024))
}

fn cluster(server: &Server, address: &str) -> Option<Finding> {
    const CHECK: &str = "cluster";
    let clustered = server.fact("cluster_enabled")? == "1";
    let meant = address.split("://").next().is_some_and(|scheme| scheme.ends_with("-cluster"));
    Some(match (clustered, meant) {
        (true, false) => Finding::error(
            CHECK,
            "the server is part of a cluster, but the address is not a cluster address",
            "start redis.url with redis-cluster:// (or rediss-cluster://)",
        ),
        (false, true) => Finding::error(
            CHECK,
            "the address is a cluster address, but the server is not part of a cluster",
            "start redis.url with redis:// (or rediss://)",
        ),
        (true, true) => Finding::ok(CHECK, "the server is part of a cluster, as the address says"),
        (false, false) => Finding::ok(CHECK, "not in use"),
    })
}

fn replication(server: &Server) -> Finding {
    const CHECK: &str = "replication";
    if server.fact("role").is_some_and(|role| role != "master") {
        let remedy = "name the primary in redis.url, or use redis-sentinel:// to find it";
        return Finding::error(CHECK, "this server is a replica: it accepts no jobs", remedy);
    }
    let replicas = server.fact("connected_slaves").and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
    match (replicas, server.fact("min_slaves_good_slaves")) {
        (0, _) => Finding::ok(CHECK, "no replicas"),
        (_, Some(_)) => Finding::ok(CHECK, format!("{replicas} replicas, writes wait for enough of them")),
        (_, None) => Finding::warning(
            CHECK,
            format!(
                "{replicas} replicas, but an isolated primary continues to accept jobs that a failover loses"
            ),
            "CONFIG SET min-replicas-to-write 1, and the same in redis.conf",
        ),
    }
}

/// The clocks of workers decide nothing, so a difference is only a warning: people compare logs by them.
fn clock(server: &Server, here: jiff::Timestamp, round_trip: Duration) -> Option<Finding> {
    const CHECK: &str = "clock";
    let micros = server.fact("server_time_usec")?.parse().ok()?;
    let there = jiff::Timestamp::from_microsecond(micros).ok()?;
    let difference = here.duration_since(there);
    let apart = difference.unsigned_abs().saturating_sub(round_trip);
    if apart <= CLOCK_TOLERANCE {
        return Some(Finding::ok(CHECK, "this machine and the server agree"));
    }
    let which = if difference.is_negative() { "behind" } else { "ahead of" };
    let found = format!("this machine is {} {which} the server", short(apart));
    let remedy =
        "run NTP on both; jobs use only the server's clock, but the times in the two logs do not match";
    Some(Finding::warning(CHECK, found, remedy))
}
