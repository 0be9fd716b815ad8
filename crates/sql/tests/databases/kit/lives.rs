//! Lives to write.

use streamfleet_domain::job::{Envelope, Lane, QueueName};
use streamfleet_sql::history::{Attempt, Body, Ended, Ending, Key};

/// The first millisecond of 2026-12-01.
pub(crate) const MS: u64 = 1_796_083_200_000;

pub(crate) fn queue() -> QueueName {
    "mail".parse().unwrap()
}

/// Returns a life that began `number` milliseconds after [`MS`] and died a second later.
pub(crate) fn ended(number: u64) -> Ended {
    let began = MS + number;
    let payload = format!("{{\"customer\":{}}}", number % 10);
    let fields = [(b"type".as_slice(), b"mail.send".as_slice()), (b"payload", payload.as_bytes())];
    Ended {
        queue: queue(),
        life: format!("{began}-0").parse().unwrap(),
        id: format!("order-{number}").parse().unwrap(),
        job_type: "mail.send".to_owned(),
        lane: Lane::Normal,
        state: Ending::Dead,
        created_ms: began,
        ended_ms: began + 1000,
        attempts: 2,
        worker: Some("host-1-abc".to_owned()),
        worker_version: Some("1.2.3".to_owned()),
        reason: Some("exhausted".to_owned()),
        fingerprint: Some("0123456789abcdef".to_owned()),
        error: Some("smtp: 550 no such user".to_owned()),
        result: None,
        root: Some("1796000000000-0".parse().unwrap()),
        body: Body::Stored(Envelope::new(fields.into_iter())),
        attempted: (1..3).map(|attempt| of_attempt(attempt, began)).collect(),
        keys: vec![Key { name: "customer".to_owned(), value: (number % 10).to_string() }],
    }
}

fn of_attempt(number: u64, began: u64) -> Attempt {
    Attempt {
        number,
        started_ms: Some(began + 100 * number),
        ended_ms: began + 100 * number + 50,
        outcome: "error".to_owned(),
        worker: Some("host-1-abc".to_owned()),
        error: Some("smtp: 550 no such user".to_owned()),
    }
}
