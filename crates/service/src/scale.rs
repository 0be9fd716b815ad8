//! `/scale`: how much work there is, for KEDA's metrics-api scaler and similar autoscalers.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde::Serialize;

use crate::broker::{QueueSnapshot, Unread};
use streamfleet::{Autoscale, NoBacklog};

/// The response body.
#[derive(Serialize)]
struct Scaling {
    /// The sum over all queues: the number to scale by.
    jobs: u64,
    queues: BTreeMap<String, QueueScaling>,
}

#[derive(Serialize)]
struct QueueScaling {
    jobs: u64,
    waiting: u64,
    running: u64,
    /// Delayed jobs that are due soon, or overdue.
    due: u64,
    /// Jobs that recurring jobs will submit soon, or should have submitted.
    ticks: u64,
    /// Keys that cannot be read. Their jobs count as 0: a key of another type holds no jobs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<Unread>,
}

impl QueueScaling {
    fn new(snapshot: &QueueSnapshot) -> Self {
        Self {
            jobs: snapshot.jobs(),
            waiting: snapshot.waiting(),
            running: snapshot.running(),
            due: snapshot.due_soon,
            ticks: snapshot.ticks.unwrap_or(0),
            unread: snapshot.uncounted().cloned().collect(),
        }
    }
}

/// The response body if the backlog is not known.
#[derive(Serialize)]
struct Refusal {
    error: String,
}

/// Returns the status and the JSON body. An unreachable Redis is never reported as 0 jobs.
pub(super) async fn answer(scale: &Autoscale, query: &str) -> (StatusCode, String) {
    match scale.backlogs(queue(query)).await {
        Ok(backlogs) => {
            let jobs = backlogs.iter().map(|(_, snapshot)| snapshot.jobs()).sum();
            let queues =
                backlogs.iter().map(|(name, snapshot)| (name.to_string(), QueueScaling::new(snapshot)));
            (StatusCode::OK, json(&Scaling { jobs, queues: queues.collect() }))
        }
        Err(unknown) => {
            let status = match unknown {
                NoBacklog::Queue { .. } => StatusCode::NOT_FOUND,
                NoBacklog::Redis(_) => StatusCode::SERVICE_UNAVAILABLE,
            };
            (status, json(&Refusal { error: unknown.to_string() }))
        }
    }
}

fn json(body: &impl Serialize) -> String {
    let text = serde_json::to_string(body).expect("names and numbers can be written as JSON");
    format!("{text}\n")
}

/// Returns the queue that was asked for. Queue names need no escaping in a URL.
fn queue(query: &str) -> Option<&str> {
    query.split('&').find_map(|pair| pair.strip_prefix("queue="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_asked_for_by_its_name() {
        assert_eq!(queue("queue=mail"), Some("mail"));
        assert_eq!(queue("a=b&queue=mail&c"), Some("mail"));
        assert_eq!((queue(""), queue("jobs=1"), queue("queue=")), (None, None, Some("")));
    }

    #[test]
    fn the_answer_has_the_sum_and_the_parts_of_each_queue() {
        let mut snapshot = QueueSnapshot::default();
        (snapshot.lanes[0].waiting, snapshot.lanes[0].running) = (3, 2);
        (snapshot.due_soon, snapshot.ticks) = (1, Some(4));
        let queues = BTreeMap::from([("mail".to_owned(), QueueScaling::new(&snapshot))]);
        let want = r#"{"jobs":10,"queues":{"mail":{"jobs":10,"waiting":3,"running":2,"due":1,"ticks":4}}}"#;
        assert_eq!(json(&Scaling { jobs: 10, queues }), format!("{want}\n"));
    }
}
