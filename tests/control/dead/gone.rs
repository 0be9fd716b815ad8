//! Letters that somebody deletes by hand hold nothing: no place in a group, no record, no id.

use redis::Value;
use streamfleet::job::{JobId, State};
use streamfleet::{Accepted, JobError, Producer, Queue};
use streamfleet_engine::admin::{Action, LetterEdit};

use super::{SOON, bury, deadly};
use harness::dead::{DEAD, counts, letters};
use harness::fleet::{Acts, Running, queue, quick, submit, until_state};
use harness::redis_server::RedisServer;
use harness::scene::job;
use harness::wait::until_async;

const LIST: &str = "sf:{default}:dead:letters";

/// Buries a job with this id of its own.
async fn bury_own(server: &RedisServer, queue: &Queue, id: &str) -> JobId {
    let fleet = deadly(server);
    let id: JobId = id.parse().unwrap();
    Producer::new(queue.clone()).submit_or_find(job("no").id(id.clone())).await.unwrap();
    until_state(queue, &id, State::Dead).await;
    fleet.stop().await;
    id
}

/// Takes back what deleted letters held. Returns for how many.
async fn forget(queue: &Queue) -> u64 {
    let (mut forgotten, mut from): (u64, Option<String>) = (0, None);
    loop {
        let page = queue.dead_letters().forget_gone(from.as_deref()).await.unwrap();
        forgotten += page.forgotten;
        from = page.next;
        if from.is_none() {
            return forgotten;
        }
    }
}

fn exists(server: &RedisServer, key: &str) -> bool {
    server.cmd(&["EXISTS", key]) == Value::Int(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_is_deleted_in_any_way_frees_its_id() {
    let ways: [&[&str]; 3] = [&["XDEL", DEAD], &["XTRIM", DEAD, "MAXLEN", "0"], &["DEL", DEAD]];
    for way in ways {
        let server = RedisServer::start();
        let queue = queue(&server).await;
        let id = bury_own(&server, &queue, "own").await;
        let letter = letters(&queue).await.remove(0).entry.to_string();
        let command: Vec<&str> = match way {
            ["XDEL", _] => way.iter().copied().chain([letter.as_str()]).collect(),
            _ => way.to_vec(),
        };
        server.cmd(&command);
        let handler = Acts::well();
        let fleet = Running::start(&server.url(), quick(1), handler.clone());
        until_async("the record to go", SOON, async || queue.status(&id).await.unwrap().is_none()).await;
        assert_eq!(counts(&queue).await, [0; 0], "{way:?}");
        assert!(!exists(&server, LIST), "{way:?}");
        let again = Producer::new(queue.clone()).submit_or_find(job("yes").id(id.clone())).await.unwrap();
        assert_eq!(again.accepted, Accepted::New, "{way:?}");
        until_state(&queue, &id, State::Done).await;
        assert_eq!(handler.runs(&id), 1);
        fleet.stop().await;
    }
}

/// Copies the fields of a letter that its producer wrote into a lane.
fn copy(server: &RedisServer, id: &JobId) {
    server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "test", "id", &id.to_string(), "payload", "yes"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_was_copied_and_deleted_keeps_no_record_for_ever() {
    for is_first in [true, false] {
        let server = RedisServer::start();
        let queue = queue(&server).await;
        let id = bury_own(&server, &queue, "own").await;
        let letter = letters(&queue).await.remove(0).entry.to_string();
        if is_first {
            server.cmd(&["XDEL", DEAD, &letter]);
        }
        copy(&server, &id);
        let handler = Acts::well();
        let fleet = Running::start(&server.url(), quick(1), handler.clone());
        until_state(&queue, &id, State::Done).await;
        fleet.stop().await;
        if !is_first {
            server.cmd(&["XDEL", DEAD, &letter]);
        }
        let record = format!("sf:{{default}}:job:{id}");
        let fleet = Running::start(&server.url(), quick(1), handler.clone());
        until_async("the record to have a time to live", SOON, async || {
            matches!(server.cmd(&["PTTL", &record]), Value::Int(1..))
        })
        .await;
        fleet.stop().await;
        assert_eq!((counts(&queue).await, handler.runs(&id)), (vec![], 1), "deleted first: {is_first}");
        assert!(!exists(&server, LIST));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_raw_replay_of_a_letter_that_is_already_deleted_counts_it_once() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, &["1", "2"]).await;
    let first = letters(&queue).await.remove(0);
    server.cmd(&["XDEL", DEAD, &first.entry.to_string()]);
    let fields = first.fields.fields().flat_map(|(name, value)| [name.to_vec(), value.to_vec()]);
    let mut command = redis::cmd("XADD");
    command.arg("sf:{default}:jobs").arg("*").arg(fields.collect::<Vec<_>>());
    command.exec(&mut server.client()).unwrap();
    let fleet = Running::start(&server.url(), quick(1), Acts::well());
    until_state(&queue, &first.job(), State::Done).await;
    fleet.stop().await;
    assert_eq!((counts(&queue).await, forget(&queue).await), (vec![1], 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_generations_of_one_id_lose_their_letters_one_after_the_other() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let id = bury_own(&server, &queue, "own").await;
    let fleet = deadly(&server);
    copy(&server, &id);
    until_async("both to be dead", SOON, async || letters(&queue).await.len() == 2).await;
    fleet.stop().await;
    let all = letters(&queue).await;
    let state = async || queue.status(&id).await.unwrap().map(|status| status.state);
    server.cmd(&["XDEL", DEAD, &all[0].entry.to_string()]);
    assert_eq!((forget(&queue).await, forget(&queue).await), (1, 0));
    assert_eq!((state().await, counts(&queue).await.iter().sum::<u64>()), (Some(State::Dead), 1));
    server.cmd(&["XDEL", DEAD, &all[1].entry.to_string()]);
    assert_eq!((forget(&queue).await, state().await), (1, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_fleet_does_with_letters_is_nothing_to_take_back() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, &["1", "2", "3", "4"]).await;
    let (dead, all) = (queue.dead_letters(), letters(&queue).await);
    let edit = LetterEdit::default().job_type("mail".parse().unwrap());
    dead.edit(&all[0], &edit, &Action::new("dead edit", "ann")).await.unwrap();
    assert!(dead.replay(all[1].entry, &all[1].job()).await.unwrap().is_done());
    assert!(dead.drop(all[2].entry, &all[2].job()).await.unwrap());
    assert_eq!(server.cmd(&["HLEN", LIST]), Value::Int(2), "the edited one and the last one");
    assert_eq!(forget(&queue).await, 0);
    assert_eq!(counts(&queue).await.iter().sum::<u64>(), 2);
    // A process of an older version has no list.
    let last = all[3].entry.to_string();
    server.cmd(&["HSET", LIST, "1-1", &format!("ffff:ffff {}", all[3].job())]);
    assert_eq!((forget(&queue).await, server.cmd(&["HEXISTS", LIST, "1-1"])), (0, Value::Int(0)));
    // A recount is exact, whether somebody looks for deleted letters before or after it.
    server.cmd(&["XDEL", DEAD, &last]);
    assert!(dead.recount(|_| ()).await.unwrap().is_some());
    assert_eq!((forget(&queue).await, counts(&queue).await), (0, vec![1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_is_deleted_while_a_recount_has_not_come_to_it_is_taken_out_once() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, &["1", "2", "3"]).await;
    let dead = queue.dead_letters();
    let last = letters(&queue).await.remove(2).entry.to_string();
    // The first page has one letter.
    let found = dead.recount(|counted| {
        if counted == 1 {
            server.cmd(&["XDEL", DEAD, &last]);
        }
    });
    assert_eq!(found.await.unwrap(), Some(2));
    assert_eq!((forget(&queue).await, counts(&queue).await), (1, vec![2]));
    // One that it has counted.
    let first = letters(&queue).await.remove(0).entry.to_string();
    server.cmd(&["XDEL", DEAD, &first]);
    assert_eq!((forget(&queue).await, counts(&queue).await), (1, vec![1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recount_lists_the_letters_again_whose_list_was_lost() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let id = bury_own(&server, &queue, "own").await;
    server.cmd(&["DEL", LIST]);
    assert_eq!(queue.dead_letters().recount(|_| ()).await.unwrap(), Some(1));
    let letter = letters(&queue).await.remove(0).entry.to_string();
    server.cmd(&["XDEL", DEAD, &letter]);
    assert_eq!((forget(&queue).await, counts(&queue).await), (1, vec![]));
    assert!(queue.status(&id).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_is_in_no_list_is_taken_back_if_somebody_names_its_job() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let id = bury_own(&server, &queue, "own").await;
    let (dead, letter) = (queue.dead_letters(), letters(&queue).await.remove(0).entry);
    server.cmd(&["DEL", LIST]);
    assert!(!dead.forget(letter, &id).await.unwrap(), "it exists");
    server.cmd(&["XDEL", DEAD, &letter.to_string()]);
    assert_eq!(forget(&queue).await, 0);
    assert_eq!(queue.status(&id).await.unwrap().and_then(|status| status.dead), Some(letter));
    assert!(dead.forget(letter, &id).await.unwrap());
    assert!(!dead.forget(letter, &id).await.unwrap(), "once");
    assert_eq!((queue.status(&id).await.unwrap().is_none(), counts(&queue).await), (true, vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn very_many_deleted_letters_are_forgotten_page_by_page() {
    const LETTERS: u64 = 3000;
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let write = "for nth = 1, ARGV[1] do local letter = redis.call('XADD', KEYS[1], '*', 'type', 'test', 'id', 'j' .. nth) \
        redis.call('HSET', KEYS[1] .. ':letters', letter, 'aaaa:aaaa j' .. nth) \
        redis.call('HSET', 'sf:{default}:job:j' .. nth, 'state', 'dead', 'dead_id', letter, 'life', '1-' .. nth, 'holds', 1, \
        'letter:' .. letter, '1-' .. nth, 'dead:1-' .. nth, letter, 'group:' .. letter, 'aaaa:aaaa ') end \
        redis.call('HSET', KEYS[1] .. ':groups', 'aaaa', ARGV[1] .. ' ' .. ARGV[1] .. ' 5 5 - test fatal no')";
    server.cmd(&["EVAL", write, "1", DEAD, &LETTERS.to_string()]);
    // Letters that somebody wrote by hand hide that others are missing.
    server.cmd(&["XTRIM", DEAD, "MAXLEN", "10"]);
    let (mut forgotten, mut from, mut pages): (u64, Option<String>, u32) = (0, None, 0);
    loop {
        let page = queue.dead_letters().forget_gone(from.as_deref()).await.unwrap();
        assert!(page.forgotten <= 600, "{page:?}");
        (forgotten, from, pages) = (forgotten + page.forgotten, page.next, pages + 1);
        if from.is_none() {
            break;
        }
    }
    assert_eq!((forgotten, pages > 5, counts(&queue).await), (LETTERS - 10, true, vec![10]));
    let records: Vec<String> = redis::from_redis_value(server.cmd(&["KEYS", "sf:{default}:job:*"])).unwrap();
    assert_eq!(records.len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_in_another_stream_is_none_of_the_fleets() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let id = bury_own(&server, &queue, "own").await;
    server.cmd(&["RENAME", DEAD, "sf:{default}:dead:2026"]);
    assert_eq!((forget(&queue).await, queue.status(&id).await.unwrap().is_none()), (1, true));
    let handler = Acts::new(|_, _| Err(JobError::fatal("no")));
    let fleet = Running::start(&server.url(), quick(1), handler);
    let other = submit(&queue, "x").await;
    until_state(&queue, &other, State::Dead).await;
    fleet.stop().await;
    assert_eq!(counts(&queue).await, [1]);
}
