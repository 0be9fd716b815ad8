//! People who may look and change nothing, such as those of finance: the login `viewer`.

use super::logins::Site;
use super::operator::remains;
use harness::process::Launch;
use harness::scene::SOON;

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_sees_everything_that_an_operator_sees() {
    let site = Site::new();
    remains(&site).await;
    site.run("operator", &words("enqueue test --id late --delay 1h"));
    site.run("operator", &words("dead replay --type test --rate 1/s --yes --detach"));
    for line in [
        "queues",
        "queues --memory",
        "stats default",
        "stats default --types",
        "jobs --running",
        "jobs --state done",
        "workers",
        "status one",
        "events",
        "dead list",
        "dead list --type test --where payload.a!=1",
        "dead show one",
        "dead groups",
        "dead export --all",
        "tasks list",
        "gates list",
        "audit",
        "alerts list --all",
        "audit --alerts",
        "delayed list",
        "cron list",
    ] {
        site.run("viewer", &words(line));
    }
    for line in ["jobs -o name", "dead list -o name", "tasks list -o name", "delayed list -o name"] {
        let seen = ["operator", "viewer"].map(|login| site.run(login, &words(line)).stdout);
        assert!(!seen[0].is_empty(), "{line}");
        assert_eq!(seen[0], seen[1], "{line}");
    }
    // The scripts are sent in full if Redis has forgotten them.
    site.server.cmd(&["SCRIPT", "FLUSH"]);
    assert!(site.run("viewer", &words("status one")).stdout.contains("dead"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_changes_nothing() {
    let site = Site::new();
    let queue = remains(&site).await;
    site.run("operator", &words("enqueue test --id late --delay 1h"));
    let state = async || {
        let snapshot = queue.snapshot().await.unwrap();
        (
            snapshot.waiting(),
            snapshot.delayed,
            snapshot.dead,
            queue.audit().recent(None, 10).await.unwrap().len(),
        )
    };
    let before = state().await;
    for line in [
        "enqueue test",
        "cancel late",
        "pause --type test --for 1h --reason closed --by finance",
        "dead replay one",
        "dead drop two",
        "dead edit one --set h.tenant=9",
        "dead replay --all --yes",
        "dead replay --all --rate 10/s --yes",
        "dead groups --recount",
        "delayed run late",
        "cron add nightly --schedule @daily --type test",
    ] {
        site.refuses("viewer", &words(line));
    }
    assert_eq!(state().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn finance_looks_with_a_login_from_a_file() {
    let site = Site::new();
    remains(&site).await;
    site.run("operator", &words("enqueue test {\"customer\":9} --id late --delay 1h"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("viewer-url");
    std::fs::write(&file, site.url("viewer")).unwrap();
    let run = |line: &str| {
        let launch = Launch::new(&words(line)).env("STREAMFLEET__REDIS__URL_FILE", file.to_str().unwrap());
        launch.output(SOON)
    };
    for line in [
        "jobs --queue default --where payload.customer=9",
        "status late --full",
        "dead list --since 2020-11-01T00:00:00Z",
        "audit --queue default",
    ] {
        let output = run(line);
        assert_eq!(output.code, Some(0), "{line}: {output:?}");
    }
    assert!(run("jobs --queue default --where payload.customer=9").stdout.contains("late"));
    assert!(run("status late --full").stdout.contains("customer"));
    assert_eq!(run("cancel late").code, Some(3));
    assert!(site.run("operator", &words("status late")).stdout.contains("scheduled"));
}
