//! The journal: the ends of jobs that the scripts write down for a database.

use std::time::Duration;

use serde_json::Value;
use streamfleet::job::{Encoding, JobId, State, Tracking};
use streamfleet::worker::QueueConfig;
use streamfleet::{JobContext, JobError, Producer, Queue, Submission};
use streamfleet_engine::{EndedJob, JournalFields};

use harness::fleet::{Acts, Running, config, queue, quick, submit, until_empty, until_state};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

const MIB: u64 = 1 << 20;
const KEPT: Duration = Duration::from_secs(3600);

/// Fails as long as its payload says so: `[2]` fails twice, `[9]` for good.
fn fails(context: &JobContext, payload: &[u8]) -> Result<Value, JobError> {
    let failures =
        serde_json::from_slice::<Vec<u32>>(payload).unwrap_or_default().first().copied().unwrap_or(0);
    if context.attempt() <= failures { Err(JobError::retry("not yet")) } else { Ok(Value::from("sent")) }
}

/// A process whose workers write all fields into the journal.
fn fleet(server: &RedisServer) -> Running {
    let mut config = config(&server.url());
    let own = QueueConfig::default().journal_fields(true);
    config.worker = config.worker.queues([("default".parse().unwrap(), own)]);
    Running::start_with(config, quick(3), Acts::new(fails))
}

async fn tracked(queue: &Queue, payload: &str) -> JobId {
    let submission = Submission::new("test").unwrap().payload(payload.to_owned(), Encoding::Json).unwrap();
    Producer::new(queue.clone()).submit(submission.tracking(Tracking::All)).await.unwrap()
}

fn of<'a>(ends: &'a [EndedJob], id: &JobId) -> &'a EndedJob {
    ends.iter().find(|ended| ended.id == id.to_string()).unwrap_or_else(|| panic!("{id} is not in {ends:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_way_to_end_is_written_down_with_its_attempts() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    queue.keep_journal(MIB, JournalFields::Failed).await.unwrap();
    let running = fleet(&server);
    let (well, late, dead) =
        (tracked(&queue, "[0]").await, tracked(&queue, "[2]").await, tracked(&queue, "[9]").await);
    for (id, state) in [(&well, State::Done), (&late, State::Done), (&dead, State::Dead)] {
        until_state(&queue, id, state).await;
    }
    running.stop().await;
    let waiting = tracked(&queue, "[]").await;
    queue.cancel(&waiting, "ann", KEPT).await.unwrap();
    let ends = queue.read_journal(None).await.unwrap();
    assert_eq!(ends.len(), 4, "{ends:?}");
    let told = |id| {
        let ended = of(&ends, id);
        let outcomes: Vec<_> = ended.attempts.iter().map(|attempt| attempt.outcome.clone()).collect();
        (ended.state.unwrap(), outcomes.join(" "), ended.error.as_str(), ended.fields.is_some())
    };
    assert_eq!(told(&well), (State::Done, "done".into(), "", false));
    assert_eq!(told(&late), (State::Done, "error error done".into(), "", false));
    assert_eq!(told(&dead), (State::Dead, "error error error".into(), "not yet", true));
    assert_eq!(told(&waiting), (State::Cancelled, String::new(), "cancelled by ann", false));
    assert_eq!(of(&ends, &well).result.as_deref(), Some(&b"\"sent\""[..]));
    let (fields, _) = of(&ends, &dead).fields.clone().unwrap();
    assert_eq!(fields.get(b"payload"), Some(&b"[9]"[..]));
    assert_eq!((of(&ends, &dead).reason.as_str(), of(&ends, &dead).failures), ("exhausted", Some(3)));
    assert!(of(&ends, &dead).letter.is_some() && !of(&ends, &dead).fingerprint.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replayed_job_is_another_generation_with_its_own_attempts() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    queue.keep_journal(MIB, JournalFields::None).await.unwrap();
    let running = fleet(&server);
    let id = tracked(&queue, "[9]").await;
    let letter = until_state(&queue, &id, State::Dead).await.dead.unwrap();
    queue.dead_letters().replay(letter, &id).await.unwrap();
    until_async("the replay to die", Duration::from_secs(20), async || {
        queue.read_journal(None).await.unwrap().len() == 2
    })
    .await;
    let ends = queue.read_journal(None).await.unwrap();
    assert_ne!(ends[0].generation, ends[1].generation);
    assert_eq!(ends[1].root, ends[0].generation);
    assert!(ends.iter().all(|ended| ended.attempts.len() == 3 && ended.fields.is_none()), "{ends:?}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_neither_tracked_nor_dead_leaves_nothing() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    queue.keep_journal(MIB, JournalFields::All).await.unwrap();
    let running = fleet(&server);
    for _ in 0..20 {
        submit(&queue, "[0]").await;
    }
    let last = tracked(&queue, "[0]").await;
    until_state(&queue, &last, State::Done).await;
    until_empty(&queue).await;
    let ends = queue.read_journal(None).await.unwrap();
    assert_eq!(ends.iter().map(|ended| &ended.id).collect::<Vec<_>>(), [&last.to_string()]);
    assert_eq!(ends[0].fields.as_ref().unwrap().0.get(b"payload"), Some(&b"[0]"[..]));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_without_a_journal_writes_none() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let running = fleet(&server);
    let dead = tracked(&queue, "[9]").await;
    until_state(&queue, &dead, State::Dead).await;
    queue.keep_journal(MIB, JournalFields::All).await.unwrap();
    queue.end_journal().await.unwrap();
    let done = tracked(&queue, "[0]").await;
    until_state(&queue, &done, State::Done).await;
    assert_eq!(queue.journal_figures().await.unwrap().waiting, 0);
    running.stop().await;
}

/// The jobs end all the same: only the history lacks them, and says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_is_full_or_broken_keeps_no_job_from_ending() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    queue.keep_journal(1500, JournalFields::None).await.unwrap();
    let running = fleet(&server);
    for _ in 0..6 {
        let id = tracked(&queue, "[0]").await;
        until_state(&queue, &id, State::Done).await;
    }
    let figures = queue.journal_figures().await.unwrap();
    let (lost, since) = figures.lost.unwrap();
    assert!(figures.waiting >= 1 && figures.bytes <= 1500, "{figures:?}");
    assert_eq!(figures.waiting + lost, 6, "{figures:?}");
    assert!(since.as_ms() > 0);
    let ends = queue.read_journal(None).await.unwrap();
    assert_eq!(ends.iter().map(|ended| ended.weight as u64).sum::<u64>(), figures.bytes);
    for _ in 0..2 {
        queue.forget_ends(&ends).await.unwrap();
        queue.forget_lost_ends().await.unwrap();
        let figures = queue.journal_figures().await.unwrap();
        assert_eq!((figures.waiting, figures.bytes, figures.lost), (0, 0, None));
    }
    server.cmd(&["DEL", "sf:{default}:journal"]);
    server.cmd(&["SET", "sf:{default}:journal", "x"]);
    let (well, dead) = (tracked(&queue, "[0]").await, tracked(&queue, "[9]").await);
    until_state(&queue, &well, State::Done).await;
    until_state(&queue, &dead, State::Dead).await;
    server.cmd(&["DEL", "sf:{default}:journal"]);
    assert_eq!(queue.journal_figures().await.unwrap().lost.unwrap().0, 2);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_ends_are_read_in_portions_and_deleted_by_what_was_written() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    queue.keep_journal(64 * MIB, JournalFields::All).await.unwrap();
    let running = fleet(&server);
    let payload = |kib: usize| format!("[0, \"{}\"]", "x".repeat(kib << 10));
    let mut ids = Vec::new();
    for _ in 0..60 {
        ids.push(tracked(&queue, &payload(100)).await);
    }
    ids.push(tracked(&queue, &payload(900)).await);
    for id in &ids {
        until_state(&queue, id, State::Done).await;
    }
    running.stop().await;
    let (mut after, mut read) = (None, 0);
    loop {
        let ends = queue.read_journal(after).await.unwrap();
        let Some(last) = ends.last() else { break };
        let bytes: usize = ends.iter().map(|ended| ended.weight).sum();
        assert!(bytes <= 6 << 20, "{bytes}");
        assert!(
            ends.iter().all(|ended| ended.fields.is_some() == (ended.weight > 50_000)),
            "more than 128 KiB"
        );
        after = Some(last.entry);
        read += ends.len();
        queue.forget_ends(&ends).await.unwrap();
    }
    assert_eq!(read, ids.len());
    let figures = queue.journal_figures().await.unwrap();
    assert_eq!((figures.waiting, figures.bytes), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_writes_the_journal_until_its_lease_ends() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let lease = Duration::from_secs(60);
    assert!(queue.lead_journal("a", lease).await.unwrap());
    assert!(!queue.lead_journal("b", lease).await.unwrap());
    assert!(queue.lead_journal("a", lease).await.unwrap());
    queue.lead_journal("a", Duration::ZERO).await.unwrap();
    assert!(queue.lead_journal("b", lease).await.unwrap());
}
