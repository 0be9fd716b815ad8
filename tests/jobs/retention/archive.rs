//! Letters that retention drops are in the archive first. If it cannot be written, they stay.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use redis::Value;
use streamfleet::worker::DeadArchive;

use super::{DAY_MS, SOON, days, start_with};
use harness::dead::{DEAD, bury, left};
use harness::fleet::config;
use harness::redis_server::RedisServer;
use harness::wait::until_async;

/// Returns a configuration with an archive in this folder.
fn archiving(server: &RedisServer, folder: &Path) -> streamfleet::FleetConfig {
    let mut config = config(&server.url());
    config.worker.archive = DeadArchive::new(folder);
    config
}

/// Returns the letters of the archive.
fn archived(folder: &Path) -> Vec<serde_json::Value> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let texts: Vec<String> = files.map(|file| fs::read_to_string(file).unwrap()).collect();
    texts.iter().flat_map(|text| text.lines()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn what_retention_drops_is_in_the_archive() {
    let server = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    bury(&server, 0..50, 30 * DAY_MS);
    bury(&server, 50..60, 0);
    let (fleet, [reported, _]) = start_with(archiving(&server, folder.path()), days(30));
    until_async("the old letters to be dropped", SOON, async || reported.load(Ordering::SeqCst) == 50).await;
    fleet.stop().await;
    assert_eq!(left(&server), (50..60).collect::<Vec<_>>());
    let found = archived(folder.path());
    let ids: BTreeSet<_> = found.iter().map(|letter| letter["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!((found.len(), ids), (50, (0..50).map(|nth| format!("j{nth}")).collect()));
    assert_eq!(found[0]["queue"], "default");
    let names: Vec<_> = found[0]["fields"].as_array().unwrap().iter().map(|field| &field["name"]).collect();
    assert_eq!(names, ["type", "id", "dead_reason"]);
    for file in fs::read_dir(folder.path()).unwrap() {
        assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn letters_stay_while_the_archive_cannot_be_written() {
    let server = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    bury(&server, 0..5, 30 * DAY_MS);
    let (fleet, [reported, failures]) = start_with(archiving(&server, &archive), days(30));
    until_async("the failure to be reported", SOON, async || failures.load(Ordering::SeqCst) > 0).await;
    fleet.stop().await;
    assert_eq!((server.cmd(&["XLEN", DEAD]), reported.load(Ordering::SeqCst)), (Value::Int(5), 0));
    fs::create_dir(&archive).unwrap();
    let (fleet, [reported, _]) = start_with(archiving(&server, &archive), days(30));
    until_async("the letters to be dropped", SOON, async || reported.load(Ordering::SeqCst) == 5).await;
    fleet.stop().await;
    assert_eq!((archived(&archive).len(), left(&server).len()), (5, 0));
}

#[tokio::test]
async fn letters_of_many_batches_are_archived_once() {
    let server = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    bury(&server, 0..2100, 30 * DAY_MS);
    let (fleet, [reported, _]) = start_with(archiving(&server, folder.path()), days(30));
    until_async("the letters to be dropped", SOON, async || reported.load(Ordering::SeqCst) == 2100).await;
    fleet.stop().await;
    let found = archived(folder.path());
    let letters: BTreeSet<_> = found.iter().map(|letter| letter["letter"].to_string()).collect();
    assert_eq!((found.len(), letters.len()), (2100, 2100));
}
