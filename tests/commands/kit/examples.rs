//! Every program in `examples/` runs and prints what it demonstrates.

use harness::redis_server::RedisServer;

#[expect(dead_code, reason = "main is for people")]
#[path = "../../../examples/handler.rs"]
mod handler;
#[expect(dead_code, reason = "main is for people")]
#[path = "../../../examples/nightly.rs"]
mod nightly;
#[expect(dead_code, reason = "main is for people")]
#[path = "../../../examples/order.rs"]
mod order;
#[expect(dead_code, reason = "main is for people")]
#[path = "../../../examples/replay.rs"]
mod replay;
#[expect(dead_code, reason = "main is for people")]
#[path = "../../../examples/testing.rs"]
mod testing;

fn text(out: Vec<u8>) -> String {
    String::from_utf8(out).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handler_example_shows_a_result_a_death_and_a_dropped_job() {
    let server = RedisServer::start();
    let mut out = Vec::new();
    handler::run(&server.url(), &mut out).await.unwrap();
    insta::assert_snapshot!(text(out), @r#"
    done: {"number":"4242-1","cents":1200}
    dead: no customer
    cancelled: nothing to charge
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_replay_example_shows_all_attempts_the_death_and_the_replay() {
    let server = RedisServer::start();
    let mut out = Vec::new();
    replay::run(&server.url(), &mut out).await.unwrap();
    insta::assert_snapshot!(text(out), @r#"
    attempt: error: the mail server does not answer
    attempt: error: the mail server does not answer
    attempt: error: the mail server does not answer
    dead: exhausted: the mail server does not answer
    done: "sent to ann@example.com at attempt 1"
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_testing_example_passes() {
    let mut out = Vec::new();
    testing::run(&mut out).await.unwrap();
    assert_eq!(text(out), "inline: as expected\non a private server: as expected\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_example_charges_once_and_continues_after_a_decision() {
    let mut out = Vec::new();
    order::run(&mut out).await.unwrap();
    insta::assert_snapshot!(text(out), @r#"
    small order: done: {"charge":"paid","pack":"packed for 4200 cents, receipt enclosed: true"}
    large order: dead: the step charge is failed: the bank did not answer in time
    decided: the job continues: true
    large order: done
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nightly_example_shows_the_night_of_the_clock_change() {
    let mut out = Vec::new();
    nightly::run(&mut out).await.unwrap();
    insta::assert_snapshot!(text(out), @r#"
    next: 2026-03-27T01:30:00Z
    next: 2026-03-28T01:30:00Z
    next: 2026-03-29T01:00:00Z
    extra run: "report of sales"
    "#);
}
