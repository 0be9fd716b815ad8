//! The queues and workers that Redis knows. To find them, all keys of the server are scanned, so what was found is kept for a
//! moment and shared by all requests. While a scan takes long, requests are answered with what the last one found.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use streamfleet::job::QueueName;
use streamfleet::{Broker, RedisError};
use streamfleet_engine::admin::WorkerInfo;
use streamfleet_engine::mutex::lock;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long what was found is used at least. If a scan takes long, it is used for longer.
const FRESH: Duration = Duration::from_secs(1);

/// How much longer than a scan took what it found is used.
const SHARE: u32 = 20;

/// How long it is used at most, however long the scan took.
const STALE: Duration = Duration::from_secs(10);

/// How long a request waits for a scan if an earlier one has found something.
const PATIENCE: Duration = Duration::from_millis(40);

/// What Redis knows.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) queues: Vec<QueueName>,
    /// These queues, and those that have nothing but an audit.
    pub(super) audits: BTreeSet<QueueName>,
    pub(super) workers: Vec<WorkerInfo>,
    /// The servers of a cluster that could not be asked, and why.
    pub(super) missing: Vec<String>,
}

/// What a scan found, or why it failed.
type Found = Result<Arc<Known>, RedisError>;

/// What a scan found once it has ended, and until when that is used.
type Scan = watch::Receiver<Option<(Found, Instant)>>;

/// Looks for queues and workers.
#[derive(Debug, Default)]
pub(super) struct Directory(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// What was found, and until when it is used.
    last: Option<(Arc<Known>, Instant)>,
    /// What the current scan will find.
    current: Option<Scan>,
    /// The current scan. It goes on if its request is given up.
    scans: JoinSet<()>,
}

impl Directory {
    /// Returns what Redis knew at most a moment ago; while a scan takes long, what the last one found.
    ///
    /// # Errors
    ///
    /// [`RedisError`] if Redis does not answer or refuses.
    pub(super) async fn look(&self, broker: &Broker) -> Found {
        let (old, mut current) = {
            let mut state = lock(&self.0);
            state.receive();
            if let Some((known, until)) = &state.last
                && Instant::now() < *until
            {
                return Ok(Arc::clone(known));
            }
            let old = state.last.as_ref().map(|(known, _)| Arc::clone(known));
            (old, state.scan(broker))
        };
        let ended = async { current.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone()) };
        let ended = match old {
            Some(old) => match timeout(PATIENCE, ended).await {
                Ok(ended) => ended,
                Err(_) => return Ok(old),
            },
            None => ended.await,
        };
        match ended {
            Some((found, _)) => found,
            // The scan panicked.
            None => scan(broker).await,
        }
    }
}

impl State {
    /// Receives what the current scan has found, if it has ended. After one that failed, nobody knows what is there now.
    fn receive(&mut self) {
        let Some(current) = &self.current else { return };
        let ended = current.borrow().clone();
        let is_over = ended.is_some() || current.has_changed().is_err();
        if let Some((found, until)) = ended {
            self.last = found.ok().map(|known| (known, until));
        }
        if is_over {
            self.current = None;
        }
    }

    /// Returns the current scan, which begins if there is none.
    fn scan(&mut self, broker: &Broker) -> Scan {
        if let Some(current) = &self.current {
            return current.clone();
        }
        while self.scans.try_join_next().is_some() {}
        let (done, current) = watch::channel(None);
        let broker = broker.clone();
        self.scans.spawn(async move {
            let begun = Instant::now();
            let found = scan(&broker).await;
            let until = Instant::now() + (begun.elapsed() * SHARE).clamp(FRESH, STALE);
            done.send_replace(Some((found, until)));
        });
        self.current = Some(current.clone());
        current
    }
}

async fn scan(broker: &Broker) -> Found {
    let ((queues, mut audits), workers) = tokio::try_join!(broker.queues_and_audits(), broker.workers())?;
    // Somebody may do something to a queue before the next scan.
    audits.extend(queues.found.iter().cloned());
    let mut missing: Vec<String> =
        queues.missing.iter().chain(&workers.missing).map(ToString::to_string).collect();
    missing.sort();
    missing.dedup();
    Ok(Arc::new(Known { queues: queues.found, audits, workers: workers.found, missing }))
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;
    use streamfleet::RedisConfig;
    use streamfleet::dev_server::DevServer;
    use tempfile::TempDir;

    use super::*;

    /// How long anything may take.
    const SOON: Duration = Duration::from_secs(30);

    /// Sends a command over a connection of its own.
    fn send(url: &str, command: &[&str]) {
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        let sent = redis::cmd(command[0]).arg(&command[1..]).query::<redis::Value>(&mut connection);
        sent.unwrap();
    }

    fn add(url: &str, queue: &str) {
        send(url, &["XADD", &format!("sf:{{{queue}}}:jobs"), "*", "type", "a"]);
    }

    fn names(known: &Known) -> Vec<&str> {
        known.queues.iter().map(QueueName::as_str).collect()
    }

    impl Directory {
        /// Ends the time for which the last list is used.
        fn expire(&self) {
            lock(&self.0).receive();
            lock(&self.0).last.as_mut().unwrap().1 = Instant::now();
        }
    }

    #[tokio::test]
    async fn nobody_waits_for_a_slow_scan_if_there_is_an_older_list() {
        let folder = TempDir::new().unwrap();
        let mut server = DevServer::builder().start(&folder.path().join("redis")).await.unwrap();
        let broker = Broker::connect(RedisConfig::default().url(server.url())).await.unwrap();
        let (directory, address) = (Directory::default(), server.url());
        let url = address.expose_secret();
        add(url, "mail");
        assert_eq!(names(&directory.look(&broker).await.unwrap()), ["mail"]);
        add(url, "shop");
        directory.expire();
        // Redis answers nobody for this time.
        send(url, &["CLIENT", "PAUSE", "3000", "ALL"]);
        let begun = Instant::now();
        for _ in 0..3 {
            assert_eq!(names(&directory.look(&broker).await.unwrap()), ["mail"]);
        }
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        assert_eq!(lock(&directory.0).scans.len(), 1);
        let refreshed = async {
            while names(&directory.look(&broker).await.unwrap()) != ["mail", "shop"] {
                tokio::task::yield_now().await;
            }
        };
        timeout(SOON, refreshed).await.expect("the scan ends");
        // Once a scan has failed, the next request says why.
        directory.expire();
        server.stop().await.unwrap();
        let failed = async { while directory.look(&broker).await.is_ok() {} };
        timeout(SOON, failed).await.expect("an error");
    }
}
