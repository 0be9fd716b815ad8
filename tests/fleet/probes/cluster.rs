//! Liveness when the keys are spread over several servers: an answer from one says nothing about another.

use std::time::{Duration, Instant};

use super::{CONFIG, SOON, ready, status};
use harness::cluster::{queue_on, two_servers, url};
use harness::process::Launch;
use harness::scrape::get;
use harness::wait::until;

/// What `make test` leaves to `make long`.
mod long {
    use super::*;

    #[test]
    fn an_unreachable_cluster_node_does_not_fail_liveness() {
        let [away, there] = two_servers();
        let names = [queue_on(&away, true), queue_on(&away, false)];
        let config = CONFIG.replace("default", &names[0]).replace("mail", &names[1]);
        let launch = Launch::new(&["--config", "{config}", "--json", "worker"]);
        let (_worker, address) =
            ready(&launch.env("STREAMFLEET__REDIS__URL", url(there.addr(), away.addr())).config(&config));
        away.freeze();
        let since = Instant::now();
        until("longer than a loop may hang", 2 * SOON, || {
            assert_eq!(get(&address, "/livez"), Some((200, "ok\n".to_owned())));
            since.elapsed() > Duration::from_secs(32)
        });
        // It is ready for the other queues.
        let want = format!("ok\nqueue {} is not served: redis does not answer\n", names[0]);
        until("it to report what it does not serve", SOON, || {
            get(&address, "/readyz") == Some((200, want.clone()))
        });
        there.cmd(&["XADD", &format!("sf:{{{}}}:jobs", names[1]), "*", "type", "note"]);
        until("the jobs on the other server to be done", SOON, || {
            let left = there.cmd(&["XLEN", &format!("sf:{{{}}}:jobs", names[1])]);
            redis::from_redis_value::<i64>(left).unwrap() == 0
        });
        away.thaw();
        until("it is ready again", SOON, || {
            assert_eq!(status(&address, "/livez"), Some(200));
            get(&address, "/readyz") == Some((200, "ok\n".to_owned()))
        });
    }
}
