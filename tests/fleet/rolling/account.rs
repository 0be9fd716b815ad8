//! What happened to every job, from three witnesses: the submitter, the programs that ran, and Redis.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use streamfleet::Queue;
use streamfleet::job::{JobId, State};

use harness::redis_server::RedisServer;

/// The programs: they write down when they begin and end, and the number of their attempt.
const HANDLER: &str = r#"
say() { echo "$1 $STREAMFLEET_JOB_ID $STREAMFLEET_JOB_ATTEMPT $PPID" >>"{ledger}"; }
pause=$1
if [ "$pause" = stubborn ]; then
  pause=0
  if mkdir "{ledger}.stuck" 2>/dev/null; then
    trap '' TERM
    pause=600
  fi
fi
say start
sleep "$pause"
say end
"#;

/// The ledger of the programs.
pub(super) struct Ledger {
    handler: PathBuf,
    file: PathBuf,
}

/// One line of the ledger.
struct Line {
    ends: bool,
    job: String,
    attempt: u32,
    worker: u32,
}

impl Ledger {
    pub(super) fn new(dir: &Path) -> Self {
        let (handler, file) = (dir.join("handler.sh"), dir.join("ledger"));
        fs::write(&handler, HANDLER.replace("{ledger}", &file.display().to_string())).unwrap();
        Self { handler, file }
    }

    /// Returns the path of the program.
    pub(super) fn handler(&self) -> String {
        self.handler.display().to_string()
    }

    /// Returns how many attempts have begun.
    pub(super) fn starts(&self) -> usize {
        self.lines().iter().filter(|line| !line.ends).count()
    }

    /// Returns the workers on which a job began.
    pub(super) fn starts_of(&self, job: &JobId) -> Vec<u32> {
        let job = job.to_string();
        let lines = self.lines();
        lines.iter().filter(|line| !line.ends && line.job == job).map(|line| line.worker).collect()
    }

    fn lines(&self) -> Vec<Line> {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        // A line without a newline is still being written.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let line = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let [what, job, attempt, worker] = words[..] else { panic!("{line:?}") };
            let (attempt, worker) = (attempt.parse().unwrap(), worker.parse().unwrap());
            Line { ends: what == "end", job: job.to_owned(), attempt, worker }
        };
        whole.lines().map(line).collect()
    }
}

/// The account of a rolling update.
pub(super) struct Account {
    began: Instant,
    replaced: Vec<(bool, Duration)>,
    rolled: Duration,
    total: Duration,
    submitted: usize,
    done: usize,
    /// Jobs whose program did not end exactly once.
    not_once: Vec<String>,
    started: usize,
    ended: usize,
    lost: Vec<JobId>,
    /// Attempts that began or ended with a number other than 1.
    spent: usize,
    dead: u64,
    /// Entries that were appended in addition to the submissions.
    appended_again: u64,
}

impl Account {
    pub(super) fn begin() -> Self {
        Self {
            began: Instant::now(),
            replaced: Vec::new(),
            rolled: Duration::ZERO,
            total: Duration::ZERO,
            submitted: 0,
            done: 0,
            not_once: Vec::new(),
            started: 0,
            ended: 0,
            lost: Vec::new(),
            spent: 0,
            dead: 0,
            appended_again: 0,
        }
    }

    pub(super) fn replaced(&mut self, killed: bool, took: Duration) {
        self.replaced.push((killed, took));
        self.rolled = self.began.elapsed();
    }

    /// Asks all witnesses.
    pub(super) async fn close(
        &mut self,
        server: &RedisServer,
        queue: &Queue,
        ledger: &Ledger,
        jobs: &[JobId],
    ) {
        self.total = self.began.elapsed();
        let lines = ledger.lines();
        let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
        for line in lines.iter().filter(|line| line.ends) {
            *ends.entry(line.job.as_str()).or_default() += 1;
        }
        (self.submitted, self.ended) = (jobs.len(), ends.values().sum());
        self.started = lines.len() - self.ended;
        self.spent = lines.iter().filter(|line| line.attempt != 1).count();
        for job in jobs {
            let name = job.to_string();
            if ends.get(name.as_str()) != Some(&1) {
                self.not_once.push(name);
            }
            let status = queue.status(job).await.unwrap().expect("every job has a record");
            self.done += usize::from(status.state == State::Done);
            if status.attempts.iter().any(|attempt| attempt.outcome == "lost") {
                self.lost.push(job.clone());
            }
        }
        self.dead = queue.snapshot().await.unwrap().dead;
        let facts: BTreeMap<String, redis::Value> =
            redis::from_redis_value(server.cmd(&["XINFO", "STREAM", "sf:{default}:jobs"])).unwrap();
        let added: u64 = redis::from_redis_value(facts["entries-added"].clone()).unwrap();
        self.appended_again = added - jobs.len() as u64;
    }

    /// Panics unless every accepted job was done once, only the kill caused a loss, and nothing cost an attempt.
    pub(super) fn assert_clean(&self, stubborn: &JobId) {
        assert_eq!((self.done, &self.not_once), (self.submitted, &Vec::new()));
        assert_eq!((self.spent, self.dead), (0, 0));
        assert_eq!(self.lost, std::slice::from_ref(stubborn));
        assert_eq!(
            self.replaced.iter().map(|(killed, _)| *killed).collect::<Vec<_>>(),
            [false, false, true, false]
        );
        assert!(self.started > self.ended + 1, "no job was interrupted, so nothing was shown");
    }
}

impl fmt::Display for Account {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
        let replaced: Vec<String> = self
            .replaced
            .iter()
            .map(|(killed, took)| {
                format!("{} after {}", if *killed { "SIGKILL" } else { "SIGTERM" }, seconds(*took))
            })
            .collect();
        let rows = [
            ("workers replaced", replaced.join(", ")),
            ("jobs submitted", self.submitted.to_string()),
            ("jobs done, once each", (self.done - self.not_once.len()).to_string()),
            ("attempts begun", self.started.to_string()),
            ("attempts interrupted", (self.started - self.ended - self.lost.len()).to_string()),
            ("entries appended again", self.appended_again.to_string()),
            ("deliveries lost", self.lost.len().to_string()),
            ("attempts spent by that", self.spent.to_string()),
            ("dead letters", self.dead.to_string()),
            ("rolled in", seconds(self.rolled)),
            ("all done in", seconds(self.total)),
        ];
        writeln!(out, "rolling update of {} workers under load", self.replaced.len())?;
        rows.iter().try_for_each(|(name, value)| writeln!(out, "  {name:<24}{value}"))
    }
}
