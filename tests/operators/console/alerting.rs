//! Messages about incidents that the console sends.

use std::time::Duration;

use super::trouble::incidents;
use crate::alerts::stand_in::{Robot, SECRET, TOKEN};
use harness::cli::launch;
use harness::redis_server::RedisServer;
use harness::wait::until_async;

#[tokio::test(flavor = "multi_thread")]
async fn a_console_with_the_section_sends_and_stops_in_time() {
    let (server, robot) = (RedisServer::start(), Robot::dingtalk().await);
    incidents(&server);
    let section = "[alerts]\nevery = \"200ms\"\n[alerts.sinks.ops]\nkind = \"dingtalk\"\n";
    let url = format!("{}/robot?access_token={TOKEN}", robot.server.uri());
    let console = launch(&server, &["--config", "{config}", "console", "--listen", "127.0.0.1:0"])
        .config(section)
        .env("STREAMFLEET__ALERTS__SINKS__OPS__URL", url)
        .env("STREAMFLEET__ALERTS__SINKS__OPS__SECRET", SECRET)
        .start();
    let soon = Duration::from_secs(60);
    until_async("a message", soon, async || !robot.taken().is_empty()).await;
    console.term();
    let status = tokio::task::block_in_place(|| console.wait_exit(soon));
    assert!(status.success(), "{status} {}", console.stderr());
    assert!(!console.stderr().contains(TOKEN) && !console.stderr().contains(SECRET), "{}", console.stderr());
}
