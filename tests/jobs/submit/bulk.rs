//! Many jobs in one call, of which some are refused: a caller who sends again what was not reported makes no job twice.

use std::collections::BTreeMap;
use std::time::Duration;

use streamfleet::job::Lane;
use streamfleet::{Broker, Producer, Queue, RedisError, Submission, SubmitError, Submitted};

use harness::fleet::{config, queue};
use harness::proxy::{Mode, Proxy};
use harness::redis_server::RedisServer;
use harness::scene::job;

const HOUR: Duration = Duration::from_secs(3600);

/// Sends these jobs, and returns those that were reported, and the error.
async fn send(
    producer: &Producer,
    jobs: impl IntoIterator<Item = Submission>,
) -> (Vec<Submitted>, SubmitError) {
    let mut answers = Vec::new();
    let result = producer.submit_or_find_all(jobs, |more| answers.extend(more)).await;
    (answers, result.unwrap_err())
}

/// How many jobs the queue has.
async fn depth(queue: &Queue) -> u64 {
    let snapshot = queue.snapshot().await.unwrap();
    snapshot.waiting() + snapshot.delayed
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_several_lanes_are_accepted_together_or_not_at_all() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let producer = Producer::new(queue.clone()).max_depth(2);
    let jobs = || [Lane::High, Lane::Normal, Lane::Low].map(|lane| job("{}").lane(lane));
    let refused = producer.submit_all(jobs()).await;
    assert!(matches!(refused, Err(SubmitError::Full { depth: 0, limit: 2 })), "{refused:?}");
    assert_eq!(depth(&queue).await, 0);
    let ids = producer.clone().max_depth(3).submit_all(jobs()).await.unwrap();
    let ends = ids.iter().map(|id| id.to_string().rsplit('-').next().unwrap().to_owned());
    assert_eq!(
        ends.collect::<Vec<_>>(),
        ["high", "0", "low"],
        "the ids of the lanes' entries, in the order of the jobs"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_arrive_whole_whatever_the_fields_and_lanes_of_those_beside_them() {
    let server = RedisServer::start();
    let producer = Producer::new(queue(&server).await);
    // Alike for a while, then none like the one before, then alike again.
    let changing = |nth: usize| if (200..400).contains(&nth) { nth } else { nth / 200 };
    let submission = |nth: usize| {
        let named = job(nth.to_string()).lane(Lane::ALL[changing(nth) % 3]);
        (0..changing(nth) % 4)
            .fold(named, |job, header| job.header(&header.to_string(), &format!("{nth} {header}")).unwrap())
    };
    let ids = producer.submit_all((0..600).map(submission)).await.unwrap();
    for lane in Lane::ALL {
        let entries: Vec<(String, BTreeMap<String, String>)> =
            redis::from_redis_value(server.cmd(&["XRANGE", stream_of(lane), "-", "+"])).unwrap();
        let expected = (0..600).filter(|nth| Lane::ALL[changing(*nth) % 3] == lane);
        assert_eq!(entries.len(), expected.clone().count());
        for (nth, (entry, fields)) in expected.zip(&entries) {
            assert!(
                ids[nth].to_string().starts_with(entry.as_str()),
                "job {nth}: {} is not {entry}",
                ids[nth]
            );
            let mut want = [("type", "test"), ("payload", &nth.to_string()), ("encoding", "raw")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec();
            want.extend(
                (0..changing(nth) % 4).map(|header| (format!("h.{header}"), format!("{nth} {header}"))),
            );
            assert_eq!(*fields, BTreeMap::from_iter(want), "job {nth}");
        }
    }
}

/// The key of a lane's stream.
fn stream_of(lane: Lane) -> &'static str {
    match lane {
        Lane::High => "sf:{default}:jobs:high",
        Lane::Normal => "sf:{default}:jobs",
        Lane::Low => "sf:{default}:jobs:low",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_without_ids_that_are_not_reported_are_not_accepted() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let producer = Producer::new(queue.clone()).max_depth(600);
    // The first round trip fits, the second does not, the third would.
    let (answers, error) = send(&producer, (0..1100).map(|_| job("{}"))).await;
    assert!(matches!(error, SubmitError::Full { depth: 500, limit: 600 }), "{error}");
    assert_eq!((answers.len(), depth(&queue).await), (500, 500));
    // Those for now go first, and are reported although those for later do not fit.
    let now = (0..60).map(|_| job("{}"));
    let later = (0..60).map(|_| job("{}").delay(HOUR));
    let (answers, _) = send(&producer, now.chain(later).chain([job("{}")])).await;
    assert_eq!((answers.len(), depth(&queue).await), (60, 560));
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_are_not_reported_can_be_sent_again_whatever_they_are() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let producer = Producer::new(queue.clone());
    let all: Vec<Submission> = (0..400)
        .map(|nth| match nth % 4 {
            0 => job("{}"),
            1 => job("{}").id(format!("own-{nth}").parse().unwrap()),
            2 => job("{}").lane(Lane::Low),
            _ => job("{}").delay(HOUR).id(format!("later-{nth}").parse().unwrap()),
        })
        .collect();
    for limit in [1, 30, 130, 250, 399] {
        server.cmd(&["FLUSHALL"]);
        let (mut reported, error) = send(&producer.clone().max_depth(limit), all.clone()).await;
        assert!(matches!(error, SubmitError::Full { .. }), "{error}");
        let rest = all[reported.len()..].to_vec();
        producer.submit_or_find_all(rest, |more| reported.extend(more)).await.unwrap();
        assert_eq!((reported.len(), depth(&queue).await), (400, 400), "at most {limit}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_be_sent_stops_what_follows_it() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let producer = Producer::new(queue.clone());
    let good =
        |range: std::ops::Range<u32>| range.map(|nth| job("{}").id(format!("own-{nth}").parse().unwrap()));
    let bad = || (0..1000).fold(job("{}"), |job, nth| job.header(&nth.to_string(), "x").unwrap());
    let plain = || (0..500).map(|_| job("{}"));
    let (answers, error) = send(&producer, plain().chain([bad()]).chain(plain())).await;
    assert!(matches!(error, SubmitError::TooManyFields { .. }), "{error}");
    assert_eq!((answers.len(), depth(&queue).await), (500, 500));
    // Jobs with ids, of which several round trips are sent at a time.
    let (answers, error) =
        send(&producer, good(0..500).chain([bad().id("bad".parse().unwrap())]).chain(good(500..1000))).await;
    assert!(matches!(error, SubmitError::TooManyFields { .. }), "{error}");
    assert_eq!((answers.len(), depth(&queue).await), (500, 1000));
}

#[tokio::test(flavor = "multi_thread")]
async fn round_trips_that_overtake_each_other_are_accepted_in_their_order() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let producer = Producer::new(queue.clone());
    // The first ones of each call meet a server that does not know the script, and are sent again.
    for _ in 0..20 {
        server.cmd(&["FLUSHALL"]);
        server.cmd(&["SCRIPT", "FLUSH"]);
        let ids = producer.submit_all((0..3000).map(|_| job("{}"))).await.unwrap();
        assert_eq!((ids.len(), depth(&queue).await), (3000, 3000));
        let entry = |id: &streamfleet::job::JobId| {
            let (ms, nth) =
                id.to_string().split_once('-').map(|(ms, nth)| (ms.to_owned(), nth.to_owned())).unwrap();
            (ms.parse::<u64>().unwrap(), nth.parse::<u64>().unwrap())
        };
        assert!(ids.iter().is_sorted_by_key(entry), "in the order of the jobs");
    }
}

/// Returns a producer whose next call loses its reply, and the proxy that does that.
async fn cut_off_at_the_next_call(server: &RedisServer) -> (Producer, Proxy) {
    let proxy = Proxy::start(server.addr());
    let broker = Broker::connect(config(&server.url_through(proxy.addr())).redis).await.unwrap();
    let producer = Producer::new(broker.queue("default".parse().unwrap()));
    producer.submit(job("{}")).await.unwrap();
    proxy.set(Mode::DropReplyTo { needle: b"EVALSHA".to_vec(), holding: Vec::new(), times: 1 });
    (producer, proxy)
}

/// The reply to the second round trip is lost: what follows it may be accepted, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_leaves_only_the_next_jobs_in_doubt() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let (producer, _proxy) = cut_off_at_the_next_call(&server).await;
    let (answers, error) = send(&producer, (0..5000).map(|_| job("{}"))).await;
    assert!(matches!(error, SubmitError::Broker(RedisError::Unknown { .. })), "{error}");
    let accepted = depth(&queue).await - 1;
    assert!(accepted <= answers.len() as u64 + 2000, "{accepted} of which {} are reported", answers.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_job_beside_a_refused_one_gets_its_own_answer() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let producer = Producer::new(queue.clone());
    for bad in [7, 8, 250] {
        server.cmd(&["SET", &format!("sf:{{default}}:job:own-{bad}"), "oops"]);
    }
    // Three round trips at once, then one that must wait for them.
    let own = |nth: usize| job("{}").id(format!("own-{nth}").parse().unwrap());
    let jobs = (0..300).map(own).chain((0..5).map(|_| job("{}")));
    let mut answers: Vec<Option<Result<Submitted, SubmitError>>> = (0..305).map(|_| None).collect();
    let result = producer.submit_each(jobs, |place, answer| answers[place] = Some(answer)).await;
    let first =
        |error: &SubmitError| matches!(error, SubmitError::Refused { job, .. } if job.to_string() == "own-7");
    assert!(result.as_ref().is_err_and(first), "{result:?}");
    for (place, answer) in answers.iter().enumerate() {
        let is_right = match (place, answer) {
            (7 | 8 | 250, Some(Err(SubmitError::Refused { job, .. }))) => {
                job.to_string() == format!("own-{place}")
            }
            (7 | 8 | 250, _) => false,
            (..300, Some(Ok(submitted))) => submitted.id.to_string() == format!("own-{place}"),
            (300.., None) => true,
            _ => false,
        };
        assert!(is_right, "{place}: {answer:?}");
    }
    assert_eq!(depth(&queue).await, 297);
}

/// The reply to the second round trip is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_which_nothing_was_said_is_not_accepted() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let (producer, _proxy) = cut_off_at_the_next_call(&server).await;
    let (mut known, mut unknown) = (0, 0);
    let told = |_, answer: Result<Submitted, SubmitError>| match answer {
        Ok(_) => known += 1,
        Err(SubmitError::Broker(RedisError::Unknown { .. })) => unknown += 1,
        Err(error) => panic!("{error}"),
    };
    producer.submit_each((0..5000).map(|_| job("{}")), told).await.unwrap_err();
    let accepted = depth(&queue).await - 1;
    assert!((known..=known + unknown).contains(&accepted), "{accepted}, {known}, {unknown}");
    assert!(unknown > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_come_slowly_are_accepted_though_their_row_has_expired() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let jobs = (0..3500).map(|nth| {
        if nth == 2501 {
            // As after 40 s.
            let forget =
                "for _, key in ipairs(redis.call('KEYS', '*receipt*')) do redis.call('DEL', key) end";
            server.cmd(&["EVAL", forget, "0"]);
        }
        job("{}")
    });
    assert_eq!(Producer::new(queue.clone()).submit_all(jobs).await.unwrap().len(), 3500);
    assert_eq!(depth(&queue).await, 3500);
}
