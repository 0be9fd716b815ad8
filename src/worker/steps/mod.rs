//! Jobs made of steps. Each step has its own handler and limits, and its state is kept in a ledger in Redis, so that it
//! survives any crash. [`Steps`] is put together here; `attempt` runs what is ready.

mod attempt;
pub(super) mod ledgers;

use std::sync::Arc;
use std::time::Duration;

pub(super) use attempt::{Attempt, begin};

use super::handler::Handler;
use super::registry::{Erased, ErasedMiddleware};
use crate::broker::StepRun;
use crate::job::{OutOfBounds, Plan, PlanError, PlannedStep, StepKind, StepLimits, StepName};

/// How long writing the end of a step's run may take after its grace period.
const RECORD_MARGIN: Duration = Duration::from_secs(2);

/// The steps of a job type, ready to run.
///
/// ```
/// # use streamfleet::{Handler, JobContext, JobError, RawPayload};
/// use streamfleet::Steps;
/// # struct Charge; struct Mail;
/// # impl Handler for Charge { type Payload = RawPayload; type Output = ();
/// # async fn run(&self, _: RawPayload, _: JobContext) -> Result<(), JobError> { Ok(()) } }
/// # impl Handler for Mail { type Payload = RawPayload; type Output = ();
/// # async fn run(&self, _: RawPayload, _: JobContext) -> Result<(), JobError> { Ok(()) } }
///
/// # fn main() -> Result<(), streamfleet::job::PlanError> {
/// let steps = Steps::builder()
///     .once("charge", Charge) // never twice, unless a person says so
///     .auto("mail", Mail)
///     .after("mail", ["charge"])
///     .build()?;
/// # let _ = steps; Ok(()) }
/// ```
#[derive(Clone)]
pub struct Steps {
    plan: Plan,
    /// The plan as ledgers store it.
    text: Arc<str>,
    /// The parts in plan order.
    parts: Vec<Part>,
    /// How many of them may run at once.
    at_once: usize,
}

/// What runs one step.
#[derive(Clone)]
struct Part {
    handler: Erased,
    limits: StepLimits,
}

/// Puts steps together; see the [example](Steps). [`StepsBuilder::build`] reports what is wrong.
#[derive(Default)]
pub struct StepsBuilder {
    steps: Vec<(PlannedStep, Part)>,
    wrong: Option<PlanError>,
    at_once: Option<usize>,
}

impl Steps {
    /// Starts to put steps together. They run one after another, in the order in which they are added, unless `after` or
    /// [`concurrent`](StepsBuilder::concurrent) says otherwise.
    pub fn builder() -> StepsBuilder {
        StepsBuilder::default()
    }

    /// Returns the plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns a run of the step at this index.
    fn run(&self, at: usize, run: &Arc<str>) -> StepRun {
        let PlannedStep { name, kind, .. } = &self.plan.steps()[at];
        StepRun { step: name.clone(), kind: *kind, run: Arc::clone(run) }
    }

    /// Returns what runs the step at this index, and for how long it may, if the type allows each step this long.
    pub(super) fn handler(&self, at: usize, timeout: Duration) -> (&Erased, Duration) {
        let Part { handler, limits } = &self.parts[at];
        (handler, limits.timeout_within(timeout))
    }

    /// Returns the steps that must be done before this one.
    fn after(&self, step: &StepName) -> Vec<StepName> {
        let planned = self.plan.steps().iter().find(|planned| planned.name == *step);
        planned.map(|planned| planned.after.clone()).unwrap_or_default()
    }

    /// Returns which limits of steps are out of their bounds, if the type allows each step this long.
    pub(super) fn check(&self, timeout: Duration) -> Vec<OutOfBounds> {
        let all = self.plan.steps().iter().zip(&self.parts);
        let wrong = all.flat_map(|(PlannedStep { name, kind, .. }, part)| {
            let wrong = part.limits.check(*kind, timeout).into_iter();
            wrong.map(move |wrong| wrong.below(&["steps", name.as_str()]))
        });
        wrong.collect()
    }

    /// Returns the longest time of an attempt that runs every step once, if the type allows each step this long.
    pub(super) fn longest_attempt(&self, timeout: Duration) -> Duration {
        self.parts.iter().map(|part| part.limits.timeout_within(timeout)).sum()
    }

    /// Returns how long an attempt may continue after its cancellation.
    pub(super) fn grace(&self) -> Duration {
        let longest = self.parts.iter().map(|part| part.handler.grace()).max();
        longest.unwrap_or_default() + RECORD_MARGIN
    }

    /// Wraps a middleware around every step.
    pub(super) fn wrap(&mut self, link: &Arc<dyn ErasedMiddleware>) {
        self.parts.iter_mut().for_each(|part| part.handler.wrap(link));
    }

    pub(super) fn wrap_outermost(&mut self, link: &Arc<dyn ErasedMiddleware>) {
        self.parts.iter_mut().for_each(|part| part.handler.wrap_outermost(link));
    }
}

impl StepsBuilder {
    /// Adds a step that may run again until its limit.
    #[must_use]
    pub fn auto(self, name: &str, handler: impl Handler) -> Self {
        self.step(name, StepKind::Auto, handler)
    }

    /// Adds a step that never runs twice, unless a person says so.
    #[must_use]
    pub fn once(self, name: &str, handler: impl Handler) -> Self {
        self.step(name, StepKind::Once, handler)
    }

    /// Adds a step of this kind.
    #[must_use]
    pub fn step(mut self, name: &str, kind: StepKind, handler: impl Handler) -> Self {
        match name.parse() {
            Ok(name) => {
                let planned = PlannedStep { name, kind, after: Vec::new() };
                let part = Part { handler: Erased::of(handler), limits: StepLimits::default() };
                self.steps.push((planned, part));
            }
            Err(error) => self.keep_error(PlanError::Name(error)),
        }
        self
    }

    /// Makes a step start only when these are done.
    #[must_use]
    pub fn after<S: AsRef<str>>(mut self, name: &str, before: impl IntoIterator<Item = S>) -> Self {
        for before in before {
            match before.as_ref().parse() {
                Ok(before) => self.with(name, |planned, _| planned.after.push(before)),
                Err(error) => self.keep_error(PlanError::Name(error)),
            }
        }
        self
    }

    /// Gives a step its own limits.
    #[must_use]
    pub fn limits(mut self, name: &str, limits: StepLimits) -> Self {
        self.with(name, |_, part| part.limits = limits);
        self
    }

    /// Lets up to this many steps of one job run at the same time, if they are ready: 1 to 64, by default 1. A job holds one slot
    /// all the same. If order matters, say so by [`after`](Self::after).
    #[must_use]
    pub fn concurrent(self, steps: usize) -> Self {
        Self { at_once: Some(steps.clamp(1, Plan::MAX_STEPS)), ..self }
    }

    /// Builds the steps.
    ///
    /// # Errors
    ///
    /// [`PlanError`] if there are no steps or too many, a name is not valid or occurs twice, or `after` names an
    /// unknown step or forms a cycle.
    pub fn build(self) -> Result<Steps, PlanError> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        let (planned, parts) = self.steps.into_iter().unzip();
        let plan = Plan::new(planned)?;
        Ok(Steps { text: plan.to_string().into(), plan, parts, at_once: self.at_once.unwrap_or(1) })
    }

    fn with(&mut self, name: &str, change: impl FnOnce(&mut PlannedStep, &mut Part)) {
        match self.steps.iter_mut().find(|(planned, _)| planned.name.as_str() == name) {
            Some((planned, part)) => change(planned, part),
            None => match name.parse::<StepName>() {
                Ok(step) => self.keep_error(PlanError::UnknownStep { after: step.clone(), step }),
                Err(error) => self.keep_error(PlanError::Name(error)),
            },
        }
    }

    /// Keeps the first problem, which is the one that is reported.
    fn keep_error(&mut self, error: PlanError) {
        self.wrong.get_or_insert(error);
    }
}
