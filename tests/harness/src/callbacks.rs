//! Jobs whose payloads say what they do, and the callbacks that follow them.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use streamfleet::JobError;
use streamfleet::job::JobId;

use crate::fleet::Acts;

/// The payloads of all jobs of the type `test`, in the order in which they ran. The payload says what the job does.
#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<Vec<(String, Value)>>>);

impl Seen {
    pub fn handler(&self) -> Acts {
        let seen = self.clone();
        Acts::new(move |context, payload| {
            let payload: Value = serde_json::from_slice(payload).unwrap();
            seen.0.lock().unwrap().push((context.id().to_string(), payload.clone()));
            match payload["act"].as_str() {
                Some("die") if context.header("cured").is_none() => Err(JobError::fatal("out of stock")),
                _ => Ok(json!({ "said": payload["say"] })),
            }
        })
    }

    /// Returns the payloads of the callbacks of this job.
    pub fn of(&self, job: &JobId) -> Vec<Value> {
        let seen = self.0.lock().unwrap();
        let facts = seen.iter().map(|(_, payload)| payload.clone());
        facts.filter(|payload| payload["id"] == job.to_string().as_str()).collect()
    }

    /// Returns what each job said, in the order in which they ran.
    pub fn said(&self) -> Vec<Value> {
        self.0.lock().unwrap().iter().map(|(_, payload)| payload["say"].clone()).collect()
    }
}
