//! Each kind of sink against a server that answers as the real one does. No text shows a token or a secret.

use ring::hmac;
use serde_json::Value;
use streamfleet::job::SinkName;
use streamfleet_service::alerts::{Alerts, SinkConfig, SinkKind, TestError};
use wiremock::Request;

use super::stand_in::{Robot, SECRET, TOKEN, body};
use super::{watched, with};
use harness::fleet;

async fn test(sink: SinkConfig) -> Result<String, TestError> {
    let redis = fleet::config("redis://127.0.0.1:1").redis;
    let name: SinkName = "ops".parse().unwrap();
    Alerts::new(with([("ops", sink)]), redis, watched()).unwrap().test(&name).await
}

fn webhook(request: &Request) -> Result<String, String> {
    let header =
        |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok()).ok_or("no header");
    let signature = header("x-streamfleet-signature")?;
    let (time, hex) =
        signature.strip_prefix("t=").and_then(|rest| rest.split_once(",v1=")).ok_or("no signature")?;
    let signed = [time.as_bytes(), b".", &request.body].concat();
    let bytes: Option<Vec<u8>> =
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).ok()).collect();
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    hmac::verify(&key, &signed, &bytes.ok_or("no hex")?).map_err(|_| "wrong signature")?;
    header("x-streamfleet-delivery")?;
    let body: Value = body(request)?;
    Ok(body["commonAnnotations"]["summary"].to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_service_takes_a_test_message() {
    let (dingtalk, feishu) = (Robot::dingtalk().await, Robot::feishu().await);
    assert_eq!(test(dingtalk.sink(SinkKind::Dingtalk)).await.unwrap(), "ok");
    assert_eq!(test(feishu.sink(SinkKind::Feishu)).await.unwrap(), "success");
    let plain =
        |robot: &Robot, kind| SinkConfig::new(kind).url(format!("{}/x?key={TOKEN}", robot.server.uri()));
    let wecom = Robot::wecom().await;
    assert_eq!(test(plain(&wecom, SinkKind::Wecom)).await.unwrap(), "ok");
    let slack = Robot::slack().await;
    assert_eq!(test(plain(&slack, SinkKind::Slack)).await.unwrap(), "ok");
    let webhook = Robot::start(webhook, "taken").await;
    assert_eq!(test(webhook.sink(SinkKind::Webhook)).await.unwrap(), "taken");
    for robot in [&dingtalk, &feishu, &wecom, &slack, &webhook] {
        let taken = robot.taken();
        assert!(taken.len() == 1 && taken[0].contains("[sf] TEST: a message to the sink ops"), "{taken:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_secret_is_a_failure_that_says_why() {
    for (robot, kind, why) in [
        (Robot::dingtalk().await, SinkKind::Dingtalk, "sign not match"),
        (Robot::feishu().await, SinkKind::Feishu, "sign match fail"),
    ] {
        let error = test(robot.sink(kind).secret("another-secret")).await.unwrap_err();
        assert!(matches!(&error, TestError::Failed { why: said, .. } if said.contains(why)), "{error}");
        assert!(robot.taken().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_text_shows_a_token_or_the_secret() {
    let robot = Robot::dingtalk().await;
    for (status, body) in
        [(200, format!(r#"{{"errcode":1,"errmsg":"{TOKEN} {SECRET}"}}"#)), (400, TOKEN.to_owned())]
    {
        robot.refuse(1, status, &body);
        let error = test(robot.sink(SinkKind::Dingtalk)).await.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(TOKEN) && !shown.contains(SECRET) && shown.contains("***"), "{shown}");
    }
    let nowhere = SinkConfig::new(SinkKind::Slack).url(format!("http://127.0.0.1:1/services/{TOKEN}"));
    let error = test(nowhere).await.unwrap_err();
    assert!(!format!("{error:?}").contains(TOKEN), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_not_followed() {
    let robot = Robot::dingtalk().await;
    robot.refuse(1, 302, "");
    assert!(test(robot.sink(SinkKind::Dingtalk)).await.is_err());
    assert_eq!(robot.asked(), 1);
}
