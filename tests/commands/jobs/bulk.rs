//! In a cluster, no job is moved to a queue of another slot.

use std::time::Duration;

use harness::cluster::Cluster;
use harness::process::run;

#[test]
fn in_a_cluster_jobs_are_not_moved_to_another_slot() {
    let cluster = Cluster::start(Duration::from_secs(15));
    let (url, [here, there, _]) = (cluster.url(), cluster.queues());
    let sf = |args: &[&str]| run(&[&["--redis", url.as_str()], args].concat(), b"");
    assert_eq!(sf(&["enqueue", "test", "{}", "--queue", &here, "--id", "j-1"]).code, Some(0));
    let refused = sf(&["move", "--queue", &here, "--to", &there, "--all", "--yes"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("different slots"), "{refused:?}");
    assert!(sf(&["status", "j-1", "--queue", &here]).stdout.contains("waiting"));
}
