//! Messages that the console sends: tests of sinks, and those about incidents.

use std::time::Duration;

use super::every::faults;
use crate::alerts::stand_in::{Robot, SECRET, TOKEN};
use crate::console::browser::Browser;
use crate::console::trouble::incidents;
use harness::desk::launch;
use harness::redis_server::RedisServer;
use harness::wait::until_async;

#[tokio::test(flavor = "multi_thread")]
async fn a_test_message_is_sent_and_no_address_or_secret_is_shown() {
    let (server, robot) = (RedisServer::start(), Robot::dingtalk().await);
    let url = format!("{}/robot?access_token={TOKEN}", robot.server.uri());
    let section =
        "[alerts]\nevery = \"1h\"\noff = [\"backlog\"]\n[alerts.sinks.ops-1]\nkind = \"dingtalk\"\n";
    let console = launch(&server, &["--config", "{config}", "console", "--listen", "127.0.0.1:0"])
        .config(section)
        .env("STREAMFLEET__ALERTS__SINKS__OPS_1__URL", url)
        .env("STREAMFLEET__ALERTS__SINKS__OPS_1__SECRET", SECRET);
    tokio::task::block_in_place(|| {
        let mut browser = Browser::open_at(console);
        let page = browser.get("/alerts");
        let text = page.text("main");
        for part in ["ops-1", "dingtalk", "Jobs wait too long"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(faults(&page), Vec::<String>::new());
        let sent = browser.send(&page, &[]);
        assert_eq!(sent.path, "/alerts");
        assert!(sent.text(".message.good").contains("ops-1"), "{}", sent.text("main"));
        robot.refuse(1, 200, r#"{"errcode":300001,"errmsg":"<b>no</b> token"}"#);
        let refused = browser.send(&page, &[]);
        assert!(refused.text(".message.bad").contains("300001: <b>no</b> token"), "{}", refused.text("main"));
        for page in [page, sent, refused] {
            for hidden in [TOKEN, SECRET, "access_token", &*robot.server.uri()] {
                assert!(!page.body.contains(hidden), "{hidden}: {}", page.body);
            }
        }
        let csrf = vec![("csrf".to_owned(), "AAAA".to_owned())];
        assert_eq!(browser.post("/alerts/ops-1/test", &csrf).status, 403);
        let tokens = browser.get("/alerts").attributes("main input[name=csrf]", "value");
        let fields = vec![("csrf".to_owned(), tokens[0].clone())];
        assert_eq!(browser.post("/alerts/other/test", &fields).status, 404);
    });
    assert_eq!(robot.taken().len(), 1, "{:?}", robot.taken());
}

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
