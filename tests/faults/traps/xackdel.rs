//! Settling plain successes by `XACKDEL`, on servers that have it, and by `XDEL` and `XACK` if it is refused.

use harness::fleet::{Acts, submit, uses_xackdel};
use harness::proxy::{Commands, Mode};
use harness::scene::{LONG, SOON, Scene};
use harness::tally::{Tally, start};
use harness::wait::until_async;

/// Runs jobs one after the other until one was settled by another `XACKDEL` than before.
async fn until_used(scene: &Scene) {
    let before = scene.server.calls("xackdel");
    until_async("XACKDEL to be used", SOON, async || {
        run(scene, 1).await;
        scene.server.calls("xackdel") > before
    })
    .await;
}

/// Runs this many jobs.
async fn run(scene: &Scene, jobs: usize) {
    for _ in 0..jobs {
        submit(&scene.queue, "{}").await;
    }
    scene.until_at_rest().await;
}

/// How often Redis ran the two commands that `XACKDEL` replaces.
fn two_commands(scene: &Scene) -> (u64, u64) {
    (scene.server.calls("xdel"), scene.server.calls("xack"))
}

/// Waits until each run is reported as a success, and no other is.
async fn until_all_reported(handler: &Acts, tally: &Tally) {
    let runs = handler.all_runs() as usize;
    until_async("all to be reported", SOON, async || tally.all() >= runs).await;
    assert_eq!((tally.all(), tally.fenced()), (runs, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_command_settles_plain_successes_where_the_server_has_it() {
    let scene = Scene::new().await;
    if !uses_xackdel(&scene.server).await {
        return;
    }
    let (handler, tally) = (Acts::well(), Tally::default());
    let fleet = start(scene.config(LONG), handler.clone(), &tally);
    until_used(&scene).await;
    let before = two_commands(&scene);
    run(&scene, 200).await;
    until_all_reported(&handler, &tally).await;
    assert_eq!(two_commands(&scene), before);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_may_not_run_it_settles_by_two_commands() {
    let scene = Scene::new().await;
    if !uses_xackdel(&scene.server).await {
        return;
    }
    scene.server.cmd(&["ACL", "SETUSER", "default", "-xackdel"]);
    let (handler, tally) = (Acts::well(), Tally::default());
    let fleet = start(scene.config(LONG), handler.clone(), &tally);
    for _ in 0..10 {
        run(&scene, 20).await;
    }
    until_all_reported(&handler, &tally).await;
    let (deleted, acknowledged) = two_commands(&scene);
    assert!(deleted >= 10 && acknowledged >= 10, "{deleted} XDEL, {acknowledged} XACK");
    assert_eq!((handler.all_runs(), scene.server.calls("xackdel")), (200, 0));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_it_is_recognized_and_asked_again_later() {
    let scene = Scene::new().await;
    if !uses_xackdel(&scene.server).await {
        return;
    }
    let (handler, tally) = (Acts::well(), Tally::default());
    let fleet = start(scene.config(LONG), handler.clone(), &tally);
    until_used(&scene).await;
    let (before, error) = (two_commands(&scene), "ERR unknown command 'XACKDEL'".to_owned());
    scene.proxy.set(Mode::Inject { error, to: Commands::Only(["XACKDEL".to_owned()].into()) });
    run(&scene, 20).await;
    assert!(two_commands(&scene) > before, "{before:?}");
    // A connection that is made again may lead to another server.
    scene.proxy.set(Mode::Rst);
    scene.proxy.set(Mode::Pass);
    until_used(&scene).await;
    until_all_reported(&handler, &tally).await;
    fleet.stop().await;
}
