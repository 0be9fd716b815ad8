//! Requests a process's metrics and probes, as Prometheus and Kubernetes would.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::process::Worker;
use crate::wait::until;

const SOON: Duration = Duration::from_secs(20);

/// Returns the address of a process's metrics, which it printed at startup because of `--json`.
pub fn address(process: &Worker) -> String {
    let url = until("the process to print the address of its metrics", SOON, || {
        let said: serde_json::Value = serde_json::from_str(&process.stdout()).ok()?;
        said["metrics"].as_str().map(str::to_owned)
    });
    url.trim_start_matches("http://").trim_end_matches("/metrics").to_owned()
}

/// Returns the status and the body of a page; `None` if there is no answer.
pub fn get(address: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(SOON)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).ok()?;
    let (head, body) = reply.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// Returns the value of one series.
pub fn series(address: &str, name: &str) -> Option<f64> {
    let (_, body) = get(address, "/metrics")?;
    let line = body.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.trim().parse().ok())
}
