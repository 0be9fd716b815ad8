//! A queue's slot moves from one master to another while its jobs run.

use std::time::{Duration, Instant};

use super::account::{Account, Load};
use harness::cluster::Cluster;

/// Asserts that no job is lost, and that the other queues are not affected.
fn assert_kept(accounts: &[Account]) {
    for account in accounts {
        assert_eq!((account.missing, account.dead), (0, 0), "{account:?}");
    }
    for account in &accounts[1..] {
        assert!(account.pause <= Duration::from_secs(2) && account.run_twice == 0, "{account:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_survives_a_slot_migration_that_pauses_halfway() {
    let cluster = Cluster::start(Duration::from_secs(5));
    let load = Load::start(&cluster, Duration::from_secs(15)).await;
    let begun = Instant::now();
    let moving = cluster.begin_move(&load.names[0]);
    assert!(moving.keys(2) > 0);
    // Both servers refuse scripts whose keys are on both sides: ASK, TRYAGAIN.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let moved = Instant::now();
    moving.finish();
    load.until_served(0, moved).await;
    let served = moved.elapsed();
    let accounts = load.end("a slot moves, half of it for 3 s", begun).await;
    println!(
        "a slot moves: its queue continued {:.1} s after the whole slot had moved",
        served.as_secs_f64()
    );
    assert_kept(&accounts);
}
