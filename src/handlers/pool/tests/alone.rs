//! Programs that work on many jobs at once: how the jobs are spread, and which of them run alone.

use std::collections::BTreeMap;

use futures_util::future::join_all;

use super::*;

/// Sleeps for as long as its payload says, or crashes.
const THREADS: &str = "import threading
lock = threading.Lock()
ready(inflight=hello['inflight'])
def work(job):
    time.sleep(0.2 if job['payload'] == 'abort' else job['payload'])
    if job['payload'] == 'abort': os.abort()
    with lock: answer(job, result=os.getpid())
for job in jobs(): threading.Thread(target=work, args=[job], daemon=True).start()";

#[tokio::test]
async fn jobs_are_spread_evenly_over_idle_programs() {
    let stage = Stage::with(THREADS, |config| PoolConfig {
        start: PoolStart::Eager,
        ..config.processes(4).inflight(10)
    });
    for (count, want) in [(8, [2, 2, 2, 2]), (10, [2, 2, 3, 3]), (40, [10, 10, 10, 10])] {
        until("four idle programs", || (stage.pool.shared.board.tally().idle == 4).then_some(())).await;
        let running = (0..count).map(|_| run(&stage.pool, b"0.5", context(&[])));
        let mut jobs = BTreeMap::<_, usize>::new();
        for pid in soon(join_all(running)).await {
            *jobs.entry(pid.unwrap().as_u64()).or_default() += 1;
        }
        let mut shares: Vec<usize> = jobs.into_values().collect();
        shares.sort_unstable();
        assert_eq!(shares, want);
    }
    stage.stop().await;
}

#[tokio::test]
async fn a_job_that_may_not_be_lost_again_runs_alone() {
    let stage = Stage::with(THREADS, |config| config.inflight(50));
    stage.warm_up("0").await;
    for lost in ["2", "7"] {
        let healthy = (0..12).map(|_| run(&stage.pool, b"0.1", context(&[])));
        let others = (0..3).map(|_| run(&stage.pool, b"0.1", context(&[("lost", lost)])));
        let aborts = run(&stage.pool, b"\"abort\"", context(&[("lost", lost)]));
        let (healthy, others, aborted) =
            soon(async { tokio::join!(join_all(healthy), join_all(others), aborts) }).await;
        assert!(healthy.iter().chain(&others).all(Result::is_ok), "{healthy:?} {others:?}");
        let error = failure(aborted).error;
        assert!(error.starts_with("the program ended without an answer (signal: 6 (SIGABRT)"), "{error}");
    }
    stage.stop().await;
}

#[tokio::test]
async fn a_job_that_may_be_lost_again_or_never_does_not_run_alone() {
    let stage = Stage::with(THREADS, |config| config.inflight(50));
    let once = stage.pool.serving(&"report".parse().unwrap(), &Policy::default().max_losses(1));
    stage.warm_up("0").await;
    for (pool, lost) in [(&stage.pool, "1"), (&once, "0")] {
        let wait = run(pool, b"30", context(&[("lost", lost)]));
        let aborts = run(pool, b"\"abort\"", context(&[("lost", lost)]));
        let (waited, aborted) = soon(async { tokio::join!(wait, aborts) }).await;
        assert!(matches!((&waited, &aborted), (Err(Outcome::Lost(_)), Err(Outcome::Lost(_)))), "{waited:?}");
    }
    stage.stop().await;
}
