//! The bounds of one process, and what another process gets meanwhile.

use std::time::Duration;

use streamfleet::Producer;

use super::scene::{Slow, job, start, submit};
use harness::fleet::{Acts, config, quick};
use harness::scene::{LONG, SOON, STREAM, Scene};
use harness::wait::until_async;

#[tokio::test(flavor = "multi_thread")]
async fn long_jobs_of_a_limited_type_do_not_delay_others() {
    let scene = Scene::new().await;
    let (slow, well) = (Slow::closed(), Acts::well());
    submit(&scene.queue, "slow", 150).await;
    submit(&scene.queue, "quick", 500).await;
    let fleet = start(config(&scene.server.url()), quick(3).concurrency(4), &slow, &well);
    // They are behind the others in the lane, and none of those ends before.
    until_async("all quick jobs to run", SOON, async || well.all_runs() == 500).await;
    until_async("four long jobs to run", SOON, async || slow.account().live() == 4).await;
    assert_eq!((slow.account().most, slow.account().ended.len()), (4, 0));
    // Quick jobs that come now find a free slot too.
    submit(&scene.queue, "quick", 10).await;
    until_async("the late quick jobs to run", SOON, async || well.all_runs() == 510).await;
    slow.open();
    scene.until_at_rest().await;
    let account = slow.account();
    assert_eq!((account.most, account.ended.len()), (4, 150));
    assert!(account.ended.values().all(|ends| *ends == 1), "{account:?}");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_key_has_a_bound_of_its_own() {
    let scene = Scene::new().await;
    let (slow, well) = (Slow::closed(), Acts::well());
    let producer = Producer::new(scene.queue.clone());
    let of_tenant = |nth: usize| {
        // The first tenant has most of the jobs.
        let tenant = if nth < 80 { 0 } else { nth % 8 };
        job("slow").header("tenant", &format!("t{tenant}")).unwrap()
    };
    producer.submit_all((0..160).map(of_tenant)).await.unwrap();
    submit(&scene.queue, "slow", 3).await;
    let policy = quick(3).concurrency_per_key("h.tenant", 2);
    let fleet = start(config(&scene.server.url()), policy, &slow, &well);
    // Eight tenants run two jobs each. Jobs without a tenant are not limited.
    until_async("all tenants to run", SOON, async || slow.account().live() == 8 * 2 + 3).await;
    slow.open();
    scene.until_at_rest().await;
    let account = slow.account();
    assert_eq!(account.ended.len(), 163);
    assert!(account.most_of_tenant <= 3 && account.ended.values().all(|ends| *ends == 1), "{account:?}");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_gets_what_the_first_one_may_not_start() {
    let scene = Scene::new().await;
    let (first, second, well) = (Slow::closed(), Slow::closed(), Acts::well());
    submit(&scene.queue, "slow", 8).await;
    let policy = quick(3).concurrency(2);
    let one = start(config(&scene.server.url()), policy.clone(), &first, &well);
    until_async("the first process to be busy", SOON, async || first.account().live() == 2).await;
    let other = start(config(&scene.server.url()), policy, &second, &well);
    until_async("the second process to be busy", SOON, async || second.account().live() == 2).await;
    first.open();
    second.open();
    scene.until_at_rest().await;
    let (first, second) = (first.account(), second.account());
    assert_eq!((first.most, second.most), (2, 2));
    assert_eq!(first.ended.len() + second.ended.len(), 8);
    one.stop().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_gives_back_what_waits_and_nothing_is_lost_or_runs_twice() {
    let scene = Scene::new().await;
    let (slow, well) = (Slow::closed(), Acts::well());
    submit(&scene.queue, "slow", 40).await;
    let mut impatient = config(&scene.server.url());
    impatient.worker.drain_timeout = Duration::from_millis(100);
    let fleet = start(impatient, quick(3).concurrency(4), &slow, &well);
    until_async("four jobs to run", SOON, async || slow.account().live() == 4).await;
    fleet.stop().await;
    assert_eq!((slow.account().live(), slow.account().ended.len()), (0, 0));
    let left = scene.int(&["XLEN", STREAM]) + scene.int(&["ZCARD", "sf:{default}:delayed"]);
    assert_eq!(left, 40, "each job waits, or is put off");
    let pending = scene.queue.snapshot().await.unwrap().running();
    assert_eq!(pending, 0, "no entry waits for its lease to end");
    let again = Slow::closed();
    again.open();
    let fleet = start(config(&scene.server.url()), quick(3).concurrency(4), &again, &well);
    scene.until_at_rest().await;
    let account = again.account();
    assert!(account.most <= 4 && account.ended.len() == 40, "{account:?}");
    assert!(account.ended.values().all(|ends| *ends == 1), "{account:?}");
    assert_eq!(scene.int(&["XLEN", "sf:{default}:dead"]), 0);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_job_can_be_cancelled() {
    let scene = Scene::new().await;
    let (slow, well) = (Slow::closed(), Acts::well());
    let producer = Producer::new(scene.queue.clone());
    let fleet = start(config(&scene.server.url()), quick(3).concurrency(1), &slow, &well);
    submit(&scene.queue, "slow", 1).await;
    until_async("it to run", SOON, async || slow.account().live() == 1).await;
    let id = producer.submit(job("slow").id("unwanted".parse().unwrap())).await.unwrap();
    until_async("it to be cancelled", SOON, async || {
        scene.queue.cancel(&id, "a test", LONG).await.unwrap();
        let status = scene.queue.status(&id).await.unwrap();
        status.is_some_and(|status| status.state == streamfleet::job::State::Cancelled)
    })
    .await;
    slow.open();
    scene.until_at_rest().await;
    assert_eq!(slow.account().ended.len(), 1);
    fleet.stop().await;
}
