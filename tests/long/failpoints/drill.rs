//! A drill: one piece of work, repeated once for each point and fault.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use harness::ledger::Ledger;
use harness::program::Program;
use harness::proxy::{Direction, Mode, Proxy};
use harness::redis_server::RedisServer;
use harness::scripts;
use harness::wait::until;

/// How long a case may take, whatever its fault.
const DONE: Duration = Duration::from_secs(60);

/// The lease of the workers.
const LEASE: Duration = Duration::from_millis(600);

/// The time within which others have taken over from a frozen worker.
const TAKEN_OVER: Duration = Duration::from_secs(4);

/// How many cases run at once.
const AT_ONCE: usize = 4;

/// The work of a drill, and what must be true afterwards.
pub(super) struct Drill {
    /// The names of the scripts whose calls are struck.
    pub(super) scripts: &'static [&'static str],
    /// Submits the work.
    pub(super) submit: fn(&RedisServer),
    /// Returns whether all work is done.
    pub(super) is_done: fn(&RedisServer) -> bool,
    /// Judges the outcome. It reads the ledger again each time, because a worker that was frozen resumes.
    pub(super) judge: fn(&RedisServer, &Ledger) -> Result<(), String>,
}

/// A fault.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The worker is killed.
    Abort,
    /// The worker is frozen for longer than its lease, and then resumes.
    Freeze,
    /// The connection is lost, but the worker lives.
    Lose,
}

/// Where a fault strikes: at the nth call of a script, in this direction.
#[derive(Clone, Copy)]
struct Point {
    script: &'static str,
    nth: usize,
    way: Direction,
}

impl fmt::Display for Point {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.way == Direction::Requests { "before" } else { "after" };
        write!(out, "{way} call {} of {}", self.nth, self.script)
    }
}

/// A server, a worker behind a proxy, and the ledger.
struct Stage {
    server: RedisServer,
    proxy: Proxy,
    dir: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.addr());
        Self { server, proxy, dir: tempfile::tempdir().unwrap() }
    }

    fn program(&self, url: &str) -> Program {
        Program {
            lease_ms: LEASE.as_millis() as u64,
            retention_ms: 60_000,
            // On a busy machine, a worker may be silent for a whole lease without any fault of the drill.
            max_losses: 1_000,
            ..Program::new(url, self.dir.path())
        }
    }

    fn sha(&self, script: &str) -> Vec<u8> {
        scripts::sha(&self.server, scripts::source(script)).into_bytes()
    }
}

impl Drill {
    /// Counts how often each script is called, and strikes before and after each call with each fault.
    pub(super) fn run(&self, name: &str) {
        let points: Vec<Point> = self.scripts.iter().flat_map(|script| self.points(script)).collect();
        let faults = [Fault::Abort, Fault::Freeze, Fault::Lose];
        let cases: Vec<(Point, Fault)> =
            points.iter().flat_map(|point| faults.map(|fault| (*point, fault))).collect();
        let next = AtomicUsize::new(0);
        let (reached, missed, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    while let Some((point, fault)) = cases.get(next.fetch_add(1, Ordering::SeqCst)) {
                        match self.strike(point, *fault) {
                            Ok(true) => _ = reached.fetch_add(1, Ordering::SeqCst),
                            Ok(false) => missed.lock().unwrap().push((*point, *fault)),
                            Err(why) => wrong.lock().unwrap().push(format!("{fault:?} {point}: {why}")),
                        }
                    }
                });
            }
        });
        let (wrong, reached) = (wrong.into_inner().unwrap(), reached.into_inner());
        eprintln!("{name}: {} points, {} cases, {reached} struck", points.len(), cases.len());
        assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
        // A run may need fewer calls than the one that was counted, and its last answer may come after its end. But no run
        // ends without the first call of each script.
        for (point, fault) in missed.into_inner().unwrap() {
            let may_miss = point.nth > 1 || point.way == Direction::Replies;
            assert!(may_miss, "{fault:?} did not strike {point}; {reached} of {} cases did", cases.len());
        }
    }

    /// Returns the points of one script, counted in a run without faults.
    fn points(&self, script: &'static str) -> Vec<Point> {
        let stage = Stage::new();
        let needle = stage.sha(script);
        stage.proxy.set(Mode::Hold { needle, nth: usize::MAX, way: Direction::Requests });
        let _worker = stage.program(&stage.server.url_through(stage.proxy.addr())).launch().start();
        (self.submit)(&stage.server);
        until("the work to be done without faults", DONE, || (self.is_done)(&stage.server));
        let calls = stage.proxy.met();
        assert!(calls > 0, "{} is never called", script);
        let ways = [Direction::Requests, Direction::Replies];
        (1..=calls).flat_map(|nth| ways.map(|way| Point { script, nth, way })).collect()
    }

    /// Runs one case. Returns false if its point was not reached.
    fn strike(&self, point: &Point, fault: Fault) -> Result<bool, String> {
        let stage = Stage::new();
        let needle = stage.sha(point.script);
        stage.proxy.set(Mode::Hold { needle, nth: point.nth, way: point.way });
        let struck = stage.program(&stage.server.url_through(stage.proxy.addr())).launch().start();
        (self.submit)(&stage.server);
        let is_done = || (self.is_done)(&stage.server);
        until("the point to be reached, or the work to be done", DONE, || {
            stage.proxy.hits() > 0 || is_done()
        });
        let reached = stage.proxy.hits() > 0;
        let helper = stage.program(&stage.server.url()).launch();
        let _helper = match fault {
            Fault::Lose => None,
            Fault::Abort => {
                struck.kill9();
                Some(helper.start())
            }
            Fault::Freeze => {
                struck.freeze();
                let helper = helper.start();
                let frozen = Instant::now();
                until("others to take over, or the time limit", 2 * TAKEN_OVER, || {
                    (frozen.elapsed() > 2 * LEASE && is_done()) || frozen.elapsed() > TAKEN_OVER
                });
                Some(helper)
            }
        };
        if !matches!(fault, Fault::Freeze) {
            stage.proxy.set(Mode::Rst);
        }
        // The requests of a frozen worker arrive now, and so do their replies.
        stage.proxy.set(Mode::Pass);
        if matches!(fault, Fault::Freeze) {
            struck.thaw();
        }
        until("the work to be done", DONE, is_done);
        (self.judge)(&stage.server, &Ledger::new(stage.dir.path())).map(|()| reached)
    }
}
