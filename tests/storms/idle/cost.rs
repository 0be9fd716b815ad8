//! What a server did for its clients between two moments.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::thread::JoinHandle;
use std::time::Instant;

use harness::redis_server::RedisServer;

/// Listens to every command that a server runs.
pub(super) struct Monitor {
    connection: TcpStream,
    listening: JoinHandle<Counts>,
    since: Instant,
    cpu: f64,
}

/// How often each command was run.
#[derive(Default)]
struct Counts {
    sent: BTreeMap<String, u32>,
    inside: u32,
}

/// The cost per second.
pub(super) struct Cost {
    /// Commands that were sent, by kind.
    sent: BTreeMap<String, f64>,
    /// Commands that scripts ran.
    inside: f64,
    /// The share of one core, from 0 to 1.
    cpu: f64,
    connections: f64,
    /// The size of the connections' buffers.
    client_bytes: f64,
}

impl Monitor {
    pub(super) fn start(server: &RedisServer) -> Self {
        let mut connection = TcpStream::connect(server.addr()).unwrap();
        connection.write_all(b"MONITOR\r\n").unwrap();
        let lines = BufReader::new(connection.try_clone().unwrap()).lines();
        let cpu = cpu(&facts(server));
        let listening = std::thread::spawn(|| {
            let mut counts = Counts::default();
            // `1700000000.000001 [0 127.0.0.1:6000] "PING"`; in place of the address, scripts have `lua`.
            for line in lines.map_while(Result::ok) {
                let Some((from, command)) = line.split_once("] \"") else { continue };
                let name = command.split('"').next().unwrap_or_default().to_lowercase();
                if from.ends_with(" lua") {
                    counts.inside += 1;
                } else {
                    *counts.sent.entry(name).or_default() += 1;
                }
            }
            counts
        });
        Self { connection, listening, since: Instant::now(), cpu }
    }

    /// Returns the cost since the start, without that of listening.
    pub(super) fn stop(self, server: &RedisServer) -> Cost {
        let seconds = self.since.elapsed().as_secs_f64();
        self.connection.shutdown(Shutdown::Both).unwrap();
        let counts = self.listening.join().unwrap();
        let facts = facts(server);
        let own = ["info", "auth", "hello", "client", "select"];
        let sent = counts.sent.into_iter().filter(|(name, _)| !own.contains(&name.as_str()));
        Cost {
            sent: sent.map(|(name, count)| (name, f64::from(count) / seconds)).collect(),
            inside: f64::from(counts.inside) / seconds,
            cpu: (cpu(&facts) - self.cpu) / seconds,
            connections: number(&facts, "connected_clients") - 1.0,
            client_bytes: number(&facts, "mem_clients_normal"),
        }
    }
}

impl Cost {
    /// Returns how many commands were sent per second.
    pub(super) fn all(&self) -> f64 {
        self.sent.values().sum()
    }

    /// Returns one row of the table, with the kinds of commands.
    pub(super) fn row(&self, workers: usize, beside: &Self) -> String {
        let mut kinds: Vec<_> = self.sent.iter().collect();
        kinds.sort_by(|one, other| other.1.total_cmp(one.1));
        let kinds: Vec<_> = kinds.into_iter().map(|(name, rate)| format!("{name} {rate:.1}")).collect();
        format!(
            "{workers:>7} {:>10.1} {:>14.1} {:>18.2} {:>11} {:>10.1}   {}",
            self.all(),
            self.inside,
            (self.cpu - beside.cpu) * 100.0,
            self.connections,
            self.client_bytes / 1e6,
            kinds.join(", "),
        )
    }

    /// Returns the headings of [`Cost::row`].
    pub(super) fn columns() -> &'static str {
        "workers commands/s inside scripts % of a core beyond connections MB buffers"
    }
}

fn facts(server: &RedisServer) -> String {
    redis::cmd("INFO").query(&mut server.client()).unwrap()
}

fn number(facts: &str, name: &str) -> f64 {
    let line = facts.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or_else(|| panic!("INFO has no {name}"))
}

fn cpu(facts: &str) -> f64 {
    number(facts, "used_cpu_user") + number(facts, "used_cpu_sys")
}
