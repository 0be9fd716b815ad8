//! What the answer of a program means for its job.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;

use super::Pool;
use super::message::Verdict;
use super::request::Answer;
use crate::handlers::output;
use crate::job::{ErrorRules, RuleAction, jittered};
use crate::{JobContext, JobError};

/// How long a job that no program has run waits before it runs again, perhaps on another worker.
const NO_PROGRAM: Duration = Duration::from_secs(5);

impl Pool {
    /// Returns the outcome of what became of the job.
    pub(super) fn outcome(
        &self,
        answer: Result<Answer, oneshot::error::RecvError>,
        context: &JobContext,
    ) -> Result<Value, JobError> {
        match answer {
            Ok(Answer::Said { verdict, by_itself }) => {
                if by_itself {
                    context.ended_by_itself();
                }
                said(verdict, context, &self.errors)
            }
            Ok(Answer::Ended { error, by_itself }) => {
                if by_itself {
                    context.ended_by_itself();
                }
                Err(JobError::unknown(error))
            }
            Ok(Answer::Lost(why)) => {
                context.ended_by_itself();
                // Of a `once` step, a person has to find out how far it got.
                Err(if context.is_once() { JobError::unknown(why) } else { JobError::lost(why) })
            }
            Ok(Answer::InDoubt) => {
                context.ask_again();
                context.ended_by_itself();
                Err(JobError::snooze(Duration::ZERO))
            }
            // Nobody knows what the program has done of it.
            Ok(Answer::Released) if context.is_once() => {
                context.ended_by_itself();
                Err(JobError::unknown("the program was ended because of another job, before it answered"))
            }
            Ok(Answer::Released) | Err(_) => Err(self.not_run(context)),
        }
    }

    /// Returns the error for a job that no program has begun, or that may run again after a program lost it because of
    /// another job.
    pub(super) fn not_run(&self, context: &JobContext) -> JobError {
        if context.cancellation().is_cancelled() && !context.time_left().is_zero() {
            // Of a failed `once` step nobody would know how far it got, but nothing of it was done.
            return match context.is_once() {
                true => JobError::snooze(Duration::ZERO),
                false => JobError::retry("the attempt was cut short before a program took the job"),
            };
        }
        context.ended_by_itself();
        let (pool, job) = (&self.shared.name, context.id());
        tracing::debug!(%pool, %job, "no program of the pool ran the job; it runs again later");
        JobError::snooze(jittered(NO_PROGRAM, 0.5..1.0, rand::random()))
    }
}

/// Returns the outcome of a job whose program answered this.
pub(super) fn said(verdict: Verdict, context: &JobContext, errors: &ErrorRules) -> Result<Value, JobError> {
    match verdict {
        Verdict::Done(result) => Ok(result),
        Verdict::DoneWithout(why) => {
            context.result_is_not_kept(&why);
            Ok(Value::Null)
        }
        Verdict::Retry { error, delay, classes } => match errors
            .decide(&classes)
            .filter(|(_, then)| holds(*then, context))
        {
            Some((_, RuleAction::Retry)) | None => Err(match delay {
                Some(delay) => JobError::retry_after(delay, error),
                None => JobError::retry(error),
            }),
            Some((rule, then)) => {
                let (job, job_type) = (context.id(), context.job_type());
                tracing::debug!(%job, %job_type, rule, ?then, "the class of an error decides about the job");
                let then = match (then, delay) {
                    // The program may have asked for more.
                    (RuleAction::RetryAfter(least), Some(delay)) => RuleAction::RetryAfter(least.max(delay)),
                    (then, _) => then,
                };
                if matches!(then, RuleAction::Snooze(_)) {
                    note_snooze(context, &error);
                }
                then.error(|| error).map_or(Ok(Value::Null), Err)
            }
        },
        Verdict::Unknown { error } => Err(JobError::unknown(error)),
        Verdict::Fatal { error } => Err(JobError::fatal(error)),
        Verdict::Drop { reason } => Err(JobError::drop_job(reason)),
        Verdict::Snooze { delay, reason } => {
            let job = context.id();
            tracing::debug!(%job, ?delay, reason, "a program of a pool snoozes its job");
            note_snooze(context, &reason);
            Err(JobError::snooze(delay))
        }
    }
}

/// Returns false for a rule that means that nothing was done, if a step runs that must not run twice: who wrote the rule knows the
/// class, and not how far the handler came.
fn holds(then: RuleAction, context: &JobContext) -> bool {
    !(context.is_once() && matches!(then, RuleAction::Snooze(_) | RuleAction::Drop))
}

/// Says in the job's log why it is snoozed, because no attempt in its record does.
fn note_snooze(context: &JobContext, reason: &str) {
    if !reason.is_empty() {
        context.log(&output::line(format!("snoozed: {reason}").as_bytes()));
    }
}
