//! Dead letters: some that are written by hand, and what is left of all of them.

use std::ops::Range;

use streamfleet::Queue;
use streamfleet_engine::admin::{DeadLetter, Filter};

use crate::redis_server::RedisServer;

/// The stream of the dead letters.
pub const DEAD: &str = "sf:{default}:dead";

/// Returns all letters, oldest first.
pub async fn letters(queue: &Queue) -> Vec<DeadLetter> {
    queue.dead_letters().page(None, 1000).await.unwrap()
}

/// Returns how many letters each group has, in ascending order. They must match the letters that exist.
pub async fn counts(queue: &Queue) -> Vec<u64> {
    let dead = queue.dead_letters();
    let selection = dead.select(Filter::new()).await.unwrap();
    let plan = dead.plan(&selection, |_| ()).await.unwrap();
    let sorted = |mut counts: Vec<u64>| {
        counts.sort_unstable();
        counts
    };
    let counted = sorted(dead.groups().await.unwrap().groups.iter().map(|group| group.count).collect());
    assert_eq!(counted, sorted(plan.groups.iter().map(|group| group.count).collect()));
    counted
}

/// Buries these jobs, the oldest first, with records and ledgers, one second apart, the newest this long ago.
pub fn bury(server: &RedisServer, jobs: Range<u64>, ago_ms: u64) {
    let mut connection = server.client();
    let now = server.now_ms();
    let mut all = redis::pipe();
    for nth in jobs.clone() {
        let letter = format!("{}-0", now - ago_ms - (jobs.end - nth) * 1000);
        let (job, record) = (format!("j{nth}"), format!("sf:{{default}}:job:j{nth}"));
        all.cmd("XADD").arg(&[DEAD, &letter, "type", "test", "id", &job, "dead_reason", "fatal"]).ignore();
        all.cmd("HSET").arg(&[&record, "state", "dead", "dead_id", &letter]).ignore();
        all.cmd("HSET").arg(&[&format!("sf:{{default}}:steps:j{nth}"), "charge", "failed"]).ignore();
    }
    all.exec(&mut connection).unwrap();
}

/// Returns the numbers of the jobs that have letters. All that belongs to them must exist, and nothing else.
pub fn left(server: &RedisServer) -> Vec<u64> {
    let script = "local ids = {} \
        for _, letter in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do ids[#ids + 1] = letter[2][4] end \
        return { ids, redis.call('KEYS', 'sf:{default}:job:*'), redis.call('KEYS', 'sf:{default}:steps:*') }";
    let mut connection = server.client();
    let found: [Vec<String>; 3] =
        redis::cmd("EVAL").arg(&[script, "1", DEAD]).query(&mut connection).unwrap();
    let [letters, records, ledgers] = found.map(|names| {
        let number = |name: String| name.rsplit('j').next().unwrap().parse::<u64>().unwrap();
        let mut numbers: Vec<_> = names.into_iter().map(number).collect();
        numbers.sort_unstable();
        numbers
    });
    assert_eq!((&records, &ledgers), (&letters, &letters), "records and ledgers must match the letters");
    letters
}
