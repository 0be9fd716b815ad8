//! What a worker does with payloads that nobody checked.

use streamfleet::job::{DeadReason, JobId, State};
use streamfleet::{Fleet, Queue};
use streamfleet_engine::admin::{Action, DeadLetter, Filter, LetterEdit};

use super::schemas;
use harness::fleet::{Acts, Running, config, queue, quick, until_empty, until_state};
use harness::redis_server::RedisServer;
use harness::scene::{SOON, STREAM};
use harness::schema::{BAD, GOOD, WRONG};
use harness::wait::until_async;

fn start(server: &RedisServer, handler: &Acts) -> Running {
    let builder = Fleet::builder(config(&server.url())).schemas(schemas());
    Running::of(builder.handler_with("test", quick(3), handler.clone()).unwrap().build())
}

fn xadd(server: &RedisServer, id: &str, fields: &[(&str, &[u8])]) -> JobId {
    let mut command: Vec<&[u8]> =
        vec![b"XADD", STREAM.as_bytes(), b"*", b"type", b"test", b"id", id.as_bytes()];
    command.extend(fields.iter().flat_map(|(name, value)| [name.as_bytes(), *value]));
    server.cmd(&command);
    id.parse().unwrap()
}

async fn letter_of(queue: &Queue, job: &JobId) -> DeadLetter {
    let status = until_state(queue, job, State::Dead).await;
    queue.dead_letters().get(status.dead.unwrap()).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_raw_payload_that_does_not_fit_is_dead_at_once_and_names_its_field() {
    let server = RedisServer::start();
    let (queue, handler) = (queue(&server).await, Acts::well());
    let fleet = start(&server, &handler);
    let bad = xadd(&server, "bad", &[("payload", BAD.as_bytes())]);
    let letter = letter_of(&queue, &bad).await;
    let told =
        ["dead_reason", "dead_kind", "dead_attempts", "dead_error", "payload"].map(|name| letter.text(name));
    assert_eq!(told, ["invalid", "invalid", "0", WRONG, BAD]);
    // Neither a time nor a gate holds it up.
    let late = xadd(&server, "late", &[("payload", b"[]"), ("delay_ms", b"3600000")]);
    letter_of(&queue, &late).await;
    let good = xadd(&server, "good", &[("payload", GOOD.as_bytes())]);
    until_state(&queue, &good, State::Done).await;
    until_empty(&queue).await;
    fleet.stop().await;
    assert_eq!((handler.runs(&bad), handler.runs(&late), handler.runs(&good)), (0, 0, 1));
    let invalid = Filter::new().reason(DeadReason::Invalid).unwrap().kind("invalid").unwrap();
    let fatal = Filter::new().reason(DeadReason::Fatal).unwrap();
    for (selected, count) in [(invalid, 2), (fatal, 0)] {
        let selection = queue.dead_letters().select(selected).await.unwrap();
        let plan = queue.dead_letters().plan(&selection, |_| ()).await.unwrap();
        assert_eq!(plan.groups.iter().map(|group| group.count).sum::<u64>(), count);
    }
    let groups = queue.dead_letters().groups().await.unwrap().groups;
    assert!(groups.iter().all(|group| group.reason == Some(DeadReason::Invalid)), "{groups:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_letter_is_checked_again_when_it_is_replayed() {
    let server = RedisServer::start();
    let (queue, handler) = (queue(&server).await, Acts::well());
    let fleet = start(&server, &handler);
    let job = xadd(&server, "order-7", &[("payload", BAD.as_bytes())]);
    let mut letter = letter_of(&queue, &job).await;
    let (dead, ann) = (queue.dead_letters(), Action::new("dead edit", "ann"));
    for (payload, state) in [("[]", State::Dead), (GOOD, State::Done)] {
        let edit = LetterEdit::default().payload(payload);
        assert_eq!(edit.job(&letter).unwrap().payload, payload.as_bytes());
        let edited = dead.edit(&letter, &edit, &ann).await.unwrap().value;
        assert!(dead.replay(edited, &job).await.unwrap().is_done());
        if state == State::Dead {
            letter = until_async("the replay to die", SOON, async || {
                let status = queue.status(&job).await.unwrap()?;
                let died = status.dead.filter(|letter| status.state == State::Dead && *letter != edited)?;
                queue.dead_letters().get(died).await.unwrap()
            })
            .await;
            assert_eq!(letter.text("dead_reason"), "invalid");
        } else {
            until_state(&queue, &job, state).await;
        }
    }
    fleet.stop().await;
    assert_eq!(handler.runs(&job), 1);
    assert!(dead.page(None, 10).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn messagepack_is_checked_like_json_and_raw_bytes_never_fit() {
    let server = RedisServer::start();
    let (queue, handler) = (queue(&server).await, Acts::well());
    let fleet = start(&server, &handler);
    let packed = |json: &str| {
        let value: serde_json::Value = serde_json::from_str(json).unwrap();
        rmp_serde::to_vec_named(&value).unwrap()
    };
    let good = xadd(&server, "good", &[("payload", &packed(GOOD)), ("encoding", b"msgpack")]);
    until_state(&queue, &good, State::Done).await;
    let none = xadd(&server, "none", &[("encoding", b"msgpack")]);
    let bad = xadd(&server, "bad", &[("payload", &packed(BAD)), ("encoding", b"msgpack")]);
    let broken = xadd(&server, "broken", &[("payload", b"{"), ("encoding", b"json")]);
    let raw = xadd(&server, "raw", &[("payload", GOOD.as_bytes()), ("encoding", b"raw")]);
    for (job, want) in
        [(bad, WRONG), (none, "null is not of type"), (broken, "not valid JSON"), (raw, "encoding is raw")]
    {
        let letter = letter_of(&queue, &job).await;
        assert_eq!(letter.text("dead_reason"), "invalid");
        assert!(letter.text("dead_error").contains(want), "{want}: {}", letter.text("dead_error"));
    }
    fleet.stop().await;
    assert_eq!(handler.all_runs(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_payloads_are_checked_beside_others() {
    let server = RedisServer::start();
    let (queue, handler) = (queue(&server).await, Acts::well());
    let fleet = start(&server, &handler);
    let blob = "x".repeat(2 * 1024 * 1024);
    let good = format!(r#"{{"to":"ann","blob":"{blob}"}}"#);
    let bad = format!(r#"{{"to":7,"blob":"{blob}"}}"#);
    let jobs: Vec<_> = (0..8)
        .map(|nth| {
            let payload = if nth % 2 == 0 { &good } else { &bad };
            xadd(&server, &format!("job-{nth}"), &[("payload", payload.as_bytes())])
        })
        .collect();
    for (nth, job) in jobs.iter().enumerate() {
        let state = if nth % 2 == 0 { State::Done } else { State::Dead };
        let status = until_state(&queue, job, state).await;
        if state == State::Dead {
            assert!(status.error.unwrap().ends_with(r#"/to: 7 is not of type "string""#));
        }
    }
    fleet.stop().await;
}
