//! The pulse of Redis: when it did not answer the test, for whatever reason. A pause of the test process itself shows in
//! the same way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::Connection;

use harness::clock::monotonic_ns;
use harness::redis_server::RedisServer;
use harness::wait::pause_for;
use harness::weather::{Cause, Event};

const EVERY: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_millis(200);
/// The shortest gap between two answers that counts.
const GAP: Duration = Duration::from_millis(300);

/// Pings Redis until it is asked to stop, and returns all gaps.
pub(crate) fn feel(server: &RedisServer, stop: &AtomicBool) -> Vec<Event> {
    let url = format!("redis://127.0.0.1:{}/0", server.port());
    let client = redis::Client::open(url).unwrap();
    let (mut connection, mut answered, mut gaps) = (None, monotonic_ns(), Vec::new());
    while !stop.load(Ordering::SeqCst) {
        pause_for(EVERY);
        let asked = connection.take().or_else(|| connect(&client));
        connection =
            asked.and_then(|mut open| redis::cmd("PING").query::<String>(&mut open).is_ok().then_some(open));
        if connection.is_none() {
            continue;
        }
        let now = monotonic_ns();
        if now - answered > u64::try_from(GAP.as_nanos()).unwrap() {
            gaps.push(Event { cause: Cause::Redis, pid: None, from: answered, until: now });
        }
        answered = now;
    }
    gaps
}

fn connect(client: &redis::Client) -> Option<Connection> {
    let connection = client.get_connection_with_timeout(PATIENCE).ok()?;
    connection.set_read_timeout(Some(PATIENCE)).ok()?;
    Some(connection)
}
