//! Finding the jobs that wait in waiting lists: each once and in a stated order, wherever a walk is left and goes on.

use streamfleet::Queue;
use streamfleet::job::State;
use streamfleet_engine::admin::{Filter, JobCursor, JobSearch};

use harness::fleet::queue;
use harness::redis_server::RedisServer;

const LISTS: &str = "sf:{default}:rooms";

/// Puts jobs into the waiting list of a value, whose turn is that of this time. Their ids are the value and a number.
fn fill(server: &RedisServer, value: &str, since: u64, jobs: usize) {
    let name = format!("key:h.t={value}");
    for nth in 0..jobs {
        let (id, customer) = (format!("{value}-{nth:03}"), format!("{{\"customer\":{}}}", nth % 3));
        let fields = ["type", "test", "id", &id, "lane", "low", "room_gates", &name, "payload", &customer];
        server.cmd(&[&["XADD", &waitlist(value), "*"], &fields[..]].concat());
    }
    server.cmd(&["HSET", LISTS, &name, &since.to_string()]);
}

fn waitlist(value: &str) -> String {
    format!("sf:{{default}}:room:key:h.t={value}")
}

/// Two waiting lists of one time between two others.
async fn scene() -> (RedisServer, Queue) {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    for (value, since, jobs) in [("d", 9, 5), ("c", 7, 2), ("b", 7, 40), ("a", 8, 1)] {
        fill(&server, value, since, jobs);
    }
    (server, queue)
}

fn all() -> Vec<String> {
    let waitlists = [("b", 40), ("c", 2), ("a", 1), ("d", 5)];
    waitlists
        .iter()
        .flat_map(|(value, jobs)| (0..*jobs).map(move |nth| format!("{value}-{nth:03}")))
        .collect()
}

fn waiting() -> JobSearch {
    JobSearch::new().states(vec![State::Waiting])
}

/// Walks on from a place, in pages of this many jobs. Returns the ids, and where each page ended.
async fn walk(
    queue: &Queue,
    search: &JobSearch,
    from: Option<JobCursor>,
    most: usize,
) -> (Vec<String>, Vec<JobCursor>) {
    let (mut walk, mut ids, mut ends) = (queue.walk_jobs(search, from), Vec::new(), Vec::new());
    loop {
        let page = walk.page(most).await.unwrap();
        assert!(page.jobs.len() <= most && page.unread.is_none(), "{page:?}");
        ids.extend(page.jobs.into_iter().map(|job| job.id));
        let Some(next) = page.next else { return (ids, ends) };
        ends.push(next);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_walk_finds_every_job_in_rooms_once_wherever_it_goes_on() {
    let (_server, queue) = scene().await;
    for most in [1, 2, 7, 1000] {
        let (ids, ends) = walk(&queue, &waiting(), None, most).await;
        assert_eq!(ids, all(), "pages of {most}");
        for end in ends {
            // Somebody keeps the text, and another process goes on.
            let kept: JobCursor = end.to_string().parse().unwrap();
            let (rest, _) = walk(&queue, &waiting(), Some(kept), 1000).await;
            assert!(all().ends_with(&rest), "after {end}: {rest:?}");
        }
    }
    let mut pages = Vec::new();
    let mut from = None;
    loop {
        let page = queue.walk_jobs(&waiting(), from).page(3).await.unwrap();
        pages.extend(page.jobs.into_iter().map(|job| job.id));
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(pages, all());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_walk_misses_no_waitlist_because_another_is_gone() {
    let (server, queue) = scene().await;
    let mut begun = queue.walk_jobs(&waiting(), None);
    let mut from = None;
    while from.is_none() {
        // The lanes are empty.
        let page = begun.page(41).await.unwrap();
        from = page.next.filter(|_| page.jobs.len() == 41);
    }
    server.cmd(&["DEL", &waitlist("b")]);
    server.cmd(&["HDEL", LISTS, "key:h.t=b"]);
    let (rest, _) = walk(&queue, &waiting(), from, 1000).await;
    assert_eq!(rest, all()[40..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_at_a_gate_are_found_in_its_waiting_list_alone() {
    let (server, queue) = scene().await;
    let filter = Filter::new().condition("payload.customer=2").unwrap();
    let search = waiting().filter(filter).gate(Some("key:h.t=b".parse().unwrap()));
    let want: Vec<String> = (0..40).filter(|nth| nth % 3 == 2).map(|nth| format!("b-{nth:03}")).collect();
    assert_eq!(queue.count_jobs(&search).await.unwrap(), Some(40));
    server.cmd(&["CONFIG", "RESETSTAT"]);
    let (ids, ends) = walk(&queue, &search, None, 4).await;
    assert_eq!((ids, server.calls("hscan")), (want, 0));
    let (rest, _) = walk(&queue, &search, Some(ends[0]), 100).await;
    assert_eq!(rest.first().map(String::as_str), Some("b-014"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_list_that_cannot_be_read_hides_no_other() {
    let (server, queue) = scene().await;
    server.cmd(&["DEL", &waitlist("c")]);
    server.cmd(&["SET", &waitlist("c"), "no stream"]);
    let mut from = None;
    let (mut found, mut unreadable) = (0, 0);
    loop {
        let page = queue.find_jobs(&waiting(), from).await.unwrap();
        (found, unreadable) = (found + page.jobs.len(), unreadable + page.unreadable);
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!((found, unreadable), (46, 1));
}
