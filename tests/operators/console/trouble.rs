//! Incidents, as the process that looks for them writes them.

use serde_json::{Value, json};

use harness::redis_server::RedisServer;

/// An open incident of the queue `mail`, about a group of dead letters.
pub(super) const GROUP: &str = "0b5ff109";

/// An open incident of the queue `other`.
pub(super) const OTHER: &str = "0b5ff10a";

/// An open incident that is about no queue.
pub(super) const MEMORY: &str = "0b5ff10b";

/// An incident of the queue `mail` that is over.
pub(super) const OVER: &str = "0b5ff10c";

/// What an error says. Only those who may see payloads see it.
pub(super) const ERROR: &str = "no <b>route</b> for ann";

/// Writes one incident of each of these.
pub(super) fn incidents(server: &RedisServer) {
    let example = json!({"job": "order-7", "error": ERROR});
    let group = json!({"queue": "mail", "key": "0123456789abcdef", "type": "mail.send", "example": example});
    put(server, &incident(GROUP, "dead_group", &group));
    put(server, &incident(OTHER, "queue_paused", &json!({"queue": "other"})));
    put(server, &incident(MEMORY, "redis_memory", &json!({})));
    server.cmd(&["HSET", "sf:alerts:{alerts}:told", &format!("{GROUP} ops"), "1 2"]);
    let over = json!({"queue": "mail", "state": "resolved", "resolved_ms": 1_700_000_100_000_u64});
    let over = incident(OVER, "backlog", &over).to_string();
    server.cmd(&["XADD", "sf:alerts:{alerts}:past", "*", "incident", &over]);
}

/// Writes an open incident about a queue.
pub(super) fn open(server: &RedisServer, id: &str, queue: &str) {
    put(server, &incident(id, "queue_paused", &json!({"queue": queue})));
}

fn put(server: &RedisServer, incident: &Value) {
    let id = incident["id"].as_str().unwrap();
    server.cmd(&["HSET", "sf:alerts:{alerts}:open", id, &incident.to_string()]);
}

fn incident(id: &str, kind: &str, more: &Value) -> Value {
    let mut incident = json!({
        "id": id, "kind": kind, "state": "open", "detail": "3 jobs <i>died</i> of one cause", "count": 3,
        "since_ms": 1_700_000_000_000_u64, "opened_ms": 1_700_000_000_000_u64, "seen_ms": 1_700_000_000_000_u64,
        "notices": 2,
    });
    incident.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    incident
}
