//! A witness that sees the first entry of each job of a recurring job as Redis executes it, through `MONITOR`. It would see a
//! second submission of a tick, although both jobs have the same id.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use crate::redis_server::RedisServer;

/// One submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The recurring job.
    pub entry: String,
    /// The tick, in milliseconds.
    pub tick: u64,
    /// When it was submitted, by the same clock.
    pub at_ms: u64,
}

/// The submissions seen so far.
pub struct Witness {
    seen: Arc<Mutex<Vec<Sighting>>>,
}

impl Witness {
    /// Watches until the server exits.
    pub fn of(server: &RedisServer) -> Self {
        let mut stream = TcpStream::connect(server.addr()).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut lines = BufReader::new(stream).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "+OK");
        let seen: Arc<Mutex<Vec<Sighting>>> = Arc::default();
        let theirs = Arc::clone(&seen);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                theirs.lock().unwrap().extend(sighting(&line));
            }
        });
        Self { seen }
    }

    /// Returns all submissions, in order.
    pub fn seen(&self) -> Vec<Sighting> {
        self.seen.lock().unwrap().clone()
    }

    /// Returns how often each tick of each entry was submitted.
    pub fn counts(&self) -> BTreeMap<(String, u64), usize> {
        let mut counts = BTreeMap::new();
        for Sighting { entry, tick, at_ms: _ } in self.seen() {
            *counts.entry((entry, tick)).or_default() += 1;
        }
        counts
    }
}

/// Parses `+<seconds>.<micros> [0 lua] "XADD" "<stream>" "*" "id" "cron.<name>.<tick>" …`; entries of retries have `created_ms`.
fn sighting(line: &str) -> Option<Sighting> {
    let (time, rest) = line.strip_prefix('+')?.split_once(" [0 lua] \"XADD\" ")?;
    let id = rest.split_once("\"*\" \"id\" \"cron.")?.1.split('"').next()?;
    if rest.contains("\"created_ms\"") {
        return None;
    }
    let (entry, tick) = id.rsplit_once('.')?;
    let (seconds, micros) = time.split_once('.')?;
    let at_ms = seconds.parse::<u64>().ok()? * 1000 + micros.parse::<u64>().ok()? / 1000;
    Some(Sighting { entry: entry.to_owned(), tick: tick.parse().ok()?, at_ms })
}
