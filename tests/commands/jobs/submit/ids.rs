//! A job that `enqueue` sends again under its own id is one job.

use harness::process::Launch;
use harness::proxy::{Direction, Mode, Scope};
use harness::scene::{SOON, STREAM, Scene};
use harness::wait::until;

#[test]
fn a_producer_killed_around_the_call_and_run_again_leaves_one_job() {
    // Its request never arrives, or its reply does not. Then it is killed.
    for replies in [false, true] {
        let scene = tokio::runtime::Runtime::new().unwrap().block_on(Scene::new());
        let url = scene.server.url_through(scene.proxy.addr());
        let args = ["--redis", &url, "enqueue", "test", "{}", "--id", "order-7"];
        // Loads the script, so that the fault hits the actual call.
        let warm_up = ["--redis", &url, "enqueue", "test", "{}", "--id", "warm-up", "--delay", "1h"];
        assert_eq!(Launch::new(&warm_up).output(SOON).code, Some(0));
        let mode = if replies {
            Mode::drop_reply_to("order-7", usize::MAX)
        } else {
            Mode::Blackhole { scope: Scope::All, direction: Direction::Requests }
        };
        scene.proxy.set(mode);
        let producer = Launch::new(&args).start();
        until("the fault to hit the call", SOON, || scene.proxy.hits() > 0);
        producer.kill9();
        assert_eq!(scene.int(&["XLEN", STREAM]), i64::from(replies));
        scene.proxy.set(Mode::Pass);
        let output = Launch::new(&args).output(SOON);
        assert_eq!((output.code, output.stdout.trim()), (Some(0), "order-7"), "{output:?}");
        assert_eq!(scene.int(&["XLEN", STREAM]), 1);
    }
}
