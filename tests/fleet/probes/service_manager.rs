//! What a worker reports to systemd, or to another service manager that speaks its protocol.

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{SOON, launch, ready, status};
use harness::process::Launch;
use harness::redis_server::RedisServer;
use harness::wait::until;

/// The socket of a service manager that expects a heartbeat every two seconds.
pub(super) struct Manager {
    dir: TempDir,
    socket: UnixDatagram,
}

impl Manager {
    pub(super) const WATCHDOG: Duration = Duration::from_secs(2);

    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(dir.path().join("notify")).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self { dir, socket }
    }

    /// Returns the same process, supervised.
    pub(super) fn supervises(&self, launch: Launch) -> Launch {
        let path = self.dir.path().join("notify").display().to_string();
        let launch = launch.env("NOTIFY_SOCKET", path);
        launch.env("WATCHDOG_USEC", Self::WATCHDOG.as_micros().to_string())
    }

    /// Returns the messages since the last call.
    pub(super) fn heard(&self) -> Vec<String> {
        let (mut words, mut datagram) = (Vec::new(), [0; 4096]);
        while let Ok(length) = self.socket.recv(&mut datagram) {
            words.extend(String::from_utf8_lossy(&datagram[..length]).lines().map(str::to_owned));
        }
        words
    }

    /// Supervises without ever reading, so that the socket's queue fills.
    fn deaf(&self, launch: Launch) -> Launch {
        self.supervises(launch).env("WATCHDOG_USEC", "100000")
    }

    fn until_heard(&self, all: &mut Vec<String>, word: &str) {
        until(&format!("{word} to be sent"), SOON, || {
            all.extend(self.heard());
            all.iter().any(|said| said == word)
        });
    }

    /// Returns how many heartbeats the process sends in this time.
    pub(super) fn signs_of_life(&self, time: Duration) -> usize {
        let (since, mut signs) = (Instant::now(), 0);
        until("time to pass", SOON, || {
            signs += self.heard().iter().filter(|word| *word == "WATCHDOG=1").count();
            since.elapsed() >= time
        });
        signs
    }
}

#[test]
fn systemd_is_notified_of_start_heartbeats_and_stop() {
    let (server, manager) = (RedisServer::start(), Manager::new());
    let worker = manager.supervises(launch(&server.url())).start();
    let mut heard = Vec::new();
    manager.until_heard(&mut heard, "STATUS=working");
    manager.until_heard(&mut heard, "READY=1");
    // One is due every second.
    let signs = manager.signs_of_life(2 * Manager::WATCHDOG);
    assert!((3..=8).contains(&signs), "{signs}");
    worker.term();
    manager.until_heard(&mut heard, "STOPPING=1");
    assert_eq!(worker.wait_exit(SOON).code(), Some(0));
}

#[test]
fn a_worker_waiting_for_redis_has_started_and_reports_why_it_waits() {
    let (server, manager) = (RedisServer::start(), Manager::new());
    server.kill9();
    let worker = manager.supervises(launch(&server.url())).start();
    let mut heard = Vec::new();
    manager.until_heard(&mut heard, "READY=1");
    manager.until_heard(&mut heard, "STATUS=waiting for redis");
    assert!(manager.signs_of_life(2 * Manager::WATCHDOG) >= 3, "systemd must not restart it");
    server.restart();
    manager.until_heard(&mut heard, "STATUS=working");
    worker.term();
    assert_eq!(worker.wait_exit(SOON).code(), Some(0));
}

#[test]
fn a_service_manager_that_does_not_read_blocks_nothing() {
    let (server, manager) = (RedisServer::start(), Manager::new());
    let (worker, address) = ready(&manager.deaf(launch(&server.url())));
    let since = Instant::now();
    // It holds ten messages, or as many as the system allows; 20 per second are sent.
    until("its queue is full", SOON, || {
        assert_eq!(status(&address, "/livez"), Some(200));
        since.elapsed() > Duration::from_secs(2)
    });
    worker.term();
    assert_eq!(worker.wait_exit(SOON).code(), Some(0));
}
