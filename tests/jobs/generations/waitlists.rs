//! Two generations of one id in waiting lists: each has its own place, whichever comes or leaves first.

use redis::Value;
use streamfleet::job::{GateName, JobId, State};
use streamfleet_engine::admin::{Cancellation, JobSearch};

use harness::scene::{Gate, LONG, SOON, STREAM as LANE, Scene};
use harness::scripts::Scripts;
use harness::scripts::keys::NOTHING;
use harness::scripts::source;
use harness::wait::until_async;

const STREAM: &str = "sf:{q}:jobs";
const RECORD: &str = "sf:{q}:job:j";
pub(crate) const PLACES: &str = "sf:{q}:rooms:places";
pub(crate) const LIST: &str = "sf:{q}:room:type:test";
const TENANT: &str = "sf:{q}:room:key:h.t=1";
const GATES: &str = "sf:{q}:gates";
const LISTS: &str = "sf:{q}:rooms";
const GENERATIONS: [&str; 2] = ["1650000000000-0", "1660000000000-0"];

/// Parks an attempt of this generation of `j` in the waiting list of the type, as the job that owns the record does. Returns its entry.
pub(crate) fn park(scripts: &Scripts, entry: &str, generation: &str) -> String {
    let keys =
        [STREAM, "sf:{q}:receipts:me", "sf:{q}:cancels", LISTS, PLACES, RECORD, NOTHING, NOTHING, LIST];
    let head = [entry, generation, "j", "0", "1", "test", "1700000000000", "type:test"];
    let fields =
        ["type", "test", "id", "j", "life", generation, "lane", "low", "room_gates", "type:test\nkey:h.t=1"];
    let values = [&head[..], &fields].concat();
    assert_eq!(scripts.call_each(source("park"), &keys, &[&values[..]]), [Value::Int(1)]);
    entries(scripts, LIST).pop().unwrap()
}

/// Both generations, the first of which owns the record.
fn both(scripts: &Scripts) -> [String; 2] {
    GENERATIONS.map(|generation| park(scripts, &scripts.delivered(), generation))
}

fn entries(scripts: &Scripts, stream: &str) -> Vec<String> {
    let range: Vec<(String, Vec<String>)> =
        redis::from_redis_value(scripts.server.cmd(&["XRANGE", stream, "-", "+"])).unwrap();
    range.into_iter().map(|(entry, _)| entry).collect()
}

/// The entries that have a place in this waiting list, in their order.
fn placed(scripts: &Scripts, waitlist: &str) -> Vec<String> {
    let places: Vec<String> = redis::from_redis_value(scripts.server.cmd(&["HVALS", PLACES])).unwrap();
    let of_waitlist = |place: &String| Some(place.strip_suffix(waitlist)?.trim_end().to_owned());
    let mut placed: Vec<String> = places.iter().filter_map(of_waitlist).collect();
    assert_eq!(placed.len(), places.len(), "{places:?}");
    placed.sort();
    placed
}

fn drain(scripts: &Scripts, most: &str, waitlist: &str) -> i64 {
    let keys = [GATES, LISTS, PLACES, "sf:{q}:dead", "sf:{q}:jobs:high", STREAM, "sf:{q}:jobs:low"];
    scripts.call(source("drain"), &keys, &[most, "524288", "0", waitlist]).0
}

fn take(scripts: &Scripts) -> i64 {
    let keys = [LIST, GATES, LISTS, PLACES, "sf:{q}:rooms:asked", "sf:{q}:dead", "sf:{q}:jobs:high", STREAM];
    let keys = [&keys[..], &["sf:{q}:jobs:low"]].concat();
    scripts.call(source("take"), &keys, &["type:test", "me", "1", "262144", "", "", ""]).0
}

pub(crate) fn cancel(scripts: &Scripts, entry: &str, generation: &str) -> i64 {
    let keys =
        ["sf:{q}:delayed", "sf:{q}:delayed:fields", RECORD, "sf:{q}:cancels", STREAM, "sf:{q}:unique:"];
    let more =
        ["sf:{q}:batch:", "sf:{q}:steps:j", "sf:{q}:cancels:places", "sf:{q}:endings", NOTHING, LIST, PLACES];
    let values = ["j", entry, "60000", "ann", "test", "normal", "1", "", "0", generation];
    scripts.call(source("cancel"), &[&keys[..], &more].concat(), &values).0
}

#[test]
fn each_generation_has_a_place_until_it_leaves() {
    for leave in [take, |scripts: &Scripts| drain(scripts, "1", "type:test")] {
        let scripts = Scripts::start();
        let [one, two] = both(&scripts);
        assert_eq!(placed(&scripts, "type:test"), [one, two.clone()]);
        assert_eq!(leave(&scripts), 1);
        assert_eq!(placed(&scripts, "type:test"), [two]);
        assert_eq!(leave(&scripts), 1);
        assert_eq!(scripts.int(&["EXISTS", PLACES]), 0);
    }
    for first in [0, 1] {
        let scripts = Scripts::start();
        let entries = both(&scripts);
        assert_eq!(cancel(&scripts, &entries[first], GENERATIONS[first]), 1);
        assert_eq!(placed(&scripts, "type:test"), [entries[1 - first].clone()]);
        assert_eq!(cancel(&scripts, &entries[1 - first], GENERATIONS[1 - first]), 1);
        assert_eq!(scripts.int(&["EXISTS", PLACES, LIST]), 0);
    }
}

#[test]
fn each_generation_keeps_its_place_from_waiting_list_to_waiting_list() {
    let scripts = Scripts::start();
    scripts.server.cmd(&["HSET", GATES, "r:key:h.t", r#"{"concurrency":1}"#]);
    let holder = scripts.delivered();
    scripts.server.cmd(&["HSET", "sf:{q}:held:key:h.t=1", &format!("normal {holder}"), "1"]);
    both(&scripts);
    assert_eq!(drain(&scripts, "50", "type:test"), 2);
    let moved = entries(&scripts, TENANT);
    assert_eq!((placed(&scripts, "key:h.t=1"), moved.len()), (moved.clone(), 2));
    let noted: String = redis::from_redis_value(scripts.server.cmd(&["HGET", RECORD, "entry"])).unwrap();
    assert_eq!(noted, moved[0], "the record names where its own life is");
    scripts.server.cmd(&["DEL", "sf:{q}:held:key:h.t=1"]);
    for left in [1, 0] {
        assert_eq!(drain(&scripts, "1", "key:h.t=1"), 1);
        assert_eq!(placed(&scripts, "key:h.t=1"), moved[2 - left..]);
        scripts.server.cmd(&["DEL", "sf:{q}:held:key:h.t=1"]);
    }
}

#[test]
fn a_job_takes_the_place_of_one_that_somebody_deleted() {
    let scripts = Scripts::start();
    let [one, two] = both(&scripts);
    scripts.server.cmd(&["XDEL", LIST, &two]);
    let other = park(&scripts, &scripts.delivered(), "1670000000000-0");
    assert_eq!(placed(&scripts, "type:test"), [one, other.clone()]);
    // Places that nobody takes are forgotten when the waiting lists are listed.
    scripts.server.cmd(&["XTRIM", LIST, "MAXLEN", "1"]);
    scripts.call(source("waitlists"), &[GATES, LISTS, PLACES], &["0"]);
    assert_eq!(placed(&scripts, "type:test"), [other]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_generations_of_an_id_count_and_show_as_two_jobs() {
    let scene = Scene::new().await;
    let (queue, gates) = (&scene.queue, scene.queue.gates());
    let gate: GateName = "type:test".parse().unwrap();
    gates.close(&gate, "ann", "", None).await.unwrap();
    let handler = Gate::closed();
    let fleet = scene.sound_fleet(LONG, handler.clone());
    let add = || drop(scene.server.cmd(&["XADD", LANE, "*", "type", "test", "id", "j"]));
    add();
    add();
    let in_rooms = async || queue.snapshot().await.unwrap().in_rooms;
    until_async("both to wait in the waiting list", SOON, async || in_rooms().await == 2).await;
    let (search, mut found, mut from) = (JobSearch::new().states(vec![State::Waiting]), 0, None);
    loop {
        let page = queue.find_jobs(&search, from).await.unwrap();
        found += page.jobs.len();
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(found, 2);
    let id: JobId = "j".parse().unwrap();
    assert_eq!(queue.cancel(&id, "ann", LONG).await.unwrap(), Cancellation::Done);
    assert_eq!(in_rooms().await, 1);
    assert!(gates.open(&gate).await.unwrap());
    handler.until_ended(&id).await;
    scene.until_at_rest().await;
    assert_eq!(handler.of(&id).starts, 1);
    fleet.stop().await;
}
