//! A worker whose reports Redis refuses works on, stops in time, and says so once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use streamfleet::event::{Event, Events, RedisEvent};
use streamfleet::{Fleet, FleetConfig};

use super::{COUNTS, counted, sum};
use harness::fleet::{Acts, Running, config, queue, quick, submit, until_empty};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

const SOON: Duration = Duration::from_secs(30);

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Returns a configuration with a long lease, so that a busy machine makes nobody lead twice.
pub(super) fn patient(url: &str) -> FleetConfig {
    let mut config = config(url);
    config.worker.lease = SOON;
    config
}

/// The errors that a process reported.
#[derive(Clone, Default)]
struct Reported(Arc<Mutex<Vec<String>>>);

impl Reported {
    fn start(&self, config: FleetConfig, handler: Acts) -> Running {
        let errors = Arc::clone(&self.0);
        let events = Events::new(vec![Arc::new(move |event: &Event<'_>| {
            if let Event::Redis(RedisEvent::Error { error, .. }) = event {
                errors.lock().unwrap().push((*error).to_owned());
            }
        })]);
        let builder = Fleet::builder(config).events(events);
        Running::of(builder.handler_with("test", quick(3), handler).unwrap().build())
    }

    /// Returns those about this script.
    fn about(&self, script: &str) -> Vec<String> {
        let prefix = format!("redis refused {script}: ");
        let errors = self.0.lock().unwrap();
        errors.iter().filter(|error| error.starts_with(&prefix)).cloned().collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_type_harms_no_job_and_is_reported_once() {
    let server = RedisServer::start();
    server.cmd(&["SET", COUNTS, "no hash"]);
    let (queue, reported, handler) = (queue(&server).await, Reported::default(), Acts::well());
    let fleet = reported.start(patient(&server.url()), handler.clone());
    for _ in 0..20 {
        submit(&queue, "{}").await;
    }
    until_empty(&queue).await;
    until_async("the sample to be refused", SOON, async || !reported.about("sample").is_empty()).await;
    fleet.stop().await;
    assert_eq!(handler.jobs(), 20);
    for script in ["tally", "sample"] {
        let errors = reported.about(script);
        assert!(errors.len() == 1 && errors[0].contains("WRONGTYPE"), "{script}: {errors:?}");
        assert!(errors[0].contains("sf:{default}:"), "{errors:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_without_the_right_harms_no_job_and_is_reported_once() {
    let server = RedisServer::builder().users_acl("user short on >pw ~sf:* &* +@all -hincrby\n").start();
    let (queue, reported, handler) = (queue(&server).await, Reported::default(), Acts::well());
    let url = format!("redis://short:pw@{}/0", server.addr());
    let fleet = reported.start(patient(&url), handler.clone());
    for _ in 0..20 {
        submit(&queue, "{}").await;
    }
    until_empty(&queue).await;
    fleet.stop().await;
    assert_eq!(handler.jobs(), 20);
    let errors = reported.about("tally");
    assert_eq!(errors.len(), 1, "{errors:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_harms_no_job_and_is_reported_once() {
    let server = RedisServer::start();
    let (queue, reported, handler) = (queue(&server).await, Reported::default(), Acts::well());
    for _ in 0..20 {
        submit(&queue, "{}").await;
    }
    let fleet = reported.start(patient(&server.url()), handler.clone());
    until_empty(&queue).await;
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    fleet.stop().await;
    server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(handler.jobs(), 20);
    // Unless the process had already reported.
    let errors = reported.about("tally");
    assert!(errors.len() <= 1 && errors.iter().all(|error| error.contains("OOM")), "{errors:?}");
    let samples = queue.samples(DAY).await.unwrap();
    let done = sum(&samples, |sample| sample.done) + counted(&server, "done");
    assert!(errors.len() == 1 || done > 0, "{errors:?}");
}
