//! People: every command of the program, with the login for operators.

use harness::fleet::{Acts, Running, config, quick, until_state};
use streamfleet::job::{JobId, State};
use streamfleet::{Broker, JobError, Queue};

use super::logins::Site;

/// Two dead letters and a delayed job.
pub(super) async fn remains(site: &Site) -> Queue {
    let broker = Broker::connect(config(&site.url("worker")).redis).await.unwrap();
    let queue = broker.queue("default".parse().unwrap());
    let fleet = Running::start(&site.url("worker"), quick(1), Acts::new(|_, _| Err(JobError::fatal("no"))));
    for id in ["one", "two", "three"] {
        site.run("operator", &["enqueue", "test", "--id", id]);
        until_state(&queue, &id.parse::<JobId>().unwrap(), State::Dead).await;
    }
    fleet.stop().await;
    queue
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_may_use_every_command() {
    let site = Site::new();
    remains(&site).await;
    site.run("operator", &["enqueue", "test", "--id", "late", "--delay", "1h"]);
    site.run("operator", &["check"]);
    for line in [
        "queues",
        "queues --memory",
        "jobs",
        "jobs --running",
        "jobs --state done",
        "workers",
        "status one",
        "events",
        "dead list",
        "dead show one",
        "dead groups --recount",
        "dead export --all",
        "dead edit one --set h.tenant=9",
        "dead replay --all --rate 10/s --yes --detach",
        "tasks list",
        "audit",
        "dead replay one",
        "dead drop two",
        "dead replay --all --yes",
        "delayed list",
        "delayed reschedule late --delay 2h",
        "delayed edit late --payload {}",
        "delayed run late",
        "cancel late",
        "enqueue test --id moved",
        "enqueue test --id later --delay 1h",
        "move --to mail --type test --yes --unserved",
        "run-now --queue mail --all --yes",
        "cancel --queue mail --all --yes",
        "queues purge default --waiting --delayed --dead --confirm default",
        "queues delete mail --confirm mail",
        "audit --deletions",
        "cron add nightly --schedule @daily --type test",
        "cron list",
        "cron pause nightly",
        "cron resume nightly",
        "cron run nightly",
        "cron remove nightly",
    ] {
        site.run("operator", &line.split(' ').collect::<Vec<_>>());
    }
    site.nothing_was_refused();
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_commands_are_refused_to_other_logins() {
    let site = Site::new();
    remains(&site).await;
    for login in ["submitter", "producer", "monitor"] {
        for line in [
            "dead list",
            "dead replay one",
            "dead drop one",
            "queues",
            "workers",
            "jobs",
            "cron list",
            "events",
        ] {
            site.refuses(login, &line.split(' ').collect::<Vec<_>>());
        }
    }
    site.refuses("worker", &["queues"]);
    site.refuses("worker", &["workers"]);
    for login in ["producer", "monitor"] {
        site.refuses(login, &["enqueue", "test"]);
        site.refuses(login, &["status", "one"]);
    }
}
