//! Which handler runs which type, and what is wrapped around it. This is the one place that erases their types.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustc_hash::FxHashMap;

use super::JobError;
use super::decoding::{Decoding, to_check};
use super::handler::{Handler, JobContext, MAX_RESULT_BYTES, Payload};
use super::limits::{Limits, SharedPermits};
use super::middleware::{Handled, Middleware, Next};
use super::steps::Steps;
use crate::broker::PoolDown;
use crate::codecs::Codecs;
use crate::job::{
    Envelope, Failure, FailureKind, HandOver, JobSpec, JobType, OutOfBounds, Outcome, Policies, Policy,
    Retry, StepRecord,
};
use crate::schema::{Schemas, blocking};

/// The handlers of a fleet, by type, and what is wrapped around them.
#[derive(Default)]
pub(crate) struct Registry {
    handlers: FxHashMap<JobType, Arc<Registered>>,
    /// In the order of registration, outermost first; each applies to all types or to one.
    middleware: Vec<(Option<JobType>, Arc<dyn ErasedMiddleware>)>,
    shared_places: SharedPermits,
    /// What payloads must fit, also those of types that have no handler here.
    pub(crate) schemas: Schemas,
    /// What decodes payloads, if anything does.
    pub(crate) codecs: Option<Codecs>,
    /// What tells configurations apart, if there is one that others can have too.
    pub(crate) config_digest: Option<String>,
    /// What says which pools cannot start, if there are pools.
    pub(crate) pools_down: Option<Arc<PoolsDown>>,
    /// What runs the jobs that take others to another queue. It is no handler of anybody's: no limit, middleware or list of types
    /// counts it.
    hand_over: Option<Arc<Registered>>,
}

/// Says which pools of programs cannot start.
pub(crate) type PoolsDown = dyn Fn() -> Vec<PoolDown> + Send + Sync;

/// One type's handler and policy.
#[derive(Clone)]
pub(crate) struct Registered {
    pub(crate) policy: Policy,
    pub(crate) work: Runner,
}

/// What runs the jobs of a type.
#[derive(Clone)]
pub(crate) enum Runner {
    /// One handler.
    Whole(Erased),
    /// A handler for each step.
    Steps(Arc<Steps>),
}

/// A handler with its type erased.
#[derive(Clone)]
pub(crate) struct Erased {
    grace: Duration,
    run: Arc<dyn Fn(JobContext) -> BoxFuture<'static, Outcome> + Send + Sync>,
    /// Used instead of `run` if something is wrapped around the handler.
    chain: Arc<Chain>,
}

/// A handler that catches its panics, and what is wrapped around it.
#[derive(Clone)]
pub(super) struct Chain {
    links: Vec<Arc<dyn ErasedMiddleware>>,
    handle: Arc<dyn Fn(JobContext) -> BoxFuture<'static, Handled> + Send + Sync>,
}

/// A [`Middleware`] with its type erased.
pub(super) trait ErasedMiddleware: Send + Sync {
    fn call<'a>(&'a self, context: &'a JobContext, next: Next<'a>) -> BoxFuture<'a, Handled>;
}

impl<M: Middleware> ErasedMiddleware for M {
    fn call<'a>(&'a self, context: &'a JobContext, next: Next<'a>) -> BoxFuture<'a, Handled> {
        Box::pin(self.handle(context, next))
    }
}

impl Registry {
    /// Adds a handler. It replaces any previous one of the type.
    pub(crate) fn add<H: Handler>(&mut self, job_type: JobType, policy: Policy, handler: H) {
        self.insert(job_type, policy, Runner::Whole(Erased::of(handler)));
    }

    /// Adds the steps of a type. They replace any previous ones of the type.
    pub(crate) fn add_steps(&mut self, job_type: JobType, policy: Policy, steps: Steps) {
        self.insert(job_type, policy, Runner::Steps(Arc::new(steps)));
    }

    /// Adds what runs the jobs that take others to another queue.
    pub(crate) fn hand_over_by<H: Handler>(&mut self, policy: Policy, handler: H) {
        self.hand_over = Some(Arc::new(Registered { policy, work: Runner::Whole(Erased::of(handler)) }));
    }

    /// Adds a group of types of which this many attempts may run at once together. Returns what stands for it.
    pub(crate) fn add_places(&mut self, places: usize) -> usize {
        self.shared_places.add(places)
    }

    /// Adds a type that has a handler to such a group.
    pub(crate) fn share_places(&mut self, job_type: JobType, group: usize) {
        self.shared_places.join(job_type, group);
    }

    fn insert(&mut self, job_type: JobType, policy: Policy, mut work: Runner) {
        self.shared_places.leave(&job_type);
        if let Some(codecs) = &self.codecs {
            work.wrap(&decoding(codecs));
        }
        for (only, link) in &self.middleware {
            if only.as_ref().is_none_or(|only| *only == job_type) {
                work.wrap(link);
            }
        }
        self.handlers.insert(job_type, Arc::new(Registered { policy, work }));
    }

    /// Wraps a middleware around the handlers of all types, or of one, inside what was wrapped around them before.
    pub(crate) fn wrap(&mut self, only: Option<JobType>, middleware: impl Middleware) {
        let link: Arc<dyn ErasedMiddleware> = Arc::new(middleware);
        for (job_type, registered) in &mut self.handlers {
            if only.as_ref().is_none_or(|only| only == job_type) {
                Arc::make_mut(registered).work.wrap(&link);
            }
        }
        self.middleware.push((only, link));
    }

    /// Decodes payloads before the handlers of all types and what is wrapped around them.
    pub(crate) fn decode(&mut self, codecs: Codecs) {
        for registered in self.handlers.values_mut() {
            Arc::make_mut(registered).work.wrap_outermost(&decoding(&codecs));
        }
        self.codecs = Some(codecs);
    }

    /// Makes every job leave a record, whatever its type's policy says.
    #[cfg(feature = "testing")]
    pub(crate) fn track_all(&mut self) {
        for registered in self.handlers.values_mut() {
            Arc::make_mut(registered).policy.tracking = Some(crate::job::Tracking::All);
        }
    }

    pub(crate) fn get(&self, job_type: &JobType) -> Option<&Arc<Registered>> {
        let own = || self.hand_over.as_ref().filter(|_| job_type.as_str() == HandOver::TYPE);
        self.handlers.get(job_type).or_else(own)
    }

    /// Returns the types whose jobs this process runs: those with a handler, and hand-overs.
    pub(crate) fn run_types(&self) -> Vec<JobType> {
        self.types().into_iter().chain(self.hand_over.is_some().then(hand_over_type)).collect()
    }

    /// Returns why the job's payload does not fit the schema of its type, if it does not.
    pub(crate) async fn schema_violation(&self, job: &JobSpec, fields: &Envelope) -> Option<String> {
        let (job_type, schemas) = (job.job_type.clone(), self.schemas.clone());
        if !schemas.has(&job_type) {
            return None;
        }
        let (encoding, payload) = match to_check(self.codecs.as_ref(), job, fields).await? {
            Ok(found) => found,
            Err(unseen) => {
                return Some(format!(
                    "the payload cannot be checked by the schema of {job_type}: it is {unseen}"
                ));
            }
        };
        let check = move || schemas.check(&job_type, &payload, encoding);
        let invalid = blocking(job.payload.len(), check).await.err()?;
        Some(format!("the payload does not fit the schema of {}: {invalid}", job.job_type))
    }

    /// Returns the types that have a handler, sorted.
    pub(crate) fn types(&self) -> Vec<JobType> {
        let mut types: Vec<_> = self.handlers.keys().cloned().collect();
        types.sort();
        types
    }

    /// Returns the longest grace period of all handlers.
    pub(crate) fn longest_grace(&self) -> Duration {
        self.handlers.values().map(|registered| registered.work.grace()).max().unwrap_or_default()
    }

    /// Returns the longest time that an attempt of any type may take, if its job sets no timeout.
    pub(crate) fn longest_timeout(&self) -> Duration {
        let timeout = |registered: &Arc<Registered>| match &registered.work {
            Runner::Whole(_) => registered.policy.timeout,
            Runner::Steps(steps) => steps.longest_attempt(registered.policy.timeout),
        };
        self.handlers.values().map(timeout).max().unwrap_or_default()
    }

    /// Returns how many attempts of the types may run at once; `None` if no type has a limit.
    pub(super) fn limits(&self) -> Option<Limits> {
        let policies = self.handlers.iter().map(|(job_type, registered)| (job_type, &registered.policy));
        Limits::of(policies, &self.shared_places)
    }

    /// Returns what the policies of the types and the limits of their steps have out of bounds, by type.
    pub(crate) fn check(&self) -> Vec<OutOfBounds> {
        let mut wrong = Vec::new();
        for (job_type, registered) in &self.handlers {
            let Registered { policy, work } = &**registered;
            let of_steps = match work {
                Runner::Whole(_) => Vec::new(),
                Runner::Steps(steps) => steps.check(policy.timeout),
            };
            let all = policy.check().into_iter().chain(of_steps);
            wrong.extend(all.map(|wrong| wrong.below(&["types", job_type.as_str()])));
        }
        wrong.sort();
        wrong
    }

    /// Returns how many slots a queue with this concurrency has: no more than all types together may use. With more, the process
    /// would read jobs that cannot start, and put them off one after another, although nothing waits behind them.
    pub(crate) fn slots(&self, concurrency: usize) -> usize {
        let policies = self.handlers.iter().map(|(job_type, registered)| (job_type, &registered.policy));
        let most = Limits::most_at_once(policies, &self.shared_places).unwrap_or(usize::MAX);
        concurrency.min(most.max(1))
    }

    /// Returns the types' policies, for code that settles without running.
    pub(crate) fn policies(&self) -> Policies {
        let own = self.hand_over.iter().map(|own| (hand_over_type(), own.policy.clone()));
        let all =
            self.handlers.iter().map(|(job_type, registered)| (job_type.clone(), registered.policy.clone()));
        Policies::new(own.chain(all))
    }
}

fn hand_over_type() -> JobType {
    HandOver::TYPE.parse().expect("the type is valid")
}

impl Runner {
    /// Returns how long an attempt may continue after its cancellation before its future is dropped.
    fn grace(&self) -> Duration {
        match self {
            Self::Whole(handler) => handler.grace,
            Self::Steps(steps) => steps.grace(),
        }
    }

    fn wrap(&mut self, link: &Arc<dyn ErasedMiddleware>) {
        match self {
            Self::Whole(handler) => handler.wrap(link),
            Self::Steps(steps) => Arc::make_mut(steps).wrap(link),
        }
    }

    fn wrap_outermost(&mut self, link: &Arc<dyn ErasedMiddleware>) {
        match self {
            Self::Whole(handler) => handler.wrap_outermost(link),
            Self::Steps(steps) => Arc::make_mut(steps).wrap_outermost(link),
        }
    }
}

fn decoding(codecs: &Codecs) -> Arc<dyn ErasedMiddleware> {
    Arc::new(Decoding(codecs.clone()))
}

impl Erased {
    pub(super) fn of<H: Handler>(handler: H) -> Self {
        let grace = handler.grace();
        let handler = Arc::new(handler);
        let bare = Arc::clone(&handler);
        let run = move |context: JobContext| -> BoxFuture<'static, Outcome> {
            let handler = Arc::clone(&handler);
            Box::pin(async move { outcome(guarded("handler", attempt(&*handler, context)).await) })
        };
        let handle = move |context: JobContext| -> BoxFuture<'static, Handled> {
            let handler = Arc::clone(&bare);
            Box::pin(async move { guarded("handler", attempt(&*handler, context)).await })
        };
        let chain = Arc::new(Chain { links: Vec::new(), handle: Arc::new(handle) });
        Self { grace, run: Arc::new(run), chain }
    }

    /// Returns how long the handler may continue after its cancellation before its future is dropped.
    pub(crate) fn grace(&self) -> Duration {
        self.grace
    }

    pub(super) fn wrap(&mut self, link: &Arc<dyn ErasedMiddleware>) {
        Arc::make_mut(&mut self.chain).links.push(Arc::clone(link));
    }

    pub(super) fn wrap_outermost(&mut self, link: &Arc<dyn ErasedMiddleware>) {
        Arc::make_mut(&mut self.chain).links.insert(0, Arc::clone(link));
    }

    pub(crate) fn run(&self, context: JobContext) -> BoxFuture<'static, Outcome> {
        if self.chain.links.is_empty() {
            return (self.run)(context);
        }
        let chain = Arc::clone(&self.chain);
        Box::pin(async move {
            outcome(guarded("middleware around the handler", Next::new(&context, &chain).run()).await)
        })
    }
}

impl Chain {
    pub(super) fn links(&self) -> &[Arc<dyn ErasedMiddleware>] {
        &self.links
    }

    pub(super) fn handle(&self, context: JobContext) -> BoxFuture<'static, Handled> {
        (self.handle)(context)
    }
}

/// Awaits `handling`. A panic in it is a failure.
async fn guarded(what: &str, handling: impl Future<Output = Handled>) -> Handled {
    AssertUnwindSafe(handling).catch_unwind().await.unwrap_or_else(|panic| {
        let error = format!("the {what} panicked: {}", panic_text(&*panic));
        Err(Failure::new(FailureKind::Panic, error, Retry::Policy).into())
    })
}

fn outcome(handled: Handled) -> Outcome {
    let kept = |json: &Bytes| json.len() <= MAX_RESULT_BYTES;
    handled.map_or_else(JobError::into_outcome, |result| Outcome::Done(result.filter(kept)))
}

/// What one attempt of `handler` comes to, without anything that is wrapped around it.
#[cfg(feature = "testing")]
pub(super) async fn handled<H: Handler>(handler: &H, context: JobContext) -> Outcome {
    outcome(guarded("handler", attempt(handler, context)).await)
}

async fn attempt<H: Handler>(handler: &H, context: JobContext) -> Handled {
    let (payload, encoding) = (context.payload(), context.encoding());
    let payload = H::Payload::decode(payload, encoding).map_err(JobError::fatal)?;
    let about = context.clone();
    handler.run(payload, context).await.map(|output| result(&output, &about))
}

/// The result as JSON; `None` for nothing, and for what does not fit.
fn result(output: &impl serde::Serialize, context: &JobContext) -> Option<Bytes> {
    let json = serde_json::to_vec(output).ok()?;
    let most = if context.step().is_some() { StepRecord::MAX_RESULT_BYTES } else { MAX_RESULT_BYTES };
    if json.len() > most {
        let why = format!("it has {} bytes of JSON, and may have {} KiB", json.len(), most / 1024);
        context.result_is_not_kept(&why);
        return None;
    }
    (json != b"null").then(|| json.into())
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{EntryId, Envelope, JobSpec, Lane};
    use crate::worker::handler::RawPayload;

    /// The context of a job that has a record.
    fn context() -> JobContext {
        let fields =
            [(b"type".as_slice(), b"report".as_slice()), (b"tracking".as_slice(), b"all".as_slice())];
        let envelope = Envelope::new(fields.into_iter());
        let job = JobSpec::parse(&envelope, EntryId::new(1700, 3), Lane::Normal).unwrap();
        JobContext::undelivered(job, envelope, "mail".parse().unwrap(), std::time::Instant::now())
    }

    struct Nothing;

    impl Handler for Nothing {
        type Payload = RawPayload;
        type Output = ();

        async fn run(&self, _payload: RawPayload, _context: JobContext) -> Result<(), JobError> {
            Ok(())
        }
    }

    #[test]
    fn a_limit_by_something_in_the_payload_is_refused_with_the_way_that_works() {
        let check = |field: &str| {
            let mut registry = Registry::default();
            registry.add("a".parse().unwrap(), Policy::default().concurrency_per_key(field, 1), Nothing);
            registry.check()
        };
        assert!(check("h.tenant").is_empty() && check("payload_kind").is_empty());
        for field in ["payload", "payload.tenant"] {
            let error = check(field)[0].to_string();
            assert!(error.starts_with("types.a.limit_key: ") && error.contains(field), "{error}");
            assert!(error.contains("send the value as a header"), "{error}");
        }
    }

    #[test]
    fn a_queue_has_as_many_slots_as_its_types_may_use() {
        let mut registry = Registry::default();
        let add = |registry: &mut Registry, name: &str, policy: Policy| {
            registry.add(name.parse().unwrap(), policy, Nothing);
        };
        add(&mut registry, "a", Policy::default().concurrency(3));
        assert_eq!([registry.slots(64), registry.slots(2)], [3, 2]);
        let places = registry.add_places(5);
        add(&mut registry, "b", Policy::default());
        assert_eq!(registry.slots(64), 64, "nothing bounds the second type");
        registry.share_places("b".parse().unwrap(), places);
        assert_eq!(registry.slots(64), 8);
    }

    #[test]
    fn a_null_or_oversized_result_is_not_kept_and_the_log_says_so_of_the_second() {
        let context = context();
        assert_eq!(result(&(), &context), None);
        assert_eq!(result(&7, &context).as_deref(), Some(b"7".as_slice()));
        assert_eq!(context.reported().1, Vec::<String>::new());
        assert_eq!(result(&"x".repeat(MAX_RESULT_BYTES), &context), None);
        let step = context.clone().with_step("charge");
        assert_eq!(result(&"x".repeat(StepRecord::MAX_RESULT_BYTES), &step), None);
        let want = [
            "the result is not kept: it has 65538 bytes of JSON, and may have 64 KiB",
            "the result of the step charge is not kept: it has 16386 bytes of JSON, and may have 16 KiB",
        ];
        assert_eq!(context.reported().1, want);
    }
}
