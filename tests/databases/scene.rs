//! A Redis, a database, and workers of the program beside them.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;
use streamfleet::job::{Encoding, JobId, Tracking};
use streamfleet::{Broker, Producer, Queue, Submission};
use streamfleet_sql::Database;
use streamfleet_sql::history::questions::{self, Filter};
use tempfile::TempDir;

use harness::process::{Launch, Worker};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

use crate::kit::Place;

/// The program that each job runs: it fails as long as its payload says so, and exits with 0 otherwise.
const HANDLER: &str = r#"read payload; case "$payload" in *dies*) exit 7;; *once*) [ "$STREAMFLEET_JOB_ATTEMPT" -gt 1 ] || exit 1;; *heals*) [ -e {folder}/healed ] || exit 8;; esac"#;

/// The SHA-256 of the token `all`, with which [`get`] asks.
const TOKEN_SHA256: &str = "5ef5ef0364b6939c4ca61f34b393f7b368d1be8619647aaf83d5b395919ab629";

pub(crate) struct Scene {
    pub(crate) redis: RedisServer,
    pub(crate) place: Place,
    pub(crate) database: Database,
    pub(crate) broker: Broker,
    pub(crate) queue: Queue,
    pub(crate) folder: TempDir,
}

impl Scene {
    pub(crate) async fn new(place: Place) -> Self {
        let redis = RedisServer::start();
        let config = streamfleet::RedisConfig::from(redis.url().as_str());
        let broker = Broker::connect(config).await.unwrap();
        let queue = broker.queue("default".parse().unwrap());
        let database = place.migrated().await;
        let folder = tempfile::tempdir().unwrap();
        let mut file = std::fs::File::create(folder.path().join("url")).unwrap();
        file.write_all(place.url.as_bytes()).unwrap();
        let accounts = format!("[tokens.all]\nsha256 = \"{TOKEN_SHA256}\"\nrole = \"admin\"\n");
        std::fs::write(folder.path().join("accounts.toml"), accounts).unwrap();
        Self { redis, place, database, broker, queue, folder }
    }

    /// Starts a worker with these sections, in which `{url}` stands for the file with the address of the database, and `{folder}` for a folder.
    pub(crate) fn worker(&self, sections: &str) -> Worker {
        self.launch(&["worker"], sections).start()
    }

    /// What a command with these sections prints as JSON.
    pub(crate) fn json(&self, command: &[&str], sections: &str) -> Value {
        let output = self.launch(&[command, &["-o", "json"]].concat(), sections).output(SOON);
        assert_eq!(output.code, Some(0), "{output:?}");
        serde_json::from_str(&output.stdout).unwrap()
    }

    /// A command with these sections, as for [`Scene::worker`].
    pub(crate) fn launch(&self, command: &[&str], sections: &str) -> Launch {
        let path = self.folder.path();
        // No number of kills makes a dead letter of a job.
        let toml = format!(
            "[redis]\nurl = \"{}\"\n[worker]\nlease = \"1s\"\n[telemetry]\nlisten = \"off\"\n[types.test]\n\
             handler = {{ exec = {{ command = [\"sh\", \"-c\", '''{HANDLER}'''] }} }}\nmax_attempts = 2\n\
             max_losses = 1000\nbackoff = {{ fixed = \"10ms\" }}\n{sections}",
            self.redis.url()
        );
        let toml = toml
            .replace("{url}", &path.join("url").display().to_string())
            .replace("{folder}", &path.display().to_string());
        Launch::new(&[&["--config", "{config}"], command].concat()).config(&toml)
    }

    /// Starts a console with these sections, and waits until it listens.
    pub(crate) async fn console(&self, sections: &str) -> Console {
        let sections = format!("{sections}[console]\naccounts_file = \"{{folder}}/accounts.toml\"\n");
        let process = self.launch(&["console", "--listen", "127.0.0.1:0"], &sections).start();
        let address = until_async("the console to listen", SOON, async || {
            let stdout = process.stdout();
            let address = stdout.lines().find_map(|line| line.strip_prefix("console: http://"))?;
            Some(address.trim_end_matches('/').to_owned())
        })
        .await;
        Console { address, _process: process }
    }

    /// Lets the jobs succeed whose payload has the word `heals`.
    pub(crate) fn heal(&self) {
        std::fs::write(self.folder.path().join("healed"), "").unwrap();
    }

    /// Submits tracked jobs with this payload, and returns their ids.
    pub(crate) async fn submit(&self, count: usize, payload: &str) -> Vec<JobId> {
        let job = || {
            let job = Submission::new("test").unwrap().payload(payload.to_owned(), Encoding::Json).unwrap();
            job.tracking(Tracking::All)
        };
        Producer::new(self.queue.clone()).submit_all((0..count).map(|_| job())).await.unwrap()
    }

    /// Whether a worker has told Redis that the queue has a journal.
    pub(crate) async fn journal_is_kept(&self) -> bool {
        self.redis.cmd(&["HEXISTS", "sf:{default}:control", "journal_max"]) == redis::Value::Int(1)
    }

    /// Takes the tables of the history away, or brings them back.
    pub(crate) async fn hide(&self, hidden: bool) {
        let [from, to] = if hidden { ["sf_jobs", "sf_hidden"] } else { ["sf_hidden", "sf_jobs"] };
        self.place.hand().await.run(&format!("ALTER TABLE {from} RENAME TO {to}")).await;
    }

    /// How many lives of each state the database has.
    pub(crate) async fn lives(&self) -> BTreeMap<String, usize> {
        let (mut counts, mut after) = (BTreeMap::new(), None);
        loop {
            let filter = Filter::of(self.queue.name().clone());
            let page = questions::jobs(&self.database, &filter, after.as_ref(), 500).await.unwrap();
            for row in &page.rows {
                *counts.entry(row.state.to_string()).or_default() += 1;
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return counts,
            }
        }
    }
}

/// A console of a scene.
pub(crate) struct Console {
    pub(crate) address: String,
    _process: Worker,
}

impl Console {
    pub(crate) fn get(&self, path: &str) -> Value {
        ask(&self.address, "GET", path, &Value::Null)
    }
}

/// Asks a console, which must answer with 200.
pub(crate) fn ask(address: &str, method: &str, path: &str, body: &Value) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer all\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {reply}");
    serde_json::from_str(body).unwrap()
}

/// How long a test waits for something. A machine that is three times slower needs a fraction of it.
pub(crate) const SOON: Duration = Duration::from_secs(90);
