//! A restart of the server, which then reads its append-only file as the user `default`.

use super::logins::Site;

/// How many jobs wait and are delayed, as the program counts them.
fn counted(site: &Site) -> (u64, u64) {
    let output = site.run("operator", &["queues", "--json"]);
    let queues: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let queue = &queues["items"][0];
    (queue["waiting"].as_u64().unwrap_or_default(), queue["delayed"].as_u64().unwrap_or_default())
}

#[test]
fn a_restart_of_redis_keeps_what_scripts_have_written() {
    let site = Site::new();
    for nth in 0..3 {
        site.run("operator", &["enqueue", "report", "{}", "--id", &format!("now-{nth}")]);
        site.run("operator", &["enqueue", "report", "{}", "--id", &format!("later-{nth}"), "--delay", "1h"]);
    }
    site.run("operator", &["cancel", "now-0"]);
    assert_eq!(counted(&site), (2, 3));
    site.server.stop_gracefully();
    site.server.restart();
    assert_eq!(counted(&site), (2, 3));
    let cancelled = site.run("operator", &["status", "now-0", "--json"]);
    assert!(cancelled.stdout.contains("\"cancelled\""), "{cancelled:?}");
}
