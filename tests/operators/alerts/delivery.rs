//! Messages: one when an incident opens, reminders, one when it is resolved; whatever dies or refuses in between.

use std::time::Duration;

use streamfleet::{JobError, Queue};
use streamfleet_engine::admin::{Action, IncidentKind};
use streamfleet_service::alerts::{SinkConfig, SinkKind};

use super::stand_in::Robot;
use super::{SOON, broker, bury_one, open, remove_letters, start, until_open, until_over, with};
use harness::cli::launch;
use harness::fleet::{Acts, Running as FleetRunning, queue, quick};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

const STORM: usize = 10_000;

/// Lets a job of each payload die.
fn deadly(server: &RedisServer) -> FleetRunning {
    let refused = |_: &streamfleet::JobContext, payload: &[u8]| {
        Err(JobError::fatal(format!("the relay refused message {}", String::from_utf8_lossy(payload))))
    };
    FleetRunning::start(&server.url(), quick(1), Acts::new(refused))
}

fn flood(server: &RedisServer, jobs: usize) {
    let mut all = redis::pipe();
    for nth in 0..jobs {
        let payload = nth.to_string();
        let fields = ["type", "test", "payload", &payload];
        all.cmd("XADD").arg("sf:{default}:jobs").arg("*").arg(&fields[..]).ignore();
    }
    all.exec(&mut server.client()).unwrap();
}

async fn until_taken(robot: &Robot, count: usize) -> Vec<String> {
    until_async(&format!("{count} messages"), SOON, async || {
        Some(robot.taken()).filter(|taken| taken.len() >= count)
    })
    .await
}

async fn until_dead(queue: &Queue, count: u64) {
    until_async("all jobs to be dead", 3 * SOON, async || queue.snapshot().await.unwrap().dead == count)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reminders_come_at_growing_intervals_until_somebody_acknowledges() {
    let server = RedisServer::start();
    let (robot, broker) = (Robot::feishu().await, broker(&server).await);
    let config = with([("ops", robot.sink(SinkKind::Feishu))]).quiet_after(super::HOUR);
    let alerts =
        start(&server, config.remind_after(Duration::from_secs(1)).remind_most(Duration::from_secs(2)));
    bury_one(&server, &broker, "00aa").await;
    let taken = until_taken(&robot, 3).await;
    assert!(taken[0].contains("] OPEN") && taken[1].contains("STILL OPEN"), "{taken:?}");
    let known = until_open(&broker, IncidentKind::DeadGroup).await;
    let ann = Action::new("alerts ack", "ann").why("known");
    let noted = broker.incidents().acknowledge(&known.incident.id, super::HOUR, &ann).await.unwrap().unwrap();
    assert_eq!(noted.unnoted, None);
    let known = until_open(&broker, IncidentKind::DeadGroup).await;
    assert_eq!(
        known.acknowledged.as_ref().map(|by| (by.who.as_str(), by.why.as_str())),
        Some(("ann", "known"))
    );
    // A check that was under way may still have asked for one more reminder.
    let most = known.incident.notices + 1;
    remove_letters(&server, &broker).await;
    until_over(&broker).await;
    alerts.stop().await;
    assert!(robot.taken().last().unwrap().contains("RESOLVED"));
    let past = broker.incidents().past(None, 1).await.unwrap();
    assert!(past[0].incident.notices <= most + 1, "{past:?}");
    let audit = broker.incidents().audit(None, 10).await.unwrap();
    assert_eq!(
        (audit.len(), audit[0].action.who.as_str(), audit[0].action.what.as_str()),
        (1, "ann", "alerts ack")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_neither_repeats_nor_forgets() {
    let server = RedisServer::start();
    let (robot, broker) = (Robot::dingtalk().await, broker(&server).await);
    let config = || with([("ops", robot.sink(SinkKind::Dingtalk))]).quiet_after(super::HOUR);
    let alerts = start(&server, config());
    bury_one(&server, &broker, "00aa").await;
    until_taken(&robot, 1).await;
    alerts.stop().await;
    // Nobody looks while this one dies.
    bury_one(&server, &broker, "00bb").await;
    let alerts = start(&server, config());
    let taken = until_taken(&robot, 2).await;
    remove_letters(&server, &broker).await;
    until_over(&broker).await;
    alerts.stop().await;
    assert!(taken[0].contains("--group 00aa") && taken[1].contains("--group 00bb"), "{taken:?}");
    let all = robot.taken();
    let opened = all.iter().filter(|text| text.contains("] OPEN")).count();
    assert_eq!(opened, 2, "{all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_takes_over_from_one_that_is_gone_and_repeats_nothing() {
    let server = RedisServer::start();
    let (robot, broker) = (Robot::dingtalk().await, broker(&server).await);
    let config = || with([("ops", robot.sink(SinkKind::Dingtalk))]).quiet_after(super::HOUR);
    let gone = start(&server, config());
    bury_one(&server, &broker, "00aa").await;
    until_taken(&robot, 1).await;
    until_async("the delivery to be noted", SOON, async || {
        open(&broker).await.first().is_some_and(|known| known.deliveries.values().any(|got| got.handed == 1))
    })
    .await;
    let other = start(&server, config());
    // Its tasks end where they are, and its lease stays.
    drop(gone);
    bury_one(&server, &broker, "00bb").await;
    let taken = until_taken(&robot, 2).await;
    other.stop().await;
    assert_eq!(taken.len(), 2, "{taken:?}");
    assert!(taken[1].contains("--group 00bb"), "{taken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_send_each_message_once() {
    let server = RedisServer::start();
    let (robot, broker) = (Robot::dingtalk().await, broker(&server).await);
    let config = || with([("ops", robot.sink(SinkKind::Dingtalk))]).quiet_after(super::HOUR);
    let both = [start(&server, config()), start(&server, config())];
    bury_one(&server, &broker, "00aa").await;
    until_taken(&robot, 1).await;
    remove_letters(&server, &broker).await;
    until_over(&broker).await;
    for alerts in both {
        alerts.stop().await;
    }
    assert_eq!(robot.taken().len(), 2, "{:?}", robot.taken());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_code_with_the_status_200_is_a_failure_until_the_next_reminder() {
    let server = RedisServer::start();
    let (robot, broker) = (Robot::feishu().await, broker(&server).await);
    robot.refuse(1, 200, r#"{"code":19024,"msg":"Key Words Not Found"}"#);
    let config = with([("ops", robot.sink(SinkKind::Feishu))]).quiet_after(super::HOUR);
    let alerts = start(&server, config.remind_after(Duration::from_secs(3)));
    bury_one(&server, &broker, "00aa").await;
    let taken = until_taken(&robot, 1).await;
    alerts.stop().await;
    assert!(taken[0].contains("STILL OPEN"), "{taken:?}");
    assert_eq!(robot.asked(), 2, "it is refused once, and not repeated before the reminder");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_gets_too_much_is_left_alone_for_as_long_as_it_asks() {
    let server = RedisServer::start();
    let (robot, broker) = (Robot::dingtalk().await, broker(&server).await);
    robot.refuse(1, 429, "slow down");
    robot.refuse(1, 503, "");
    let config = with([("ops", robot.sink(SinkKind::Dingtalk))]).quiet_after(super::HOUR);
    let alerts = start(&server, config);
    bury_one(&server, &broker, "00aa").await;
    until_taken(&robot, 1).await;
    until_async("the delivery to be noted", SOON, async || {
        open(&broker).await.first().is_some_and(|known| known.deliveries.values().any(|got| got.handed == 1))
    })
    .await;
    alerts.stop().await;
    assert_eq!((robot.asked(), robot.taken().len()), (3, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_says_too_fast_with_the_status_200_is_left_alone_and_gets_the_message_later() {
    let server = RedisServer::start();
    let broker = broker(&server).await;
    let robots =
        [Robot::dingtalk().await, Robot::wecom().await, Robot::feishu().await, Robot::dingtalk().await];
    let [dingtalk, wecom, feishu, other] = &robots;
    for (robot, body) in robots.iter().zip([
        r#"{"errcode":130101,"errmsg":"send too fast"}"#,
        r#"{"errcode":45009,"errmsg":"api freq out of limit"}"#,
        r#"{"code":11232,"msg":"frequency limited"}"#,
        r#"{"errcode":310000,"errmsg":"keywords not in content"}"#,
    ]) {
        robot.refuse(1, 200, body);
    }
    let config = || {
        let sinks = [
            ("dingtalk", dingtalk.sink(SinkKind::Dingtalk)),
            ("wecom", wecom.sink(SinkKind::Wecom)),
            ("feishu", feishu.sink(SinkKind::Feishu)),
            ("other", other.sink(SinkKind::Dingtalk)),
        ];
        with(sinks).quiet_after(super::HOUR)
    };
    let alerts = start(&server, config());
    bury_one(&server, &broker, "00aa").await;
    let given_up = async || {
        let known = open(&broker).await;
        let sinks = known.iter().flat_map(|known| known.deliveries.iter());
        sinks.filter(|(_, got)| got.given_up > 0).map(|(sink, _)| sink.to_string()).collect::<Vec<_>>()
    };
    // The one that refuses for another reason gets nothing before the next reminder.
    until_async("all of them to have refused", SOON, async || {
        given_up().await == ["other"] && robots.iter().all(|robot| robot.asked() == 1)
    })
    .await;
    alerts.stop().await;
    assert_eq!(given_up().await, ["other"]);
    assert_eq!(robots.each_ref().map(Robot::asked), [1; 4], "none is asked again within a minute");
    // A process that begins does not know how long it should wait.
    let alerts = start(&server, config());
    for robot in [dingtalk, wecom, feishu] {
        until_taken(robot, 1).await;
    }
    alerts.stop().await;
    assert_eq!((other.asked(), other.taken().len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_runs_jobs_and_stops_while_its_sink_does_not_answer() {
    let server = RedisServer::start();
    let (queue, broker) = (queue(&server).await, broker(&server).await);
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/services/T0/B0/x", silent.local_addr().unwrap());
    let section = "[telemetry]\nlisten = \"off\"\n[types.test]\nhandler = \"noop\"\n[alerts]\nevery = \"200ms\"\nquiet_after = \"1h\"\n\
         [alerts.sinks.dead]\nkind = \"slack\"\n";
    let worker = launch(&server, &["--config", "{config}", "worker"])
        .config(section)
        .env("STREAMFLEET__ALERTS__SINKS__DEAD__URL", url)
        .start();
    bury_one(&server, &broker, "00aa").await;
    // From here on, the worker waits for the answer to its message.
    let (held, _) = tokio::time::timeout(SOON, silent.accept()).await.unwrap().unwrap();
    flood(&server, 1000);
    until_async("all jobs to be done", SOON, async || {
        let now = queue.snapshot().await.unwrap();
        now.jobs() == 0
    })
    .await;
    let handed = open(&broker).await.iter().any(|known| known.deliveries.values().any(|got| got.handed > 0));
    assert!(!handed, "the sink has taken nothing");
    worker.term();
    let status = tokio::task::block_in_place(|| worker.wait_exit(SOON));
    assert!(status.success(), "{status} {}", worker.stderr());
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_incidents_at_once_are_one_message() {
    let server = RedisServer::start();
    let (robot, broker) = (Robot::dingtalk().await, broker(&server).await);
    let now = server.now_ms();
    let names: Vec<String> = (0..40).map(|nth| format!("{nth:04x}")).collect();
    let letters: Vec<_> = names.iter().map(|name| (name.as_str(), "exhausted", now)).collect();
    super::bury_by_hand(&server, &broker, &letters).await;
    let config = with([("ops", robot.sink(SinkKind::Dingtalk))]).quiet_after(super::HOUR);
    let alerts = start(&server, config);
    let taken = until_taken(&robot, 1).await;
    until_async("all deliveries to be noted", SOON, async || {
        let open = open(&broker).await;
        open.len() == 6 && open.iter().all(|known| known.deliveries.values().any(|got| got.handed == 1))
    })
    .await;
    alerts.stop().await;
    assert_eq!(robot.taken().len(), 1);
    assert!(taken[0].contains("[sf] 6 incidents: 6 new"), "{}", taken[0]);
}

/// What `make test` leaves to `make long`.
mod long {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_storm_of_deaths_is_one_message_and_one_when_it_is_over() {
        let server = RedisServer::start();
        let (queue, robot, broker) = (queue(&server).await, Robot::dingtalk().await, broker(&server).await);
        let alerts = start(&server, with([("ops", robot.sink(SinkKind::Dingtalk))]));
        let fleet = deadly(&server);
        flood(&server, STORM);
        until_dead(&queue, STORM as u64).await;
        fleet.stop().await;
        until_async("all deaths to be counted", SOON, async || {
            open(&broker).await.iter().any(|known| known.incident.count == STORM as u64)
        })
        .await;
        remove_letters(&server, &broker).await;
        until_over(&broker).await;
        alerts.stop().await;
        let taken = robot.taken();
        assert_eq!(taken.len(), 2, "{taken:?}");
        for part in [
            "[sf] OPEN: jobs die of a new cause in default",
            "queue default, type test",
            "Example: ",
            "the relay refused message",
            "streamfleet dead list --queue default --group ",
        ] {
            assert!(taken[0].contains(part), "{part}: {}", taken[0]);
        }
        assert!(taken[1].contains("RESOLVED") && taken[1].contains("Jobs: 10000"), "{}", taken[1]);
        let past = broker.incidents().past(None, 10).await.unwrap();
        assert_eq!(past.len(), 1);
        assert_eq!((past[0].incident.kind, past[0].incident.notices), (IncidentKind::DeadGroup, 2));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_sink_that_never_answers_delays_no_other() {
        let server = RedisServer::start();
        let (robot, broker) = (Robot::dingtalk().await, broker(&server).await);
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = silent.local_addr().unwrap();
        let held = tokio::task::spawn(async move {
            let mut open = Vec::new();
            while let Ok((connection, _)) = silent.accept().await {
                open.push(connection);
            }
        });
        let dead = SinkConfig::new(SinkKind::Slack).url(format!("http://{at}/services/T0/B0/x"));
        let config =
            with([("dead", dead), ("ops", robot.sink(SinkKind::Dingtalk))]).quiet_after(crate::alerts::HOUR);
        let alerts = start(&server, config);
        for (nth, fingerprint) in ["00aa", "00bb", "00cc"].into_iter().enumerate() {
            bury_one(&server, &broker, fingerprint).await;
            until_taken(&robot, nth + 1).await;
        }
        until_async("the silent sink to be given up", 2 * SOON, async || {
            open(&broker).await.iter().any(|known| {
                known
                    .deliveries
                    .iter()
                    .any(|(sink, got)| sink.as_str() == "dead" && got.given_up > 0 && got.handed == 0)
            })
        })
        .await;
        alerts.stop().await;
        held.abort();
    }
}
