//! `audit`: what people did, over all queues, by time, person, action and target.

use serde_json::Value;

use harness::cli::{json, sf};
use harness::redis_server::RedisServer;

/// Does something to two queues, and deletes a third.
fn busy() -> RedisServer {
    let server = RedisServer::start();
    for queue in ["mail", "sms", "old"] {
        sf(&server, &["enqueue", "test", "--queue", queue]);
    }
    for args in [
        &["pause", "--queue", "mail", "--by", "ann", "--reason", "the relay"][..],
        &["pause", "--queue", "sms", "--type", "test", "--by", "bob"],
        &["resume", "--queue", "mail", "--as", "bob"],
        &["queues", "delete", "old", "--confirm", "old", "--force"],
        &["pause", "--queue", "mail", "--by", "ann"],
    ] {
        assert_eq!(sf(&server, args).code, Some(0), "{args:?}");
    }
    server
}

fn found(server: &RedisServer, args: &[&str]) -> Vec<String> {
    let page = json(server, &[&["audit"], args].concat());
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let items = page["items"].as_array().unwrap();
    items.iter().map(|note| format!("{} {}", text(&note["queue"]), text(&note["what"]))).collect()
}

#[test]
fn all_audits_are_one_list_newest_first() {
    let server = busy();
    let all = found(&server, &[]);
    assert_eq!(all.first().map(String::as_str), Some("mail pause"));
    assert!(all.contains(&"- queues delete".to_owned()) && all.contains(&"sms pause".to_owned()), "{all:?}");
    assert_eq!(found(&server, &["--who", "ann", "--action", "pause"]), ["mail pause", "mail pause"]);
    assert_eq!(found(&server, &["--action", "resume"]), ["mail resume"]);
    assert_eq!(found(&server, &["--target", "type:test"]), ["sms pause"]);
    assert_eq!(found(&server, &["--queue", "sms"]), ["sms pause"]);
    assert_eq!(found(&server, &["--since", "1h"]), all);
    assert!(found(&server, &["--until", "1h"]).is_empty());
    assert!(found(&server, &["--since", "2100-01-01"]).is_empty());
}

#[test]
fn pages_follow_one_another_without_gaps_and_lines_are_json() {
    let server = busy();
    let all = found(&server, &[]);
    let (mut pages, mut after) = (Vec::new(), None::<String>);
    loop {
        let mut args = vec!["audit", "--limit", "2"];
        args.extend(after.iter().flat_map(|after| ["--after", after.as_str()]));
        let page = json(&server, &args);
        let items = page["items"].as_array().unwrap();
        pages.extend(items.iter().map(|note| note["entry"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        after = Some(next.to_owned());
    }
    assert_eq!(pages.len(), all.len());
    let lines = sf(&server, &["audit", "-o", "jsonl"]).stdout;
    let entries: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["entry"].clone()).collect();
    assert_eq!(entries, pages);
    let first = sf(&server, &["audit", "-o", "jsonl", "--limit", "1"]);
    assert_eq!(first.stdout.lines().count(), 1);
    assert!(first.stderr.starts_with("next page: --after "), "{first:?}");
}

#[test]
fn what_was_done_to_a_misspelled_queue_is_found_but_makes_no_queue() {
    let server = busy();
    assert_eq!(sf(&server, &["pause", "--queue", "ghost", "--by", "eve", "--yes"]).code, Some(0));
    assert_eq!(found(&server, &["--who", "eve"]), ["ghost pause"]);
    let queues = json(&server, &["queues"]);
    assert_eq!(queues["items"].as_array().unwrap().len(), 2, "{queues}");
}
