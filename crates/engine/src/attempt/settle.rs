//! The transitions that end attempts. Each is one script, for one attempt or for several, and safe to resend.

use std::time::Duration;

use fred::types::{Key, Value};

use crate::attempt::applied::Applied;
use crate::attempt::args::{created, flag, flatten, text, time};
use crate::attempt::bury::Letter;
use crate::attempt::call::{JobsCall, only};
use crate::attempt::followup::FollowUpArgs;
use crate::attempt::keep::KeepRecord;
use crate::attempt::taken::{AttemptSummary, TakenJob, identified, next_attempt};
use crate::client::error::Error;
use crate::client::script::{Script, args, scripts};
use crate::job::{ConsumerName, Deferral, End, JobId, Lane, Parking, Policy, Settlement};
use crate::submit::offload::ScriptFields;
use crate::{Answer, Queue, bytes, millis};

scripts! { CANCELLED "cancelled", COMPLETE "complete", DEFER "defer", PARK "park", RELEASE "release" }

/// The answer about a job that the script left for another call; see `complete.lua`.
const LATER: i64 = 5;

/// An attempt that ended, and what is decided about it.
#[derive(Debug, Clone, Copy)]
pub struct EndedAttempt<'a> {
    /// The job.
    pub taken: TakenJob<'a>,
    /// The policy of its type, which may name the jobs that follow its end.
    pub policy: &'a Policy,
    /// What Redis must do.
    pub settlement: &'a Settlement,
    /// What is kept of the job.
    pub keep: KeepRecord<'a>,
    /// How the attempt went.
    pub ran: AttemptSummary<'a>,
}

impl EndedAttempt<'_> {
    /// The decision in place of this one if the job's cancellation was requested.
    fn cancel(&self) -> Settlement {
        let error = match self.settlement {
            Settlement::Defer(to) => to.error.as_deref(),
            Settlement::Bury(burial) => Some(burial.error.as_str()),
            Settlement::Ack | Settlement::Release | Settlement::Park(_) | Settlement::Cancel(_) => None,
        };
        let why = error.map(|error| format!("cancelled; its last attempt: {error}"));
        Settlement::Cancel(why.unwrap_or_else(|| "cancelled".to_owned()))
    }
}

impl Queue {
    /// Lists the keys that the scripts of a job's attempt touch, for messages. Follow-up jobs may add others.
    #[doc(hidden)]
    pub fn keys_of(&self, job: &JobId) -> String {
        let keys = [self.keys.record(job), self.keys.ledger(job)];
        let shared = [&self.keys.dead, &self.keys.delayed, &self.keys.delayed_fields, &self.keys.cancels];
        let keys = keys.iter().chain(shared).map(|key| key.as_str_lossy().into_owned());
        keys.collect::<Vec<_>>().join(", ")
    }

    /// Carries out the decision about one attempt.
    #[doc(hidden)]
    pub async fn apply(&self, consumer: &ConsumerName, ended: EndedAttempt<'_>) -> Result<Applied, Error> {
        only("settle", self.apply_all(consumer, &[ended]).await?)
    }

    /// Carries out decisions of one kind about attempts of one lane, in one script. Returns for each what became of it, or
    /// why Redis refused this one alone. Attempts with large fields go alone, because these are sent beforehand.
    ///
    /// If the cancellation of a job that failed or was released was requested, the script changes nothing, and a second
    /// one cancels the job. A process that dies in between leaves the entry pending, and the request to the process that
    /// claims it.
    #[doc(hidden)]
    pub async fn apply_all(
        &self,
        consumer: &ConsumerName,
        ended: &[EndedAttempt<'_>],
    ) -> Result<Vec<Result<Applied, Error>>, Error> {
        let answers = self.settle_all(consumer, ended).await?;
        let is_unwanted =
            |answer: &Result<Answer, Error>| answer.as_ref().is_ok_and(|answer| answer.status == 3);
        let unwanted = ended.iter().zip(&answers).filter(|(_, answer)| is_unwanted(answer));
        let unwanted: Vec<_> = unwanted.map(|(ended, _)| (ended, ended.cancel())).collect();
        let cancels: Vec<_> =
            unwanted.iter().map(|(ended, settlement)| EndedAttempt { settlement, ..**ended }).collect();
        // An error here is not one of the others.
        let cancelled = self.settle_all(consumer, &cancels).await;
        let mut cancelled = cancelled
            .unwrap_or_else(|error| cancels.iter().map(|_| Err(error.clone())).collect())
            .into_iter();
        let outcome = |answer: Result<Answer, Error>| match answer {
            Ok(answer) if answer.status == 3 => {
                let answer =
                    cancelled.next().unwrap_or_else(|| Err(Error::contract("cancelled", "no answer")))?;
                let applied = Applied::of(answer)?;
                Ok(if applied == Applied::Moved { Applied::Cancelled } else { applied })
            }
            answer => Applied::of(answer?),
        };
        Ok(answers.into_iter().map(outcome).collect())
    }

    /// Runs the script of these settlements, which are of one kind and lane, until it has left none for another call.
    async fn settle_all(
        &self,
        consumer: &ConsumerName,
        ended: &[EndedAttempt<'_>],
    ) -> Result<Vec<Result<Answer, Error>>, Error> {
        let mut answers = self.settle_some(consumer, ended).await?;
        loop {
            let is_left = |nth: &usize| answers[*nth].as_ref().is_ok_and(|answer| answer.status == LATER);
            let left: Vec<_> = (0..answers.len()).filter(is_left).collect();
            if left.is_empty() {
                return Ok(answers);
            }
            let some: Vec<_> = left.iter().map(|nth| ended[*nth]).collect();
            let reply = self.settle_some(consumer, &some).await?;
            if reply.first().is_none_or(|first| first.as_ref().is_ok_and(|answer| answer.status == LATER)) {
                return Err(Error::contract("settle", "a call that settled nothing"));
            }
            left.into_iter().zip(reply).for_each(|(nth, answer)| answers[nth] = answer);
        }
    }

    /// Runs the script once.
    async fn settle_some(
        &self,
        consumer: &ConsumerName,
        ended: &[EndedAttempt<'_>],
    ) -> Result<Vec<Result<Answer, Error>>, Error> {
        let Some(first) = ended.first() else { return Ok(Vec::new()) };
        let (lane, own) = (first.taken.job.lane, &self.keys);
        let begun = |script, shared: &[&Key]| self.settling_call(script, consumer, lane, shared);
        let mut call = match first.settlement {
            Settlement::Ack => begun(&COMPLETE, &[&own.delayed, &own.delayed_fields]),
            Settlement::Defer(_) => {
                begun(&DEFER, &[&own.cancels, &own.delayed, &own.delayed_fields, &own.wake])
            }
            Settlement::Release => begun(&RELEASE, &[&own.cancels]),
            Settlement::Park(_) => begun(&PARK, &[&own.cancels, &own.waitlists, &own.waitlist_locations]),
            Settlement::Bury(_) => self.burial_call(consumer, lane),
            Settlement::Cancel(_) => begun(&CANCELLED, &[&own.cancels, &own.cancel_locations]),
        };
        for ended in ended {
            match ended.settlement {
                Settlement::Ack => self.add_completion(&mut call, ended),
                Settlement::Defer(to) => self.add_deferral(&mut call, ended, to).await?,
                Settlement::Release => self.add_release(&mut call, ended).await?,
                Settlement::Park(parking) => self.add_parking(&mut call, ended, parking).await?,
                Settlement::Bury(burial) => {
                    let TakenJob { job, .. } = ended.taken;
                    let end = End::Dead(burial.reason, &burial.error);
                    let follow_up = FollowUpArgs::of(&self.keys, ended.taken, Some(ended.policy), end);
                    let letter = Letter::of(ended.taken, follow_up, self.offloaded_of(ended.taken));
                    self.add_burial(&mut call, (letter, job.is_repeated()), burial, &ended.ran).await?;
                }
                Settlement::Cancel(why) => self.add_cancellation(&mut call, ended, why),
            }
        }
        self.run_each(call).await
    }

    /// Begins the call of a settling script for attempts of one lane. `shared` are the keys that it takes after the
    /// stream and the receipts.
    pub(crate) fn settling_call(
        &self,
        script: &'static Script,
        consumer: &ConsumerName,
        lane: Lane,
        shared: &[&Key],
    ) -> JobsCall {
        let receipts = self.keys.receipts(consumer.as_str());
        JobsCall::new(script, (consumer, lane), &[&[self.keys.stream(lane), &receipts], shared].concat())
    }

    /// Ends a job as done. See `complete.lua`.
    fn add_completion(
        &self,
        call: &mut JobsCall,
        EndedAttempt { taken, policy, keep, ran, .. }: &EndedAttempt<'_>,
    ) {
        let job = taken.job;
        let FollowUpArgs { keys: [lock, batch], ends } =
            FollowUpArgs::of(&self.keys, *taken, Some(*policy), End::Done(keep.result));
        let keys =
            [self.keys.record(&job.id), lock, batch, self.keys.ledger(&job.id), self.offloaded_of(*taken)];
        let args = args![COMPLETE;
            id = text(&job.id),
            elapsed_ms = millis(ran.elapsed),
            result = keep.result.map_or_else(|| Value::from(""), |result| Value::Bytes(result.clone())),
            retention_ms = millis(keep.retention),
            job_type = job.job_type.as_str(),
            created_ms = created(job),
            keeps = keep.mode(),
            ends,
            fields = keep.journaled(*taken),
        ];
        call.add((job.entry, &job.generation), keys, args);
    }

    /// Moves an attempt to the delayed set. See `defer.lua`.
    async fn add_deferral(
        &self,
        call: &mut JobsCall,
        EndedAttempt { taken, keep, ran, .. }: &EndedAttempt<'_>,
        to: &Deferral,
    ) -> Result<(), Error> {
        let job = taken.job;
        let next = self.offload_large(next_attempt(*taken, to), &job.generation).await?;
        let keys = [self.keys.record(&job.id), self.offloaded_of(*taken), next.offloaded];
        let args = args![DEFER;
            id = text(&job.id),
            is_repeated = flag(job.is_repeated()),
            delay_ms = millis(to.delay),
            pack = Value::Bytes(next.envelope.pack(job.own_lane).into()),
            state = if to.error.is_some() { "retrying" } else { "scheduled" },
            elapsed_ms = millis(ran.elapsed),
            outcome = ran.outcome,
            worker = ran.worker,
            error_text = bytes(to.error.as_deref().unwrap_or_default().as_bytes()),
            job_type = job.job_type.as_str(),
            own_lane = job.own_lane.as_str(),
            created_ms = created(job),
            earliest_ms = time(job.not_before),
            keeps = flag(keep.while_alive(job)),
        ];
        call.add((job.entry, &job.generation), keys, args);
        Ok(())
    }

    /// Returns an entry unchanged to its lane. See `release.lua`.
    async fn add_release(
        &self,
        call: &mut JobsCall,
        EndedAttempt { taken, keep, ran, .. }: &EndedAttempt<'_>,
    ) -> Result<(), Error> {
        let job = taken.job;
        let fields = identified(*taken, None);
        let ScriptFields { envelope: fields, offloaded } =
            self.offload_large(fields, &job.generation).await?;
        let keys = [self.keys.record(&job.id), self.offloaded_of(*taken), offloaded];
        let mut args = Vec::from(args![RELEASE;
            is_repeated = flag(job.is_repeated()),
            elapsed_ms = millis(noted_duration(ran.elapsed)),
            keeps = flag(keep.while_alive(job)),
            job_type = job.job_type.as_str(),
            created_ms = created(job),
        ]);
        flatten(&fields, &mut args);
        call.add((job.entry, &job.generation), keys, args);
        Ok(())
    }

    /// Moves an entry to a waiting list, with the lane and the gates of its job. See `park.lua`.
    async fn add_parking(
        &self,
        call: &mut JobsCall,
        EndedAttempt { taken, keep, .. }: &EndedAttempt<'_>,
        parking: &Parking,
    ) -> Result<(), Error> {
        let job = taken.job;
        let fields = identified(*taken, Some(parking));
        let ScriptFields { envelope: fields, offloaded } =
            self.offload_large(fields, &job.generation).await?;
        let waitlist = self.keys.waitlist(&parking.waitlist);
        let keys = [self.keys.record(&job.id), self.offloaded_of(*taken), offloaded, waitlist];
        let mut args = Vec::from(args![PARK;
            id = text(&job.id),
            is_repeated = flag(job.is_repeated()),
            keeps = flag(keep.while_alive(job)),
            job_type = job.job_type.as_str(),
            created_ms = created(job),
            name = bytes(parking.waitlist.as_bytes()),
        ]);
        flatten(&fields, &mut args);
        call.add((job.entry, &job.generation), keys, args);
        Ok(())
    }

    /// Ends a cancelled job. See `cancelled.lua`.
    fn add_cancellation(
        &self,
        call: &mut JobsCall,
        EndedAttempt { taken, keep, ran, .. }: &EndedAttempt<'_>,
        why: &str,
    ) {
        let job = taken.job;
        let FollowUpArgs { keys: [lock, batch], ends } =
            FollowUpArgs::of(&self.keys, *taken, None, End::Cancelled);
        let keys =
            [self.keys.record(&job.id), lock, batch, self.keys.ledger(&job.id), self.offloaded_of(*taken)];
        let args = args![CANCELLED;
            id = text(&job.id),
            is_repeated = flag(job.is_repeated()),
            why = bytes(why.as_bytes()),
            elapsed_ms = millis(ran.elapsed),
            outcome = ran.outcome,
            worker = ran.worker,
            job_type = job.job_type.as_str(),
            created_ms = created(job),
            retention_ms = millis(keep.retention_of_cancelled()),
            ends,
            keeps = keep.mode(),
            fields = keep.journaled(*taken),
        ];
        call.add((job.entry, &job.generation), keys, args);
    }
}

/// Returns how long an interrupted handler is noted to have run. Zero means that it did not run, which is not noted.
fn noted_duration(elapsed: Duration) -> Duration {
    if elapsed.is_zero() { elapsed } else { elapsed.max(Duration::from_millis(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_of_less_than_a_millisecond_is_noted() {
        let noted = [0, 300, 1_500].map(|micros| noted_duration(Duration::from_micros(micros)).as_millis());
        assert_eq!(noted, [0, 1, 1]);
    }
}
