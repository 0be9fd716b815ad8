//! `/livez`, `/readyz` and `/startupz`: what fails them, and what does not. The tests here last as long as a loop may hang
//! before its worker must be restarted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use streamfleet::Fleet;
use streamfleet::event::{Event, Events, QueueEvent};

use super::service_manager::Manager;
use super::{CONFIG, SOON, launch, ready, status};
use harness::fleet::{Acts, Running, config, quick};
use harness::process::{Launch, Worker};
use harness::proxy::{Direction, Mode, Proxy, Scope};
use harness::redis_server::RedisServer;
use harness::scrape::{address, get};
use harness::scripts::{sha, source};
use harness::wait::{until, until_async};

/// How soon a hanging loop must be detected.
const WITHIN: Duration = Duration::from_secs(30);

/// A worker behind a proxy.
struct Scene {
    server: RedisServer,
    proxy: Proxy,
    worker: Worker,
    address: String,
}

impl Scene {
    fn new() -> Self {
        Self::with(|launch| launch)
    }

    fn with(change: impl FnOnce(Launch) -> Launch) -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.addr());
        let (worker, address) = ready(&change(launch(&server.url_through(proxy.addr()))));
        Self { server, proxy, worker, address }
    }

    fn submit(&self, job_type: &str) {
        self.server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", job_type]);
    }

    fn entries(&self) -> i64 {
        redis::from_redis_value(self.server.cmd(&["XLEN", "sf:{default}:jobs"])).unwrap()
    }

    /// Returns the worker's own key, which only its heartbeat names.
    fn worker_key(&self) -> String {
        until("the worker's first heartbeat", SOON, || {
            let keys: Vec<String> =
                redis::from_redis_value(self.server.cmd(&["KEYS", "sf:worker:*"])).unwrap();
            keys.into_iter().next()
        })
    }

    /// Swallows the replies on all connections that have ever sent this word.
    fn wedge(&self, word: &str) {
        let scope = Scope::Sent(word.to_owned());
        self.proxy.set(Mode::Blackhole { scope, direction: Direction::Replies });
    }

    fn livez(&self) -> (u16, String) {
        get(&self.address, "/livez").expect("the process answers")
    }
}

#[test]
fn a_worker_has_started_once_it_joined_or_found_redis_down() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    proxy.set(Mode::blackhole(Scope::All));
    let worker = launch(&server.url_through(proxy.addr())).start();
    let address = address(&worker);
    assert_eq!(get(&address, "/startupz"), Some((503, "joining the queues\n".to_owned())));
    until("the first try is over", SOON, || status(&address, "/startupz") == Some(200));
    assert_eq!(get(&address, "/readyz"), Some((503, "waiting for redis\n".to_owned())));
    assert_eq!(status(&address, "/livez"), Some(200));
    proxy.set(Mode::Pass);
    until("it is ready", SOON, || status(&address, "/readyz") == Some(200));
    assert_eq!(get(&address, "/startupz"), Some((200, "ok\n".to_owned())));
}

/// Redis is asked once a second and answers within another, so three seconds leave one for a busy machine.
#[test]
fn readiness_fails_when_redis_is_gone_and_returns_with_it() {
    let (killed, frozen) = (Scene::new(), Scene::new());
    let unready_within = |scene: &Scene| {
        let since = Instant::now();
        until("readiness fails", SOON, || status(&scene.address, "/readyz") == Some(503));
        since.elapsed()
    };
    killed.server.kill9();
    let of_killed = unready_within(&killed);
    frozen.server.freeze();
    let of_frozen = unready_within(&frozen);
    let most = Duration::from_secs(3);
    assert!(of_killed < most && of_frozen < most, "killed: {of_killed:?}, frozen: {of_frozen:?}");
    killed.server.restart();
    frozen.server.thaw();
    for scene in [&killed, &frozen] {
        until("readiness comes back", SOON, || {
            get(&scene.address, "/readyz") == Some((200, "ok\n".to_owned()))
        });
        assert_eq!(scene.livez(), (200, "ok\n".to_owned()));
    }
}

/// A listener that panics takes down the loop that called it.
async fn fails_liveness(panics: impl Fn(&Event<'_>) -> bool + Send + Sync + 'static, who: &str) {
    let server = RedisServer::start();
    let listener = move |event: &Event<'_>| assert!(!panics(event), "on purpose");
    let fleet = Fleet::builder(config(&server.url())).handler_with("test", quick(1), Acts::well()).unwrap();
    let fleet = fleet.events(Events::new(vec![Arc::new(listener)])).build();
    let probe = fleet.probe();
    let running = Running::of(fleet);
    let said = until_async("liveness fails", SOON, async || probe.alive().err()).await;
    assert!(said.contains(&format!("{who} of default has died")), "{said}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_reader_fails_liveness() {
    fails_liveness(|event| matches!(event, Event::Queue { event: QueueEvent::Read { .. }, .. }), "reader")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_maintenance_task_fails_liveness() {
    fails_liveness(
        |event| matches!(event, Event::Queue { event: QueueEvent::QueueLength { .. }, .. }),
        "the gauge",
    )
    .await;
}

/// What `make test` leaves to `make long`.
mod long {
    use super::*;

    #[test]
    fn a_wedged_connection_fails_liveness_within_30_s_and_is_named() {
        let manager = Manager::new();
        let reader = Scene::with(|launch| manager.supervises(launch));
        let (settler, heartbeat, leader) = (Scene::new(), Scene::new(), Scene::new());
        reader.wedge("XREADGROUP");
        settler.wedge(&format!("XACK XACKDEL {}", sha(&settler.server, source("acknowledge"))));
        settler.submit("note");
        heartbeat.wedge(&heartbeat.worker_key());
        leader.wedge("sf:{default}:leader");
        // The last two send a command every few seconds, and wait from the next one on.
        let later = WITHIN + Duration::from_secs(15);
        let scenes = [
            (&reader, "the reader of default", WITHIN),
            (&settler, "the recorder of default", WITHIN),
            (&heartbeat, "the heartbeat", later),
            (&leader, "the leader election of default", later),
        ];
        let since = Instant::now();
        for (scene, who, within) in scenes {
            let want = format!("{who} has waited ");
            until(&format!("{who} fails liveness"), within.saturating_sub(since.elapsed()), || {
                manager.heard();
                let (status, said) = scene.livez();
                status == 503 && said.contains(&want) && said.contains("while redis answers other requests")
            });
            assert!(since.elapsed() > Duration::from_secs(20), "a connection has time to recover");
        }
        assert_eq!(status(&reader.address, "/readyz"), Some(503));
        assert_eq!(manager.signs_of_life(2 * Manager::WATCHDOG), 0, "systemd must restart it");
        for (scene, ..) in scenes {
            scene.proxy.set(Mode::Pass);
            until("it recovers", SOON, || scene.livez() == (200, "ok\n".to_owned()));
            until("it is ready", SOON, || status(&scene.address, "/readyz") == Some(200));
            until("nothing is left to do", SOON, || scene.entries() == 0);
            scene.worker.term();
            assert_eq!(scene.worker.wait_exit(SOON).code(), Some(0));
        }
    }

    #[test]
    fn neither_a_redis_outage_nor_full_slots_fail_liveness() {
        let (stopped, refused, frozen) = (Scene::new(), Scene::new(), Scene::new());
        let one_slot = CONFIG.replace("[queues.default]", "[queues.default]\nconcurrency = 1");
        let busy = Scene::with(|launch| launch.config(&one_slot));
        (0..3).for_each(|_| busy.submit("long"));
        stopped.server.kill9();
        refused.proxy.set(Mode::Rst);
        refused.proxy.set(Mode::Refuse);
        frozen.server.freeze();
        let scenes = [&stopped, &refused, &frozen, &busy];
        let all_live = || {
            for scene in scenes {
                assert_eq!(scene.livez(), (200, "ok\n".to_owned()));
            }
        };
        let (since, mut unready) = (Instant::now(), [false; 3]);
        until("longer than a loop may hang", 2 * WITHIN, || {
            all_live();
            for (seen, scene) in unready.iter_mut().zip(scenes) {
                *seen |= status(&scene.address, "/readyz") == Some(503);
            }
            since.elapsed() > WITHIN + Duration::from_secs(2)
        });
        assert_eq!(unready, [true; 3]);
        assert_eq!(status(&busy.address, "/readyz"), Some(200));
        stopped.server.restart();
        refused.proxy.set(Mode::Pass);
        frozen.server.thaw();
        until("all are ready again", WITHIN, || {
            all_live();
            scenes.iter().all(|scene| status(&scene.address, "/readyz") == Some(200))
        });
        stopped.submit("note");
        refused.submit("note");
        frozen.submit("note");
        for scene in [&stopped, &refused, &frozen] {
            until("the job is done", SOON, || scene.entries() == 0);
        }
    }
}
