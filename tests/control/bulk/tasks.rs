//! Tasks: whatever dies, each job is changed once and counted once; a task that is paused changes nothing; a move can be undone.

use std::collections::BTreeMap;
use std::time::Duration;

use streamfleet::job::{Encoding, State};
use streamfleet::{Broker, Producer, Queue, Submission};
use streamfleet_engine::admin::{Action, Advance, BulkAction, BulkTerms, Filter, Task, TaskError, TaskState};

use harness::campaigns::write;
use harness::fleet::{Acts, Running, config, queue, quick};
use harness::proxy::Mode;
use harness::redis_server::RedisServer;
use harness::scene::{LONG, SOON, Scene};
use harness::scripts::{sha, source};
use harness::wait::until_async;

/// More than a page has, of waiting jobs, of delayed ones, and of dead letters.
const EACH: usize = 250;

/// What a person does.
fn ann() -> Action {
    Action::new("a test", "ann").why("they left")
}

/// A job that is due in an hour.
fn delayed(payload: usize) -> Submission {
    let submission = Submission::new("test").unwrap().payload(payload.to_string(), Encoding::Json).unwrap();
    submission.delay(Duration::from_secs(3600))
}

/// Adds waiting jobs.
fn add_waiting(server: &RedisServer, stream: &str, count: usize) {
    let mut all = redis::pipe();
    for nth in 0..count {
        let payload = nth.to_string();
        all.cmd("XADD").arg(stream).arg("*").arg(&["type", "test", "payload", &payload][..]).ignore();
    }
    all.exec(&mut server.client()).unwrap();
}

/// Adds waiting jobs, delayed ones and dead letters.
async fn fill(server: &RedisServer, queue: &Queue) {
    add_waiting(server, "sf:{default}:jobs", EACH);
    Producer::new(queue.clone()).submit_all((0..EACH).map(delayed)).await.unwrap();
    write(server, EACH, "test");
}

/// Begins a task about all jobs and letters to which this can be done.
async fn start(queue: &Queue, action: BulkAction, terms: &BulkTerms) -> String {
    let selection = queue.bulk().select(action, Filter::new(), None).await.unwrap();
    queue.tasks().start(&selection, terms, &ann()).await.unwrap().value
}

fn terms() -> BulkTerms {
    BulkTerms::new("ann")
}

fn to_mail() -> BulkAction {
    BulkAction::Move("mail".parse().unwrap())
}

async fn get(queue: &Queue, id: &str) -> Task {
    queue.tasks().get(id).await.unwrap().unwrap()
}

/// Carries a task out in this process.
async fn carry_out(queue: &Queue, id: &str) -> Task {
    until_async("the task to have nothing to do", SOON, async || {
        loop {
            match queue.tasks().advance(id).await.unwrap().0 {
                Advance::Again => {}
                Advance::Later => return None,
                Advance::Idle | Advance::Stopped(_) | Advance::Failed(_) => return Some(()),
            }
        }
    })
    .await;
    get(queue, id).await
}

/// Each kind, its script, and how many jobs and letters it changes.
fn kinds() -> [(BulkAction, &'static str, u64); 5] {
    let each = EACH as u64;
    [
        (BulkAction::Cancel, "cancel", 2 * each),
        (BulkAction::RunNow, "run_now", each),
        (to_mail(), "move_jobs", 2 * each),
        (BulkAction::Drop, "drop", each),
        (BulkAction::Purge, "drop", 3 * each),
    ]
}

/// Every job was looked at once, and changed.
fn assert_complete(task: &Task, changed: u64) {
    let counts = &task.counts;
    assert_eq!(task.state, TaskState::Done, "{task:?}");
    assert_eq!((counts.done, counts.matched(), counts.looked), (changed, changed, changed), "{task:?}");
    assert_eq!(task.total, changed);
    assert_eq!((counts.requested, counts.undecided, &counts.error, task.left()), (0, 0, &None, Some(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_are_due_in_the_same_millisecond_are_all_made_due() {
    const TIED: usize = 1200;
    let server = RedisServer::start();
    let queue = queue(&server).await;
    Producer::new(queue.clone()).submit_all((0..TIED).map(delayed)).await.unwrap();
    let due = (server.now_ms() + 3_600_000).to_string();
    let members: Vec<String> =
        redis::from_redis_value(server.cmd(&["ZRANGE", "sf:{default}:delayed", "0", "-1"])).unwrap();
    let mut together = redis::pipe();
    for member in &members {
        together.cmd("ZADD").arg("sf:{default}:delayed").arg(&due).arg(member).ignore();
    }
    together.exec(&mut server.client()).unwrap();
    let id = start(&queue, BulkAction::RunNow, &terms()).await;
    let task = carry_out(&queue, &id).await;
    assert_eq!((task.state, task.counts.done), (TaskState::Done, TIED as u64), "{task:?}");
    let later = server.cmd(&["ZCOUNT", "sf:{default}:delayed", &due, "+inf"]);
    assert_eq!(later, redis::Value::Int(0), "{task:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_task_changes_every_job_once() {
    for (action, _, changed) in kinds() {
        let server = RedisServer::start();
        let queue = queue(&server).await;
        fill(&server, &queue).await;
        let id = start(&queue, action.clone(), &terms()).await;
        assert_complete(&carry_out(&queue, &id).await, changed);
        let left = queue.snapshot().await.unwrap();
        let is_kept = |action_keeps: bool| if action_keeps { EACH as u64 } else { 0 };
        let moves = matches!(action, BulkAction::Cancel | BulkAction::Move(_) | BulkAction::Purge);
        let drops = matches!(action, BulkAction::Drop | BulkAction::Purge);
        assert_eq!((left.waiting(), left.delayed), (is_kept(!moves), is_kept(!moves)), "{action:?}");
        assert_eq!(left.dead, is_kept(!drops), "{action:?}");
        let done = queue.audit().recent(None, 1).await.unwrap().remove(0).action;
        assert_eq!((done.what.as_str(), done.who.as_str(), done.count), ("task done", "ann", Some(changed)));
        assert_eq!(done.target, format!("task {id}"));
    }
}

/// Loses the reply to this script once, as if the process had died then, and lets another process go on.
async fn dies_at(script: &str, action: BulkAction) -> Task {
    let scene = Scene::new().await;
    fill(&scene.server, &scene.queue).await;
    let id = start(&scene.queue, action, &terms()).await;
    let broker = Broker::connect(scene.config(LONG).redis).await.unwrap();
    let dying = broker.queue("default".parse().unwrap());
    scene.proxy.set(Mode::drop_reply_to(&sha(&scene.server, source(script)), 1));
    // Some scripts are sent again, and others are not.
    until_async("a reply to be lost", SOON, async || {
        drop(dying.tasks().advance(&id).await);
        scene.proxy.hits() > 0
    })
    .await;
    carry_out(&scene.queue, &id).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_at_its_work_leaves_exact_counts() {
    for (action, script, changed) in kinds() {
        assert_complete(&dies_at(script, action).await, changed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_between_pages_or_at_the_end_leaves_exact_counts() {
    for (action, _, changed) in kinds() {
        assert_complete(&dies_at("task_turn", action).await, changed);
    }
    for script in ["task_read", "task_set"] {
        assert_complete(&dies_at(script, BulkAction::Cancel).await, 2 * EACH as u64);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_that_carry_out_one_task_count_nothing_twice() {
    for (action, _, changed) in kinds() {
        let server = RedisServer::start();
        let (one, other) = (queue(&server).await, queue(&server).await);
        fill(&server, &one).await;
        let id = start(&one, action, &terms()).await;
        tokio::join!(carry_out(&one, &id), carry_out(&other, &id));
        assert_complete(&get(&one, &id).await, changed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_paused_changes_nothing_until_it_is_resumed() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let tasks = queue.tasks();
    add_waiting(&server, "sf:{default}:jobs", EACH);
    let id = start(&queue, BulkAction::Cancel, &terms().rate(5.0)).await;
    assert_eq!(tasks.advance(&id).await.unwrap().0, Advance::Again);
    assert_eq!(get(&queue, &id).await.counts.done, 1, "its rate allows one");
    tasks.pause(&id, &ann()).await.unwrap();
    let paused = carry_out(&queue, &id).await;
    assert_eq!((paused.state, paused.counts.done), (TaskState::Paused, 1));
    assert_eq!(paused.state_why, "paused by ann: they left");
    assert!(tasks.pause(&id, &ann()).await.is_ok(), "it is paused already");
    tasks.resume(&id, &ann()).await.unwrap();
    until_async("the next one to be cancelled", SOON, async || {
        tasks.advance(&id).await.unwrap();
        get(&queue, &id).await.counts.done >= 3
    })
    .await;
    tasks.stop(&id, &ann()).await.unwrap();
    let stopped = carry_out(&queue, &id).await;
    assert_eq!(stopped.state, TaskState::Stopped);
    let left = queue.snapshot().await.unwrap().waiting();
    assert_eq!(left + stopped.counts.done, EACH as u64);
    assert!(matches!(tasks.resume(&id, &ann()).await, Err(TaskError::State(TaskState::Stopped))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_holds_however_often_a_task_is_advanced() {
    const RATE: f64 = 20.0;
    let server = RedisServer::start();
    let (one, other) = (queue(&server).await, queue(&server).await);
    add_waiting(&server, "sf:{default}:jobs", EACH);
    let began = server.now_ms();
    let id = start(&one, BulkAction::Cancel, &terms().rate(RATE)).await;
    let done = until_async("some to be cancelled", SOON, async || {
        let advanced = tokio::join!(one.tasks().advance(&id), other.tasks().advance(&id));
        drop((advanced.0.unwrap(), advanced.1.unwrap()));
        Some(get(&one, &id).await.counts.done).filter(|done| *done >= 20)
    })
    .await;
    let seconds = (server.now_ms() - began) as f64 / 1000.0;
    // Both may have begun at the same moment, which the rate makes up for later.
    assert!(done as f64 <= seconds * RATE + 3.0, "{done} in {seconds} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_left_alone_is_counted_once_with_its_reason() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    for nth in 0..25 {
        let id = format!("j{nth}");
        server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "test", "id", &id]);
        if nth < 3 {
            server.cmd(&["HSET", &format!("sf:{{mail}}:job:{id}"), "state", "done"]);
        }
    }
    let id = start(&queue, to_mail(), &terms()).await;
    let task = carry_out(&queue, &id).await;
    assert_eq!((task.counts.done, task.counts.looked, task.counts.matched()), (22, 25, 25));
    assert_eq!(task.counts.kept, BTreeMap::from([("taken".to_owned(), 3)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_redis_refuses_for_every_job_fails_and_says_why() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    for nth in 0..25 {
        let id = format!("j{nth}");
        server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "test", "id", &id]);
        server.cmd(&["SET", &format!("sf:{{default}}:job:{id}"), "a text"]);
    }
    let id = start(&queue, BulkAction::Cancel, &terms()).await;
    let task = carry_out(&queue, &id).await;
    assert_eq!((task.state, task.counts.done), (TaskState::Failed, 0));
    assert!(task.state_why.contains("WRONGTYPE"), "{}", task.state_why);
    let noted = queue.audit().recent(None, 1).await.unwrap().remove(0).action;
    assert_eq!(noted.what, "task failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_is_undone_for_those_that_still_wait() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let mail = Broker::connect(config(&server.url()).redis).await.unwrap().queue("mail".parse().unwrap());
    add_waiting(&server, "sf:{default}:jobs", EACH);
    Producer::new(queue.clone()).submit_all((0..EACH).map(delayed)).await.unwrap();
    let id = start(&queue, to_mail(), &terms()).await;
    assert!(matches!(queue.tasks().undo(&id, &ann()).await, Err(TaskError::State(TaskState::Running))));
    carry_out(&queue, &id).await;
    // Strangers, one that a worker took, and one that is gone.
    add_waiting(&server, "sf:{mail}:jobs", 7);
    Producer::new(mail.clone()).submit_all((0..5).map(delayed)).await.unwrap();
    server.cmd(&["XGROUP", "CREATE", "sf:{mail}:jobs", "fleet", "0"]);
    server.cmd(&["XREADGROUP", "GROUP", "fleet", "me", "COUNT", "1", "STREAMS", "sf:{mail}:jobs", ">"]);
    let next = server.cmd(&["XRANGE", "sf:{mail}:jobs", "-", "+", "COUNT", "2"]);
    let next: Vec<(String, Vec<String>)> = redis::from_redis_value(next).unwrap();
    server.cmd(&["XDEL", "sf:{mail}:jobs", &next[1].0]);
    let back = queue.tasks().undo(&id, &ann()).await.unwrap().value;
    let task = carry_out(&queue, &back).await;
    assert_eq!((task.state, task.counts.done), (TaskState::Done, 2 * EACH as u64 - 2), "{task:?}");
    assert_eq!((task.undoes.as_deref(), task.from.as_str()), (Some(id.as_str()), "mail"));
    let (here, there) = (queue.snapshot().await.unwrap(), mail.snapshot().await.unwrap());
    assert_eq!((here.waiting(), here.delayed), (EACH as u64 - 2, EACH as u64));
    assert_eq!((there.waiting(), there.running(), there.delayed), (7, 1, 5));
    // That can be undone, too.
    let again = queue.tasks().undo(&back, &ann()).await.unwrap().value;
    let task = carry_out(&queue, &again).await;
    assert_eq!((task.counts.done, task.from.as_str()), (2 * EACH as u64 - 2, "default"));
    let cancel = start(&queue, BulkAction::Cancel, &terms()).await;
    let refused = queue.tasks().undo(&cancel, &ann()).await;
    assert!(matches!(refused, Err(TaskError::NotUndoable("cancel"))), "{refused:?}");
    assert!(matches!(queue.tasks().undo("none", &ann()).await, Err(TaskError::Unknown)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_comes_back_is_made_due_once_whichever_process_goes_on() {
    let server = RedisServer::start();
    let (queue, other) = (queue(&server).await, queue(&server).await);
    let job = Producer::new(queue.clone()).submit(delayed(1)).await.unwrap().to_string();
    let id = start(&queue, BulkAction::RunNow, &terms()).await;
    assert_eq!(queue.tasks().advance(&id).await.unwrap().0, Advance::Again);
    // It ran, failed, and waits for its next attempt. Another process goes on.
    server.cmd(&["ZADD", "sf:{default}:delayed", "XX", "9999999999999", &job]);
    assert_eq!(carry_out(&other, &id).await.counts.done, 1);
    let due: f64 = redis::from_redis_value(server.cmd(&["ZSCORE", "sf:{default}:delayed", &job])).unwrap();
    assert!(due > 9e12, "{due}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_leaves_jobs_and_letters_alone_that_came_later() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    fill(&server, &queue).await;
    let id = start(&queue, BulkAction::Purge, &terms()).await;
    until_async("the clock to go on", SOON, async || {
        queue.clock().await.unwrap() > get(&queue, &id).await.bound
    })
    .await;
    fill(&server, &queue).await;
    let task = carry_out(&queue, &id).await;
    assert_eq!((task.state, task.counts.done), (TaskState::Done, 3 * EACH as u64));
    let left = queue.snapshot().await.unwrap();
    let each = EACH as u64;
    assert_eq!((left.waiting(), left.delayed, left.dead), (each, each, each));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_carries_out_a_task_and_the_newest_is_listed_first() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let tasks = queue.tasks();
    Producer::new(queue.clone()).submit_all((0..EACH).map(delayed)).await.unwrap();
    let first = start(&queue, to_mail(), &terms()).await;
    let begun = get(&queue, &first).await.begun;
    until_async("the clock to go on", SOON, async || queue.clock().await.unwrap() > begun).await;
    let second = start(&queue, BulkAction::Drop, &terms()).await;
    // What only a later version knows is left to it.
    let plan =
        r#"{"filter":{"conditions":[]},"who":"","why":"","planned":null,"total":0,"last":"","now_ms":0}"#;
    let other = ["HSET", "sf:{default}:task:0000", "plan", plan, "state", "running", "cursor", "0 "];
    server.cmd(&[&other[..], &["created_ms", "1"]].concat());
    server.cmd(&["HSET", "sf:{default}:tasks", "0000", "active"]);
    let fleet = Running::start(&server.url(), quick(1), Acts::well());
    for id in [&first, &second] {
        until_async("the leader to carry it out", SOON, async || {
            get(&queue, id).await.state == TaskState::Done
        })
        .await;
    }
    fleet.stop().await;
    assert_eq!(get(&queue, &first).await.counts.done, EACH as u64);
    let page = tasks.page(None, 1).await.unwrap();
    let newest = &page.tasks[0];
    assert_eq!(
        (newest.id.as_str(), newest.who.as_str(), newest.why.as_str()),
        (&*second, "ann", "they left")
    );
    let next = tasks.page(page.next.as_ref(), 1).await.unwrap();
    assert_eq!(next.tasks[0].id, first);
    let last = tasks.page(next.next.as_ref(), 1).await.unwrap();
    assert_eq!((last.tasks.len(), last.unreadable, last.next), (0, vec!["0000".to_owned()], None));
    assert_eq!(tasks.advance("0000").await.unwrap().0, Advance::Idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_asks_every_running_job_once_to_stop_at_its_rate() {
    const RUNNING: u64 = 5;
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let jobs = "sf:{default}:jobs";
    add_waiting(&server, jobs, EACH);
    server.cmd(&["XGROUP", "CREATE", jobs, "fleet", "0"]);
    let count = RUNNING.to_string();
    server.cmd(&["XREADGROUP", "GROUP", "fleet", "me", "COUNT", &count, "STREAMS", jobs, ">"]);
    let selection = queue.bulk().select(BulkAction::Cancel, Filter::new(), Some(&[State::Running]));
    let selection = selection.await.unwrap();
    let id = queue.tasks().start(&selection, &terms().rate(50.0), &ann()).await.unwrap().value;
    let task = carry_out(&queue, &id).await;
    assert_eq!((task.state, task.counts.requested, task.counts.done), (TaskState::Done, RUNNING, 0));
    assert_eq!((task.counts.looked, task.total), (RUNNING, RUNNING));
    // The next one has nothing to add.
    let id = start(&queue, BulkAction::Cancel, &terms()).await;
    let task = carry_out(&queue, &id).await;
    assert_eq!((task.counts.requested, task.counts.done), (0, EACH as u64 - RUNNING));
}
