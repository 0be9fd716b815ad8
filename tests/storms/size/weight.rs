//! Jobs with as many fields as an entry may have: each script carries few of them, whatever it does with them.

use std::time::Duration;

use streamfleet::{Broker, Producer, Queue, Submission};
use streamfleet_engine::admin::{BulkAction, BulkCursor, BulkTally, BulkTerms, Filter};

use harness::alone::alone;
use harness::fleet::{Acts, Running, config, quick};
use harness::redis_server::RedisServer;
use harness::scene::{SOON, Scene, job};
use harness::wait::until_async;
use harness::yardstick::{Verdict, Yardstick, in_one_of_three, log_from};

const FIELDS: usize = 940;

/// How many jobs take each way. Without regard to their fields, one script would carry about as many.
const EACH: usize = 100;

/// Puts jobs of the type `test` into a waiting list.
const FILL: &str = "local fields = {} for nth = 1, ARGV[2] do fields[2 * nth - 1] = 'f' .. nth fields[2 * nth] = '1' end \
    for nth = 1, ARGV[1] do local id = string.gsub(ARGV[3], ':', '-') .. '-' .. nth \
    redis.call('XADD', KEYS[1], '*', 'type', 'test', 'id', id, 'life', id, 'created_ms', '1', 'room_gates', ARGV[3], unpack(fields)) \
    end return redis.call('HSET', KEYS[2], ARGV[3], 1)";

fn fill_waitlist(server: &RedisServer, waitlist: &str) {
    let (key, jobs, fields) =
        (format!("sf:{{default}}:room:{waitlist}"), EACH.to_string(), FIELDS.to_string());
    server.cmd(&["EVAL", FILL, "2", &key, "sf:{default}:rooms", &jobs, &fields, waitlist]);
}

pub(super) fn heavy() -> Submission {
    (0..FIELDS).fold(job("{}"), |job, nth| job.header(&nth.to_string(), "1").unwrap())
}

/// Submits jobs in three ways: plain ones, with ids of their own, and some that are due at this time.
async fn submit(queue: &Queue, due: Duration) {
    let own = |nth: usize| heavy().id(format!("own-{nth}").parse().unwrap());
    let plain = (0..EACH).map(|_| heavy());
    let delayed = (0..EACH).map(|_| heavy().delay(due));
    Producer::new(queue.clone()).submit_all(plain.chain((0..EACH).map(own)).chain(delayed)).await.unwrap();
}

async fn move_here(scene: &Scene) {
    let broker = Broker::connect(config(&scene.server.url()).redis).await.unwrap();
    let there = broker.queue("mail".parse().unwrap());
    Producer::new(there.clone()).submit_all((0..EACH).map(|_| heavy())).await.unwrap();
    let (bulk, terms) = (there.bulk(), BulkTerms::new("ann"));
    let to_default = BulkAction::Move("default".parse().unwrap());
    let selection = bulk.select(to_default, Filter::new(), None).await.unwrap();
    let (mut tally, mut next) = (BulkTally::default(), Some(BulkCursor::default()));
    while let Some(from) = next {
        let page = bulk.advance(&selection, &terms, from).await.unwrap();
        tally.add(page.tally);
        next = page.next;
    }
    assert_eq!(tally.changed, EACH as u64, "{tally:?}");
}

async fn every_way() -> Verdict {
    let scene = Scene::new().await;
    // One room whose gate is about to open, and one of a type that no worker has known.
    let gate = "type:test".parse().unwrap();
    scene.queue.gates().close(&gate, "ann", "", None).await.unwrap();
    ["type:test", "unknown:test"].iter().for_each(|waitlist| fill_waitlist(&scene.server, waitlist));
    log_from(&scene.server, "300");
    let yardstick = Yardstick::lay(&scene.server);
    submit(&scene.queue, Duration::from_secs(1)).await;
    move_here(&scene).await;
    assert!(scene.queue.gates().open(&gate).await.unwrap());
    assert!(scene.int(&["XLEN", "sf:{default}:room:type:test"]) < EACH as i64);
    let mut config = config(&scene.server.url());
    for queue in config.worker.queues.values_mut() {
        // The window has 16 jobs.
        (queue.concurrency, queue.fair_by) = (4, Some("type".to_owned()));
    }
    let handler = Acts::well();
    let fleet = Running::start_with(config, quick(3), handler.clone());
    until_async("all to run", 3 * SOON, async || handler.jobs() == 6 * EACH).await;
    scene.until_at_rest().await;
    fleet.stop().await;
    yardstick.judge(&scene.server)
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_many_fields_hold_redis_up_for_no_longer_than_others() {
    let _alone = alone();
    in_one_of_three(async || every_way().await).await;
}
