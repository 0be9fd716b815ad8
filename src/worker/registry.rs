//! Which handler runs which type. The one place where a handler's types are erased.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustc_hash::FxHashMap;

use super::handler::{Handler, JobContext, JobError, MAX_RESULT_BYTES, Payload};
use crate::job::{Failure, FailureKind, JobType, Outcome, Policies, Policy, Retry};

/// The handlers of a fleet, by type.
#[derive(Default)]
pub struct Registry {
    handlers: FxHashMap<JobType, Arc<Registered>>,
}

/// One type's handler and policy.
pub(crate) struct Registered {
    pub(crate) policy: Policy,
    /// How long a handler may go on after its cancellation before its future is dropped.
    pub(crate) grace: Duration,
    run: Box<dyn Fn(JobContext) -> BoxFuture<'static, Outcome> + Send + Sync>,
}

impl Registry {
    /// Adds a handler. A type that is there already gets the new one.
    pub fn add<H: Handler>(&mut self, job_type: JobType, policy: Policy, handler: H) {
        let grace = handler.grace();
        let handler = Arc::new(handler);
        let run = move |context: JobContext| -> BoxFuture<'static, Outcome> {
            let handler = Arc::clone(&handler);
            Box::pin(async move {
                let guarded = AssertUnwindSafe(attempt(&*handler, context)).catch_unwind();
                guarded.await.unwrap_or_else(|panic| {
                    let error = format!("the handler panicked: {}", panic_text(&*panic));
                    Outcome::Failed(Failure::new(FailureKind::Panic, error, Retry::Policy))
                })
            })
        };
        self.handlers.insert(job_type, Arc::new(Registered { policy, grace, run: Box::new(run) }));
    }

    pub(crate) fn get(&self, job_type: &JobType) -> Option<&Arc<Registered>> {
        self.handlers.get(job_type)
    }

    /// The types that have a handler, sorted.
    pub fn types(&self) -> Vec<JobType> {
        let mut types: Vec<_> = self.handlers.keys().cloned().collect();
        types.sort();
        types
    }

    /// The longest time of grace of all handlers.
    pub(crate) fn longest_grace(&self) -> Duration {
        self.handlers.values().map(|registered| registered.grace).max().unwrap_or_default()
    }

    /// The types' policies, for those who settle without running.
    pub(crate) fn policies(&self) -> Policies {
        Policies::new(
            self.handlers.iter().map(|(job_type, registered)| (job_type.clone(), registered.policy.clone())),
        )
    }
}

impl Registered {
    pub(crate) fn run(&self, context: JobContext) -> BoxFuture<'static, Outcome> {
        (self.run)(context)
    }
}

async fn attempt<H: Handler>(handler: &H, context: JobContext) -> Outcome {
    let payload = match H::Payload::decode(context.job().payload.clone(), context.job().encoding) {
        Ok(payload) => payload,
        Err(error) => return JobError::fatal(error).into_outcome(),
    };
    match handler.run(payload, context).await {
        Ok(output) => Outcome::Done(result(&output)),
        Err(error) => error.into_outcome(),
    }
}

/// The result as JSON; `None` for nothing, and for what does not fit.
fn result(output: &impl serde::Serialize) -> Option<Bytes> {
    let json = serde_json::to_vec(output).ok()?;
    let kept = json != b"null" && json.len() <= MAX_RESULT_BYTES;
    kept.then(|| json.into())
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_null_or_oversized_result_is_not_kept() {
        assert_eq!(result(&()), None);
        assert_eq!(result(&"x".repeat(MAX_RESULT_BYTES)), None);
        assert_eq!(result(&7).as_deref(), Some(b"7".as_slice()));
    }
}
