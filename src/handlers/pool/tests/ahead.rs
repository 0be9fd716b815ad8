//! Programs that take jobs ahead.

use super::*;

/// Takes jobs ahead, and looks for lines that cancel them before it begins one. It writes down what it begins, so that a test
/// can tell.
const AHEAD: &str = "import select
ready(ahead=hello['ahead'])
begun, waiting, buffer = [], [], b''
os.set_blocking(0, False)
def look(wait):
    global buffer
    select.select([0], [], [], None if wait else 0)
    while True:
        try: data = os.read(0, 65536)
        except BlockingIOError: break
        if not data: sys.exit(0)
        buffer += data
    while b'\\n' in buffer:
        line, buffer = buffer.split(b'\\n', 1)
        line = json.loads(line)
        if line['type'] == 'job': waiting.append(line)
        else:
            for job in [job for job in waiting if job['ref'] == line['ref']]:
                waiting.remove(job)
                answer(job, 'snooze', delay_ms=1, reason=line['reason'], begun=False)
while True:
    look(not waiting)
    if not waiting: continue
    job = waiting.pop(0)
    what = job['payload']
    begun.append(what)
    if what == 'crash': os._exit(3)
    if what == 'blame':
        answer(job, 'fatal', error='it was me', crash=True)
        os._exit(3)
    if what == 'bye':
        answer(job)
        say(type='bye')
        os._exit(0)
    if what == 'hang': time.sleep(1000)
    if isinstance(what, float): time.sleep(what)
    if isinstance(what, str) and what.startswith('/'):
        while not os.path.exists(what):
            look(False)
            time.sleep(0.01)
    answer(job, result=[os.getpid(), begun])";

/// Jobs are usually handed over within this time. A test cannot wait until they are: a program that has worked on a job for 10 ms takes
/// none ahead any more.
const HANDED_OVER: Duration = Duration::from_millis(5);

/// A pool with one program that takes eight jobs ahead.
fn ahead_stage() -> Stage {
    Stage::with(AHEAD, |config| config.ahead(8))
}

/// Starts jobs with these payloads, in this order, and returns how they ended.
async fn run_all(stage: &Stage, payloads: &[&str]) -> Vec<Result<Value, Outcome>> {
    let running = payloads.iter().map(|payload| run(&stage.pool, payload.as_bytes(), context(&[])));
    soon(futures_util::future::join_all(running)).await
}

#[tokio::test]
async fn a_program_begins_the_jobs_that_it_has_ahead_in_order() {
    let stage = ahead_stage();
    let ended = run_all(&stage, &["1", "2", "3", "4", "5"]).await;
    let last = ended.last().unwrap().as_ref().unwrap();
    assert_eq!(last[1], json!([1, 2, 3, 4, 5]));
    stage.stop().await;
}

#[tokio::test]
async fn a_crash_fails_the_job_that_had_begun_and_no_other() {
    let stage = ahead_stage();
    stage.warm_up("0").await;
    let ended = run_all(&stage, &["1", "\"crash\"", "2", "3"]).await;
    let failed = failure(ended[1].clone());
    assert_eq!(failed.error, "the program ended without an answer (exit status: 3)");
    for nth in [0, 2, 3] {
        assert!(ended[nth].is_ok(), "{:?}", ended[nth]);
    }
    let (before, after) = (ended[0].as_ref().unwrap(), ended[3].as_ref().unwrap());
    assert_ne!(before[0], after[0], "another program ran the last one");
    assert_eq!(after[1], json!([2, 3]), "in the same order");
    stage.stop().await;
}

#[tokio::test]
async fn a_job_that_names_itself_as_the_cause_of_a_crash_harms_none_of_those_ahead() {
    let stage = ahead_stage();
    stage.warm_up("0").await;
    let ended = run_all(&stage, &["1", "\"blame\"", "2", "3"]).await;
    assert_eq!(failure(ended[1].clone()).error, "it was me");
    for nth in [0, 2, 3] {
        assert!(ended[nth].is_ok(), "{:?}", ended[nth]);
    }
    assert_eq!(ended[3].as_ref().unwrap()[1], json!([2, 3]), "in the same order");
    stage.stop().await;
}

#[tokio::test]
async fn a_program_that_leaves_gives_back_what_it_has_ahead() {
    let stage = ahead_stage();
    stage.warm_up("0").await;
    let ended = run_all(&stage, &["1", "\"bye\"", "2", "3"]).await;
    assert!(ended.iter().all(Result::is_ok), "{ended:?}");
    assert_eq!(ended[3].as_ref().unwrap()[1], json!([2, 3]));
    stage.stop().await;
}

#[tokio::test]
async fn a_job_ahead_of_which_another_one_hangs_keeps_its_time() {
    let stage = ahead_stage();
    stage.warm_up("0").await;
    let hang = run(&stage.pool, b"\"hang\"", context_for(Duration::from_secs(8)));
    // Its own time is shorter, and begins in another program.
    let next = run(&stage.pool, b"1", context_for(Duration::from_secs(7)));
    let (hung, next) = soon(async { tokio::join!(hang, next) }).await;
    assert!(failure(hung).error.starts_with("stopped because of timeout"));
    assert_eq!(next.unwrap()[1], json!([1]));
    stage.stop().await;
}

#[tokio::test]
async fn a_job_that_is_cancelled_before_it_begins_does_not_run_and_ends_no_program() {
    let stage = ahead_stage();
    let before = stage.run("0").await.unwrap();
    let unwanted = context(&[]);
    let cancellation = unwanted.cancellation().clone();
    let slow = run(&stage.pool, b"0.5", context(&[]));
    let cancelled = async {
        tokio::task::yield_now().await;
        let running = run(&stage.pool, b"\"unwanted\"", unwanted);
        let cancel = async {
            tokio::time::sleep(HANDED_OVER).await;
            cancellation.cancel();
        };
        tokio::join!(running, cancel).0
    };
    let (slow, cancelled) = soon(async { tokio::join!(slow, cancelled) }).await;
    assert!(slow.is_ok() && cancelled.is_err(), "{cancelled:?}");
    let after = stage.run("1").await.unwrap();
    assert_eq!(after[0], before[0], "the same program");
    assert!(!after[1].as_array().unwrap().contains(&json!("unwanted")), "{after}");
    stage.stop().await;
}

#[tokio::test]
async fn jobs_ahead_of_a_program_that_is_replaced_go_to_the_new_one() {
    let stage = ahead_stage();
    let old = stage.run("0").await.unwrap()[0].clone();
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let payload = json!(gate).to_string();
    let slow = run(&stage.pool, payload.as_bytes(), context(&[]));
    let others = async {
        tokio::task::yield_now().await;
        let others = (1..=6).map(|nth| run(&stage.pool, nth.to_string().into_bytes().leak(), context(&[])));
        let reload = async {
            tokio::time::sleep(HANDED_OVER).await;
            stage.reload.request();
        };
        let others = tokio::join!(futures_util::future::join_all(others), reload).0;
        std::fs::write(&gate, "").unwrap();
        others
    };
    let (slow, others) = soon(async { tokio::join!(slow, others) }).await;
    assert_eq!(slow.unwrap()[0], old, "it finished its job");
    for other in others {
        assert_ne!(other.unwrap()[0], old);
    }
    stage.stop().await;
}

#[tokio::test]
async fn what_a_job_answers_that_has_begun_when_it_is_taken_back_counts() {
    // It answers once a job is taken back that the worker believes it has not begun.
    let script = "ready(ahead=hello['ahead'])
held = []
for line in lines():
    if line['type'] == 'cancel':
        for job in held:
            if job['payload'] == 3: answer(job, 'snooze', delay_ms=60000)
            else: answer(job, 'retry', error=line['reason'])
        held.clear()
    elif line['payload'] == 0: answer(line)
    else:
        held.append(line)
        if len(held) == 3: open(os.environ['SEEN'], 'w').close()";
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen");
    let stage = Stage::with(script, |config| config.ahead(8).env([("SEEN", seen.to_str().unwrap())]));
    stage.warm_up("0").await;
    let reload = async {
        until("the program has all jobs", || seen.exists().then_some(())).await;
        stage.reload.request();
    };
    let (mut ended, ()) = tokio::join!(run_all(&stage, &["1", "2", "3"]), reload);
    assert_eq!(ended.pop(), Some(Err(Outcome::Snoozed(Duration::from_secs(60)))));
    for one in ended {
        assert_eq!(failure(one).error, "withdrawn");
    }
    stage.stop().await;
}

#[tokio::test]
async fn every_job_is_answered_once_by_programs_that_take_them_ahead_and_leave_often() {
    let script = AHEAD.replace(
        "    answer(job, result=[os.getpid(), begun])",
        "    answer(job, result=what)
    if len(begun) == 20:
        say(type='bye')
        os._exit(0)",
    );
    let stage = Stage::with(&script, |config| config.processes(2).ahead(16));
    let payloads: Vec<String> = (0..200).map(|nth: u32| nth.to_string()).collect();
    let ended = run_all(&stage, &payloads.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let want: Vec<_> = (0..200).map(|nth| Ok(json!(nth))).collect();
    assert_eq!(ended, want);
    stage.stop().await;
}
