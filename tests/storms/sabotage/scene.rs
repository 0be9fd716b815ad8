//! What all scenes share: a server, workers, a producer, and what is expected of the jobs.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use streamfleet::job::Encoding;
use streamfleet::{Producer, Queue, Submission};
use streamfleet_engine::admin::DeadLetter;
use tokio::runtime::Runtime;

use super::judge::{End, Expected, GOES_ON, LOST, Offence, Seen, ask};
use super::place::Place;
use super::worker::Program;
use harness::clock::monotonic_ns;
use harness::fleet::queue;
use harness::ledger::{How, Record};
use harness::process::Worker;
use harness::redis_server::RedisServer;
use harness::rest::jobs_left;
use harness::wait::{Probe, pause_for};

/// Whatever takes longer is broken.
const SOON: Duration = Duration::from_secs(8);
/// Once something is broken, all further waits are this short.
const AT_ONCE: Duration = Duration::from_secs(1);
/// How long a worker has to stop.
const STOPPED: Duration = Duration::from_secs(20);
const JOBS: &str = "sf:{default}:jobs";

/// The scene cannot continue; the reason is among the complaints.
pub(super) struct GaveUp;

/// A step of a scene.
pub(super) type Step = Result<(), GaveUp>;

/// The result of a scene.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Report {
    pub(super) offences: Vec<Offence>,
    /// Processes that got no CPU time for so long that the scene proves nothing.
    pub(super) stalls: Vec<String>,
}

pub(super) struct Scene {
    pub(super) server: RedisServer,
    pub(super) queue: Queue,
    pub(super) producer: Producer,
    pub(super) runtime: Runtime,
    pub(super) place: Arc<Place>,
    pub(super) workers: Vec<Worker>,
    frozen: Vec<u32>,
    gave_up: Cell<bool>,
    expected: BTreeMap<String, Expected>,
    gates: Vec<String>,
    /// The names of jobs that have no id except that of their entry.
    names: BTreeMap<String, String>,
    _dir: tempfile::TempDir,
}

impl Scene {
    pub(super) fn new(server: RedisServer) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let place = Arc::new(Place::new(dir.path()));
        place.watch_the_clock();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap();
        let queue = runtime.block_on(queue(&server));
        let producer = Producer::new(queue.clone());
        let (workers, frozen, expected) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self {
            server,
            queue,
            producer,
            runtime,
            place,
            workers,
            frozen,
            gave_up: Cell::new(false),
            expected,
            gates: Vec::new(),
            names: BTreeMap::new(),
            _dir: dir,
        }
    }

    /// Starts a worker and waits until it has joined. The first one becomes the leader.
    pub(super) fn hire(&mut self, concurrency: usize) -> Result<usize, GaveUp> {
        let program = Program { url: self.server.url(), place: self.place.path().to_owned(), concurrency };
        let worker = program.start();
        let mark = format!("-{}-", worker.pid());
        self.workers.push(worker);
        self.wait("a worker to join", || {
            let members = self.server.try_cmd(&["XINFO", "CONSUMERS", JOBS, "fleet"]).ok()?;
            let members: Vec<BTreeMap<String, redis::Value>> = redis::from_redis_value(members).ok()?;
            let names = members.iter().filter_map(|member| member.get("name").cloned());
            let mut names = names.map(|name| redis::from_redis_value::<String>(name).unwrap());
            names.any(|name| name.contains(&mark)).then_some(())
        })?;
        let leader = || ask::<Option<String>>(&self.server, &["GET", "sf:{default}:leader"]);
        self.wait("a leader", || leader().is_some())?;
        Ok(self.workers.len() - 1)
    }

    /// Freezes a worker until the scene thaws it.
    pub(super) fn freeze(&mut self, worker: usize) {
        self.frozen.push(self.workers[worker].pid());
        self.workers[worker].freeze();
    }

    /// Waits for something that must happen soon.
    pub(super) fn wait<P: Probe>(
        &self,
        what: &str,
        mut probe: impl FnMut() -> P,
    ) -> Result<P::Found, GaveUp> {
        let started = Instant::now();
        loop {
            if let Some(found) = probe().found() {
                return Ok(found);
            }
            if started.elapsed() > if self.gave_up.get() { AT_ONCE } else { SOON } {
                self.gave_up.set(true);
                self.place.complain(GOES_ON, &format!("timed out waiting for {what}"));
                return Err(GaveUp);
            }
            pause_for(Duration::from_millis(5));
        }
    }

    /// Appends an entry to the main stream. Returns its id.
    pub(super) fn xadd(&self, fields: &[&str]) -> String {
        ask(&self.server, &[&["XADD", JOBS, "*"][..], fields].concat())
    }

    /// Appends an entry with a type, an id and a payload. Returns the entry's id.
    pub(super) fn send(&self, job_type: &str, id: &str, payload: &str) -> String {
        self.xadd(&["type", job_type, "encoding", "raw", "id", id, "payload", payload])
    }

    /// Returns a job for the producer to submit.
    pub(super) fn job(&self, payload: &str) -> Submission {
        Submission::new("test").unwrap().payload(payload.to_owned(), Encoding::Raw).unwrap()
    }

    /// Waits until the handler of a job or step has started this many times.
    pub(super) fn until_started(&self, name: &str, times: usize) -> Step {
        let is_it = |record: &Record| matches!(record, Record::Start { run, .. } if run.job == name);
        self.wait(&format!("{name} to start {times} times"), || {
            self.place.ledger().read().iter().filter(|record| is_it(record)).count() >= times
        })
    }

    /// Waits until this many of its runs have ended, however they did.
    pub(super) fn until_ended(&self, name: &str, times: usize) -> Step {
        let is_it = |record: &Record| matches!(record, Record::End { run, .. } if run.job == name);
        self.wait(&format!("{name} to end {times} times"), || {
            self.place.ledger().read().iter().filter(|record| is_it(record)).count() >= times
        })
    }

    /// Waits until an entry is settled.
    pub(super) fn until_settled(&self, entry: &str) -> Step {
        let range = ["XRANGE", JOBS, entry, entry];
        self.wait(&format!("the entry {entry} to be settled"), || {
            ask::<Vec<redis::Value>>(&self.server, &range).is_empty()
        })
    }

    /// Waits for the dead letter of a job.
    pub(super) fn until_dead(&self, id: &str) -> Result<DeadLetter, GaveUp> {
        self.wait(&format!("{id} to be dead"), || {
            let letters = self.runtime.block_on(self.queue.dead_letters().page(None, 100)).ok()?;
            letters.into_iter().find(|letter| {
                let own = letter.job().to_string();
                self.names.get(&own).unwrap_or(&own) == id
            })
        })
    }

    /// Opens a gate. At the end of the scene all gates are open.
    pub(super) fn open(&mut self, gate: &str, word: &str) {
        self.place.open(gate, word);
        self.gates.push(gate.to_owned());
    }

    /// Declares a gate, which `finish` opens if the scene gives up before it does.
    pub(super) fn gate(&mut self, gate: &str) {
        self.gates.push(gate.to_owned());
    }

    /// Names the job of an entry.
    pub(super) fn name(&mut self, entry: &str, name: &str) {
        self.names.insert(entry.to_owned(), name.to_owned());
    }

    /// Declares what must happen to a job.
    pub(super) fn expect(&mut self, name: &str, runs: &[(u32, Option<How>)], end: End) -> &mut Expected {
        let reported = match end {
            End::Done => runs.iter().filter(|(_, how)| *how == Some(How::Ok)).count().max(1),
            End::Dead(_) => 0,
        };
        let runs = runs.to_vec();
        let expected = Expected { name: name.to_owned(), runs, end, reported, not_before: 0 };
        self.expected.entry(name.to_owned()).or_insert(expected)
    }

    /// Returns the time after this delay, by the monotonic clock.
    pub(super) fn due_in(delay: Duration) -> u64 {
        monotonic_ns() + u64::try_from(delay.as_nanos()).unwrap()
    }

    /// Waits until nothing is left to do or the time is up, stops the workers, and judges.
    pub(super) fn finish(mut self, ticking: Option<&str>) -> Report {
        for gate in self.gates.clone() {
            if self.place.word_at(&gate).is_none() {
                self.open(&gate, "ok");
            }
        }
        // The judge reports whatever is left.
        let left = || jobs_left(&self.server) == 0;
        self.wait("all jobs to end", left).ok();
        self.workers.iter().for_each(|worker| {
            worker.thaw();
            worker.term();
        });
        for worker in &self.workers {
            let started = Instant::now();
            while worker.exit_status().is_none() && started.elapsed() < STOPPED {
                pause_for(Duration::from_millis(5));
            }
        }
        let pids: Vec<u32> = self.workers.iter().map(Worker::pid).collect();
        self.workers.clear();
        let seen = Seen::new(self.place.ledger().read(), &self.server, &self.names);
        let expected: Vec<Expected> = self.expected.into_values().collect();
        let mut offences = seen.judge(&expected);
        if let Some(name) = ticking.filter(|name| seen.ticks(name) < 2) {
            let what = format!("{name} ticked {} times", seen.ticks(name));
            offences.push(Offence { rule: LOST.to_owned(), what });
        }
        let complaint = |(rule, what)| Offence { rule, what };
        offences.extend(self.place.complaints().into_iter().map(complaint));
        let frozen = |pid: &u32| self.frozen.contains(pid);
        let stalls = self.place.stalls().into_iter().filter(|(pid, _)| !frozen(pid));
        let whose = |pid: u32| if pids.contains(&pid) { "a worker" } else { "the scene" };
        let stalls = stalls.map(|(pid, text)| format!("{}: {}", whose(pid), text.trim().replace('\n', ", ")));
        Report { offences, stalls: stalls.collect() }
    }
}
