//! Pausing a fleet of several processes.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use streamfleet::job::GateName;

use super::kills::{now_ms, starts};
use harness::process::{Launch, Worker};
use harness::scene::{SOON, STREAM, Scene};
use harness::wait::until_async;

/// A program that notes its worker's process and the time of each start. It inherits the path of its file.
const NOTING: &str = r#"
[queues.default]
concurrency = 2
[types.test]
handler = { exec = { command = ["sh", "-c", "echo $PPID $(date +%s%3N) >> $STARTS; sleep 0.02"], env = { STARTS = "{starts}" } } }
[telemetry]
listen = "off"
"#;

/// Waits for twice as long as workers may take to follow a pause: a second, and longer by what this machine delays everything.
/// Returns how long they may take.
async fn wait_until_heeded() -> Duration {
    const PAUSE: Duration = Duration::from_millis(50);
    let (begun, mut delayed) = (Instant::now(), Duration::ZERO);
    loop {
        let longest = Duration::from_secs(1) + 4 * delayed;
        if begun.elapsed() >= 2 * longest {
            return longest;
        }
        let slept = Instant::now();
        tokio::time::sleep(PAUSE).await;
        delayed = delayed.max(slept.elapsed().saturating_sub(PAUSE));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn four_processes_start_nothing_a_second_after_a_pause() {
    const PROCESSES: usize = 4;
    let (scene, dir) = (Scene::new().await, tempfile::tempdir().unwrap());
    let (url, file) = (scene.server.url(), dir.path().join("starts"));
    let config = NOTING.replace("{starts}", file.to_str().unwrap());
    let launch = Launch::new(&["-c", "{config}", "--redis", &url, "worker"]).config(&config);
    let workers: Vec<Worker> = (0..PROCESSES).map(|_| launch.start()).collect();
    let mut jobs = redis::pipe();
    for _ in 0..3000 {
        jobs.cmd("XADD").arg(&[STREAM, "*", "type", "test"]);
    }
    scene.server.try_pipe(&jobs).unwrap();
    for gate in [GateName::queue(), "type:test".parse().unwrap()] {
        let before = starts(&file).len();
        until_async("all processes to start jobs", SOON, async || {
            let starts = starts(&file);
            starts[before..].iter().map(|(worker, _)| worker).collect::<HashSet<_>>().len() == PROCESSES
        })
        .await;
        scene.queue.gates().close(&gate, "ann", "", None).await.unwrap();
        let paused = now_ms();
        let longest = wait_until_heeded().await;
        let starts = starts(&file);
        let last = starts.iter().map(|(_, ms)| *ms).max().unwrap();
        let late = Duration::from_millis(last.saturating_sub(paused));
        eprintln!(
            "{gate}: the last of {} starts was {late:?} after the pause; allowed: {longest:?}",
            starts.len()
        );
        assert!(late <= longest, "{gate}: {late:?}");
        assert!(scene.queue.snapshot().await.unwrap().waiting() > 0, "no job was left");
        scene.queue.gates().open(&gate).await.unwrap();
    }
    for worker in &workers {
        worker.term();
        worker.wait_exit(SOON);
    }
}
