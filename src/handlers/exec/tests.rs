//! The exec handler with real programs.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::handlers::fixture::{PATIENCE, context, context_for, failure, run, soon, until};
use crate::job::{Failure, FailureKind, Outcome, Retry};
use crate::worker::MAX_RESULT_BYTES;

mod start;
mod user;

const TEN_MB: usize = 10_000_000;

fn exec(command: &[&str]) -> Exec {
    exec_with(command, |_| {})
}

fn exec_with(command: &[&str], change: impl FnOnce(&mut ExecConfig)) -> Exec {
    let command = command.iter().map(|part| (*part).to_owned()).collect();
    let mut config = ExecConfig { command, grace: Duration::from_millis(200), ..ExecConfig::default() };
    change(&mut config);
    Exec::new(config).unwrap()
}

fn sh(script: &str) -> Exec {
    exec(&["sh", "-c", script])
}

fn in_directory(directory: &TempDir, command: &[&str]) -> Exec {
    exec_with(command, |config| config.directory = Some(directory.path().to_owned()))
}

async fn written_pid(file: &Path) -> Pid {
    let read = || Pid::from_raw(std::fs::read_to_string(file).ok()?.strip_suffix('\n')?.parse().ok()?);
    until("a process id is written", read).await
}

/// Returns true if the process no longer runs. A zombie counts as dead: it only waits to be reaped.
fn is_dead(pid: Pid) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

async fn until_dead(pid: Pid) {
    until("the process is gone", || is_dead(pid).then_some(())).await;
}

#[tokio::test]
async fn the_exit_code_decides() {
    assert_eq!(run(&sh("exit 0"), b"", context(&[])).await, Ok(Value::Null));
    for (code, retry) in [(1, Retry::Policy), (65, Retry::Never), (66, Retry::Policy), (255, Retry::Policy)] {
        let failed = failure(run(&sh(&format!("echo boom >&2; exit {code}")), b"", context(&[])).await);
        assert_eq!((failed.kind, failed.retry), (FailureKind::Error, retry), "{code}");
        assert_eq!(failed.error, format!("boom\nexit status: {code}"));
    }
    let as_a_shell_says = failure(run(&sh("exit 137"), b"", context(&[])).await);
    assert_eq!((as_a_shell_says.kind, as_a_shell_says.retry), (FailureKind::Unknown, Retry::Policy));
    let snooze = exec_with(&["sh", "-c", "exit 75"], |config| config.snooze = Duration::from_secs(7));
    assert_eq!(run(&snooze, b"", context(&[])).await, Err(Outcome::Snoozed(Duration::from_secs(7))));
}

fn ruled(script: &str, rules: Value) -> Exec {
    exec_with(&["sh", "-c", script], |config| config.rules = serde_json::from_value(rules).unwrap())
}

/// Returns the outcome of `rules` for a program that writes `words` and exits with `code`.
async fn judged(code: u8, words: &str, rules: &Value) -> Result<Value, Outcome> {
    let script = format!("echo '\"half\"'; echo '{words}' >&2; exit {code}");
    run(&ruled(&script, rules.clone()), b"", context(&[])).await
}

#[tokio::test]
async fn rules_decide_by_exit_code_and_output() {
    let rules = json!([
        { "exit": 75, "matches": "quota", "then": { "snooze": "10m" } },
        { "exit": [10, 20], "then": { "retry_after": "30s" } },
        { "exit": 65, "then": "retry" },
        { "matches": "(?i)duplicate order", "then": "drop" },
        { "exit": 3, "then": "fatal" },
        { "exit": 4, "then": "done" },
        { "exit": 0, "matches": "^WARN", "then": "fatal" },
    ]);
    assert_eq!(judged(75, "over quota", &rules).await, Err(Outcome::Snoozed(Duration::from_secs(600))));
    assert_eq!(judged(75, "x", &rules).await, Err(Outcome::Snoozed(Duration::from_secs(30))), "the built-in");
    assert_eq!(
        judged(1, "Duplicate order 7", &rules).await,
        Err(Outcome::Dropped("Duplicate order 7\nexit status: 1".to_owned()))
    );
    assert_eq!(judged(4, "nothing to do", &rules).await, Ok(json!("half")));
    assert_eq!(judged(0, "a duplicate order", &rules).await, Ok(json!("half")), "a success is left alone");
    let want = [
        (20, "x", Retry::After(Duration::from_secs(30))),
        (65, "x", Retry::Policy),
        (3, "x", Retry::Never),
        (5, "x", Retry::Policy),
        (0, "WARN", Retry::Never),
    ];
    for (code, words, retry) in want {
        let failed = failure(judged(code, words, &rules).await);
        assert_eq!((failed.retry, failed.error), (retry, format!("{words}\nexit status: {code}")));
    }
}

#[tokio::test]
async fn rules_see_output_before_the_last_lines() {
    let trace = "echo 'InvalidArgument: no such customer' >&2; seq 1 3000 >&2; exit 1";
    let rules = json!([{ "matches": "^InvalidArgument", "then": "fatal" }]);
    let failed = failure(run(&ruled(trace, rules), b"", context(&[])).await);
    assert_eq!(failed.retry, Retry::Never);
    assert!(failed.error.len() < 2 * Excerpt::BYTES, "{}", failed.error);
    assert!(failed.error.ends_with("\n3000\nexit status: 1"), "{}", failed.error);
}

#[tokio::test]
async fn rules_do_not_apply_to_a_program_that_was_stopped() {
    let rules = json!([{ "then": "done" }]);
    let context = context_for(Duration::from_millis(300));
    // Long enough for a busy machine to end the program.
    let handler = exec_with(&["sh", "-c", "sleep 60"], |config| {
        (config.rules, config.grace) = (serde_json::from_value(rules).unwrap(), Duration::from_secs(20));
    });
    let failed = failure(run(&handler, b"", context).await);
    assert!(failed.error.starts_with("stopped because "), "{}", failed.error);
}

#[tokio::test]
async fn a_program_killed_by_a_signal_is_retried_as_unknown() {
    let failed = failure(run(&sh("kill -SEGV $$"), b"", context(&[])).await);
    assert_eq!((failed.kind, failed.retry), (FailureKind::Unknown, Retry::Policy));
    assert!(failed.error.contains("SIGSEGV"), "{}", failed.error);
}

#[tokio::test]
async fn standard_output_is_the_result() {
    for (script, result) in
        [("echo '{\"rows\": 3}'", json!({"rows": 3})), ("echo three rows", json!("three rows"))]
    {
        assert_eq!(run(&sh(script), b"", context(&[])).await, Ok(result), "{script}");
    }
}

#[tokio::test]
async fn the_payload_comes_by_standard_input_byte_for_byte() {
    let payload: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let hex = exec(&[
        "python3",
        "-c",
        "import sys; print(sys.stdin.buffer.read(3000).hex(), len(sys.stdin.buffer.read()))",
    ]);
    let expected: String = payload[..3000].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(run(&hex, &payload, context(&[])).await, Ok(json!(format!("{expected} 97000"))));
}

#[tokio::test]
async fn standard_input_is_whole_at_the_start_and_cannot_be_changed() {
    let look = "import os, fcntl
F_GET_SEALS = 1034
def refused(change):
    try: change(); return False
    except OSError: return True
size = os.fstat(0).st_size
changes = [lambda: os.write(0, b'x'), lambda: os.ftruncate(0, 1), lambda: os.pwrite(0, b'x', size)]
print([size, os.lseek(0, 0, os.SEEK_CUR), [refused(change) for change in changes], fcntl.fcntl(0, F_GET_SEALS) & 15,
    int(os.environ['STREAMFLEET_PAYLOAD_BYTES']), len(open('/dev/stdin', 'rb').read()), len(os.read(0, 1 << 20))])";
    for payload in [&[][..], &[b'p'; 300_000]] {
        let length = payload.len();
        let seen = run(&exec(&["python3", "-c", look]), payload, context(&[])).await;
        let want = format!("[{length}, 0, [True, True, True], 15, {length}, {length}, {length}]");
        assert_eq!(seen, Ok(json!(want)));
    }
}

#[tokio::test]
async fn a_program_that_ended_before_the_cut_keeps_its_exit_code() {
    for (code, want) in [(0, None), (3, Some(ChildEnding::Failed))] {
        let command = sh(&format!("exit {code}")).invocation(&context(&[]));
        let child = soon(Child::start(command, Bytes::new())).await.unwrap();
        // The runtime cannot notice the exit before the cut: nothing awaits in between.
        let pid = child.pid();
        while !is_dead(pid) {
            std::thread::yield_now();
        }
        let cut = std::future::ready("the attempt was cut short");
        let end = soon(child.run(cut, Duration::ZERO, (Excerpt::BYTES, |_: &[u8]| {}))).await.unwrap();
        assert_eq!((end.cut, end.status.code()), (None, Some(code)));
        assert_eq!(end.ending(), want.unwrap_or(ChildEnding::Exited));
    }
}

#[tokio::test]
async fn neither_arguments_nor_payload_reach_a_shell() {
    let directory = TempDir::new().unwrap();
    let hostile = "; touch hacked; $(touch hacked) `touch hacked` > hacked";
    let echoed = run(&in_directory(&directory, &["printf", "%s", hostile]), b"", context(&[])).await;
    assert_eq!(echoed, Ok(json!(hostile)));
    let echoed = run(&in_directory(&directory, &["cat"]), hostile.as_bytes(), context(&[])).await;
    assert_eq!(echoed, Ok(json!(hostile)));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn the_environment_is_the_allow_list_and_the_facts_of_the_attempt() {
    let env = exec_with(&["env"], |config| {
        config.pass_env = vec!["CARGO_MANIFEST_DIR".into(), "NOT_SET_ANYWHERE".into()];
        config.env = [("COLOUR".into(), "blue".into()), ("HOME".into(), "/nowhere".into())].into();
    });
    let fields = [("id", "order-ü%"), ("attempt", "2"), ("traceparent", "00-ab-cd-01"), ("h.tenant", "acme")];
    let Ok(Value::String(printed)) = run(&env, b"", context(&fields)).await else { panic!("env failed") };
    let printed: BTreeSet<_> =
        printed.lines().filter(|line| *line != "STREAMFLEET_PAYLOAD_BYTES=0").collect();
    let facts = ["ID=order-ü%", "TYPE=report", "QUEUE=mail", "ATTEMPT=3", "FENCE=1700-3", "ENCODING=json"];
    let mut expected: BTreeSet<_> = facts.map(|fact| format!("STREAMFLEET_JOB_{fact}")).into();
    let others =
        ["COLOUR=blue", "HOME=/nowhere", "TRACEPARENT=00-ab-cd-01", "STREAMFLEET_HEADER_TENANT=acme"];
    expected.extend(others.map(str::to_owned));
    for name in ["CARGO_MANIFEST_DIR", "PATH", "LANG", "LC_ALL", "TZ", "TMPDIR"] {
        expected.extend(std::env::var_os(name).map(|value| format!("{name}={}", value.display())));
    }
    assert_eq!(printed, expected.iter().map(String::as_str).collect());
}

#[tokio::test]
async fn a_trace_context_that_is_not_plain_text_is_left_out() {
    for traceparent in ["00-a\0b", "00-a\nX=1", "é"] {
        let shown = run(&sh("echo ${TRACEPARENT-none}"), b"", context(&[("traceparent", traceparent)])).await;
        assert_eq!(shown, Ok(json!("none")));
    }
}

#[tokio::test]
async fn a_program_need_not_read_ten_megabytes() {
    let payload = vec![b'x'; TEN_MB];
    for command in [&["true"] as &[&str], &["sleep", "0.2"], &["head", "-c", "1"]] {
        assert!(run(&exec(command), &payload, context(&[])).await.is_ok(), "{command:?}");
    }
    let failed = failure(run(&sh("exit 3"), &payload, context(&[])).await);
    assert_eq!(failed.error, "exit status: 3");
}

#[tokio::test]
async fn ten_megabytes_pass_through_a_program_that_answers_while_it_reads() {
    let counted = run(&sh("tee /dev/stderr | wc -c"), &vec![b'x'; TEN_MB], context(&[])).await;
    assert_eq!(counted, Ok(json!(TEN_MB)));
}

#[tokio::test]
async fn endless_output_is_drained_and_not_kept() {
    let command = sh("yes out | head -c 50000000; yes err | head -c 50000000 >&2").invocation(&context(&[]));
    let child = soon(Child::start(command, Bytes::new())).await.unwrap();
    let end = soon(child.run(std::future::pending(), Duration::ZERO, (Excerpt::BYTES, |_: &[u8]| {})))
        .await
        .unwrap();
    assert!(end.status.success(), "{}", end.status);
    assert_eq!(end.stdout, b"out\n".repeat(MAX_RESULT_BYTES / 4));
    assert_eq!(end.stderr.tail, b"err\n".repeat(Excerpt::BYTES / 4));
    let kept = end.stdout.capacity();
    assert!(kept < 3 * MAX_RESULT_BYTES, "{kept}");
}

#[tokio::test]
async fn endless_output_does_not_delay_the_deadline() {
    // It ends at once, but on a busy machine it may take a while to read all its output.
    let endless = exec_with(&["sh", "-c", "yes out & yes err >&2"], |config| {
        config.grace = Duration::from_secs(20);
    });
    let failed = failure(run(&endless, b"", context_for(Duration::from_millis(300))).await);
    let why = "stopped because it ran out of time (signal: 15 (SIGTERM))";
    assert!(failed.error.starts_with(why), "{failed:?}");
}

#[tokio::test]
async fn the_error_is_the_beginning_and_the_end_of_standard_error_with_its_line_breaks() {
    let script = r"seq 1 5000 >&2; printf '\033[2Jlast \377 words\n' >&2; exit 1";
    let error = failure(run(&sh(script), b"", context(&[])).await).error;
    assert!(error.starts_with("\\u{1b}[2Jlast \u{fffd} words\n1\n2\n3\n"), "{error}");
    assert!(error.ends_with("\n5000\n\\u{1b}[2Jlast \u{fffd} words\nexit status: 1"), "{error}");
    assert!(error.len() < Excerpt::BYTES + 100 && !error.contains("\n1000\n"), "{error}");
}

/// Runs a script that writes its process id to the file `pid`, and then cancels its attempt.
async fn cancelled(grace: Duration, script: &str) -> (Failure, Pid) {
    let directory = TempDir::new().unwrap();
    let handler = exec_with(&["sh", "-c", script], |config| {
        config.directory = Some(directory.path().to_owned());
        config.grace = grace;
    });
    let context = context(&[]);
    let cancellation = context.cancellation().clone();
    let cancel = async {
        let pid = written_pid(&directory.path().join("pid")).await;
        cancellation.cancel();
        pid
    };
    let (ended, pid) = tokio::join!(run(&handler, b"", context), cancel);
    (failure(ended), pid)
}

#[tokio::test]
async fn cancelling_stops_the_program_before_its_time_is_up() {
    let (failed, pid) = cancelled(PATIENCE, "echo $$ > pid; exec sleep 1000").await;
    assert_eq!(failed.error, "stopped because the attempt was cut short (signal: 15 (SIGTERM))");
    assert!(is_dead(pid));
}

#[tokio::test]
async fn a_program_that_ignores_sigterm_is_killed_after_the_grace() {
    let started = Instant::now();
    let grace = Duration::from_millis(300);
    let (failed, pid) = cancelled(grace, "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done").await;
    assert!(started.elapsed() >= grace, "{:?}", started.elapsed());
    assert_eq!(failed.retry, Retry::Policy);
    assert_eq!(failed.error, "stopped because the attempt was cut short (signal: 9 (SIGKILL))");
    assert!(is_dead(pid));
}

#[test]
fn the_worker_waits_longer_than_the_program_may_take_to_stop() {
    let handler = exec_with(&["true"], |config| config.grace = Duration::from_secs(30));
    assert!(handler.grace() > Duration::from_secs(30));
}

#[tokio::test]
async fn exit_code_0_after_sigterm_is_not_success() {
    let obliging = "trap 'exit 0' TERM; echo $$ > pid; while :; do sleep 0.05; done 2> /dev/null";
    let (failed, _) = cancelled(PATIENCE, obliging).await;
    assert!(
        failed.error.starts_with("stopped because the attempt was cut short (exit status: 0)"),
        "{failed:?}"
    );
}

#[tokio::test]
async fn a_timeout_ends_the_whole_process_group() {
    let directory = TempDir::new().unwrap();
    let script = "trap '' TERM; sleep 1000 & echo $! > pid; wait";
    let ended =
        run(&in_directory(&directory, &["sh", "-c", script]), b"", context_for(Duration::from_secs(1))).await;
    failure(ended);
    until_dead(written_pid(&directory.path().join("pid")).await).await;
}

#[tokio::test]
async fn descendants_of_a_stopped_program_get_the_grace_period() {
    let directory = TempDir::new().unwrap();
    let state = directory.path().join("state");
    let script = format!(
        "(trap 'sleep 1.3; echo saved > {}; exit' TERM; echo $$ > pid; while :; do sleep 0.05; done) & wait",
        state.display()
    );
    cancelled(PATIENCE, &script).await;
    assert_eq!(std::fs::read_to_string(state).unwrap(), "saved\n");
}

#[tokio::test]
async fn dropping_the_attempt_kills_the_process_group() {
    let directory = TempDir::new().unwrap();
    let handler =
        in_directory(&directory, &["sh", "-c", "sleep 1000 & echo $! > child; echo $$ > leader; wait"]);
    let attempt = run(&handler, b"", context(&[]));
    let (leader, child) = (directory.path().join("leader"), directory.path().join("child"));
    let pids = tokio::select! {
        ended = attempt => panic!("ended: {ended:?}"),
        leader = written_pid(&leader) => [leader, written_pid(&child).await],
    };
    for pid in pids {
        until_dead(pid).await;
    }
    let reaped = || (!Path::new(&format!("/proc/{}", pids[0])).exists()).then_some(());
    until("the leader is reaped", reaped).await;
}

#[tokio::test]
async fn leftovers_in_the_group_of_a_finished_program_are_killed() {
    let directory = TempDir::new().unwrap();
    let script = "(sleep 1000 > /dev/null 2>&1 < /dev/null & echo $! > pid); echo done";
    let ended = run(&in_directory(&directory, &["sh", "-c", script]), b"", context(&[])).await;
    assert_eq!(ended, Ok(json!("done")));
    until_dead(written_pid(&directory.path().join("pid")).await).await;
}

#[tokio::test]
async fn a_daemon_that_holds_the_pipes_does_not_hold_the_attempt() {
    let directory = TempDir::new().unwrap();
    let daemon = "import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open('pid', 'w').write(f'{os.getpid()}\\n')
        time.sleep(1000)
    os._exit(0)
os.wait()
print('done', flush=True)";
    let started = Instant::now();
    let ended =
        run(&in_directory(&directory, &["python3", "-c", daemon]), &vec![0; TEN_MB], context(&[])).await;
    assert_eq!(ended, Ok(json!("done")));
    assert!(started.elapsed() < PATIENCE / 2, "{:?}", started.elapsed());
    // In its own session it is out of the group's reach.
    kill_process(written_pid(&directory.path().join("pid")).await, Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_named_and_retried() {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("notes.txt"), "no program").unwrap();
    let missing = failure(run(&exec(&["no-such-program"]), b"", context(&[])).await);
    assert_eq!(missing.retry, Retry::Policy);
    assert!(
        missing.error.starts_with("the program \"no-such-program\" cannot be started: No such file"),
        "{missing:?}"
    );
    let denied = failure(run(&in_directory(&directory, &["./notes.txt"]), b"", context(&[])).await);
    assert!(denied.error.contains("Permission denied"), "{denied:?}");
    let nowhere = exec_with(&["true"], |config| config.directory = Some("/no/such/place".into()));
    let nowhere = failure(run(&nowhere, b"", context(&[])).await);
    assert!(nowhere.error.contains("in /no/such/place: No such file"), "{nowhere:?}");
}

#[test]
fn a_lack_of_resources_does_not_use_up_an_attempt() {
    for errno in [libc::EAGAIN, libc::ENOMEM, libc::EMFILE, libc::ENFILE] {
        let error = exec(&["true"]).not_started(&io::Error::from_raw_os_error(errno));
        assert_eq!(error.into_outcome(), Outcome::Snoozed(SHORT_OF_RESOURCES), "{errno}");
    }
}

#[tokio::test]
async fn a_program_inherits_no_file_but_its_three_pipes() {
    let inherited = rustix::io::dup(io::stderr()).unwrap();
    assert!(!rustix::io::fcntl_getfd(&inherited).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    let open = "import os
def is_open(fd):
    try: os.fstat(fd); return True
    except OSError: return False
print([fd for fd in range(4096) if is_open(fd)])";
    assert_eq!(run(&exec(&["python3", "-c", open]), b"", context(&[])).await, Ok(json!([0, 1, 2])));
}

#[tokio::test]
async fn a_program_leads_a_session_of_its_own_and_dies_with_the_worker() {
    let status = "import ctypes, os
signal = ctypes.c_int()
PR_GET_PDEATHSIG = 2
ctypes.CDLL(None).prctl(PR_GET_PDEATHSIG, ctypes.byref(signal))
try: terminal = open('/dev/tty').name
except OSError as error: terminal = error.strerror
print([os.getpgrp() - os.getpid(), os.getsid(0) - os.getpid(), signal.value], terminal)";
    let expected = json!(format!("[0, 0, {}] No such device or address", Signal::KILL.as_raw()));
    assert_eq!(run(&exec(&["python3", "-c", status]), b"", context(&[])).await, Ok(expected));
}

#[test]
fn a_program_outlives_the_thread_that_asked_for_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let waiting = sh("sleep 0.3; read line; echo $line").invocation(&context(&[]));
    let alive = Bytes::from_static(b"alive\n");
    let start = || runtime.block_on(Child::start(waiting, alive));
    let started = std::thread::scope(|scope| scope.spawn(start).join());
    let child = started.unwrap().unwrap();
    let answer = child.run(std::future::pending(), Duration::ZERO, (Excerpt::BYTES, |_: &[u8]| {}));
    let end = runtime.block_on(soon(answer)).unwrap();
    assert_eq!((end.status.code(), end.stdout), (Some(0), b"alive\n".to_vec()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_programs_run_side_by_side() {
    let handler = std::sync::Arc::new(sh("cat"));
    let mut attempts = tokio::task::JoinSet::new();
    for number in 0..100 {
        let handler = std::sync::Arc::clone(&handler);
        attempts.spawn(
            async move { (number, run(&*handler, number.to_string().as_bytes(), context(&[])).await) },
        );
    }
    while let Some(attempt) = attempts.join_next().await {
        let (number, ended) = attempt.unwrap();
        assert_eq!(ended, Ok(json!(number)));
    }
}
