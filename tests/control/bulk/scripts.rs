//! The scripts that move jobs and make them due now: sent twice, too late, and against what must stay.

use streamfleet::job::{Envelope, Lane};

use harness::scripts::Scripts;
use harness::scripts::source;

const STREAM: &str = "sf:{q}:jobs";
const TO_STREAM: &str = "sf:{r}:jobs";
const TO_HIGH: &str = "sf:{r}:jobs:high";
const RECORD: &str = "sf:{q}:job:j";
const TO_RECORD: &str = "sf:{r}:job:j";
const DELAYED: &str = "sf:{q}:delayed";
const FIELDS: &str = "sf:{q}:delayed:fields";
const LOCK: &str = "sf:{q}:unique:k";
const TO_LOCK: &str = "sf:{r}:unique:k";
const GENERATION: &str = "1650000000000-0";
const MARK: &str = "00ff00ff";
const TASK: &str = "sf:{q}:task:00ff00ff";
const SHARED: [&str; 16] = [
    "sf:{q}:delayed",
    "sf:{q}:delayed:fields",
    "sf:{q}:rooms:places",
    "sf:{q}:cancels",
    "sf:{q}:receipt:c",
    "sf:{r}:delayed",
    "sf:{r}:delayed:fields",
    "sf:{r}:rooms:places",
    "sf:{r}:wake",
    TO_HIGH,
    TO_STREAM,
    "sf:{r}:jobs:low",
    "sf:{r}:control",
    "sf:{q}:counts",
    "sf:{r}:counts",
    "sf:{q}:task:",
];

/// The keys of a call about the job `j`, whose entry is in this stream.
fn keys(place: &'static str) -> Vec<&'static str> {
    let own = [place, RECORD, "sf:{q}:steps:j", LOCK, "sf:{q}:offloaded:"];
    let other = [TO_RECORD, TO_LOCK, "sf:{r}:offloaded:", "sf:{r}:job:1650000000000-0"];
    [&SHARED[..], &own, &other].concat()
}

/// The arguments of a call about the job `j`.
fn args<'a>(lane: &'a str, entry: &'a str) -> Vec<&'a str> {
    let head = ["ann", "r", "262144", "", MARK, "", "j", GENERATION, lane, "", entry, "", "0", "6"];
    [&head[..], &["type", "test", "id", "j", "life", GENERATION]].concat()
}

/// Returns a waiting entry of the job `j`, with a record.
fn waiting(scripts: &Scripts) -> String {
    let record = [
        "state",
        "waiting",
        "life",
        GENERATION,
        "created_ms",
        "1650000000000",
        "noted",
        "1",
        "a:0",
        "1 2 failed me no",
    ];
    scripts.server.cmd(&[&["HSET", RECORD][..], &record].concat());
    let entry = scripts.server.cmd(&["XADD", STREAM, "*", "type", "test", "id", "j", "life", GENERATION]);
    redis::from_redis_value(entry).unwrap()
}

fn text(scripts: &Scripts, command: &[&str]) -> Option<String> {
    redis::from_redis_value(scripts.server.cmd(command)).unwrap()
}

/// Moves the job, and returns the answer about it.
fn moved(scripts: &Scripts, entry: &str) -> String {
    let (status, rest) = scripts.call(source("move_jobs"), &keys(STREAM), &args("normal", entry));
    assert_eq!((status, rest.len()), (1, 1));
    // The next call is another one.
    scripts.server.cmd(&["DEL", "sf:{q}:receipt:c"]);
    redis::from_redis_value(rest[0].clone()).unwrap()
}

#[test]
fn a_job_is_moved_once_however_often_that_is_sent() {
    let scripts = Scripts::start();
    let entry = waiting(&scripts);
    scripts.server.cmd(&["SET", LOCK, "j"]);
    scripts.twice(source("move_jobs"), &keys(STREAM), &args("high", &entry), [1, 1]);
    assert_eq!([STREAM, TO_HIGH].map(|stream| scripts.int(&["XLEN", stream])), [0, 1]);
    assert_eq!(text(&scripts, &["HGET", TO_RECORD, "a:0"]).as_deref(), Some("1 2 failed me no"));
    assert_eq!(text(&scripts, &["HGET", TO_RECORD, "lane"]).as_deref(), Some("high"));
    assert_eq!([RECORD, LOCK].map(|key| scripts.int(&["EXISTS", key])), [0, 0]);
    assert_eq!(text(&scripts, &["GET", TO_LOCK]).as_deref(), Some("j"));
    let counted = [["sf:{q}:counts", "moved_out"], ["sf:{r}:counts", "moved_in"]];
    let counted = counted.map(|[key, name]| text(&scripts, &["HGET", key, name]));
    assert_eq!(counted, [Some("1".to_owned()), Some("1".to_owned())], "counted once");
    scripts.server.cmd(&["DEL", "sf:{q}:receipt:c"]);
    assert_eq!(moved(&scripts, &entry), "taken", "it is there already");
    assert_eq!(scripts.int(&["XLEN", TO_HIGH]), 1);
}

#[test]
fn a_job_that_has_ended_meanwhile_is_not_moved() {
    let scripts = Scripts::start();
    let entry = waiting(&scripts);
    scripts.server.cmd(&["XDEL", STREAM, &entry]);
    assert_eq!(moved(&scripts, &entry), "gone");
    assert_eq!(scripts.int(&["XLEN", TO_STREAM]), 0);
    assert_eq!([RECORD, TO_RECORD].map(|key| scripts.int(&["EXISTS", key])), [1, 0]);
}

#[test]
fn a_trace_stays_if_the_job_ended_before_it_came_back() {
    let scripts = Scripts::start();
    let entry = waiting(&scripts);
    // The job was moved here from there, and its producer may still resend the id.
    scripts.server.cmd(&["HSET", TO_RECORD, "state", "cancelled", "life", GENERATION, "moved_to", "q"]);
    scripts.server.cmd(&["XDEL", STREAM, &entry]);
    scripts.server.cmd(&["HSET", RECORD, "state", "done"]);
    assert_eq!(moved(&scripts, &entry), "gone");
    assert_eq!(text(&scripts, &["HGET", TO_RECORD, "moved_to"]).as_deref(), Some("q"));
    assert_eq!(text(&scripts, &["HGET", RECORD, "state"]).as_deref(), Some("done"));
}

#[test]
fn a_delayed_job_is_moved_unless_another_generation_took_its_place() {
    let scripts = Scripts::start();
    let delayed = |generation: &'static str| {
        let fields = [(b"life".as_slice(), generation.as_bytes()), (b"type".as_slice(), b"test".as_slice())];
        let pack = Envelope::new(fields.into_iter()).pack(Lane::Normal);
        scripts.server.cmd(&[&b"HSET"[..], b"sf:{q}:delayed:fields", b"j", &pack]);
        scripts.server.cmd(&["ZADD", "sf:{q}:delayed", "99999999999999", "j"]);
    };
    let told = || {
        let head = ["ann", "r", "262144", "", MARK, "", "j", GENERATION, "normal", "j", "", "", "0", "0"];
        let (_, rest) = scripts.call(source("move_jobs"), &keys("sf:{q}:delayed"), &head);
        scripts.server.cmd(&["DEL", "sf:{q}:receipt:c"]);
        redis::from_redis_value::<String>(rest[0].clone()).unwrap()
    };
    delayed("1660000000000-0");
    assert_eq!(told(), "changed");
    assert_eq!(["sf:{q}:delayed", "sf:{r}:delayed"].map(|set| scripts.int(&["ZCARD", set])), [1, 0]);
    delayed(GENERATION);
    let record = ["state", "scheduled", "life", GENERATION, "keep_until_ms", "1650086400000"];
    scripts.server.cmd(&[&["HSET", RECORD][..], &record].concat());
    assert_eq!(told(), "moved");
    // The window of its id is over, but the id is remembered as long as the job lives.
    let left = scripts.int(&["PTTL", RECORD]);
    assert!(left > 86_400_000, "{left}");
    assert_eq!(["sf:{q}:delayed", "sf:{r}:delayed"].map(|set| scripts.int(&["ZCARD", set])), [0, 1]);
}

#[test]
fn the_copy_of_large_fields_of_a_job_that_stays_goes_soon() {
    let scripts = Scripts::start();
    let (running, copy) = (scripts.delivered(), "sf:{r}:offloaded:1650000000000-0-00ff");
    let with_copy: Vec<&str> =
        keys(STREAM).into_iter().map(|key| if key == "sf:{r}:offloaded:" { copy } else { key }).collect();
    let told = || {
        let (_, rest) = scripts.call(source("move_jobs"), &with_copy, &args("normal", &running));
        scripts.server.cmd(&["DEL", "sf:{q}:receipt:c"]);
        redis::from_redis_value::<String>(rest[0].clone()).unwrap()
    };
    scripts.server.cmd(&["SET", copy, "x", "EX", "86400"]);
    assert_eq!(told(), "running");
    let left = scripts.int(&["PTTL", copy]);
    assert!((1..=60_000).contains(&left), "{left}");
    // A job of the other queue has it.
    scripts.server.cmd(&["PERSIST", copy]);
    assert_eq!(told(), "running");
    assert_eq!(scripts.int(&["PTTL", copy]), -1);
}

#[test]
fn a_job_stays_where_somebody_else_counts_on_it() {
    let scripts = Scripts::start();
    let running = scripts.delivered();
    assert_eq!(moved(&scripts, &running), "running");
    // Nobody knows whether it has run.
    scripts.server.cmd(&["XACK", STREAM, "fleet", &running]);
    assert_eq!(moved(&scripts, &running), "running");
    scripts.server.cmd(&["XDEL", STREAM, &running]);
    assert_eq!(moved(&scripts, &running), "gone");
    let entry = waiting(&scripts);
    let stays = |set: &[&str], unset: &[&str], why: &str| {
        scripts.server.cmd(set);
        assert_eq!(moved(&scripts, &entry), why);
        scripts.server.cmd(unset);
    };
    stays(&["ZADD", "sf:{q}:cancels", "1", GENERATION], &["DEL", "sf:{q}:cancels"], "cancelling");
    stays(&["HSET", "sf:{q}:steps:j", "plan", "a auto"], &["DEL", "sf:{q}:steps:j"], "steps");
    stays(&["HSET", RECORD, "batches", "x"], &["HDEL", RECORD, "batches"], "batch");
    stays(&["HSET", RECORD, "holds", "1"], &["HDEL", RECORD, "holds"], "letters");
    stays(&["HSET", TO_RECORD, "state", "done"], &["DEL", TO_RECORD], "taken");
    stays(&["ZADD", "sf:{r}:delayed", "1", "j"], &["DEL", "sf:{r}:delayed"], "taken");
    stays(&["HSET", "sf:{r}:rooms:places", "j", "1-0 x"], &["DEL", "sf:{r}:rooms:places"], "taken");
    assert_eq!(scripts.int(&["EXISTS", TO_RECORD]), 0);
    // Its caller has seen an entry of the same generation.
    let mut seen = args("normal", &entry);
    seen[12] = "1";
    let (_, rest) = scripts.call(source("move_jobs"), &keys(STREAM), &seen);
    assert_eq!(redis::from_redis_value::<String>(rest[0].clone()).unwrap(), "taken");
    scripts.server.cmd(&["DEL", "sf:{q}:receipt:c"]);
    assert_eq!(moved(&scripts, &entry), "moved");
}

#[test]
fn a_key_of_another_type_keeps_only_its_own_job_from_moving() {
    let scripts = Scripts::start();
    let entry = waiting(&scripts);
    scripts.server.cmd(&["SET", TO_RECORD, "x"]);
    assert!(moved(&scripts, &entry).contains("WRONGTYPE"));
    assert_eq!([STREAM, TO_STREAM].map(|stream| scripts.int(&["XLEN", stream])), [1, 0]);
}

#[test]
fn an_id_that_its_producer_may_resend_leaves_a_trace_and_may_come_back() {
    let scripts = Scripts::start();
    let entry = waiting(&scripts);
    let keep = (scripts.server.now_ms() + 100_000_000).to_string();
    scripts.server.cmd(&["HSET", RECORD, "keep_until_ms", &keep]);
    assert_eq!(moved(&scripts, &entry), "moved");
    assert_eq!(text(&scripts, &["HGET", RECORD, "state"]).as_deref(), Some("cancelled"));
    assert_eq!(text(&scripts, &["HGET", RECORD, "moved_to"]).as_deref(), Some("r"));
    let left = scripts.int(&["PTTL", RECORD]);
    assert!((99_900_000..=100_001_000).contains(&left), "{left}");
    // Back again: what is `q` in the keys becomes `r`, and the other way round.
    let other: String = redis::from_redis_value::<Vec<(String, Vec<String>)>>(
        scripts.server.cmd(&["XRANGE", TO_STREAM, "-", "+"]),
    )
    .unwrap()
    .remove(0)
    .0;
    let swap = |key: &&str| key.replace("{q}", "{x}").replace("{r}", "{q}").replace("{x}", "{r}");
    let back: Vec<String> = keys(STREAM).iter().map(swap).collect();
    let back: Vec<&str> = back.iter().map(String::as_str).collect();
    let (_, rest) = scripts.call(source("move_jobs"), &back, &args("normal", &other));
    assert_eq!(redis::from_redis_value::<String>(rest[0].clone()).unwrap(), "moved");
    assert_eq!(text(&scripts, &["HGET", RECORD, "state"]).as_deref(), Some("waiting"));
}

#[test]
fn a_delayed_job_is_hastened_once_however_often_that_is_sent() {
    let scripts = Scripts::start();
    let keys = run_now_keys("sf:{q}:task:");
    scripts.server.cmd(&["ZADD", DELAYED, "99999999999999", "j"]);
    scripts.server.cmd(&["HSET", RECORD, "state", "scheduled", "life", GENERATION]);
    scripts.twice(source("run_now"), &keys, &[MARK, "", "j", GENERATION], [1, 1]);
    let score: f64 = redis::from_redis_value(scripts.server.cmd(&["ZSCORE", DELAYED, "j"])).unwrap();
    assert!(score < 9e12, "{score}");
    assert_eq!(scripts.int(&["LLEN", "sf:{q}:wake"]), 1, "the promoter is woken");
    scripts.server.cmd(&["DEL", "sf:{q}:receipt:c"]);
    let (_, rest) = scripts.call(source("run_now"), &keys, &[MARK, "", "j", GENERATION]);
    assert_eq!(redis::from_redis_value::<String>(rest[0].clone()).unwrap(), "gone");
}

/// The keys of a call that makes the job `j` due for a task.
fn run_now_keys(task: &'static str) -> [&'static str; 7] {
    [DELAYED, FIELDS, "sf:{q}:wake", "sf:{q}:receipt:c", task, RECORD, "sf:{q}:steps:j"]
}

/// A task that runs, is on its third page, and may change ten jobs a second.
fn running_task(scripts: &Scripts) {
    scripts.server.cmd(&["HSET", TASK, "state", "running", "page", "3", "step_ms", "100"]);
}

/// Puts the job `j` into the delayed set.
fn delay(scripts: &Scripts, fields: &[(&str, &str)]) {
    let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let pack = Envelope::new(fields).pack(Lane::Normal);
    scripts.server.cmd(&[&b"HSET"[..], FIELDS.as_bytes(), b"j", &pack]);
    scripts.server.cmd(&["ZADD", DELAYED, "99999999999999", "j"]);
}

/// The mark that the packed fields of the job `j` have here.
fn mark_in(scripts: &Scripts, fields: &str) -> Option<String> {
    let pack: Vec<u8> = redis::from_redis_value(scripts.server.cmd(&["HGET", fields, "j"])).unwrap();
    let (fields, _) = Envelope::unpack(&pack).unwrap();
    fields.get(b"by_task").map(|mark| String::from_utf8_lossy(mark).into_owned())
}

#[test]
fn a_task_counts_a_job_that_is_made_due_once_and_only_on_its_page() {
    let scripts = Scripts::start();
    running_task(&scripts);
    delay(&scripts, &[("life", GENERATION), ("type", "test")]);
    let keys = run_now_keys(TASK);
    let told = |page: &str| scripts.call(source("run_now"), &keys, &[MARK, page, "j", GENERATION]).0;
    assert_eq!(told("2"), 0, "the task is further on");
    scripts.server.cmd(&["HSET", TASK, "state", "paused"]);
    assert_eq!(told("3"), 0);
    assert_eq!(scripts.int(&["EXISTS", "sf:{q}:receipt:c"]), 0);
    scripts.server.cmd(&["HSET", TASK, "state", "running"]);
    // The second one gets the receipt.
    assert_eq!([told("3"), told("3")], [1, 1]);
    scripts.server.cmd(&["DEL", "sf:{q}:receipt:c"]);
    assert_eq!(told("3"), 1, "another process finds it due");
    assert_eq!(["done", "looked"].map(|count| scripts.int(&["HGET", TASK, count])), [1, 1]);
    assert_eq!(mark_in(&scripts, FIELDS).as_deref(), Some(MARK));
    let due: f64 = redis::from_redis_value(scripts.server.cmd(&["HGET", TASK, "due_ms"])).unwrap();
    assert!(due > 1.6e12, "its rate counts");
}

#[test]
fn a_job_that_cannot_be_marked_is_noted_by_the_task() {
    let scripts = Scripts::start();
    running_task(&scripts);
    let keys = run_now_keys(TASK);
    for (offloaded, told) in [("5-1-00ff 9", "done"), ("5-1-00ff 9", "gone")] {
        delay(&scripts, &[("life", GENERATION), ("offloaded", offloaded)]);
        let (_, rest) = scripts.call(source("run_now"), &keys, &[MARK, "3", "j", GENERATION]);
        assert_eq!(redis::from_redis_value::<String>(rest[0].clone()).unwrap(), told);
        assert_eq!(mark_in(&scripts, FIELDS), None, "workers know how many bytes its fields have");
        scripts.server.cmd(&["DEL", "sf:{q}:receipt:c"]);
    }
    assert_eq!(scripts.int(&["HGET", TASK, "done"]), 1);
}

#[test]
fn a_moved_job_has_the_mark_of_the_task_that_counts_it() {
    let scripts = Scripts::start();
    running_task(&scripts);
    delay(&scripts, &[("life", GENERATION), ("type", "test"), ("by_task", "00000000")]);
    let for_task = |place| keys(place).into_iter().map(|key| if key == "sf:{q}:task:" { TASK } else { key });
    let own: Vec<&str> = for_task(DELAYED).collect();
    let told = |page| {
        let head = ["ann", "r", "262144", "", MARK, page, "j", GENERATION, "normal", "j", "", "", "0", "0"];
        scripts.call(source("move_jobs"), &own, &head).0
    };
    assert_eq!(told("4"), 0);
    assert_eq!(scripts.int(&["ZCARD", DELAYED]), 1);
    assert_eq!([told("3"), told("3")], [1, 1]);
    assert_eq!(mark_in(&scripts, "sf:{r}:delayed:fields").as_deref(), Some(MARK));
    assert_eq!(["done", "looked"].map(|count| scripts.int(&["HGET", TASK, count])), [1, 1]);
}

#[test]
fn a_page_ends_once_and_only_while_its_task_runs() {
    let scripts = Scripts::start();
    running_task(&scripts);
    let args = ["3", "0", "1 rooms:", "", "looked", "7", "kept:taken", "2"];
    scripts.server.cmd(&["HSET", TASK, "done", "5"]);
    assert_eq!(scripts.call(source("task_turn"), &[TASK], &args).0, 0, "another process is on the page");
    scripts.server.cmd(&["HDEL", TASK, "done"]);
    scripts.twice(source("task_turn"), &[TASK], &args, [1, 0]);
    let counted = ["page", "looked", "kept:taken"].map(|name| scripts.int(&["HGET", TASK, name]));
    assert_eq!(counted, [4, 7, 2]);
    assert_eq!(text(&scripts, &["HGET", TASK, "cursor"]).as_deref(), Some("1 rooms:"));
    assert_eq!(scripts.int(&["HEXISTS", TASK, "error"]), 0);
    scripts.server.cmd(&["HSET", TASK, "state", "paused"]);
    assert_eq!(scripts.call(source("task_turn"), &[TASK], &["4", "0", "end", "no"]).0, 0);
}

#[test]
fn a_job_that_does_not_fit_into_the_other_queue_stays() {
    let scripts = Scripts::start();
    let entry = waiting(&scripts);
    scripts.server.cmd(&["HSET", "sf:{r}:control", "max_depth", "1"]);
    scripts.server.cmd(&["HSET", "sf:{r}:rooms:places", "i", "1-0 type:test"]);
    assert_eq!(moved(&scripts, &entry), "full");
    assert_eq!([STREAM, TO_STREAM].map(|stream| scripts.int(&["XLEN", stream])), [1, 0]);
    scripts.server.cmd(&["DEL", "sf:{r}:rooms:places"]);
    assert_eq!(moved(&scripts, &entry), "moved");
}

#[test]
fn jobs_with_very_many_steps_are_left_for_another_call() {
    const JOBS: usize = 50;
    let scripts = Scripts::start();
    let (names, own): (Vec<String>, Vec<[String; 2]>) = (0..JOBS)
        .map(|nth| (format!("j{nth}"), [format!("sf:{{q}}:job:j{nth}"), format!("sf:{{q}}:steps:j{nth}")]))
        .unzip();
    let fill = "for nth = 1, 900 do redis.call('HSET', KEYS[1], 's' .. nth .. ':due', nth) end return 0";
    for (name, [_, ledger]) in names.iter().zip(&own) {
        scripts.server.cmd(&["ZADD", "sf:{q}:delayed", "99999999999999", name]);
        scripts.server.cmd(&["EVAL", fill, "1", ledger]);
    }
    let (mut waiting, mut calls) = ((0..JOBS).collect::<Vec<_>>(), 0);
    while !waiting.is_empty() {
        let mut keys = run_now_keys("sf:{q}:task:")[..5].to_vec();
        keys.extend(waiting.iter().flat_map(|nth| own[*nth].each_ref().map(String::as_str)));
        let jobs = waiting.iter().flat_map(|nth| [names[*nth].as_str(), GENERATION]);
        let args: Vec<&str> = [MARK, ""].into_iter().chain(jobs).collect();
        let (_, rest) = scripts.call(source("run_now"), &keys, &args);
        scripts.server.cmd(&["DEL", "sf:{q}:receipt:c"]);
        let told: Vec<String> = rest.into_iter().map(|told| redis::from_redis_value(told).unwrap()).collect();
        assert_eq!(told[0], "done", "each call goes on");
        let left = waiting.iter().zip(&told).filter(|(_, told)| *told == "later");
        waiting = left.map(|(nth, _)| *nth).collect();
        calls += 1;
    }
    assert!(calls >= 10, "{calls}");
    assert_eq!(scripts.int(&["ZCOUNT", "sf:{q}:delayed", "-inf", "9000000000000"]), JOBS as i64);
    assert!(own.iter().all(|[_, ledger]| scripts.int(&["EXISTS", ledger]) == 0), "no step is due later");
}

/// Puts a job of the other queue, which has the lock of the same key, into this state.
fn lock_there(scripts: &Scripts, fields: &[&str]) {
    scripts.server.cmd(&["DEL", "sf:{r}:job:other", "sf:{r}:delayed", TO_STREAM]);
    scripts.server.cmd(&["XGROUP", "CREATE", TO_STREAM, "fleet", "0", "MKSTREAM"]);
    scripts.server.cmd(&["SET", TO_LOCK, "other"]);
    if !fields.is_empty() {
        scripts.server.cmd(&[&["HSET", "sf:{r}:job:other"], fields].concat());
    }
}

#[test]
fn a_lock_that_was_left_behind_keeps_no_job_from_moving() {
    const ENTRY: &str = "1660000000000-0";
    let of_key = ["unique", "k", "unique_scope", "running", "lane", "normal", "entry", ENTRY, "state"];
    let locked = |scripts: &Scripts, state: &str| lock_there(scripts, &[&of_key[..], &[state]].concat());
    let told = |prepare: &dyn Fn(&Scripts)| {
        let scripts = Scripts::start();
        let entry = waiting(&scripts);
        scripts.server.cmd(&["SET", LOCK, "j"]);
        prepare(&scripts);
        let told = moved(&scripts, &entry);
        (told, text(&scripts, &["GET", TO_LOCK]).unwrap())
    };
    let add = |scripts: &Scripts| drop(scripts.server.cmd(&["XADD", TO_STREAM, ENTRY, "type", "test"]));
    let stays = ("taken".to_owned(), "other".to_owned());
    assert_eq!(
        told(&|scripts| {
            locked(scripts, "waiting");
            add(scripts)
        }),
        stays,
        "it waits"
    );
    assert_eq!(
        told(&|scripts| {
            locked(scripts, "running");
            add(scripts);
            let read = ["XREADGROUP", "GROUP", "fleet", "me", "STREAMS", TO_STREAM, ">"];
            scripts.server.cmd(&read);
        }),
        stays,
        "it runs"
    );
    let in_waitlist = ["HSET", "sf:{r}:rooms:places", "other", "1-0 type:test"];
    assert_eq!(
        told(&|scripts| {
            locked(scripts, "waiting");
            drop(scripts.server.cmd(&in_waitlist))
        }),
        stays,
        "in a waiting list"
    );
    let due = ["ZADD", "sf:{r}:delayed", "99999999999999", "other"];
    assert_eq!(
        told(&|scripts| {
            locked(scripts, "scheduled");
            drop(scripts.server.cmd(&due))
        }),
        stays,
        "delayed"
    );
    assert_eq!(told(&|scripts| locked(scripts, "scheduled")), stays, "it was due, and may be anywhere");
    let moves = ("moved".to_owned(), "j".to_owned());
    assert_eq!(told(&|scripts| lock_there(scripts, &[])), moves, "its holder has no record");
    for state in ["done", "dead", "cancelled"] {
        assert_eq!(told(&|scripts| locked(scripts, state)), moves, "its holder is {state}");
    }
    assert_eq!(told(&|scripts| locked(scripts, "running")), moves, "somebody deleted its entry");
    let of_another = ["unique", "x", "unique_scope", "running", "state", "running"];
    assert_eq!(
        told(&|scripts| {
            lock_there(scripts, &of_another);
            add(scripts)
        }),
        moves,
        "another key"
    );
    let for_a_time = ["unique", "k", "unique_scope", "window", "state", "done"];
    assert_eq!(told(&|scripts| lock_there(scripts, &for_a_time)), stays, "it lasts longer than its job");
}
