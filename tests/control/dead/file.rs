//! Jobs that ended elsewhere become dead letters, each once, and run when they are replayed.

use redis::Value;
use streamfleet::job::{DeadReason, Envelope, Lane, State, Timestamp};
use streamfleet::{Accepted, Producer};
use streamfleet_engine::admin::{Departed, Filed, Replayed};

use super::{SOON, bury};
use harness::dead::{counts, letters};
use harness::fleet::{Acts, Running, queue, quick, until_state};
use harness::redis_server::RedisServer;
use harness::scene::job;
use harness::wait::until_async;

/// When all of them died.
const DIED_MS: u64 = 1_764_547_200_000;

fn departed(id: &str, payload: &[u8]) -> Departed {
    let fields: [(&[u8], &[u8]); 6] = [
        (b"type", b"test"),
        (b"payload", payload),
        (b"h.tenant", b"acme"),
        (b"max_attempts", b"3"),
        (b"dead_error", b"of another letter"),
        (b"dead_steps", b"charge=done"),
    ];
    let died = Timestamp::from_ms(DIED_MS).unwrap();
    Departed {
        id: id.parse().unwrap(),
        life: None,
        job_type: "test".parse().unwrap(),
        lane: Lane::High,
        fields: Envelope::new(fields.into_iter()),
        reason: DeadReason::Exhausted,
        error: "connection refused".to_owned(),
        attempts: 3,
        created: died,
        died,
        group: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_ended_elsewhere_is_a_dead_letter_and_runs_when_it_is_replayed() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let large = "x".repeat(300_000);
    let jobs = [departed("light", b"yes"), departed("large", large.as_bytes())];
    let filed = queue.dead_letters().file(&jobs).await.unwrap();
    let [Filed::As(light), Filed::As(_)] = filed[..] else { panic!("{filed:?}") };

    assert_eq!(counts(&queue).await, [2]);
    let found = letters(&queue).await;
    assert_eq!((found[0].entry, found[0].job().to_string()), (light, "light".to_owned()));
    assert_eq!(found[0].died().as_ms(), DIED_MS);
    for (field, value) in [
        ("dead_error", "connection refused"),
        ("dead_reason", "exhausted"),
        ("dead_attempts", "3"),
        ("dead_steps", "charge=done"),
        ("h.tenant", "acme"),
    ] {
        assert_eq!(found[0].text(field), value, "{field}");
    }
    assert_eq!(found[1].text("payload"), large);
    let status = queue.status(&jobs[0].id).await.unwrap().unwrap();
    assert_eq!(status.state, State::Dead);

    let handler = Acts::well();
    let fleet = Running::start(&server.url(), quick(1), handler.clone());
    for letter in &found {
        let replayed = queue.dead_letters().replay(letter.entry, &letter.job()).await.unwrap();
        assert!(matches!(replayed, Replayed::As(Some(_))), "{replayed:?}");
        until_state(&queue, &letter.job(), State::Done).await;
        assert_eq!(handler.runs(&letter.job()), 1);
    }
    fleet.stop().await;
    assert_eq!(counts(&queue).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_known_is_not_filed() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let producer = Producer::new(queue.clone());
    for (id, delay) in [("waiting", None), ("delayed", Some(SOON))] {
        let new = job("no").id(id.parse().unwrap());
        let new = match delay {
            Some(delay) => new.delay(delay),
            None => new,
        };
        assert_eq!(producer.submit_or_find(new).await.unwrap().accepted, Accepted::New);
    }
    server.cmd(&["SET", "sf:{default}:job:alien", "text"]);
    let jobs = ["waiting", "delayed", "alien", "new", "new"].map(|id| departed(id, b"yes"));
    let filed = queue.dead_letters().file(&jobs).await.unwrap();
    assert!(
        matches!(&filed[..], [Filed::Exists, Filed::Exists, Filed::Refused(why), Filed::As(_), Filed::Exists]
            if why.contains("sf:{default}:job:alien")),
        "{filed:?}"
    );
    assert_eq!(counts(&queue).await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_job_is_refused_alone() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let names: Vec<String> = (0..1001).map(|nth| format!("f{nth}")).collect();
    let fields = names.iter().map(|name| (name.as_bytes(), &b""[..]));
    let many = Departed { fields: Envelope::new(fields), ..departed("many", b"") };
    let jobs = [departed("first", b"yes"), many, departed("last", b"yes")];
    let filed = queue.dead_letters().file(&jobs).await.unwrap();
    assert!(
        matches!(&filed[..], [Filed::As(_), Filed::Refused(why), Filed::As(_)] if why.contains("at most 1000")),
        "{filed:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_of_a_chosen_group_are_counted_in_it() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, &["an error"]).await;
    let group = Some("0123456789abcdef".to_owned());
    let jobs: Vec<_> = (0..120)
        .map(|nth| Departed { group: group.clone(), ..departed(&format!("j{nth}"), b"yes") })
        .collect();
    let filed = queue.dead_letters().file(&jobs).await.unwrap();
    assert!(filed.iter().all(|filed| matches!(filed, Filed::As(_))), "{filed:?}");
    assert_eq!(counts(&queue).await, [1, 120]);
    let dead = queue.dead_letters();
    for letter in letters(&queue).await {
        dead.drop(letter.entry, &letter.job()).await.unwrap();
    }
    assert_eq!(counts(&queue).await, [0; 0]);
    until_async("the records to go", SOON, async || {
        server.cmd(&["EXISTS", "sf:{default}:job:j0", "sf:{default}:job:j119"]) == Value::Int(0)
    })
    .await;
    // Their ids are free again.
    assert!(matches!(dead.file(&jobs[..1]).await.unwrap()[..], [Filed::As(_)]));
}
