//! Two generations of one id, script by script.

use redis::Value;
use streamfleet::job::{Envelope, Lane};

use harness::scripts::Scripts;
use harness::scripts::keys::NOTHING;
use harness::scripts::source;

const STREAM: &str = "sf:{q}:jobs";
const DELAYED: &str = "sf:{q}:delayed";
const FIELDS: &str = "sf:{q}:delayed:fields";
const RECORD: &str = "sf:{q}:job:j";
const RECEIPTS: &str = "sf:{q}:receipts:me";
const DEFER: [&str; 9] =
    [STREAM, RECEIPTS, "sf:{q}:cancels", DELAYED, FIELDS, "sf:{q}:wake", RECORD, NOTHING, NOTHING];
const COMPLETE: [&str; 9] =
    [STREAM, RECEIPTS, DELAYED, FIELDS, RECORD, "sf:{q}:unique:", "sf:{q}:batch:", "sf:{q}:steps:j", NOTHING];
const CANCEL: [&str; 13] = [
    DELAYED,
    FIELDS,
    RECORD,
    "sf:{q}:cancels",
    STREAM,
    "sf:{q}:unique:",
    "sf:{q}:batch:",
    "sf:{q}:steps:j",
    "sf:{q}:cancels:places",
    "sf:{q}:endings",
    NOTHING,
    STREAM,
    "sf:{q}:rooms:places",
];
const BEGIN: [&str; 5] = [STREAM, "sf:{q}:cancels", "sf:{q}:dead", RECORD, "sf:{q}:unique:"];

/// One attempt of a generation of `j`. The entry of the first attempt is the token of the generation.
struct Attempt<'a> {
    scripts: &'a Scripts,
    entry: String,
    generation: String,
}

impl<'a> Attempt<'a> {
    fn first(scripts: &'a Scripts) -> Self {
        let entry = scripts.delivered();
        Self { scripts, generation: entry.clone(), entry }
    }

    fn defer(&self, delay: &str) -> i64 {
        self.defer_as("retrying", delay)
    }

    fn defer_as(&self, state: &str, delay: &str) -> i64 {
        let fields = [("life", self.generation.as_str()), ("type", "test"), ("id", "j"), ("attempt", "1")];
        let fields = fields.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let packed = Envelope::new(fields.into_iter()).pack(Lane::Normal);
        let head = [self.entry.as_str(), &self.generation, "j", "0", delay].map(str::as_bytes);
        let tail = [state, "5", "error", "me", "no", "test", "normal", "1", "", "0"].map(str::as_bytes);
        let values: Vec<&[u8]> = head.into_iter().chain([&packed[..]]).chain(tail).collect();
        self.scripts.call_one(source("defer"), &DEFER, &values).0
    }

    fn complete(&self, retention: &str) -> i64 {
        let values = [self.entry.as_str(), &self.generation, "j", "5", "", retention, "test", "1", "1", ""];
        self.scripts.call_one(source("complete"), &COMPLETE, &values).0
    }

    /// Cancels this generation, whose entry is in its lane or in a waiting list.
    fn cancel_in(&self, place: &str) -> (i64, Vec<Value>) {
        let mut keys = CANCEL;
        keys[11] = place;
        let values = ["j", &self.entry, "60000", "ann", "test", "normal", "1", "", "0", &self.generation];
        self.scripts.call(source("cancel"), &keys, &values)
    }

    fn begin(&self) -> i64 {
        let values =
            [self.entry.as_str(), &self.generation, "j", "", "", "1", "test", "1", "1", "0", "", "", ""];
        self.scripts.call_one(source("begin"), &BEGIN, &values).0
    }

    fn release(&self) -> i64 {
        let values = [
            &[self.entry.as_str(), &self.generation, "1", "0", "0", "test", "1"][..],
            &["type", "test", "id", "j", "life", &self.generation],
        ];
        let keys = [STREAM, RECEIPTS, "sf:{q}:cancels", RECORD, NOTHING, NOTHING];
        self.scripts.call_one(source("release"), &keys, &values.concat()).0
    }

    /// Promotes and delivers the generation's retry, and returns it.
    fn retried(&self) -> Self {
        let retry = self.promoted();
        self.scripts.server.cmd(&["XREADGROUP", "GROUP", "fleet", "me", "STREAMS", STREAM, ">"]);
        retry
    }

    /// Promotes the generation's retry, and returns it.
    fn promoted(&self) -> Self {
        let promote = [DELAYED, FIELDS, "sf:{q}:dead", "sf:{q}:jobs:high", STREAM, "sf:{q}:jobs:low"];
        self.scripts.call(source("promote"), &promote, &["500", "1048576"]);
        let range: Vec<(String, Vec<String>)> =
            redis::from_redis_value(self.scripts.server.cmd(&["XRANGE", STREAM, "-", "+"])).unwrap();
        let own = range
            .iter()
            .find(|(_, fields)| fields.contains(&self.generation))
            .expect("the retry was promoted");
        Self { scripts: self.scripts, entry: own.0.clone(), generation: self.generation.clone() }
    }
}

fn parked(scripts: &Scripts) -> Vec<String> {
    redis::from_redis_value(scripts.server.cmd(&["ZRANGE", DELAYED, "0", "-1"])).unwrap()
}

#[test]
fn a_late_success_cancels_the_retry_of_its_own_generation_and_no_other() {
    for late_is_first in [false, true] {
        let scripts = Scripts::start();
        let (one, two) = (Attempt::first(&scripts), Attempt::first(&scripts));
        assert_eq!((one.defer("60000"), two.defer("60000")), (1, 1));
        assert_eq!(parked(&scripts), ["j".to_owned(), format!("j {}", two.generation)]);
        let (late, stays) = if late_is_first { (&one, &two) } else { (&two, &one) };
        assert_eq!([late.complete("60000"), late.complete("60000")], [2, 2]);
        let left = if late_is_first { format!("j {}", stays.generation) } else { "j".to_owned() };
        assert_eq!(parked(&scripts), [left], "the other life still has its retry");
        // It ends later, on its own.
        scripts.server.cmd(&["ZADD", DELAYED, "XX", "0", &parked(&scripts)[0]]);
        let retry = stays.retried();
        assert_eq!((retry.begin(), retry.complete("60000")), (1, 1));
        assert_eq!((scripts.state(), scripts.int(&["XLEN", STREAM])), ("done".to_owned(), 0));
    }
}

#[test]
fn a_late_success_is_remembered_while_its_retry_waits() {
    let scripts = Scripts::start();
    let first = Attempt::first(&scripts);
    assert_eq!(first.defer("0"), 1);
    let retry = first.retried();
    assert_eq!(first.complete("1"), 2);
    assert_eq!(scripts.int(&["PTTL", RECORD]), -1, "the record waits for the retry");
    assert_eq!(retry.begin(), 2);
    assert_eq!(retry.release(), 2);
    assert_eq!(scripts.int(&["XLEN", STREAM]), 0);
    let ttl = scripts.int(&["PTTL", RECORD]);
    assert!(ttl == -2 || (0..=1).contains(&ttl), "its retention begins at that moment: {ttl}");
}

#[test]
fn a_late_success_shortens_no_time_for_which_an_id_is_remembered() {
    let scripts = Scripts::start();
    let first = Attempt::first(&scripts);
    assert_eq!(first.defer("0"), 1);
    let retry = first.retried();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let keep = (now + 3_600_000).to_string();
    scripts.server.cmd(&["HSET", RECORD, "keep_until_ms", &keep, "created_ms", &now.to_string()]);
    assert_eq!(first.complete("1"), 2);
    assert_eq!(scripts.int(&["PTTL", RECORD]), -1, "the record waits for the retry");
    assert_eq!(retry.release(), 2);
    let ttl = scripts.int(&["PTTL", RECORD]);
    assert!((3_500_000..=3_600_000).contains(&ttl), "{ttl}");
}

#[test]
fn a_job_stays_done_if_its_retry_is_cancelled_after_a_late_success() {
    let scripts = Scripts::start();
    let first = Attempt::first(&scripts);
    assert_eq!(first.defer("0"), 1);
    let retry = first.promoted();
    assert_eq!(first.complete("60000"), 2);
    assert_eq!(retry.cancel_in(STREAM), (3, vec![Value::BulkString(b"done".to_vec())]));
    assert_eq!((scripts.state().as_str(), scripts.int(&["XLEN", STREAM])), ("done", 0));
    assert_eq!(scripts.int(&["HEXISTS", RECORD, "cancelled_by"]), 0);
    assert!(scripts.int(&["PTTL", RECORD]) > 0, "nothing needs the record any more");
}

#[test]
fn cancelling_a_generation_in_a_waiting_list_hides_no_other_generation_there() {
    const LIST: &str = "sf:{q}:room:type:test";
    let scripts = Scripts::start();
    let waiting = || {
        let entry: String =
            redis::from_redis_value(scripts.server.cmd(&["XADD", LIST, "*", "type", "test", "id", "j"]))
                .unwrap();
        scripts.server.cmd(&["HSET", "sf:{q}:rooms:places", "j", &format!("{entry} type:test")]);
        Attempt { scripts: &scripts, generation: entry.clone(), entry }
    };
    let (one, two) = (waiting(), waiting());
    assert_eq!(one.cancel_in(LIST).0, 1);
    assert_eq!(scripts.int(&["HEXISTS", "sf:{q}:rooms:places", "j"]), 1);
    assert_eq!(two.cancel_in(LIST).0, 1);
    assert_eq!(scripts.int(&["EXISTS", "sf:{q}:rooms:places", LIST]), 0);
}

#[test]
fn a_retry_put_off_before_it_starts_is_cancelled_by_a_late_success() {
    let scripts = Scripts::start();
    let first = Attempt::first(&scripts);
    assert_eq!(first.defer("0"), 1);
    let retry = first.retried();
    assert_eq!((retry.defer_as("scheduled", "60000"), scripts.state().as_str()), (1, "retrying"));
    assert_eq!(first.complete("60000"), 2);
    assert_eq!((parked(&scripts), scripts.state().as_str()), (Vec::new(), "done"));
}

#[test]
fn a_generation_that_ends_leaves_a_record_that_another_generation_owns() {
    let scripts = Scripts::start();
    let (one, two) = (Attempt::first(&scripts), Attempt::first(&scripts));
    assert_eq!((one.begin(), two.begin()), (1, 1));
    assert_eq!(two.complete("1"), 1);
    assert_eq!((scripts.state(), scripts.int(&["PTTL", RECORD])), ("running".to_owned(), -1));
    assert_eq!(one.complete("60000"), 1);
    assert_eq!(scripts.state(), "done");
}

#[test]
fn a_settlement_leaves_a_receipt_only_for_its_own_consumer() {
    let scripts = Scripts::start();
    let one = Attempt::first(&scripts);
    assert_eq!((one.defer("60000"), one.defer("60000"), one.complete("60000")), (1, 1, 2));
    let two = Attempt::first(&scripts);
    scripts.server.cmd(&["XACK", STREAM, "fleet", &two.entry]);
    assert_eq!((two.defer("0"), two.complete("60000")), (0, 4), "another consumer settled it");
    // The receipts are deleted with the consumer.
    let keys = ["sf:{q}:jobs:high", STREAM, "sf:{q}:jobs:low", RECEIPTS];
    assert_eq!(scripts.call(source("reap"), &keys, &["me"]).0, 3);
    assert_eq!(scripts.int(&["EXISTS", RECEIPTS]), 0);
}

#[test]
fn keys_of_the_wrong_type_neither_block_a_jobs_end_nor_copy_it() {
    let scripts = Scripts::start();
    for key in ["sf:{q}:wake", "sf:{q}:batch:", RECEIPTS] {
        scripts.server.cmd(&["SET", key, "x"]);
    }
    scripts.server.cmd(&["RPUSH", "sf:{q}:unique:", "x"]);
    let one = Attempt::first(&scripts);
    assert_eq!(one.defer("0"), 1);
    assert_eq!((parked(&scripts), scripts.int(&["XLEN", STREAM])), (vec!["j".to_owned()], 0));
    let retry = one.retried();
    assert_eq!((retry.begin(), retry.complete("60000")), (1, 1));
    assert_eq!(scripts.int(&["XLEN", STREAM]), 0);
    // A record of another type is refused before anything is written.
    scripts.server.cmd(&["DEL", RECORD]);
    scripts.server.cmd(&["SET", RECORD, "x"]);
    let two = Attempt::first(&scripts);
    for _ in 0..2 {
        let mut values = ["me"; 16];
        values[0] = &two.entry;
        let mut refused = scripts.call_each(source("defer"), &DEFER, &[&values[..]]);
        let why: String = redis::from_redis_value(refused.remove(0)).unwrap();
        assert!(why.contains("WRONGTYPE"), "{why}");
    }
    assert_eq!((scripts.int(&["ZCARD", DELAYED]), scripts.int(&["XLEN", STREAM])), (0, 1));
}
