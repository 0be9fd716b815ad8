//! A master dies or is away.

use std::time::{Duration, Instant};

use super::account::{Account, Load, worker};
use harness::cluster::Cluster;
use harness::process::run;
use harness::wait::until_async;

const SOON: Duration = Duration::from_secs(30);

/// The longest allowed time without a new job on a queue whose server is healthy.
const CALM: Duration = Duration::from_secs(2);

/// Asserts that the queues of other servers noticed nothing.
fn assert_calm(accounts: &[Account]) {
    for account in accounts {
        assert!(account.pause <= CALM, "{account:?}");
        assert_eq!((account.missing, account.dead, account.run_twice), (0, 0, 0), "{account:?}");
    }
}

/// Asserts that while the first queue's server is away, commands about the others work and name what they cannot show, and that a
/// new worker starts.
async fn assert_others_are_served(cluster: &Cluster, load: &Load) {
    let names = &load.names;
    let away = cluster.masters[0].addr().to_string();
    let url = cluster.url();
    let command = async |args: &[&str]| {
        let args: Vec<String> = ["--redis", &url].iter().chain(args).map(ToString::to_string).collect();
        let run = move || run(&args.iter().map(String::as_str).collect::<Vec<_>>(), b"");
        tokio::task::spawn_blocking(run).await.unwrap()
    };
    let queues = command(&["queues", "--json"]).await;
    assert_eq!(queues.code, Some(3), "{queues:?}");
    assert!(queues.stdout.contains(&names[1]) && queues.stdout.contains(&names[2]), "{queues:?}");
    assert!(!queues.stdout.contains(&names[0]) && queues.stderr.contains(&away), "{queues:?}");
    let workers = command(&["workers"]).await;
    assert!(workers.code == Some(3) && workers.stderr.contains(&away), "{workers:?}");
    let check = command(&["check"]).await;
    assert!(check.code == Some(5) && check.stdout.contains(&away), "{check:?}");
    let enqueued = command(&["enqueue", "test", "--queue", &names[1]]).await;
    assert_eq!(enqueued.code, Some(0), "{enqueued:?}");
    let refused = command(&["dead", "list", "--queue", &names[0]]).await;
    assert!(refused.code == Some(3) && refused.stderr.contains(&away), "{refused:?}");
    // It serves all three queues, but cannot join the first.
    let notes = load.notes.beside();
    let late = worker(cluster, names, Duration::from_secs(15), &notes);
    until_async("a worker that starts now to serve the others", SOON, async || {
        names[1..].iter().all(|name| notes.has_served(name))
    })
    .await;
    late.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_master_stops_only_its_own_queues_until_its_replica_leads() {
    let cluster = Cluster::start(Duration::from_secs(2));
    let load = Load::start(&cluster, Duration::from_secs(5)).await;
    let killed = Instant::now();
    cluster.masters[0].kill9();
    until_async("the replica to take over", SOON, async || cluster.has_taken_over()).await;
    let taken_over = killed.elapsed();
    load.until_served(0, killed).await;
    let served = killed.elapsed();
    let accounts = load.end("a master is killed", killed).await;
    println!(
        "a master is killed: its replica took over after {:.1} s, its own queue continued after {:.1} s",
        taken_over.as_secs_f64(),
        served.as_secs_f64()
    );
    assert_calm(&accounts[1..]);
    assert_eq!(accounts[0].dead, 0, "{accounts:?}");
    // Only what the master had acknowledged and not yet sent to its replica, a few jobs at most.
    assert!(accounts[0].missing <= 5, "{accounts:?}");
}

/// What `make test` leaves to `make long`.
mod long {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_master_outage_of_twenty_seconds_costs_no_lease_on_other_servers() {
        // The defaults of the cluster's node timeout and of the lease.
        let cluster = Cluster::start(Duration::from_secs(15));
        cluster.replicas[0].cmd(&["CONFIG", "SET", "cluster-replica-no-failover", "yes"]);
        let load = Load::start(&cluster, Duration::from_secs(15)).await;
        let long = format!("{}-long", load.names[1]);
        load.submit_long(1, &long, Duration::from_secs(21)).await;
        let killed = Instant::now();
        cluster.masters[0].kill9();
        assert_others_are_served(&cluster, &load).await;
        tokio::time::sleep(Duration::from_secs(20).saturating_sub(killed.elapsed())).await;
        let back = Instant::now();
        cluster.masters[0].restart();
        load.until_served(0, back).await;
        let served = back.elapsed();
        let notes = load.notes.clone();
        let accounts = load.end("a master is away for 20 s", killed).await;
        println!(
            "a master is away for 20 s: its own queue continued {:.1} s after it was back",
            served.as_secs_f64()
        );
        assert_eq!(notes.of(&long).len(), 1, "a lease on a healthy server has expired");
        assert_calm(&accounts[1..]);
        assert_eq!(
            (accounts[0].missing, accounts[0].dead),
            (0, 0),
            "the append-only file must contain everything: {accounts:?}"
        );
    }
}
