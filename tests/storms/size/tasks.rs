//! Tasks of every kind about very many jobs and dead letters, while three workers are under load. The command that waits for a task is
//! killed, and so is the process that carries it on; the task is paused, resumed and stopped, and a move is undone. Every job is
//! changed once and counted once, the audit has each step once, and no script takes long.
//! `STREAMFLEET_TEST_WAITING`=1000000 lets a million jobs wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use streamfleet::job::{Encoding, GateName};
use streamfleet::{Broker, Producer, Queue, Submission};
use streamfleet_engine::admin::{Action, BulkAction, BulkTerms, Filter, Task, TaskState};

use harness::alone::alone;
use harness::cli::launch;
use harness::fleet::{config, queue, until_empty};
use harness::process::{Launch, Worker};
use harness::redis_server::RedisServer;
use harness::scene::STREAM;
use harness::wait::{pause_for, until_async};
use harness::yardstick::{Verdict, Yardstick, in_one_of_three, log_from};

const CONFIG: &str = "telemetry.listen = \"off\"\n[worker]\nlease = \"1s\"\n[queues.default]\n[queues.big]\n\
    [types.noop]\nhandler = \"noop\"\n";

const WORKERS: usize = 3;

/// How many jobs one command adds.
const PAGE: u64 = 10_000;

/// How many jobs wait for each delayed job, and for each dead one.
const FOR_EACH: u64 = 50;

/// One waiting job in this many belongs to the customer whose jobs are cancelled.
const CUSTOMERS: u64 = 10;

/// How many groups the dead letters are in. Those of every other group can be replayed.
const GROUPS: u64 = 12;

/// How long a task takes at least if nothing happens to it: much longer than what happens to it.
const SECONDS: u64 = 40;

/// How long a task has to change a few jobs more, whatever was killed.
const SOME_TIME: Duration = Duration::from_secs(120);

const WAIT: &str = "for nth = tonumber(ARGV[1]), ARGV[1] + ARGV[2] - 1 do \
    redis.call('XADD', KEYS[1], '*', 'type', 'noop', 'payload', '{\"customer\":' .. nth % ARGV[3] .. '}') end return 0";

/// Writes dead letters, with the table that counts their groups.
const DIE: &str = "for nth = 0, ARGV[1] - 1 do local group = 'f' .. nth % ARGV[2] \
    redis.call('XADD', KEYS[1], '*', 'type', nth % 2 == 0 and 'noop' or 'gone', 'id', 'dead-' .. nth, 'dead_reason', 'fatal', \
    'dead_error', 'no', 'dead_fingerprint', group, 'dead_group', group) end \
    for nth = 0, ARGV[2] - 1 do local count = math.floor((ARGV[1] - nth + ARGV[2] - 1) / ARGV[2]) \
    redis.call('HSET', KEYS[2], 'f' .. nth, count .. ' ' .. count .. ' 5 5 - test fatal no') end return 0";

/// How many jobs wait: whole pages.
fn waiting() -> u64 {
    let wanted = std::env::var_os("STREAMFLEET_TEST_WAITING");
    let wanted = wanted.map_or(50_000, |wanted| wanted.to_str().unwrap().parse().unwrap());
    PAGE * u64::div_ceil(wanted, PAGE)
}

/// How many jobs are delayed, and how many are dead.
fn some() -> u64 {
    waiting() / FOR_EACH
}

/// How long a command has to finish a task that nothing happens to.
fn patience() -> Duration {
    SOME_TIME + Duration::from_secs(waiting() / 200)
}

/// At how many jobs per second a task takes long enough.
fn rate(jobs: u64) -> u64 {
    (jobs / SECONDS).clamp(1, 10_000)
}

/// A stream of plain jobs, as fast as the workers run them, but no faster than a thousand jobs in a tenth of a second.
struct Load {
    sent: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Load {
    const BURST: u64 = 100;
    const MOST_AHEAD: u64 = 1000;

    fn begin(server: &RedisServer) -> Self {
        let (sent, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, stopped, mut client) = (Arc::clone(&sent), Arc::clone(&stop), server.client());
        let mut burst = redis::pipe();
        for _ in 0..Self::BURST {
            burst.cmd("XADD").arg(STREAM).arg("*").arg(&["type", "noop", "payload", "{}"][..]).ignore();
        }
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let Ok(ahead) = redis::cmd("XLEN").arg(STREAM).query::<u64>(&mut client) else { break };
                if ahead < Self::MOST_AHEAD && burst.exec(&mut client).is_ok() {
                    count.fetch_add(Self::BURST, Ordering::Relaxed);
                }
                pause_for(Duration::from_millis(10));
            }
        });
        Self { sent, stop, thread }
    }

    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Waits until the workers have run many more jobs.
    async fn until_more(&self) {
        let before = self.sent();
        until_async("more jobs to run", SOME_TIME, async || self.sent() >= before + 2 * Self::MOST_AHEAD)
            .await;
    }

    fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.sent.load(Ordering::Relaxed)
    }
}

/// What a task does.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Move,
    RunNow,
    Cancel,
    Purge,
    Replay,
    Drop,
}

struct Stage {
    server: RedisServer,
    worker: Launch,
    workers: Vec<Worker>,
    /// The queue with very many jobs. It is paused, so that only tasks change them.
    big: Queue,
    /// The queue under load, with the dead letters.
    busy: Queue,
    load: Load,
}

impl Stage {
    async fn new() -> Self {
        let server = RedisServer::start();
        let busy = queue(&server).await;
        let big = other(&server, "big").await;
        big.gates().close(&GateName::queue(), "ann", "a test", None).await.unwrap();
        let worker = Launch::new(&["worker", "--config", "{config}", "--redis", &server.url()]);
        let worker = worker.config(CONFIG);
        let workers = (0..WORKERS).map(|_| worker.start()).collect();
        for queue in [&big, &busy] {
            until_async("a leader", SOME_TIME, async || queue.snapshot().await.unwrap().leader.is_some())
                .await;
        }
        fill(&server, &big).await;
        assert_eq!(at(&big).await, [waiting(), some(), 0]);
        let found = busy.dead_letters().groups().await.unwrap();
        assert_eq!((found.groups.len() as u64, found.letters, found.uncounted()), (GROUPS, some(), 0));
        let load = Load::begin(&server);
        Self { server, worker, workers, big, busy, load }
    }

    async fn run(&mut self, kind: Kind) {
        match kind {
            Kind::Move => self.moves().await,
            Kind::RunNow => self.makes_due().await,
            Kind::Cancel => self.cancels().await,
            Kind::Purge => self.purges().await,
            Kind::Replay => self.replays().await,
            Kind::Drop => self.drops().await,
        }
    }

    /// Moves some jobs, and moves them back.
    async fn moves(&mut self) {
        let (big, quarantine, all) = (self.big.clone(), other(&self.server, "aside").await, waiting());
        let begin = ["move", "--queue", "big", "--to", "aside", "--all", "--state", "waiting", "--unserved"];
        let stopped = self.trouble(&big, &begin, all).await;
        let moved = stopped.counts.done;
        assert_eq!((at(&big).await, at(&quarantine).await), ([all - moved, some(), 0], [moved, 0, 0]));
        let back = self.finish(&big, &["tasks", "undo", &stopped.id, "--queue", "big"]).await;
        assert_eq!((back.counts.done, back.undoes), (moved, Some(stopped.id)));
        assert_eq!((at(&big).await, at(&quarantine).await), ([all, some(), 0], [0; 3]));
    }

    /// Makes all delayed jobs due.
    async fn makes_due(&mut self) {
        let (big, all) = (self.big.clone(), some());
        let begin = ["run-now", "--queue", "big", "--all"];
        let first = self.trouble(&big, &begin, all).await.counts.done;
        until_at(&big, [waiting() + first, all - first, 0]).await;
        let rest = self.finish(&big, &[&begin[..], &["--yes"]].concat()).await.counts.done;
        assert_eq!(first + rest, all);
        until_at(&big, [waiting() + all, 0, 0]).await;
    }

    /// Cancels all jobs of a customer.
    async fn cancels(&mut self) {
        let (big, all, his) = (self.big.clone(), waiting() + some(), waiting() / CUSTOMERS);
        let begin = ["cancel", "--queue", "big", "--where", "payload.customer=3"];
        let first = self.trouble(&big, &begin, his).await.counts.done;
        assert_eq!(at(&big).await, [all - first, 0, 0]);
        let rest = self.finish(&big, &[&begin[..], &["--yes"]].concat()).await.counts;
        assert_eq!((first + rest.done, rest.looked), (his, all - first));
        assert_eq!(at(&big).await, [all - his, 0, 0]);
    }

    /// Purges the queue. Its command takes no rate, so the library begins the task.
    async fn purges(&mut self) {
        let (big, all) = (self.big.clone(), waiting() + some() - waiting() / CUSTOMERS);
        let selection = big.bulk().select(BulkAction::Purge, Filter::new(), None).await.unwrap();
        let (terms, action) =
            (BulkTerms::new("ann").rate(rate(all) as f64), Action::new("queues purge", "ann"));
        let id = big.tasks().start(&selection, &terms, &action).await.unwrap().value;
        let first = self.trouble_with(&big, &id, None, all).await.counts.done;
        assert_eq!(at(&big).await, [all - first, 0, 0]);
        let purge = ["queues", "purge", "big", "--waiting", "--delayed", "--confirm", "big"];
        let rest = self.finish(&big, &purge).await.counts.done;
        assert_eq!((first + rest, at(&big).await), (all, [0; 3]));
    }

    /// Replays the dead letters of every other group, and all these jobs succeed.
    async fn replays(&mut self) {
        let (busy, all) = (self.busy.clone(), some() / 2);
        let begin = ["dead", "replay", "--type", "noop"];
        let first = self.trouble(&busy, &begin, all).await.counts.done;
        assert_eq!(busy.snapshot().await.unwrap().dead, some() - first);
        let rest = self.finish(&busy, &[&begin[..], &["--yes", "--rate", "10000/s"]].concat()).await;
        let counts = rest.replay.unwrap();
        assert_eq!((counts.replayed, counts.succeeded, counts.skipped), (all - first, all - first, 0));
        assert_eq!((rest.counts.done, busy.snapshot().await.unwrap().dead), (all - first, some() - all));
    }

    /// Drops the other dead letters.
    async fn drops(&mut self) {
        let (busy, all) = (self.busy.clone(), some() - some() / 2);
        let begin = ["dead", "drop", "--type", "gone"];
        let first = self.trouble(&busy, &begin, all).await.counts.done;
        assert_eq!(busy.snapshot().await.unwrap().dead, all - first);
        let rest = self.finish(&busy, &[&begin[..], &["--yes"]].concat()).await.counts.done;
        let found = busy.dead_letters().groups().await.unwrap();
        assert_eq!((first + rest, found.letters, found.overcounted()), (all, 0, 0));
    }

    /// Begins a task by a command that waits for it, and lets everything happen to it; see `trouble_with`.
    async fn trouble(&mut self, queue: &Queue, begin: &[&str], jobs: u64) -> Task {
        let rate = format!("{}/s", rate(jobs));
        let command = self.command(&[begin, &["--yes", "--rate", &rate]].concat()).start();
        let id = until_async("the task to begin", patience(), async || {
            assert!(command.exit_status().is_none(), "it ended: {}", command.stderr());
            let known = queue.tasks().known().await.unwrap();
            known.into_iter().find(|task| task.is_active).map(|task| task.id)
        })
        .await;
        self.trouble_with(queue, &id, Some(command), jobs).await
    }

    /// Kills the command that waits for a task about this many jobs, and the process that carries it on. Pauses and resumes it, and stops
    /// it before its end. Returns it as it then is.
    async fn trouble_with(&mut self, queue: &Queue, id: &str, command: Option<Worker>, jobs: u64) -> Task {
        let few = (jobs / 50).max(1);
        until_done(queue, id, few).await;
        if let Some(command) = command {
            command.kill9();
        }
        until_done(queue, id, get(queue, id).await.counts.done + few).await;
        self.kill_leader(queue).await;
        until_done(queue, id, get(queue, id).await.counts.done + few).await;
        self.change("pause", queue, id);
        let paused = get(queue, id).await;
        assert_eq!(paused.state, TaskState::Paused, "{paused:?}");
        self.load.until_more().await;
        assert_eq!(get(queue, id).await.counts, paused.counts, "it changes nothing while it is paused");
        self.change("resume", queue, id);
        until_done(queue, id, paused.counts.done + few).await;
        self.change("stop", queue, id);
        let stopped = get(queue, id).await;
        assert_eq!((stopped.state, stopped.counts.refused()), (TaskState::Stopped, 0), "{stopped:?}");
        assert!(stopped.counts.done < jobs, "it ended before it was stopped: {stopped:?}");
        assert_noted(queue, &stopped, &["tasks pause", "tasks resume", "tasks stop"]).await;
        if stopped.action.kind() != "move" {
            let undo = ["tasks", "undo", id, "--queue", queue.name().as_str()];
            let refused = self.command(&undo).output(SOME_TIME);
            assert!(refused.code == Some(1) && refused.stderr.contains("only a move"), "{refused:?}");
        }
        stopped
    }

    /// Kills the process that leads a queue, and starts another one.
    async fn kill_leader(&mut self, queue: &Queue) {
        let nth = until_async("a living leader", SOME_TIME, async || {
            let leader = queue.snapshot().await.unwrap().leader.unwrap_or_default();
            self.workers.iter().position(|worker| leader.contains(&format!("-{}-", worker.pid())))
        })
        .await;
        self.workers[nth].kill9();
        self.workers[nth] = self.worker.start();
    }

    /// Pauses, resumes or stops a task.
    fn change(&self, how: &str, queue: &Queue, id: &str) {
        let mut args = vec!["tasks", how, id, "--queue", queue.name().as_str()];
        // It would wait for the end.
        args.extend((how == "resume").then_some("--detach"));
        let output = self.command(&args).output(SOME_TIME);
        assert_eq!(output.code, Some(0), "{how}: {output:?}");
    }

    /// Lets a command begin a task and wait for its end. Returns the task.
    async fn finish(&self, queue: &Queue, args: &[&str]) -> Task {
        let output = self.command(args).output(patience());
        assert_eq!(output.code, Some(0), "{args:?}: {output:?}");
        // The command ends when all letters are replayed, and such a task when their jobs have ended.
        let task = until_async("the task to be done", patience(), async || {
            let newest = queue.tasks().page(None, 1).await.unwrap().tasks.remove(0);
            (newest.state == TaskState::Done).then_some(newest)
        })
        .await;
        let (counts, done) =
            (&task.counts, if task.replay.is_some() { "campaign done" } else { "task done" });
        assert_eq!((counts.refused(), counts.undecided, counts.requested), (0, 0, 0));
        assert_eq!((&counts.error, task.left()), (&None, Some(0)), "{task:?}");
        assert_noted(queue, &task, &[done]).await;
        task
    }

    /// Prepares a command of a person.
    fn command(&self, args: &[&str]) -> Launch {
        launch(&self.server, &[args, &["--by", "ann", "--reason", "a test", "--json"]].concat())
    }

    /// Nothing is left of all jobs, and of the load.
    async fn end(self) {
        let sent = self.load.end();
        until_empty(&self.busy).await;
        assert_eq!((at(&self.busy).await, at(&self.big).await), ([0; 3], [0; 3]));
        println!("{} jobs waited, {} were dead; the load was {sent} jobs", waiting(), some());
    }
}

async fn other(server: &RedisServer, name: &str) -> Queue {
    Broker::connect(config(&server.url()).redis).await.unwrap().queue(name.parse().unwrap())
}

/// Adds all jobs and dead letters.
async fn fill(server: &RedisServer, big: &Queue) {
    let (page, customers) = (PAGE.to_string(), CUSTOMERS.to_string());
    for first in (0..waiting()).step_by(PAGE as usize) {
        server.cmd(&["EVAL", WAIT, "1", "sf:{big}:jobs", &first.to_string(), &page, &customers]);
    }
    let delayed = (0..some()).map(|_| {
        let delayed = Submission::new("noop").unwrap().delay(Duration::from_secs(24 * 3600));
        delayed.payload("{}".to_owned(), Encoding::Json).unwrap()
    });
    Producer::new(big.clone()).submit_all(delayed).await.unwrap();
    let (letters, groups) = (some().to_string(), GROUPS.to_string());
    server.cmd(&["EVAL", DIE, "2", "sf:{default}:dead", "sf:{default}:dead:groups", &letters, &groups]);
}

/// How many jobs of a queue wait, are delayed, and are dead.
async fn at(queue: &Queue) -> [u64; 3] {
    let snapshot = queue.snapshot().await.unwrap();
    [snapshot.waiting(), snapshot.delayed, snapshot.dead]
}

async fn until_at(queue: &Queue, want: [u64; 3]) {
    until_async("due jobs to wait", patience(), async || at(queue).await == want).await;
}

async fn get(queue: &Queue, id: &str) -> Task {
    queue.tasks().get(id).await.unwrap().unwrap()
}

/// Waits until a task has changed this many jobs.
async fn until_done(queue: &Queue, id: &str, jobs: u64) {
    until_async(&format!("the task {id} to change {jobs} jobs"), SOME_TIME, async || {
        get(queue, id).await.counts.done >= jobs
    })
    .await;
}

/// The audit has the beginning of a task once, and after it these changes.
async fn assert_noted(queue: &Queue, task: &Task, changes: &[&str]) {
    const MOST: u64 = 1000;
    let word = if task.replay.is_some() { "campaign" } else { "task" };
    let name = format!("{word} {}", task.id);
    let mut notes = queue.audit().recent(None, MOST).await.unwrap();
    notes.reverse();
    let about = |note: &Action| note.outcome == name || note.target == name;
    let about: Vec<Action> = notes.into_iter().map(|note| note.action).filter(about).collect();
    let noted: Vec<&str> = about.iter().skip(1).map(|note| note.what.as_str()).collect();
    assert_eq!((about[0].outcome.as_str(), noted), (name.as_str(), changes.to_vec()), "{about:?}");
    if task.state == TaskState::Done {
        assert_eq!(about[1].count, Some(task.counts.done), "{about:?}");
    }
}

async fn ordeal() -> Verdict {
    let mut stage = Stage::new().await;
    for kind in [Kind::Move, Kind::RunNow, Kind::Cancel, Kind::Purge, Kind::Replay, Kind::Drop] {
        println!("{kind:?}");
        log_from(&stage.server, "300");
        let yardstick = Yardstick::lay(&stage.server);
        stage.run(kind).await;
        yardstick.judge(&stage.server).map_err(|slow| format!("{kind:?}: {slow}"))?;
    }
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_change_and_count_every_job_once_whatever_happens_to_them() {
    let _alone = alone();
    in_one_of_three(async || ordeal().await).await;
}
