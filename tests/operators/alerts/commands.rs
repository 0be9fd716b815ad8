//! `streamfleet alerts`, and the section of the configuration.

use std::time::Duration;

use streamfleet_engine::admin::IncidentKind;
use streamfleet_service::alerts::SinkKind;

use super::stand_in::{Robot, SECRET, TOKEN};
use super::{SOON, broker, bury_one, config, start, until_open};
use harness::cli::{json, launch, sf};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

#[tokio::test(flavor = "multi_thread")]
async fn incidents_are_listed_and_acknowledged() {
    let server = RedisServer::start();
    let broker = broker(&server).await;
    let alerts = start(&server, config().quiet_after(super::HOUR));
    bury_one(&server, &broker, "00aa").await;
    let id = until_open(&broker, IncidentKind::DeadGroup).await.incident.id.to_string();
    alerts.stop().await;

    let list = json(&server, &["alerts", "list"]);
    assert_eq!((&list["open"], &list["version"]), (&1.into(), &1.into()));
    let item = &list["items"][0];
    assert_eq!(
        (item["id"].as_str(), item["kind"].as_str(), item["queue"].as_str()),
        (Some(&*id), Some("dead_group"), Some("default"))
    );
    assert_eq!(
        (item["key"].as_str(), item["example_error"].as_str()),
        (Some("00aa"), Some("no <b>route</b>"))
    );
    assert_eq!(item["example_job"], "job-0");
    assert_eq!(item["command"], "streamfleet dead list --queue default --group 00aa");
    assert_eq!(sf(&server, &["alerts", "list", "-o", "name"]).stdout.trim(), id);

    let ack = sf(&server, &["alerts", "ack", &id, "--for", "2h", "--reason", "known", "--as", "ann"]);
    assert_eq!(ack.code, Some(0), "{ack:?}");
    assert!(ack.stdout.contains(&format!("no reminders of the incident {id} until ")), "{ack:?}");
    let table = sf(&server, &["--utc", "alerts", "list"]).stdout;
    assert!(table.contains("by ann: known") && table.contains("1 open"), "{table}");
    let audit = json(&server, &["audit", "--alerts"]);
    assert_eq!(
        (audit["items"][0]["who"].as_str(), audit["items"][0]["target"].as_str()),
        (Some("ann"), Some(&*format!("incident {id}")))
    );
    assert_eq!(sf(&server, &["alerts", "ack", "00000000", "--for", "1h", "--reason", "x"]).code, Some(4));
    let silent = sf(&server, &["alerts", "ack", &id, "--for", "1h"]);
    assert!(silent.code == Some(2) && silent.stderr.contains("say why"), "{silent:?}");
    assert_eq!(sf(&server, &["alerts", "ack", "nonsense", "--for", "1h", "--reason", "x"]).code, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn resolved_incidents_are_listed_page_by_page() {
    let server = RedisServer::start();
    let broker = broker(&server).await;
    let alerts = start(&server, config().quiet_after(super::HOUR));
    for fingerprint in ["00aa", "00bb"] {
        bury_one(&server, &broker, fingerprint).await;
        until_open(&broker, IncidentKind::DeadGroup).await;
        super::remove_letters(&server, &broker).await;
        super::until_over(&broker).await;
    }
    alerts.stop().await;
    assert!(sf(&server, &["alerts", "list"]).stdout.contains("there are no open incidents"));
    let first = json(&server, &["alerts", "list", "--all", "--limit", "1"]);
    assert_eq!(
        (first["items"][0]["key"].as_str(), first["items"][0]["state"].as_str()),
        (Some("00bb"), Some("resolved"))
    );
    let next = first["next"].as_str().unwrap();
    let second = json(&server, &["alerts", "list", "--all", "--limit", "1", "--after", next]);
    assert_eq!(second["items"][0]["key"], "00aa");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_message_says_what_the_sink_answered() {
    let (server, robot) = (RedisServer::start(), Robot::dingtalk().await);
    let (url, file) = (
        format!("{}/robot?access_token={TOKEN}", robot.server.uri()),
        tempfile::NamedTempFile::new().unwrap(),
    );
    std::fs::write(file.path(), format!("{SECRET}\n")).unwrap();
    let section = format!(
        "[alerts.sinks.ops-1]\nkind = \"{}\"\nsecret_file = {:?}\n",
        SinkKind::Dingtalk.as_str(),
        file.path().to_str().unwrap()
    );
    let run = |sink: &str| {
        let command = launch(&server, &["--config", "{config}", "alerts", "test", sink]).config(&section);
        let command = command.env("STREAMFLEET__ALERTS__SINKS__OPS_1__URL", url.clone());
        tokio::task::block_in_place(|| command.output(SOON))
    };
    let taken = run("ops-1");
    assert_eq!(
        (taken.code, taken.stdout.trim()),
        (Some(0), "the sink ops-1 has taken the message: ok"),
        "{taken:?}"
    );
    robot.refuse(1, 200, r#"{"errcode":300001,"errmsg":"token is not exist"}"#);
    let refused = run("ops-1");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stdout.contains("300001: token is not exist"), "{refused:?}");
    assert_eq!(run("other").code, Some(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_the_section_sends() {
    let (server, robot) = (RedisServer::start(), Robot::dingtalk().await);
    let section = "[telemetry]\nlisten = \"off\"\n[types.test]\nhandler = \"noop\"\n[alerts]\nevery = \"200ms\"\nquiet_after = \"1h\"\n\
         [alerts.sinks.ops]\nkind = \"dingtalk\"\n";
    let worker = launch(&server, &["--config", "{config}", "worker"])
        .config(section)
        .env(
            "STREAMFLEET__ALERTS__SINKS__OPS__URL",
            format!("{}/robot?access_token={TOKEN}", robot.server.uri()),
        )
        .env("STREAMFLEET__ALERTS__SINKS__OPS__SECRET", SECRET)
        .start();
    let broker = broker(&server).await;
    bury_one(&server, &broker, "00aa").await;
    until_async("the message", SOON, async || robot.taken().len() == 1).await;
    worker.term();
    let status = tokio::task::block_in_place(|| worker.wait_exit(Duration::from_secs(60)));
    assert!(status.success(), "{status} {}", worker.stderr());
    assert!(!worker.stderr().contains(TOKEN) && !worker.stderr().contains(SECRET), "{}", worker.stderr());
}

#[test]
fn a_secret_in_a_file_is_refused_without_being_shown() {
    let server = RedisServer::start();
    let section = format!(
        "[alerts.sinks.ops]\nkind = \"dingtalk\"\nurl = \"https://example.com/?access_token={TOKEN}\"\n"
    );
    let output = launch(&server, &["--config", "{config}", "config", "check"]).config(&section).output(SOON);
    assert_eq!(output.code, Some(2), "{output:?}");
    let told = format!("{}{}", output.stdout, output.stderr);
    assert!(
        told.contains("alerts.sinks.ops.url: is a secret, which must not stand in this file: use url_file"),
        "{told}"
    );
    assert!(!told.contains(TOKEN), "{told}");
}
