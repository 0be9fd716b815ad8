//! Entries that are larger than what Redis takes in one argument of a command.

use std::time::Duration;

use serde_json::Value;
use streamfleet::JobError;
use streamfleet::job::JobId;

use harness::fleet::{Acts, submit};
use harness::redis_server::RedisServer;
use harness::scene::{LONG, SOON, STREAM, Scene};
use harness::tally::{Tally, start};
use harness::wait::until_async;

/// Jobs that were set aside are tried again after at most a minute and a half.
const AGAIN: Duration = Duration::from_secs(100);

/// Two of these are more than `deploy/redis/redis.conf` allows for one argument.
const HALF: usize = 9 * 1024 * 1024;

/// Fails the first attempt of `bulky`, whose fields must be complete.
fn fails_once() -> Acts {
    Acts::new(|context, _| {
        if context.id().to_string() != "bulky" {
            return Ok(Value::Null);
        }
        let lengths = ["a", "b"].map(|name| context.header(name).map(str::len));
        assert_eq!(lengths, [Some(HALF); 2], "the headers must be complete");
        if context.attempt() == 1 { Err(JobError::retry("once more")) } else { Ok(Value::Null) }
    })
}

fn send_bulky(scene: &Scene) -> JobId {
    let half = vec![b'x'; HALF];
    let mut command = redis::cmd("XADD");
    command.arg(STREAM).arg("*").arg(&["type", "test", "id", "bulky", "payload", "{}"][..]);
    command.arg("h.a").arg(&half).arg("h.b").arg(&half);
    command.exec(&mut scene.server.client()).unwrap();
    "bulky".parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_redis_cannot_take_in_one_argument_waits_alone_until_it_can() {
    let bounds = ["--proto-max-bulk-len", "16mb", "--client-query-buffer-limit", "32mb"];
    let scene = Scene::on(RedisServer::builder().args(&bounds).start()).await;
    let (handler, tally) = (fails_once(), Tally::default());
    let fleet = start(scene.config(LONG), handler.clone(), &tally);
    let bulky = send_bulky(&scene);
    until_async("it to be set aside", SOON, async || tally.quarantine().len() == 1).await;
    let good = submit(&scene.queue, "ok").await;
    until_async("another job to be done", SOON, async || tally.of(&good) == ["succeeded"]).await;
    assert_eq!((handler.runs(&bulky), scene.int(&["XLEN", STREAM])), (1, 1));
    scene.server.cmd(&["CONFIG", "SET", "proto-max-bulk-len", "64mb"]);
    until_async("its second attempt", AGAIN, async || tally.of(&bulky).last() == Some(&"succeeded")).await;
    scene.until_at_rest().await;
    fleet.stop().await;
    assert_eq!((handler.runs(&bulky), tally.quarantine().len()), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_moved_in_parts_if_redis_takes_it() {
    let scene = Scene::new().await;
    let (handler, tally) = (fails_once(), Tally::default());
    let fleet = start(scene.config(LONG), handler.clone(), &tally);
    let bulky = send_bulky(&scene);
    until_async("its second attempt", 2 * SOON, async || tally.of(&bulky).last() == Some(&"succeeded")).await;
    scene.until_at_rest().await;
    fleet.stop().await;
    assert_eq!((handler.runs(&bulky), tally.quarantine().len()), (2, 0));
    let left: Vec<String> =
        redis::from_redis_value(scene.server.cmd(&["KEYS", "sf:{default}:offloaded:*"])).unwrap();
    assert_eq!(left, [""; 0]);
}
