//! A job of Redis that runs here once, for a person who looks for its mistake. The handlers, their contexts and their bounds are
//! the real ones. Nobody has delivered the job, nothing is settled, and nothing is written.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::executor::{Bounds, bounded};
use super::handler::{JobContext, StepView};
use super::registry::{Erased, Registry, Runner};
use super::slot_timer::SlotTimer;
use super::steps::Steps;
use crate::job::{
    Envelope, JobSpec, Ledger, Outcome, PlannedStep, Policy, QueueName, StepName, StepState, Tracking,
};

/// A job as Redis has it.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct Specimen {
    /// Its queue.
    pub queue: QueueName,
    /// What its fields say.
    pub job: JobSpec,
    /// Its fields.
    pub envelope: Envelope,
    /// What is known about its steps; empty if it has none.
    pub ledger: Ledger,
}

/// One run of a handler.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct ReproducedRun {
    /// The step that ran, if the job is made of steps.
    pub step: Option<StepName>,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took.
    pub elapsed: Duration,
    /// The last progress that it reported: percent and note.
    pub progress: Option<(u8, String)>,
    /// The last 100 lines that it logged.
    pub lines: Vec<String>,
}

/// What became of a job that ran here.
#[doc(hidden)]
#[derive(Debug, Clone, Default)]
pub struct Reproduced {
    /// What ran, in this order.
    pub runs: Vec<ReproducedRun>,
    /// The steps that are done in Redis, each with the result that stands for it.
    pub done: Vec<(StepName, Option<Bytes>)>,
    /// The steps that did not run.
    pub left: Vec<StepName>,
}

/// Runs a job; `None` if its type has no handler. Of its steps, those that are done do not run, and the others only if
/// `runs_steps`.
pub(crate) async fn reproduce(
    registry: &Registry,
    mut specimen: Specimen,
    runs_steps: bool,
) -> Option<Reproduced> {
    let registered = registry.get(&specimen.job.job_type)?;
    // With a record, what a program writes is logged.
    specimen.job.tracking = Some(Tracking::All);
    if let Some(why) = registry.schema_violation(&specimen.job, &specimen.envelope).await {
        return Some(Reproduced { runs: vec![ReproducedRun::refused(why)], ..Reproduced::default() });
    }
    Some(match &registered.work {
        Runner::Whole(handler) => {
            let timeout = specimen.job.timeout.unwrap_or(registered.policy.timeout);
            let run = specimen.run(handler, timeout, None).await;
            Reproduced { runs: vec![run], ..Reproduced::default() }
        }
        Runner::Steps(steps) => specimen.run_steps(steps, &registered.policy, runs_steps).await,
    })
}

impl Specimen {
    /// Runs the steps whose turn it is, until one does not succeed.
    async fn run_steps(&self, steps: &Steps, policy: &Policy, runs_steps: bool) -> Reproduced {
        let planned = steps.plan().steps();
        let mut reproduced = Reproduced::default();
        for (step, record) in self.ledger.steps().filter(|(_, record)| record.state == StepState::Done) {
            reproduced.done.push((step.clone(), record.result.clone()));
        }
        let mut results: BTreeMap<StepName, Option<Bytes>> = reproduced.done.iter().cloned().collect();
        let timeout = self.job.timeout.unwrap_or(policy.timeout);
        let most = if runs_steps { planned.len() } else { 0 };
        for _ in 0..most {
            let is_next = |at: &usize| {
                let step = &planned[*at];
                !results.contains_key(&step.name)
                    && step.after.iter().all(|before| results.contains_key(before))
            };
            let Some(at) = (0..planned.len()).find(is_next) else { break };
            let (handler, timeout) = steps.handler(at, timeout);
            let run = self.run(handler, timeout, Some((&planned[at], &results))).await;
            let result = if let Outcome::Done(result) = &run.outcome { Some(result.clone()) } else { None };
            reproduced.runs.push(run);
            let Some(result) = result else { break };
            results.insert(planned[at].name.clone(), result);
        }
        let left = planned.iter().map(|step| &step.name).filter(|step| !results.contains_key(*step));
        reproduced.left = left.cloned().collect();
        if let Some(failed) = reproduced.runs.last().and_then(|run| run.step.clone()) {
            reproduced.left.retain(|step| *step != failed);
        }
        reproduced
    }

    /// Runs a handler within its bounds, for a step if one is named.
    async fn run(
        &self,
        handler: &Erased,
        timeout: Duration,
        step: Option<(&PlannedStep, &BTreeMap<StepName, Option<Bytes>>)>,
    ) -> ReproducedRun {
        let (started, grace) = (Instant::now(), handler.grace());
        let deadline = started + timeout;
        let (job, envelope, queue) = (self.job.clone(), self.envelope.clone(), self.queue.clone());
        let mut context = JobContext::undelivered(job, envelope, queue, deadline);
        if let Some((step, results)) = step {
            let view = self.view(step, results, &context);
            context = context.in_step(view);
        }
        let (watched, mut slot_timer) = (context.clone(), SlotTimer::default());
        let bounds = Bounds { timeout, deadline, grace };
        let running = handler.run(context);
        let outcome = bounded(running, watched.held_lease(), bounds, &mut slot_timer, || {}).await;
        let (progress, lines) = watched.reported();
        let step = step.map(|(step, _)| step.name.clone());
        ReproducedRun { step, outcome, elapsed: started.elapsed(), progress, lines }
    }

    /// What a handler sees of its step.
    fn view(
        &self,
        step: &PlannedStep,
        results: &BTreeMap<StepName, Option<Bytes>>,
        context: &JobContext,
    ) -> StepView {
        let kept = results.iter().filter_map(|(step, result)| Some((step.clone(), result.clone()?)));
        StepView {
            name: step.name.clone(),
            kind: step.kind,
            is_first: true,
            aware: std::sync::Arc::default(),
            attempts: self.ledger.attempts(&step.name, &self.job.generation.to_string(), step.kind),
            token: context.held_lease().token().child_token(),
            results: kept.collect(),
            after: step.after.clone(),
            trace: None,
        }
    }
}

impl ReproducedRun {
    /// The run of a job that a worker would not start.
    fn refused(why: String) -> Self {
        let outcome = Outcome::Invalid(why);
        Self { step: None, outcome, elapsed: Duration::ZERO, progress: None, lines: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::job::{EntryId, Lane};
    use crate::{Handler, JobError, RawPayload};

    /// Counts its runs, returns its step's name, and fails in the step that it is told.
    #[derive(Clone, Default)]
    struct Counts {
        runs: Arc<AtomicU32>,
        fails_in: &'static str,
    }

    impl Handler for Counts {
        type Payload = RawPayload;
        type Output = String;

        async fn run(&self, _: RawPayload, context: JobContext) -> Result<String, JobError> {
            self.runs.fetch_add(1, Ordering::Relaxed);
            context.progress(40, "counting");
            context.log("a line");
            let step = context.step().map(ToString::to_string).unwrap_or_default();
            let charge = context.step_result::<String>("charge").ok().flatten().unwrap_or_default();
            if step == self.fails_in { Err(JobError::fatal("no")) } else { Ok(format!("{step}{charge}")) }
        }
    }

    fn specimen(ledger: &[(&str, &str)]) -> Specimen {
        let fields = [("type", "gift.send"), ("payload", "{}"), ("id", "g7")];
        let envelope = Envelope::new(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
        let job = JobSpec::parse(&envelope, EntryId::new(5, 0), Lane::Normal).unwrap();
        let fields = ledger.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        Specimen { queue: "gifts".parse().unwrap(), job, envelope, ledger: Ledger::read(fields) }
    }

    fn registry(counts: &Counts) -> Registry {
        let (mut registry, policy) = (Registry::default(), Policy::default());
        let steps = Steps::builder().once("charge", counts.clone()).auto("mail", counts.clone());
        let steps = steps.after("mail", ["charge"]).build().unwrap();
        registry.add_steps("gift.send".parse().unwrap(), policy, steps);
        registry
    }

    #[tokio::test]
    async fn a_whole_job_runs_once_and_tells_what_it_did() {
        let (counts, mut registry) = (Counts { fails_in: "-", ..Counts::default() }, Registry::default());
        registry.add("gift.send".parse().unwrap(), Policy::default(), counts.clone());
        let reproduced = reproduce(&registry, specimen(&[]), false).await.unwrap();
        let [run] = &reproduced.runs[..] else { panic!("{reproduced:?}") };
        assert_eq!(run.outcome, Outcome::Done(Some(Bytes::from_static(b"\"\""))));
        assert_eq!((run.progress.clone(), run.lines.len()), (Some((40, "counting".to_owned())), 1));
        assert_eq!(counts.runs.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_done_step_gives_its_result_and_the_others_run_only_on_request() {
        let ledger = [("charge:state", "done"), ("charge:result", "\"17\"")];
        let counts = Counts { fails_in: "-", ..Counts::default() };
        let looked = reproduce(&registry(&counts), specimen(&ledger), false).await.unwrap();
        assert_eq!((looked.runs.len(), looked.done.len(), looked.left.len()), (0, 1, 1));
        let ran = reproduce(&registry(&counts), specimen(&ledger), true).await.unwrap();
        assert_eq!(ran.runs[0].outcome, Outcome::Done(Some(Bytes::from_static(b"\"mail17\""))));
        assert_eq!((counts.runs.load(Ordering::Relaxed), ran.left.len()), (1, 0));
    }

    #[tokio::test]
    async fn nothing_runs_after_a_step_that_failed() {
        let counts = Counts { fails_in: "charge", ..Counts::default() };
        let ran = reproduce(&registry(&counts), specimen(&[]), true).await.unwrap();
        assert!(matches!(&ran.runs[..], [run] if matches!(run.outcome, Outcome::Failed(_))), "{ran:?}");
        assert_eq!(ran.left.iter().map(StepName::as_str).collect::<Vec<_>>(), ["mail"]);
    }

    #[tokio::test]
    async fn an_unknown_type_has_no_handler() {
        assert!(reproduce(&Registry::default(), specimen(&[]), true).await.is_none());
    }
}
