//! The stage of an audit: sets everything up, runs load and faults, waits until all is at rest, and collects what is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::bulk::{self, Bulk};
use super::causes::Causes;
use super::diary::Diary;
use super::faults::{Suffered, Targets};
use super::judge::Case;
use super::load::Load;
use super::options::Options;
use super::person::Person;
use super::register::Register;
use super::ticks::Recurring;
use super::watch::{Progress, Watched};
use super::worker::Program;
use super::{account, plan, pulse, ticks};
use harness::clock::{monotonic_ns, wall_ms};
use harness::fleet::queue;
use harness::process::Worker;
use harness::proxy::Proxy;
use harness::redis_server::RedisServer;
use harness::wait::{pause_for, until};
use harness::weather::Event;

/// How long the fleet may make no progress after the faults are over before what is left counts as stuck.
const STUCK: Duration = Duration::from_secs(60);
/// How long nothing must be left before the audit is over: a person may still replay something.
const CALM: Duration = Duration::from_secs(2);
const STOPPED: Duration = Duration::from_secs(60);

/// The folder, inside that of the diary, with a file for each fixed job.
const MENDED: &str = "mended";

/// Everything that takes part.
pub(super) struct Stage {
    options: Options,
    server: Arc<RedisServer>,
    runtime: Runtime,
    diary: TempDir,
    register: Arc<Register>,
    bulk: Arc<Bulk>,
    load: Load,
    person: Person,
    watched: Watched,
    targets: Targets,
}

/// What is known only when the audit is over.
struct Over {
    ticks: Vec<Recurring>,
    /// When Redis did not answer.
    gaps: Vec<Event>,
    /// When all jobs were submitted, and when all was at rest.
    seconds: [f64; 2],
}

impl Stage {
    /// Starts the workers.
    pub(super) fn new(server: &Arc<RedisServer>, options: &Options) -> Self {
        let diary = tempfile::tempdir().unwrap();
        let mended = diary.path().join(MENDED);
        std::fs::create_dir(&mended).unwrap();
        let proxies: Vec<Proxy> = (0..=options.workers).map(|_| Proxy::start(server.addr())).collect();
        let program = |proxy: &Proxy| Program {
            url: server.url_through(proxy.addr()),
            diary: diary.path().to_owned(),
            mended: mended.clone(),
            lease_ms: u64::try_from(options.lease.as_millis()).unwrap(),
            env: options.env.clone(),
        };
        let programs = proxies[..options.workers].iter().map(program).collect();
        let (register, bulk): (Arc<Register>, Arc<Bulk>) = (Arc::default(), Arc::default());
        let watched = Watched {
            server: Arc::clone(server),
            register: Arc::clone(&register),
            bulk: Arc::clone(&bulk),
            jobs: options.jobs,
            waiting: Arc::default(),
            struck: Arc::default(),
        };
        let load = Load {
            server: Arc::clone(server),
            through: server.url_through(proxies[options.workers].addr()),
            register: Arc::clone(&register),
            bulk: Arc::clone(&bulk),
            waiting: Arc::clone(&watched.waiting),
            options: options.clone(),
        };
        let person = Person {
            server: Arc::clone(server),
            register: Arc::clone(&register),
            mended,
            env: options.env.clone(),
        };
        let struck = Arc::clone(&watched.struck);
        let targets = Targets::new(Arc::clone(server), Arc::clone(&register), programs, proxies, struck);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let (options, server, runtime) = (options.clone(), Arc::clone(server), runtime.unwrap());
        Self { options, server, runtime, diary, register, bulk, load, person, watched, targets }
    }

    /// Runs load and faults, and collects what is left.
    pub(super) fn perform(mut self, tell: impl FnMut(&Progress) + Send) -> (Case, Suffered, [f64; 2]) {
        let over = self.storm(tell);
        let facts = account::facts(&self.server);
        let mut suffered = self.targets.account();
        suffered.events.extend(over.gaps);
        let odd = facts.letters.iter().filter_map(|letter| bulk::number_of(&letter.mark)).collect();
        let back: Vec<u64> = suffered.redis_away.iter().map(|(_, until)| *until).collect();
        let replies = self.bulk.replies();
        let diary = Diary::read(self.diary.path(), &replies, &odd, &back);
        let lease = u64::try_from(self.options.lease.as_nanos()).unwrap();
        let causes = Causes::new(&suffered.events, &diary.stalls, lease).noting(suffered.notes.clone());
        let mut case = Case {
            entries: self.register.entries(),
            replies,
            diary,
            facts,
            causes,
            processes: suffered.processes.clone(),
            ticks: over.ticks,
            offsets: suffered.offsets.clone(),
            lease,
        };
        case.name_odd_ones();
        (case, suffered, over.seconds)
    }

    fn storm(&mut self, tell: impl FnMut(&Progress) + Send) -> Over {
        let Self { options, server, runtime, register, load, person, watched, targets, .. } = self;
        let queue = runtime.block_on(queue(server));
        let offset_ms = wall_ms() - monotonic_ns() / 1_000_000;
        let mut ticks = runtime.block_on(ticks::begin(&queue, offset_ms));
        let (enough, dead, begun) = (AtomicBool::new(false), AtomicBool::new(false), Instant::now());
        std::thread::scope(|scope| {
            let _ended = [Ended(&enough), Ended(&dead)];
            let feeling = scope.spawn(|| pulse::feel(server, &dead));
            let living = scope.spawn(|| person.live(&enough));
            let watching = scope.spawn(|| watched.watch(&enough, tell));
            let loading = scope.spawn(|| load.run());
            targets.suffer(&plan::plan(options));
            loading.join().unwrap();
            let loaded = begun.elapsed().as_secs_f64();
            runtime.block_on(ticks::end(&queue, &mut ticks));
            until_at_rest(watched, targets);
            let rested = begun.elapsed().as_secs_f64();
            enough.store(true, Ordering::SeqCst);
            living.join().unwrap();
            watching.join().unwrap();
            targets.stop();
            for worker in &targets.leaving {
                note_exit(worker, register);
            }
            dead.store(true, Ordering::SeqCst);
            Over { ticks, gaps: feeling.join().unwrap(), seconds: [loaded, rested] }
        })
    }
}

/// Tells the other threads that the audit is over, even if this one panics.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Waits until nothing was left for a while. If that never happens, the judge reports what is left.
fn until_at_rest(watched: &Watched, targets: &mut Targets) {
    let (mut calm, mut changed, mut before) = (Instant::now(), Instant::now(), None);
    while calm.elapsed() <= CALM && changed.elapsed() <= STUCK {
        pause_for(Duration::from_millis(100));
        targets.replace_who_crashed();
        let left = watched.left();
        if left != Some(0) {
            calm = Instant::now();
        }
        if left != before {
            (before, changed) = (left, Instant::now());
        }
    }
}

/// Waits until a worker that was asked to stop has exited, and complains unless it succeeded.
fn note_exit(worker: &Worker, register: &Register) {
    let started = Instant::now();
    until("a worker to stop, or the time limit", 2 * STOPPED, || {
        worker.exit_status().is_some() || started.elapsed() > STOPPED
    });
    match worker.exit_status() {
        Some(status) if status.success() => {}
        // It was killed after it was asked, or asked before it caught signals.
        Some(status) if std::os::unix::process::ExitStatusExt::signal(&status).is_some() => {}
        other => register.complain(format!(
            "worker {} was asked to stop; its exit status is {other:?}\n{}",
            worker.pid(),
            worker.stderr()
        )),
    }
}
