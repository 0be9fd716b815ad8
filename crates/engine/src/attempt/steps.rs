//! The ledgers of jobs made of steps: how a worker reads them, and how an operator inspects and decides.

use fred::types::Value;

use crate::attempt::followup::FollowUpArgs;
use crate::attempt::taken::TakenJob;
use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::dead::edit::{PLACE_RETENTION, restated};
use crate::dead::letter::DeadLetter;
use crate::inspect::audit::{Action, Noted, call_name};
use crate::job::{
    AfterDecision, DeadReason, End, EntryId, JobId, JobSpec, Lane, Ledger, State, StepName, StepRecord,
    StepState, Timestamp, Undecidable, Verdict, cut, judge,
};
use crate::{Queue, bytes, millis};

scripts! { DECIDE "decide", STEPS "steps" }

/// A snapshot of the ledger of a job's steps; see the [example](StepLedgers).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StepsStatus {
    /// When the snapshot was taken.
    pub now: Timestamp,
    /// What is known about the steps.
    pub ledger: Ledger,
    /// The job's dead letter, if it is dead.
    pub dead: Option<EntryId>,
}

/// The result of a decision; see the [example](StepLedgers).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// It is written, and the job stays where it is.
    Written,
    /// It is written, and the job runs again, as this entry if it is known.
    Replayed(Option<EntryId>),
    /// All steps are done, and so is the job.
    Done,
}

/// Why a decision was not accepted; see the [example](StepLedgers).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecideError {
    /// No worker has started a step of this job.
    #[error("the queue {queue} has no states of steps for the job {job}")]
    NoLedger {
        /// The queue.
        queue: String,
        /// The job.
        job: JobId,
    },
    /// The job has no such step.
    #[error("the job has no step {step}; it has {known}")]
    NoStep {
        /// The step that was named.
        step: StepName,
        /// The steps that the job has.
        known: String,
    },
    /// The step is not in a state that allows this verdict.
    #[error("{step} is {state}: {why}")]
    Refused {
        /// The step.
        step: StepName,
        /// Its state.
        state: StepState,
        /// Why not.
        why: Undecidable,
    },
    /// No step can have this result.
    #[error("the result cannot be kept: {0}")]
    BadResult(String),
    /// Somebody else decided, or the step changed, between the lookup and the decision.
    #[error("{0} changed in the meantime: look at it again before you decide")]
    Changed(StepName),
    /// Redis does not answer or refuses.
    #[error(transparent)]
    Redis(#[from] Error),
}

/// The step ledgers of a queue's jobs. [`Queue::steps`] returns it.
///
/// ```no_run
/// # use streamfleet_engine as streamfleet;
/// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use streamfleet::admin::{Action, DecideError, Decided};
/// use streamfleet::job::{JobId, StepState, Verdict};
///
/// let job: JobId = "invoice-17".parse()?;
/// let Some(status) = queue.steps().of(&job).await? else { return Ok(()) };
/// for (step, _) in status.ledger.steps().filter(|(_, record)| record.state == StepState::Unknown) {
///     let ann = Action::new("steps decide", "ann").why("the card was charged");
///     let day = Duration::from_secs(24 * 3600);
///     match queue.steps().decide(&job, (step, Verdict::Done), Some(r#"{"receipt":17}"#), &ann, day).await {
///         Ok(decided) => match decided.value {
///             Decided::Done => println!("{job} is done"),
///             Decided::Replayed(_) => println!("{job} continues"),
///             Decided::Written => println!("{job} needs more decisions"),
///         },
///         Err(DecideError::Changed(step)) => println!("look at {step} again"),
///         Err(error) => return Err(error.into()),
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy)]
pub struct StepLedgers<'a> {
    #[doc(hidden)]
    pub queue: &'a Queue,
}

impl Queue {
    /// Gives access to the step ledgers of jobs.
    pub fn steps(&self) -> StepLedgers<'_> {
        StepLedgers { queue: self }
    }
}

impl StepLedgers<'_> {
    /// Returns the ledger of a job's steps; `None` if none of its steps has begun, or the ledger has expired with its
    /// job.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn of(self, job: &JobId) -> Result<Option<StepsStatus>, Error> {
        let steps = self.read(job, None).await?;
        Ok(Some(steps).filter(|steps| steps.ledger.plan.is_some()))
    }

    /// Returns the ledger, empty if there is none. If it has gone, what the job's fields say about its steps is first
    /// written into a new one, with the plan. See `steps.lua`.
    #[doc(hidden)]
    pub async fn read(self, job: &JobId, known: Option<(&[u8], &str)>) -> Result<StepsStatus, Error> {
        let keys = vec![self.queue.keys.ledger(job), self.queue.keys.record(job)];
        let (states, plan) = known.unwrap_or_default();
        let args = args![STEPS; told_steps = bytes(states), plan];
        let answer = self.queue.run(&STEPS, keys, args.into()).await?;
        let [Value::Array(fields), state, dead] = &answer.rest[..] else {
            return Err(Error::contract("steps", answer));
        };
        let is_dead = decode::text(state).parse() == Ok(State::Dead);
        Ok(StepsStatus {
            now: decode::timestamp(answer.status.cast_unsigned()),
            ledger: Ledger::read(decode::envelope(fields).fields()),
            dead: decode::entry_id(dead).filter(|_| is_dead),
        })
    }

    /// Records an operator's verdict on a step. `result` is what later steps get as its result: JSON of up to 16 KiB, and
    /// only with [`Verdict::Done`]. Without it, a step that is declared done has none, and a later call may say what it is, as
    /// long as no step after it runs or is done. `action` says who decides and why; it
    /// is kept with the step, and noted in the audit with the job, the step and the verdict.
    ///
    /// If all steps of a dead job are then done, so is the job, with everything that its end triggers, and its record
    /// is kept for `retention`. If the job can continue, it is replayed. Two operators never both decide: the second
    /// gets [`DecideError::Changed`] or [`DecideError::Refused`].
    ///
    /// # Errors
    ///
    /// [`DecideError`] if the step is not in a state that allows this verdict, the result is not one, or Redis does not
    /// answer.
    pub async fn decide(
        self,
        job: &JobId,
        (step, verdict): (&StepName, Verdict),
        result: Option<&str>,
        action: &Action,
        retention: std::time::Duration,
    ) -> Result<Noted<Decided>, DecideError> {
        check_result(verdict, result)?;
        let first = self.read(job, None).await?;
        let seen = first.ledger.get(step).cloned();
        let mut steps = first;
        // Other steps may change in the meantime; this one may not.
        for _ in 0..Self::DECIDE_TRIES {
            if steps.ledger.get(step) != seen.as_ref() {
                break;
            }
            let Some(plan) = &steps.ledger.plan else {
                return Err(DecideError::NoLedger { queue: self.queue.name().to_string(), job: job.clone() });
            };
            if plan.get(step).is_none() {
                let known: Vec<&str> = plan.steps().iter().map(|step| step.name.as_str()).collect();
                return Err(DecideError::NoStep { step: step.clone(), known: known.join(", ") });
            }
            let state = steps.ledger.state(step);
            let refused = |why| DecideError::Refused { step: step.clone(), state, why };
            let is_amended = result.is_some() && plan.may_amend(&steps.ledger, step);
            let judged = if is_amended { Ok(state) } else { judge(state, steps.dead.is_some(), verdict) };
            let next = judged.map_err(refused)?;
            let mut after = steps.ledger.clone();
            after.decided(step, next);
            let then =
                if verdict == Verdict::GiveUp { AfterDecision::Stay } else { plan.after_decision(&after) };
            let stays = (plan.reason(&after), after.states());
            let report = StepReport { step, state: next, verdict, result };
            let call = Call { report: Some(report), then, stays: Some(stays), action, retention };
            if let Some(decided) = self.call_decide(job, &steps, &call).await? {
                return Ok(decided);
            }
            steps = self.read(job, None).await?;
        }
        Err(DecideError::Changed(step.clone()))
    }

    const DECIDE_TRIES: usize = 5;

    /// Continues a job that was buried because of a step whose end is now known.
    ///
    /// Returns false if there is nothing to do, or if an operator must decide anyway: a replay would give exhausted
    /// steps their attempts again.
    #[doc(hidden)]
    pub async fn resume(self, job: &JobId, retention: std::time::Duration) -> Result<bool, Error> {
        let steps = self.read(job, None).await?;
        self.resume_from(job, &steps, retention).await
    }

    /// Continues a job that was just buried because a person must decide, if no step needs that any more: the last one may
    /// have reported its end a moment before the burial, and found no dead job.
    ///
    /// Returns false if there is nothing to do.
    #[doc(hidden)]
    pub async fn resume_decided(self, job: &JobId, retention: std::time::Duration) -> Result<bool, Error> {
        let steps = self.read(job, None).await?;
        let undecided = [StepState::Failed, StepState::Unknown, StepState::Started];
        if steps.ledger.steps().any(|(_, record)| undecided.contains(&record.state)) {
            return Ok(false);
        }
        self.resume_from(job, &steps, retention).await
    }

    async fn resume_from(
        self,
        job: &JobId,
        steps: &StepsStatus,
        retention: std::time::Duration,
    ) -> Result<bool, Error> {
        let then =
            steps.ledger.plan.as_ref().map_or(AfterDecision::Stay, |plan| plan.after_decision(&steps.ledger));
        let used_up = [StepState::Exhausted, StepState::GivenUp];
        if then == AfterDecision::Stay
            || steps.ledger.steps().any(|(_, record)| used_up.contains(&record.state))
        {
            return Ok(false);
        }
        let Some(dead) = steps.dead else { return Ok(false) };
        let reason = self.queue.dead_letters().get(dead).await?.map(|letter| letter.text("dead_reason"));
        if reason.as_deref() != Some(DeadReason::NeedsDecision.as_str()) {
            return Ok(false);
        }
        let action = Action::new("", "worker");
        let call = Call { report: None, then, stays: None, action: &action, retention };
        Ok(self.call_decide(job, steps, &call).await?.is_some())
    }

    /// Sends one decision; `None` if the state that it is based on has changed. See `decide.lua`.
    async fn call_decide(
        self,
        job: &JobId,
        steps: &StepsStatus,
        call: &Call<'_>,
    ) -> Result<Option<Noted<Decided>>, Error> {
        let letter = match steps.dead {
            Some(dead) => self.queue.dead_letters().get(dead).await?,
            None => None,
        };
        let (lane, follow_up, offloaded) = self.ending_of(letter.as_ref());
        let FollowUpArgs { keys: [lock, batch], ends } = follow_up;
        let mut keys =
            vec![self.queue.keys.ledger(job), self.queue.keys.record(job), self.queue.keys.dead.clone()];
        keys.extend(self.queue.keys.streams().clone());
        let place = self.queue.keys.edited(steps.dead.unwrap_or(EntryId::new(0, 0)));
        let stream = self.queue.keys.stream(lane).clone();
        keys.extend([lock, batch, stream, offloaded, place, self.queue.keys.audit.clone()]);
        let mut args = call.args(job, steps, ends);
        if let (Some(letter), Some((reason, states))) = (&letter, &call.stays)
            && letter.text("dead_reason") == DeadReason::NeedsDecision.as_str()
            && *reason != DeadReason::NeedsDecision
        {
            args.extend(restated(letter, *reason, states));
        }
        let answer = self.queue.run_named(&DECIDE, keys, args).await?;
        let decided = match answer.status {
            0 => return Ok(None),
            1 => Decided::Written,
            2 => Decided::Replayed(answer.rest.get(1).and_then(decode::entry_id)),
            3 => Decided::Done,
            _ => return Err(Error::contract("decide", answer)),
        };
        Ok(Some(Noted::read(decided, answer.rest.first())))
    }

    /// Returns the lane that a dead job came from, what its end triggers, and the key of its offloaded fields.
    fn ending_of(self, letter: Option<&DeadLetter>) -> (Lane, FollowUpArgs, fred::types::Key) {
        let nothing = (Lane::Normal, FollowUpArgs::none(&self.queue.keys), self.queue.keys.offloaded(""));
        let Some(letter) = letter else { return nothing };
        let lane = letter.text("dead_origin").parse().unwrap_or_default();
        // A letter that cannot be parsed triggers nothing.
        let Ok(job) = JobSpec::parse(&letter.fields, letter.entry, lane) else { return nothing };
        let taken = TakenJob { job: &job, envelope: &letter.fields, trace: None };
        // Only workers know what a type names.
        let follow_up = FollowUpArgs::of(&self.queue.keys, taken, None, End::Done(None));
        (lane, follow_up, self.queue.offloaded_of(taken))
    }
}

/// What one call of the script is to do.
struct Call<'a> {
    report: Option<StepReport<'a>>,
    then: AfterDecision,
    /// Why the job is dead from now on if it stays, and the states of its steps.
    stays: Option<(DeadReason, String)>,
    /// Who decides, and why.
    action: &'a Action,
    retention: std::time::Duration,
}

impl Call<'_> {
    /// The arguments of the script, without those about a letter that stays.
    fn args(&self, job: &JobId, steps: &StepsStatus, ends: Value) -> Vec<Value> {
        let then = match self.then {
            AfterDecision::Done => "done",
            AfterDecision::Replay => "replay",
            AfterDecision::Stay => "stay",
        };
        let [step, state, verdict, result] = self.report.as_ref().map_or([""; 4], |report| {
            let result = report.result.unwrap_or_default();
            [report.step.as_str(), report.state.as_str(), report.verdict.as_str(), result]
        });
        let note = self
            .report
            .as_ref()
            .map(|_| self.action.clone().target(format!("{job} {step} {verdict}")).count(1).pack());
        Vec::from(args![DECIDE;
            version = steps.ledger.version.to_string(),
            letter_id = steps.dead.map_or_else(String::new, |dead| dead.to_string()),
            call = call_name(),
            step,
            state,
            verdict,
            who = one_word(&self.action.who),
            reason = bytes(cut(self.action.why.clone(), StepRecord::MAX_ERROR_BYTES).as_bytes()),
            follows = then,
            retention_ms = millis(self.retention),
            id = job.to_string(),
            ends,
            kept_ms = millis(PLACE_RETENTION),
            result = bytes(result.as_bytes()),
            action = bytes(&note.unwrap_or_default()),
        ])
    }
}

/// What a person says about a step, and the state that follows from it.
struct StepReport<'a> {
    step: &'a StepName,
    state: StepState,
    verdict: Verdict,
    result: Option<&'a str>,
}

/// Refuses a result that no step can have.
fn check_result(verdict: Verdict, result: Option<&str>) -> Result<(), DecideError> {
    let Some(result) = result else { return Ok(()) };
    let refused = |why: String| Err(DecideError::BadResult(why));
    if verdict != Verdict::Done {
        return refused(format!(
            "only a step that is done has a result, and the verdict is {}",
            verdict.as_str()
        ));
    }
    if result.len() > StepRecord::MAX_RESULT_BYTES {
        let most = StepRecord::MAX_RESULT_BYTES;
        return refused(format!("it has {} bytes, and at most {most} are kept", result.len()));
    }
    match serde_json::from_str::<serde::de::IgnoredAny>(result) {
        Ok(_) => Ok(()),
        Err(error) => refused(format!("it is not JSON: {error}")),
    }
}

/// A name as the ledger keeps it: without whitespace, and at most 64 bytes long.
fn one_word(who: &str) -> String {
    const MOST_BYTES: usize = 64;
    let plain: String = who.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect();
    if plain.is_empty() { "somebody".to_owned() } else { cut(plain, MOST_BYTES).replace(' ', "") }
}
