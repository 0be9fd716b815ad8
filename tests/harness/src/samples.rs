//! Writes what workers count about the queue `mail`.

use crate::redis_server::RedisServer;

const MINUTE: u64 = 60_000;

/// Adds three samples of the queue `mail`. Returns the time of the first one.
pub fn add_samples(server: &RedisServer) -> u64 {
    let samples = [
        "span_ms 0 waiting 10 running 2 delayed 1 dead 0 in_rooms 3 oldest_ms 1500 arrived 0 done 0",
        "span_ms 60000 waiting 4 running 2 delayed 1 dead 1 oldest_ms 300 arrived 20 done 25 failed 2 retried 1 died 1",
        "span_ms 60000 waiting 0 running 0 delayed 0 dead 1 arrived 5 done 12",
    ];
    let first = server.now_ms() / MINUTE * MINUTE - 10 * MINUTE;
    for (nth, fields) in (0..).zip(samples) {
        let id = format!("{}-0", first + nth * MINUTE);
        let command = ["XADD", "sf:{mail}:samples", &id];
        server.cmd(&command.into_iter().chain(fields.split(' ')).collect::<Vec<_>>());
    }
    server.cmd(&["XADD", "sf:{mail}:jobs", "*", "type", "mail.send"]);
    first
}

/// Adds figures of the types of the queue `mail`.
pub fn add_types(server: &RedisServer) {
    server.cmd(&["XADD", "sf:{mail}:jobs", "*", "type", "mail.send"]);
    let key = format!("sf:{{mail}}:types:10m:{}", server.now_ms() / (10 * MINUTE));
    // Done, failed, dead; then cells and how many waits and runs fell into each.
    let types: [(&str, &[u8]); 2] = [
        ("mail.send", &[0x95, 10, 2, 1, 0x81, 20, 12, 0x81, 24, 12]),
        ("(other)", &[0x95, 5, 0, 0, 0x81, 0, 5, 0x90]),
    ];
    for (name, packed) in types {
        redis::cmd("HSET").arg(&key).arg(name).arg(packed).exec(&mut server.client()).unwrap();
    }
}
