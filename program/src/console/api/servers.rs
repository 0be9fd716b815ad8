//! What Redis reports about itself, as far as it matters to those who operate a fleet.

use serde::Serialize;
use streamfleet_engine::admin::{Listed, Server};
use streamfleet_operations::List;
use utoipa_axum::routes;

use super::failure::redis;
use super::{Answer, Call, Routes, operations};
use crate::console::access::Role;

pub(super) fn routes() -> Routes {
    Routes::default().operation(&operations::QUEUES, routes!(list_servers))
}

/// What is known about all servers.
#[derive(Serialize, utoipa::ToSchema)]
struct ServerFacts {
    /// The servers of a cluster that could not be asked, and why.
    unread: Vec<String>,
}

/// One server. A figure is null if the server does not report it.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Server)]
struct ServerReport {
    /// Its address in a cluster; null for a single server.
    node: Option<String>,
    /// `Redis` or `Valkey`.
    product: String,
    version: String,
    used_memory_bytes: Option<u64>,
    /// Null if there is no limit.
    max_memory_bytes: Option<u64>,
    /// How it keeps its data: `aof`, `snapshots` or `none`.
    persistence: &'static str,
    clients: Option<u64>,
    uptime_ms: Option<u64>,
    /// What is wrong: `evicts` (it deletes data to make room), `aof_failed` or `snapshot_failed`.
    warnings: Vec<&'static str>,
    /// What it deletes to make room, as `maxmemory-policy` says it.
    eviction_policy: Option<String>,
}

type ServerList = List<ServerReport, ServerFacts>;

/// Lists the servers of Redis: the only one, or those of a cluster that have slots.
///
/// It needs the role on all queues, which the servers have together.
#[utoipa::path(get, path = "/api/v1/servers", tag = "console",
    responses((status = 200, description = "The servers", body = ServerList)))]
async fn list_servers(call: Call) -> Answer {
    call.person.check_about(Role::Viewer, None)?;
    let listed = call.app.broker.servers().await.map_err(redis("the servers cannot be asked"))?;
    let Listed { found, missing } = listed;
    let facts = ServerFacts { unread: missing.iter().map(ToString::to_string).collect() };
    let items = found.iter().map(ServerReport::from).collect();
    call.answer(&ServerList { items, next: None, facts, former: None })
}

impl From<&Server> for ServerReport {
    fn from(server: &Server) -> Self {
        let number = |name: &str| server.fact(name).and_then(|text| text.parse::<u64>().ok());
        let (product, version) = server.product().unwrap_or(("Redis", ""));
        let max_memory_bytes = number("maxmemory").filter(|most| *most > 0);
        let eviction_policy = server.fact("maxmemory_policy").filter(|policy| !policy.is_empty());
        let has_failed =
            |name: &str| server.fact(name).is_some_and(|status| !status.is_empty() && status != "ok");
        let evicts =
            max_memory_bytes.is_some() && eviction_policy.is_some_and(|policy| policy != "noeviction");
        let warnings = [
            ("evicts", evicts),
            ("aof_failed", has_failed("aof_last_write_status")),
            ("snapshot_failed", has_failed("rdb_last_bgsave_status")),
        ];
        Self {
            node: server.node.clone(),
            product: product.to_owned(),
            version: version.to_owned(),
            used_memory_bytes: number("used_memory"),
            max_memory_bytes,
            // Only its configuration says whether it takes snapshots, but it says that it has taken one.
            persistence: match (server.fact("aof_enabled"), server.fact("rdb_saves")) {
                (Some("1"), _) => "aof",
                (_, Some("0")) => "none",
                _ => "snapshots",
            },
            clients: number("connected_clients"),
            uptime_ms: number("uptime_in_seconds").map(|seconds| seconds.saturating_mul(1000)),
            warnings: warnings.into_iter().filter(|(_, is_so)| *is_so).map(|(name, _)| name).collect(),
            eviction_policy: eviction_policy.map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_deletes_data_or_cannot_keep_it_is_marked() {
        let text = "redis_version:7.2.4\nmaxmemory:100\nused_memory:60\nmaxmemory_policy:allkeys-lru\naof_enabled:1\n\
                    aof_last_write_status:err\nrdb_last_bgsave_status:ok\nuptime_in_seconds:3\n";
        let report = ServerReport::from(&Server::read(text));
        assert_eq!(report.warnings, ["evicts", "aof_failed"]);
        assert_eq!((report.persistence, report.uptime_ms), ("aof", Some(3000)));
        assert_eq!((&*report.version, report.max_memory_bytes), ("7.2.4", Some(100)));
    }
}
