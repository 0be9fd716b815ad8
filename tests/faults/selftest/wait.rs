//! Tests of `harness::wait`.

use std::panic::catch_unwind;
use std::time::Duration;

use harness::wait::{until, until_async};

const SOON: Duration = Duration::from_secs(5);

#[test]
fn a_wait_returns_what_the_probe_found() {
    let mut countdown = 3;
    let found = until("the countdown ends", SOON, || {
        countdown -= 1;
        (countdown == 0).then_some("lift-off")
    });
    assert_eq!(found, "lift-off");
}

#[test]
fn a_wait_that_times_out_names_what_it_waited_for() {
    let result = catch_unwind(|| until("pigs fly", Duration::from_millis(5), || false));
    let message = *result.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(message, "timed out after 5ms waiting for: pigs fly");
}

#[tokio::test]
async fn an_async_wait_returns_what_the_probe_found() {
    let mut countdown = 3;
    until_async("the countdown ends", SOON, async || {
        countdown -= 1;
        countdown == 0
    })
    .await;
    assert_eq!(countdown, 0);
}

#[tokio::test]
#[should_panic(expected = "waiting for: a probe that hangs")]
async fn an_async_wait_abandons_a_probe_that_hangs() {
    let hanging = async || std::future::pending::<bool>().await;
    until_async("a probe that hangs", Duration::from_millis(5), hanging).await;
}
