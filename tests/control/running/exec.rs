//! What a program reports on standard error.

use streamfleet::handlers::{Exec, ExecConfig};
use streamfleet::job::{State, Tracking};
use streamfleet::{Producer, Submission};

use harness::fleet::{Running, queue, quick, until_state};
use harness::redis_server::RedisServer;

fn sh(script: &str) -> Exec {
    Exec::new(ExecConfig::new(["sh", "-c", script])).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_reports_progress_and_log_lines_on_standard_error() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let script = "echo reading >&2; echo '::progress 40 rendering' >&2; printf 'no\\tspace' >&2; \
                  printf '\\n::progress 60%% nearly' >&2; exit 65";
    let fleet = Running::start(&server.url(), quick(3), sh(script));
    let submission = Submission::new("test").unwrap().tracking(Tracking::All);
    let job = Producer::new(queue.clone()).submit(submission).await.unwrap();
    let status = until_state(&queue, &job, State::Dead).await;
    let lines: Vec<_> = status.log.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(lines, ["reading", "no\\tspace"]);
    let progress = status.progress.unwrap();
    assert_eq!((progress.percent, progress.note.as_str()), (60, "nearly"));
    assert_eq!(status.error.as_deref(), Some("no\\tspace\nreading\nno\\tspace\nexit status: 65"));
    fleet.stop().await;
}
