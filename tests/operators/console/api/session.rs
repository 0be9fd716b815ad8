//! Who asks, and the sessions of browsers.

use hyper::Method;
use serde_json::{Value, json};

use super::client as programs;
use crate::console::client::{Console, JSON, SESSION, accounts};
use crate::console::login::hash;
use harness::redis_server::RedisServer;

#[test]
fn a_person_logs_in_changes_something_and_logs_out() {
    let (server, directory) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let console = Console::start(&server, &accounts(directory.path(), &hash("correct horse")));
    let stranger: Value = serde_json::from_str(&console.get(SESSION, &[]).body).unwrap();
    assert_eq!((&stranger["way_in"], &stranger["person"]), (&json!("password"), &Value::Null));
    for (body, status) in [
        (json!({"name": "ann", "password": "wrong horse"}), 401),
        (json!({"name": "bob", "password": "correct horse"}), 401),
        (json!({"key": "AAAA"}), 401),
        (json!({"name": "ann"}), 422),
        (json!({"name": "ann", "password": "correct horse", "next": "/"}), 422),
    ] {
        let answer = console.log_in(&body);
        assert_eq!((answer.status, answer.cookie()), (status, None), "{body}");
    }
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let form = console.ask("POST", SESSION, &[form], "name=ann&password=correct+horse");
    assert_eq!((form.status, form.cookie()), (415, None), "another site's form can send no JSON");
    let answer = console.log_in(&json!({"name": "ann", "password": "correct horse"}));
    assert_eq!((answer.status, answer.body.as_str()), (204, ""));
    for part in ["HttpOnly", "SameSite=Lax", "Path=/"] {
        assert!(answer.header("set-cookie").unwrap().contains(part), "{answer:?}");
    }
    let cookie = answer.cookie().unwrap();
    let cookie = ("Cookie", cookie.as_str());
    let ann = console.person(&[cookie]);
    assert_eq!(
        (&ann["name"], &ann["role"], &ann["can_log_out"]),
        (&json!("ann"), &json!("operator"), &json!(true))
    );
    let csrf = ("X-CSRF-Token", ann["csrf_token"].as_str().unwrap());
    let pause = |headers: &[(&str, &str)]| {
        console
            .ask("POST", "/api/v1/queues/mail/pause", &[&[cookie, JSON][..], headers].concat(), "{}")
            .status
    };
    assert_eq!((pause(&[]), pause(&[csrf])), (403, 200));
    let log_out = |headers: &[(&str, &str)]| {
        console.ask("DELETE", SESSION, &[&[cookie][..], headers].concat(), "").status
    };
    assert_eq!((log_out(&[]), log_out(&[csrf])), (403, 204));
    assert_eq!(console.person(&[cookie]), Value::Null);
    assert_eq!(log_out(&[]), 204, "a session that has ended may end again");
}

#[test]
fn the_key_of_the_printed_link_logs_in() {
    let server = RedisServer::start();
    let console = Console::start(&server, "");
    let key = console.printed.split_once("key=").unwrap().1.to_owned();
    let page = console.get(&format!("/login?key={key}"), &[]);
    assert_eq!((page.status, page.cookie()), (200, None), "an address alone changes nothing");
    for key in ["", "AAAA"] {
        assert_eq!(console.log_in(&json!({ "key": key })).status, 401);
    }
    assert_eq!(console.log_in(&json!({"name": "ann", "password": "x"})).status, 401);
    let answer = console.log_in(&json!({ "key": key }));
    assert_eq!(answer.status, 204, "{answer:?}");
    let cookie = answer.cookie().unwrap();
    assert_eq!(console.person(&[("Cookie", &cookie)])["role"], "admin");
    assert!(!console.process.stderr().contains(&key));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_told_what_it_may_do() {
    let server = RedisServer::start();
    let console = programs::Console::start_with(&server, "mask = [\"card\"]\n").await;
    let ask = async |token: &str| {
        let session = programs::send(console.ask_as(token, Method::GET, SESSION)).await.ok(200);
        assert!(session["version"].is_string(), "{session}");
        session["person"].clone()
    };
    let limited = ask("limited").await;
    assert_eq!((&limited["role"], &limited["queues"]), (&Value::Null, &json!({"mail": "operator"})));
    let blind = ask("blind").await;
    assert_eq!(
        (&blind["role"], &blind["payloads"], &blind["masked"], &blind["csrf_token"], &blind["can_log_out"]),
        (&json!("admin"), &json!(false), &json!(true), &json!(""), &json!(false))
    );
    assert_eq!(blind["namespace"], "sf");
    programs::send(console.ask_as("nobody", Method::GET, SESSION)).await.problem(401);
}
