//! May these attempts start? One script asks for several.

use std::time::Duration;

use crate::attempt::args::{created, flag, letter_of, text, time};
use crate::attempt::call::JobsCall;
use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::job::{ConsumerName, FollowUps, JobSpec, Lane};
use crate::{Answer, Queue};

scripts! { BEGIN "begin" }

/// The answer of `begin` to an attempt that wants to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// The attempt may start, within this time if the job expires.
    Start(Option<Duration>),
    /// Another process settled this entry.
    Stale,
    /// An earlier attempt succeeded after it had been given up: the job is done.
    DoneAlready,
    /// Its `expires_at_ms` has passed.
    Expired,
    /// The job's cancellation was requested.
    CancelRequested,
    /// The job is not due for this long.
    NotDue(Duration),
}

/// An attempt that wants to start.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    #[doc(hidden)]
    pub job: &'a JobSpec,
    /// Whether the job has a record, which its start must be written to.
    #[doc(hidden)]
    pub keeps_record: bool,
}

impl Queue {
    /// Asks whether attempts of one lane may start. Returns for each the answer, or why Redis refused this one alone.
    /// See `begin.lua`.
    #[doc(hidden)]
    pub async fn begin(
        &self,
        consumer: &ConsumerName,
        lane: Lane,
        candidates: &[Candidate<'_>],
    ) -> Result<Vec<Result<Begun, Error>>, Error> {
        let shared = [self.keys.stream(lane), &self.keys.cancels, &self.keys.dead];
        let mut call = JobsCall::new(&BEGIN, (consumer, lane), &shared);
        for Candidate { job, keeps_record } in candidates {
            let lock = job.follow_ups.as_deref().and_then(FollowUps::freed_at_start);
            let [letter_generation, letter_ms] = letter_of(job);
            let letter_token = job.former.as_deref().and_then(|former| former.offloaded.as_deref());
            let args = args![BEGIN;
                id = text(&job.id),
                not_before_ms = time(job.not_before),
                expires_at_ms = time(job.expires_at),
                keeps = flag(*keeps_record),
                job_type = job.job_type.as_str(),
                created_ms = created(job),
                is_repeated = flag(job.is_repeated()),
                unlocks = flag(lock.is_some()),
                letter_generation,
                letter_ms,
                letter_token = letter_token.unwrap_or_default(),
            ];
            call.add((job.entry, &job.generation), [self.keys.record(&job.id), self.keys.lock(lock)], args);
        }
        let answers = self.run_each(call).await?;
        Ok(answers.into_iter().map(|answer| begun(answer?)).collect())
    }
}

fn begun(answer: Answer) -> Result<Begun, Error> {
    match (answer.status, answer.rest.first().and_then(decode::number)) {
        (0, _) => Ok(Begun::Stale),
        (1, left) => Ok(Begun::Start(left.map(Duration::from_millis))),
        (2, _) => Ok(Begun::DoneAlready),
        (3, _) => Ok(Begun::Expired),
        (5, _) => Ok(Begun::CancelRequested),
        (4, Some(ms)) => Ok(Begun::NotDue(Duration::from_millis(ms))),
        _ => Err(Error::contract("begin", answer)),
    }
}
