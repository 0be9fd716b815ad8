//! A storm: jobs of every kind, submitted in every way, while workers, Redis and the network are hit in every way. At the
//! end a judge says whether each promise held, from what was submitted, a diary outside Redis, and what is left.
//!
//! [`load`] and [`send`] submit and [`register`], [`faults`] hit by a [`plan`](mod@plan), a [`person`] cancels, replays and decides; [`worker`] is the process
//! that runs jobs and writes the [`diary`]; [`pulse`] feels when Redis is away. [`account`] looks at what is left, [`causes`] says what may
//! have made a job run twice, and [`judge`] asks the [`rules`], and [`ticks`] about recurring jobs.

mod account;
mod causes;
mod diary;
mod faults;
mod judge;
mod load;
mod person;
mod plan;
mod proof;
mod pulse;
mod register;
mod rules;
mod send;
mod ticks;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use causes::Causes;
use diary::Diary;
use faults::{PROXIES, Suffered, Targets, WORKERS};
use judge::Case;
use load::Load;
use person::Person;
use register::Register;
use worker::Program;

use crate::harness::clock::{monotonic_ns, wall_ms};
use crate::harness::fleet::queue;
use crate::harness::nemesis::seed;
use crate::harness::process::Worker;
use crate::harness::proxy::Proxy;
use crate::harness::redis_server::{Aof, RedisServer};
use crate::harness::rest::jobs_left;
use crate::harness::wait::{pause_for, until};

const LEASE: Duration = Duration::from_millis(2_000);
/// How long the fleet gets when the storm is over, for all that is left to do.
const DRAINED: Duration = Duration::from_secs(120);
/// How long nothing must be left for it to be over: a person may still replay something.
const CALM: Duration = Duration::from_secs(2);
const STOPPED: Duration = Duration::from_secs(60);

/// How long it storms: `STREAMFLEET_TEST_STORM_SECONDS`, or else so short a time that everybody can wait for it.
fn length() -> Duration {
    #[expect(clippy::disallowed_methods, reason = "the length is for the person who runs the tests")]
    let given = std::env::var("STREAMFLEET_TEST_STORM_SECONDS").ok();
    Duration::from_secs(given.map_or(30, |text| text.parse().expect("a whole number of seconds")))
}

#[test]
fn every_promise_holds_in_a_storm() {
    let seed = seed();
    let case = storm(seed, length());
    let report = case.judge();
    eprintln!("SEED={seed} {report}");
    assert_eq!(report.rules(), Vec::<&str>::new(), "SEED={seed}");
}

/// Lets it storm for so long, and looks at what is left.
fn storm(seed: u64, over: Duration) -> Case {
    let server = Arc::new(RedisServer::builder().aof(Aof::Always).start());
    let (diary, mended) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let proxies: Vec<Proxy> = (0..PROXIES).map(|_| Proxy::start(server.addr())).collect();
    let lease_ms = u64::try_from(LEASE.as_millis()).unwrap();
    let program = |proxy: &Proxy| Program {
        url: server.url_through(proxy.addr()),
        diary: diary.path().to_owned(),
        mended: mended.path().to_owned(),
        lease_ms,
    };
    let programs = proxies.iter().map(program).collect();
    let register: Arc<Register> = Arc::default();
    let through = server.url_through(proxies[WORKERS].addr());
    let load = Load { server: Arc::clone(&server), through, register: Arc::clone(&register), seed };
    let person = Person {
        server: Arc::clone(&server),
        register: Arc::clone(&register),
        mended: mended.path().to_owned(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut targets = Targets::new(Arc::clone(&server), programs, proxies);
    let queue = runtime.block_on(queue(&server));
    let offset_ms = wall_ms() - monotonic_ns() / 1_000_000;
    let mut ticks = runtime.block_on(ticks::begin(&queue, offset_ms));
    let (enough, dead) = (AtomicBool::new(false), AtomicBool::new(false));
    let gaps = std::thread::scope(|scope| {
        let _ended = [Ended(&enough), Ended(&dead)];
        let feeling = scope.spawn(|| pulse::feel(&server, &dead));
        let living = scope.spawn(|| person.live(&enough));
        let loading = scope.spawn(|| load.run(over));
        targets.suffer(&plan::plan(seed, over, LEASE));
        loading.join().unwrap();
        runtime.block_on(ticks::end(&queue, &mut ticks));
        until_at_rest(&server);
        enough.store(true, Ordering::SeqCst);
        living.join().unwrap();
        targets.stop();
        for worker in &targets.leaving {
            note_exit(worker, &register);
        }
        dead.store(true, Ordering::SeqCst);
        feeling.join().unwrap()
    });
    let facts = account::facts(&server);
    let Suffered { mut events, notes, processes } = targets.account();
    events.extend(gaps);
    let lease = lease_ms * 1_000_000;
    let diary = Diary::read(diary.path());
    let causes = Causes::new(&events, &diary.stalls, lease).noting(notes);
    Case { entries: register.entries(), diary, facts, causes, processes, ticks, lease }
}

/// Tells the other threads that it is over, also where this one panics.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Waits until nothing was left for a while. Where that does not come, the judge says what is left.
fn until_at_rest(server: &RedisServer) {
    let (started, mut calm) = (Instant::now(), Instant::now());
    until("nothing to be left to do, or the time to be over", 2 * DRAINED, || {
        pause_for(Duration::from_millis(100));
        if jobs_left(server) > 0 {
            calm = Instant::now();
        }
        calm.elapsed() > CALM || started.elapsed() > DRAINED
    });
}

/// A worker that was asked to stop ends well.
fn note_exit(worker: &Worker, register: &Register) {
    let started = Instant::now();
    until("a worker to stop, or the time to be over", 2 * STOPPED, || {
        worker.exit_status().is_some() || started.elapsed() > STOPPED
    });
    match worker.exit_status() {
        Some(status) if status.success() => {}
        // Killed after it was asked, or asked before it could listen.
        Some(status) if std::os::unix::process::ExitStatusExt::signal(&status).is_some() => {}
        other => register.complain(format!(
            "worker {} was asked to stop: {other:?}\n{}",
            worker.pid(),
            worker.stderr()
        )),
    }
}
