//! Hundreds of connections that send nothing, or one byte at a time: probes still get through.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{SOON, launch, ready, status};
use harness::redis_server::RedisServer;
use harness::wait::until;

/// The default timeout of a probe.
const PROBE_WITHIN: Duration = Duration::from_secs(1);

/// How many probes in a row must fail until Kubernetes restarts a container, by default.
const FAILURES: u32 = 3;

/// Connections that send nothing at all, or stop in the middle of the request.
const HALF_OPEN: usize = 200;

/// Connections that send one byte per second.
const DRIPPING: usize = 100;

const REQUEST: &[u8] =
    b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n\r\n";

fn opened(address: &str, sent: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    // It does not matter if the listener has closed the connection already.
    stream.write_all(sent).ok();
    stream
}

/// Sends one byte per second on each connection and reopens closed ones, until `stop` is set.
fn drip(address: &str, stop: &AtomicBool) {
    let mut dripping: Vec<_> = (0..DRIPPING).map(|_| (opened(address, b""), 0)).collect();
    let since = Instant::now();
    // A failing test does not set `stop`.
    while !stop.load(Ordering::Relaxed) && since.elapsed() < 2 * SOON {
        for (stream, sent) in &mut dripping {
            match stream.write_all(&REQUEST[*sent..=*sent]) {
                Ok(()) => *sent = (*sent + 1) % REQUEST.len(),
                Err(_) => (*stream, *sent) = (opened(address, b""), 0),
            }
        }
        until("a second to pass or the end of the test", Duration::from_secs(2), {
            let since = Instant::now();
            move || stop.load(Ordering::Relaxed) || since.elapsed() > Duration::from_secs(1)
        });
    }
}

#[test]
fn hundreds_of_stalled_connections_do_not_block_probes_or_scrapes() {
    let server = RedisServer::start();
    let (worker, address) = ready(&launch(&server.url()));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| drip(&address, &stop));
        let begun = [&b""[..], b"GET /met", b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"];
        let silent: Vec<_> = (0..HALF_OPEN).map(|nth| opened(&address, begun[nth % begun.len()])).collect();
        let (since, mut slow) = (Instant::now(), 0);
        // A listener that waited for them would not answer for two minutes.
        until("twelve seconds of probes", SOON, || {
            for path in ["/livez", "/metrics", "/readyz"] {
                let asked = Instant::now();
                assert_eq!(status(&address, path), Some(200), "{path} after {:?}", since.elapsed());
                slow = if asked.elapsed() < PROBE_WITHIN { 0 } else { slow + 1 };
                assert!(
                    slow < FAILURES,
                    "{path} took {:?}, and those before it too long too",
                    asked.elapsed()
                );
            }
            since.elapsed() > Duration::from_secs(12)
        });
        for mut stream in silent {
            stream.set_read_timeout(Some(PROBE_WITHIN)).unwrap();
            let ended = stream.read(&mut [0; 1024]);
            assert!(
                !ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock),
                "the connection is still open"
            );
        }
        stop.store(true, Ordering::Relaxed);
    });
    worker.term();
    assert_eq!(worker.wait_exit(SOON).code(), Some(0));
}

/// How often those who hold connections look for ones that were closed.
const REOPEN_EVERY: Duration = Duration::from_millis(10);

/// Opens many connections, and each again as soon as it is closed, until `stop` is set.
fn hold(address: &str, stop: &AtomicBool) {
    let open = || {
        let stream = TcpStream::connect(address)?;
        stream.set_nonblocking(true).map(|()| stream)
    };
    let mut held: Vec<_> = (0..2 * HALF_OPEN).map(|_| open().ok()).collect();
    let since = Instant::now();
    // A failing test does not set `stop`.
    while !stop.load(Ordering::Relaxed) && since.elapsed() < 2 * SOON {
        for stream in &mut held {
            let is_open = |stream: &mut TcpStream| {
                stream.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
            };
            if !stream.as_mut().is_some_and(is_open) {
                *stream = open().ok();
            }
        }
        std::thread::park_timeout(REOPEN_EVERY);
    }
}

#[test]
fn clients_that_reopen_what_was_closed_do_not_block_probes() {
    let server = RedisServer::start();
    let (worker, address) = ready(&launch(&server.url()));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| hold(&address, &stop));
        let (since, mut slow) = (Instant::now(), 0);
        until("ten seconds of probes", SOON, || {
            let asked = Instant::now();
            let answer = status(&address, "/livez");
            slow = if answer == Some(200) && asked.elapsed() < PROBE_WITHIN { 0 } else { slow + 1 };
            assert!(
                slow < FAILURES,
                "{slow} probes in a row failed or took too long, the last {:?}",
                asked.elapsed()
            );
            since.elapsed() > Duration::from_secs(10)
        });
        stop.store(true, Ordering::Relaxed);
    });
    drop(worker);
}

#[test]
fn clients_of_a_frozen_process_are_accepted_and_wait() {
    let server = RedisServer::start();
    let (worker, address) = ready(&launch(&server.url()));
    worker.freeze();
    let address_of = address.parse().unwrap();
    // The system would drop a connection that finds the queue full.
    let queued: Vec<_> =
        (0..HALF_OPEN).map(|_| TcpStream::connect_timeout(&address_of, PROBE_WITHIN).unwrap()).collect();
    worker.thaw();
    assert_eq!(status(&address, "/livez"), Some(200));
    drop(queued);
}

#[test]
fn a_probe_that_arrived_with_many_silent_clients_is_answered() {
    let server = RedisServer::start();
    let (worker, address) = ready(&launch(&server.url()));
    let mut silent: Vec<_> = (0..HALF_OPEN).map(|_| opened(&address, b"")).collect();
    for before in (0..HALF_OPEN).step_by(25) {
        // When the process is back, the listener finds all of them at once.
        worker.freeze();
        silent.extend((0..before).map(|_| opened(&address, b"")));
        let mut probe =
            opened(&address, b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        silent.extend((before..HALF_OPEN).map(|_| opened(&address, b"")));
        worker.thaw();
        probe.set_read_timeout(Some(SOON)).unwrap();
        let mut answer = String::new();
        let read = probe.read_to_string(&mut answer);
        assert!(answer.starts_with("HTTP/1.1 200"), "after {before} others: {answer:?} {read:?}");
    }
}

#[test]
fn a_client_that_reads_slowly_loses_its_place_to_others() {
    let server = RedisServer::start();
    let (_worker, address) = ready(&launch(&server.url()));
    // They send a request, and read nothing.
    let asked: Vec<_> = (0..HALF_OPEN)
        .map(|_| opened(&address, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        .collect();
    let in_time = |_nth: &u32| {
        let since = Instant::now();
        assert_eq!(status(&address, "/livez"), Some(200));
        since.elapsed() < PROBE_WITHIN
    };
    assert!((0..FAILURES).find(in_time).is_some(), "every probe took too long");
    drop(asked);
}
