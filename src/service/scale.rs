//! `/scale`: how much work there is, for KEDA's metrics-api scaler and similar autoscalers.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde::Serialize;

use crate::autoscale::{Autoscale, NoBacklog};
use crate::broker::Backlog;

/// The response body.
#[derive(Serialize)]
struct Scaling {
    /// The sum over all queues: the number to scale by.
    jobs: u64,
    queues: BTreeMap<String, OfQueue>,
}

#[derive(Serialize)]
struct OfQueue {
    jobs: u64,
    #[serde(flatten)]
    parts: Backlog,
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
            let jobs = backlogs.iter().map(|(_, backlog)| backlog.jobs()).sum();
            let of = |parts: Backlog| OfQueue { jobs: parts.jobs(), parts };
            let queues =
                backlogs.into_iter().map(|(name, backlog)| (name.to_string(), of(backlog))).collect();
            (StatusCode::OK, json(&Scaling { jobs, queues }))
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
        let parts = Backlog { waiting: 3, running: 2, due: 1, ticks: 4, ..Backlog::default() };
        let queues = BTreeMap::from([("mail".to_owned(), OfQueue { jobs: parts.jobs(), parts })]);
        let want = r#"{"jobs":10,"queues":{"mail":{"jobs":10,"waiting":3,"running":2,"due":1,"ticks":4}}}"#;
        assert_eq!(json(&Scaling { jobs: 10, queues }), format!("{want}\n"));
    }
}
