//! The pool with real programs, written in Python.

mod ahead;
mod alone;
mod errors;

use std::time::Instant as Clock;

use serde_json::json;

use super::*;
use crate::Reload;
use crate::handlers::fixture::{context, context_for, failure, run, soon, until};
use crate::job::{FailureKind, Outcome, Retry};

/// What every program begins with: `say` writes a line, and `jobs` returns the jobs' lines.
const PRELUDE: &str = r#"
import json, os, sys, time
def say(**line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
def answer(job, outcome="done", **fields):
    say(type="result", ref=job["ref"], outcome=outcome, **fields)
def lines():
    for line in sys.stdin:
        yield json.loads(line)
def jobs():
    return (line for line in lines() if line["type"] == "job")
hello = json.loads(sys.stdin.readline())
def ready(**fields):
    say(type="ready", protocol=1, **fields)
"#;

/// A pool that runs.
struct Stage {
    pool: Pool,
    tasks: JoinSet<()>,
    reload: Reload,
    stop: CancellationToken,
    refusals: mpsc::Receiver<String>,
}

impl Stage {
    fn new(script: &str) -> Self {
        Self::with(script, |config| config)
    }

    fn with(script: &str, change: impl FnOnce(PoolConfig) -> PoolConfig) -> Self {
        let script = format!("{PRELUDE}\n{script}");
        let config =
            PoolConfig::new(["python3", "-c", &script]).processes(1).grace(Duration::from_millis(300));
        let pool = Pool::new("test".parse().unwrap(), change(config)).unwrap();
        let pool = pool.serving(&"report".parse().unwrap(), &Policy::default());
        pool.set_running();
        let (sender, refusals) = mpsc::channel(1);
        let (mut tasks, reload, stop) = (JoinSet::new(), Reload::new(), CancellationToken::new());
        let orders = (reload.requests(), stop.clone());
        tasks.spawn(pool.clone().supervise(Events::default(), sender, orders));
        Self { pool, tasks, reload, stop, refusals }
    }

    async fn run(&self, payload: &str) -> Result<Value, Outcome> {
        soon(run(&self.pool, payload.as_bytes(), context(&[]))).await
    }

    /// Waits for the program, so that its start takes nothing of the next job's time, however busy the machine is.
    async fn warm_up(&self, payload: &str) {
        self.run(payload).await.unwrap();
    }

    async fn stop(mut self) {
        self.stop.cancel();
        soon(async { while self.tasks.join_next().await.is_some() {} }).await;
    }
}

#[tokio::test]
async fn each_answer_has_its_outcome_and_the_program_lives_on() {
    let stage = Stage::new(
        "ready()
for job in jobs():
    what = job['payload']
    if what == 'done': answer(job, result=[os.getpid(), job['attempt'], job['job_type'], job['queue']])
    if what == 'retry': answer(job, 'retry', error='no', delay_ms=1500)
    if what == 'fatal': answer(job, 'fatal', error='never')
    if what == 'snooze': answer(job, 'snooze', delay_ms=60000)
    if what == 'drop': answer(job, 'drop', reason='unwanted')
    if what == 'bytes': answer(job, result_base64='/w==')",
    );
    let first = stage.run("\"done\"").await.unwrap();
    assert_eq!(first.as_array().unwrap()[1..], [json!(1), json!("report"), json!("mail")]);
    let failed = failure(stage.run("\"retry\"").await);
    assert_eq!((failed.retry, failed.error.as_str()), (Retry::After(Duration::from_millis(1500)), "no"));
    assert_eq!(failure(stage.run("\"fatal\"").await).retry, Retry::Never);
    assert_eq!(stage.run("\"snooze\"").await, Err(Outcome::Snoozed(Duration::from_secs(60))));
    assert_eq!(stage.run("\"drop\"").await, Err(Outcome::Dropped("unwanted".to_owned())));
    assert_eq!(stage.run("\"bytes\"").await, Ok(json!({"encoding": "base64", "data": "/w=="})));
    assert_eq!(stage.run("\"done\"").await.unwrap(), first, "the same program");
    stage.stop().await;
}

#[tokio::test]
async fn whatever_a_program_does_its_job_fails_and_the_next_one_runs() {
    let stage = Stage::new(
        "ready()
for job in jobs():
    what = job['payload']
    sys.stderr.write('last words\\n')
    sys.stderr.flush()
    if what == 'crash': os._exit(3)
    if what == 'kill': os.kill(os.getpid(), 9)
    if what == 'silence': os._exit(0)
    if what == 'nonsense': print('Warning: x', flush=True); time.sleep(100)
    if what == 'unknown': say(type='surprise'); time.sleep(100)
    if what == 'twice':
        line = json.dumps({'type': 'result', 'ref': job['ref'], 'outcome': 'done'}) + '\\n'
        sys.stdout.write(line + line)
        sys.stdout.flush()
        time.sleep(100)
    answer(job, result=what)",
    );
    for (what, why) in [
        ("crash", "last words\nthe program ended without an answer (exit status: 3)"),
        ("kill", "last words\nthe program ended without an answer (signal: 9 (SIGKILL))"),
        ("silence", "last words\nthe program ended without an answer (exit status: 0)"),
        (
            "nonsense",
            "the program was ended because it wrote nonsense (a line that is not JSON: Warning: x): last words",
        ),
        ("unknown", "the program was ended because it wrote nonsense (the unknown type \"surprise\""),
    ] {
        let failed = failure(stage.run(&format!("\"{what}\"")).await);
        assert_eq!((failed.kind, failed.retry), (FailureKind::Unknown, Retry::Policy), "{what}");
        assert!(failed.error.starts_with(why), "{failed:?}");
        assert_eq!(stage.run("\"fine\"").await, Ok(json!("fine")), "after {what}");
    }
    assert_eq!(stage.run("\"twice\"").await, Ok(Value::Null));
    assert_eq!(stage.run("\"fine\"").await, Ok(json!("fine")));
    stage.stop().await;
}

const CHATTY: &str = "ready(inflight=hello['inflight'])
for job in jobs():
    what = job['payload']
    sys.stderr.write(f'{what} has card 4242\\n' * (4000 if what == 'much' else 1))
    sys.stderr.flush()
    if what == 'wait': continue
    if what == 'kill': os.kill(os.getpid(), 9)
    if what == 'nonsense': print('card 4242', flush=True); time.sleep(100)
    if what == 'named':
        answer(job, 'retry', error='it was me', crash=True)
        os._exit(7)
    if what == 'late': say(type='bye', crash=True); os._exit(0)
    answer(job, result=what)";

#[tokio::test]
async fn an_error_has_nothing_that_was_written_about_another_job() {
    let stage = Stage::new(CHATTY);
    for other in ["one", "much"] {
        assert_eq!(stage.run(&format!("\"{other}\"")).await, Ok(json!(other)));
    }
    let failed = failure(stage.run("\"kill\"").await);
    let expected = "kill has card 4242\nthe program ended without an answer (signal: 9 (SIGKILL))";
    assert_eq!(failed.error, expected);
    stage.stop().await;
}

#[tokio::test]
async fn jobs_of_a_program_that_died_with_several_are_lost_and_have_no_words_of_another() {
    for (how, why) in [
        ("kill", "the program ended while it had several jobs (signal: 9 (SIGKILL))"),
        (
            "nonsense",
            "the program ended because it wrote nonsense while it had several jobs (signal: 9 (SIGKILL))",
        ),
    ] {
        let stage = Stage::with(CHATTY, |config| config.inflight(3));
        let payload = format!("\"{how}\"");
        let (one, other, killed) =
            soon(async { tokio::join!(stage.run("\"wait\""), stage.run("\"wait\""), stage.run(&payload)) })
                .await;
        for ended in [one, other, killed] {
            assert_eq!(ended, Err(Outcome::Lost(why.to_owned())));
        }
        assert_eq!(stage.run("\"fine\"").await, Ok(json!("fine")));
        stage.stop().await;
    }
}

#[tokio::test]
async fn a_job_that_ends_its_program_fails_and_its_only_neighbor_is_lost() {
    let stage = Stage::with(CHATTY, |config| config.inflight(2));
    let (other, named) = tokio::join!(stage.run("\"wait\""), stage.run("\"named\""));
    let failed = failure(named);
    assert_eq!((failed.kind, failed.error.as_str()), (FailureKind::Error, "it was me"));
    let why = "the program ended because of another job (exit status: 7)";
    assert_eq!(other, Err(Outcome::Lost(why.to_owned())));
    stage.stop().await;
}

#[tokio::test]
async fn a_job_whose_program_ends_because_of_one_that_has_ended_is_lost_and_has_no_words_of_it() {
    let stage = Stage::new(CHATTY);
    let why = "the program ended because of another job (exit status: 0)";
    assert_eq!(stage.run("\"late\"").await, Err(Outcome::Lost(why.to_owned())));
    assert_eq!(stage.run("\"fine\"").await, Ok(json!("fine")));
    stage.stop().await;
}

#[tokio::test]
async fn endless_output_does_not_delay_the_deadline() {
    for endless in ["say(type='log', ref=job['ref'], message='x' * 100)", "sys.stdout.write('x' * 100000)"] {
        let script = format!(
            "ready()\nfor job in jobs():\n    while job['payload'] == 1: {endless}\n    answer(job, result=2)"
        );
        let stage = Stage::new(&script);
        stage.warm_up("2").await;
        let ended = soon(run(&stage.pool, b"1", context_for(Duration::from_secs(2)))).await;
        failure(ended);
        assert_eq!(stage.run("2").await, Ok(json!(2)));
        stage.stop().await;
    }
}

#[tokio::test]
async fn a_program_that_hangs_is_ended_and_the_next_job_runs() {
    let hangs = "import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
ready()
for job in jobs():
    if job['payload'] == 1: time.sleep(1000)
    answer(job, result=2)";
    let stage = Stage::new(hangs);
    stage.warm_up("2").await;
    let started = Clock::now();
    let failed = failure(soon(run(&stage.pool, b"1", context_for(Duration::from_secs(1)))).await);
    assert_eq!(failed.error, "stopped because of timeout (signal: 9 (SIGKILL))");
    assert!(started.elapsed() >= Duration::from_millis(1600), "{:?}", started.elapsed());
    assert_eq!(stage.run("2").await, Ok(json!(2)));
    stage.stop().await;
}

#[tokio::test]
async fn a_hanging_neighbor_costs_the_others_no_attempt() {
    let script = "import signal, threading
signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'Terminated\\n'), os._exit(1)))
ready(inflight=5)
def work(job):
    if job['payload'] == 'hang': time.sleep(1000)
    answer(job)
for line in lines():
    if line['type'] == 'job' and line['payload'] != 'wait': threading.Thread(target=work, args=[line], daemon=True).start()";
    let stage = Stage::with(script, |config| config.inflight(5));
    stage.warm_up("\"quick\"").await;
    let hang = run(&stage.pool, b"\"hang\"", context_for(Duration::from_secs(2)));
    let wait = run(&stage.pool, b"\"wait\"", context(&[]));
    let quick = async {
        for _ in 0..20 {
            assert_eq!(stage.run("\"quick\"").await, Ok(Value::Null));
        }
    };
    let (hung, waited, ()) = soon(async { tokio::join!(hang, wait, quick) }).await;
    assert!(failure(hung).error.starts_with("stopped because of timeout"));
    assert!(matches!(waited, Err(Outcome::Snoozed(_))), "{waited:?}");
    stage.stop().await;
}

#[tokio::test]
async fn a_cancel_line_lets_the_neighbors_live() {
    let script = "ready(inflight=5)
held = {}
for line in lines():
    if line['type'] == 'cancel': answer(held.pop(line['ref']), 'retry', error=line['reason'])
    elif line['payload'] == 'hold': held[line['ref']] = line
    else: answer(line, result=os.getpid())";
    let stage = Stage::with(script, |config| config.inflight(5));
    let before = stage.run("1").await.unwrap();
    failure(soon(run(&stage.pool, b"\"hold\"", context_for(Duration::from_secs(1)))).await);
    assert_eq!(stage.run("1").await.unwrap(), before, "the same program");
    stage.stop().await;
}

#[tokio::test]
async fn a_program_is_replaced_after_its_last_job() {
    let script = "ready()\nfor job in jobs(): answer(job, result=os.getpid())";
    let stage = Stage::with(script, |config| config.max_jobs(2));
    let mut pids = Vec::new();
    for _ in 0..4 {
        pids.push(stage.run("1").await.unwrap());
    }
    assert!(pids[0] == pids[1] && pids[2] == pids[3] && pids[1] != pids[2], "{pids:?}");
    stage.stop().await;
}

#[tokio::test]
async fn a_program_that_says_bye_loses_no_job() {
    let script = "ready()
for job in jobs():
    answer(job, result=os.getpid())
    say(type='bye')
    sys.exit(0)";
    let stage = Stage::new(script);
    let mut pids = BTreeSet::new();
    for _ in 0..10 {
        pids.insert(stage.run("1").await.unwrap().as_u64().unwrap());
    }
    assert_eq!(pids.len(), 10, "{pids:?}");
    stage.stop().await;
}

#[tokio::test]
async fn a_program_that_says_bye_and_stays_is_ended() {
    let stage = Stage::new("ready()\nfor job in jobs():\n    say(type='bye')\n    time.sleep(1000)");
    let failed = failure(stage.run("1").await);
    assert!(failed.error.starts_with("the program ended without an answer (signal: 15"), "{failed:?}");
    stage.stop().await;
}

#[tokio::test]
async fn a_program_of_another_version_or_without_a_type_is_refused() {
    for (script, why) in [
        ("say(type='ready', protocol=7)", "speaks version 7 of the protocol, and this worker version 1"),
        ("ready(types=['a', 'b'])", "the program does not serve report, only a, b"),
    ] {
        let mut stage = Stage::new(script);
        let refusal = soon(stage.refusals.recv()).await.unwrap();
        assert!(refusal.starts_with("the pool test: ") && refusal.contains(why), "{refusal}");
        stage.stop().await;
    }
}

#[tokio::test]
async fn a_trial_says_what_is_wrong() {
    let tried_for = async |timeout: Duration, script: &str| {
        let command = ["python3", "-c", &format!("{PRELUDE}\n{script}")];
        let config = PoolConfig::new(command).start_timeout(timeout);
        soon(Pool::new("test".parse().unwrap(), config).unwrap().try_start()).await
    };
    let tried = async |script: &str| tried_for(crate::handlers::fixture::PATIENCE, script).await;
    assert_eq!(tried("ready()\nfor line in lines(): pass").await, Ok(Vec::new()));
    let why = tried("sys.stderr.write('no database')\nsys.exit(4)").await.unwrap_err();
    let hint = "hint: of the worker's environment, programs get only PATH, HOME, LANG, LC_ALL, TZ, TMPDIR and the variables \
                that pass_env names";
    assert_eq!(why, format!("no database\nthe program ended before it was ready (exit status: 4)\n{hint}"));
    let why = tried_for(Duration::from_secs(1), "time.sleep(100)").await.unwrap_err();
    let hint = "hint: start_timeout of the pool says how long it may take";
    assert_eq!(why, format!("the program was not ready within 1s\n{hint}"));
    let why = tried("print('Shop worker', flush=True)").await.unwrap_err();
    let advice = "print nothing on standard output before that, in PHP not before Worker::create()";
    assert_eq!(why, format!("the program wrote \"Shop worker\" instead of ready: {advice} (exit status: 0)"));
    let why = tried("print('\\nDeprecated: x in y.php on line 1', flush=True)").await.unwrap_err();
    assert!(why.contains("Deprecated: x") && why.contains("display_errors=stderr"), "{why}");
    let why = tried("print('\\nParse error: x', flush=True); sys.exit(255)").await.unwrap_err();
    assert_eq!(why, "the program wrote \"Parse error: x\" instead of ready (exit status: 255)");
    let why = tried("say(type='ready', protocol='1')").await.unwrap_err();
    assert!(why.starts_with("the program wrote a first line that is not ready: "), "{why}");
    assert!(why.contains("expected u64") && !why.contains("pass_env"), "{why}");
}

#[tokio::test]
async fn a_program_that_ends_before_it_is_ready_is_reported_with_its_own_status() {
    // The packages take standard output away from the code that they load. Here, it is closed.
    let tried = async |script: &str| {
        let command = ["python3", "-c", &format!("{PRELUDE}\nos.close(1)\n{script}")];
        let pool = Pool::new("test".parse().unwrap(), PoolConfig::new(command)).unwrap();
        soon(pool.try_start()).await.unwrap_err()
    };
    let why = tried("time.sleep(0.05); sys.stderr.write('SyntaxError: no'); sys.exit(255)").await;
    assert_eq!(why, "SyntaxError: no\nthe program ended before it was ready (exit status: 255)");
    let why = tried("os._exit(0)").await;
    assert!(why.starts_with("the program ended before it was ready (exit status: 0)\nhint: "), "{why}");
    assert!(why.contains("run()") && !why.contains("pass_env"), "{why}");
    let why = tried("time.sleep(100)").await;
    assert!(why.contains("closed its standard output") && !why.contains("SIGKILL"), "{why}");
}

#[tokio::test]
async fn a_pool_whose_first_program_failed_tries_again_when_new_ones_are_requested() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let script = "os.chdir(os.environ['FOLDER'])
open('tried', 'w').close()
if not os.path.exists('mended'): sys.exit(3)
open('served', 'w').close()
ready()
for job in jobs(): answer(job)";
    let stage = Stage::with(script, |config| config.env([("FOLDER", dir.path().to_str().unwrap())]));
    until("a start", || file("tried").exists().then_some(())).await;
    std::fs::write(file("mended"), "").unwrap();
    stage.reload.request();
    until("a start without a job", || file("served").exists().then_some(())).await;
    stage.stop().await;
}

#[tokio::test]
async fn a_pool_is_down_although_a_program_that_was_replaced_ends_its_last_job() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let script = "os.chdir(os.environ['FOLDER'])
if os.path.exists('broken'): sys.exit('DB_HOST is not set')
ready()
for job in jobs():
    if job['payload'] == 'crash': os._exit(3)
    if job['payload'] == 'wait':
        open('waits', 'w').close()
        while not os.path.exists('gate'): time.sleep(0.01)
    answer(job)";
    let stage = Stage::with(script, |config| PoolConfig {
        start: PoolStart::Eager,
        ..config.env([("FOLDER", dir.path().to_str().unwrap())])
    });
    let (pool, board) = (stage.pool.clone(), &stage.pool.shared.board);
    let breaks = async {
        until("the first job", || file("waits").exists().then_some(())).await;
        stage.reload.request();
        until("a new program beside the old one", || {
            let tally = board.tally();
            ((tally.idle, tally.leaving) == (1, 1)).then_some(())
        })
        .await;
        std::fs::write(file("broken"), "").unwrap();
        failure(stage.run("\"crash\"").await);
        let down = until("the pool to be down", || pool.down()).await;
        assert!(down.why.contains("DB_HOST is not set"), "{down:?}");
        std::fs::write(file("gate"), "").unwrap();
    };
    let (waited, ()) = tokio::join!(stage.run("\"wait\""), breaks);
    assert_eq!(waited, Ok(Value::Null));
    assert!(stage.pool.down().is_some(), "the answer of the old program changes nothing");
    stage.stop().await;
}

#[tokio::test]
async fn reports_reach_the_record() {
    let stage = Stage::new(
        "ready()
for job in jobs():
    say(type='progress', ref=job['ref'], percent=42.5, message='page 3')
    say(type='log', ref=job['ref'], level='warn', message='slow')
    answer(job)",
    );
    let context = context(&[("tracking", "all")]);
    soon(run(&stage.pool, b"1", context.clone())).await.unwrap();
    assert_eq!(context.reported(), (Some((42, "page 3".to_owned())), vec!["warning: slow".to_owned()]));
    stage.stop().await;
}

#[tokio::test]
async fn a_result_that_is_not_kept_is_named_in_the_log_of_the_job() {
    let stage = Stage::new("ready()\nfor job in jobs(): answer(job, result='x' * 300000)");
    let context = context(&[("tracking", "all")]);
    assert_eq!(soon(run(&stage.pool, b"1", context.clone())).await, Ok(Value::Null));
    let want = "the result is not kept: it has 300002 bytes of JSON, and may have 64 KiB";
    assert_eq!(context.reported().1, [want]);
    stage.stop().await;
}

#[tokio::test]
async fn a_large_payload_passes_while_the_program_writes() {
    let stage = Stage::new(
        "ready()
for job in jobs():
    for _ in range(200): say(type='log', ref=job['ref'], message='x' * 10000)
    answer(job, result=len(job['payload_base64']))",
    );
    let payload = vec![0xff_u8; 3_000_000];
    let ended = soon(run(&stage.pool, &payload, context(&[("encoding", "raw")]))).await;
    assert_eq!(ended, Ok(json!(4_000_000)));
    stage.stop().await;
}

#[tokio::test]
async fn a_pool_that_nobody_runs_says_so() {
    let pool = Pool::new("test".parse().unwrap(), PoolConfig::new(["true"])).unwrap();
    let failed = failure(run(&pool, b"", context(&[])).await);
    assert!(failed.error.contains("add it with Builder::pool"), "{failed:?}");
    assert!(pool.grace() > Duration::from_secs(6));
}
