//! Jobs that look like published messages: the client mistakes a reply that begins with one of these words for a push, and
//! from then on gives every reply to the wrong caller.

use serde_json::Value;
use streamfleet::JobError;
use streamfleet::job::State;

use harness::fleet::{Acts, until_state};
use harness::scene::{LONG, STREAM, Scene};

const WORDS: [&str; 8] =
    ["message", "pmessage", "smessage", "subscribe", "unsubscribe", "psubscribe", "invalidate", "pong"];

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_looks_like_a_published_message_never_shifts_replies() {
    let scene = Scene::new().await;
    // Each job fails once and returns its own name, so that reads, scripts and lookups all carry the words.
    let handler = Acts::new(|context, payload| match context.attempt() {
        1 => Err(JobError::retry(String::from_utf8_lossy(payload))),
        _ => Ok(Value::from(String::from_utf8_lossy(payload).into_owned())),
    });
    let mut builder = streamfleet::Fleet::builder(scene.config(LONG));
    for word in WORDS {
        builder = builder.handler_with(word, harness::fleet::quick(2), handler.clone()).unwrap();
    }
    let (fleet, shutdown) = (builder.build(), streamfleet::Shutdown::new());
    let stop = shutdown.clone();
    let task = tokio::task::spawn(async move { fleet.run(stop).await.unwrap() });
    for word in WORDS {
        for nth in 0..5 {
            let id = format!("{word}-{nth}");
            let first = ["XADD", STREAM, "*", word, word, "type", word, "id", &id, "payload", word];
            scene.server.cmd(&[&first[..], &["h.message", "subscribe"]].concat());
        }
    }
    for word in WORDS {
        for nth in 0..5 {
            let id = format!("{word}-{nth}").parse().unwrap();
            let status = until_state(&scene.queue, &id, State::Done).await;
            assert_eq!(status.result, Some(format!("\"{word}\"")));
            assert_eq!(status.attempts[0].error, word);
            assert_eq!(handler.runs(&id), 2);
        }
    }
    scene.until_at_rest().await;
    shutdown.request();
    task.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_that_look_like_published_messages_are_listed_as_they_are() {
    let scene = Scene::new().await;
    let fleet = scene.fleet(LONG, Acts::new(|_, _| Err(JobError::fatal("message"))));
    for word in WORDS {
        scene.server.cmd(&["XADD", STREAM, "*", word, word, "type", "test", "id", word]);
        until_state(&scene.queue, &word.parse().unwrap(), State::Dead).await;
    }
    let letters = scene.queue.dead_letters().page(None, 100).await.unwrap();
    let ids: Vec<_> = letters.iter().map(|letter| letter.job().to_string()).collect();
    assert_eq!(ids, WORDS);
    for (letter, word) in letters.iter().zip(WORDS) {
        assert_eq!((letter.text(word), letter.text("dead_error")), (word.to_owned(), "message".to_owned()));
    }
    fleet.stop().await;
}
