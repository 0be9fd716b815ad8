//! Decisions about steps through both doors.

use hyper::Method;
use serde_json::json;
use streamfleet_operations::STEPS_DECIDE;

use super::{Case, Prepare, WHO};

/// The job whose step waits for a decision.
pub(super) const JOB: &str = "gift-1";

pub(super) fn cases() -> Vec<Case> {
    vec![Case {
        operation: &STEPS_DECIDE,
        prepare: Prepare::Undecided,
        command: &[
            "steps",
            "decide",
            JOB,
            "charge",
            "done",
            "--result",
            r#"{"receipt":17}"#,
            "--queue",
            "{queue}",
            "--by",
            WHO,
            "--reason",
            "the bank has it",
        ],
        method: Method::POST,
        path: "queues/{queue}/jobs/gift-1/steps/charge/decide",
        body: json!({"verdict": "done", "reason": "the bank has it", "result": {"receipt": 17}}),
    }]
}
