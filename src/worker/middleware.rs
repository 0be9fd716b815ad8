//! What is wrapped around handlers. For all types or for one, a [`Middleware`] sees a job before its handler does, and
//! the outcome after it. It runs inside the attempt, under its timeout, and never sees how Redis settles it.

use std::future::Future;

use bytes::Bytes;

use super::JobError;
use super::handler::JobContext;
use super::registry::{Chain, ErasedMiddleware};

/// What a handler returned: its result as JSON, if it gave one that is kept, or why it did not succeed. See the
/// [example](Middleware).
pub type Handled = Result<Option<Bytes>, JobError>;

/// Wraps the handlers of all types ([`Builder::middleware`](crate::Builder::middleware)) or of one
/// ([`Builder::middleware_for`](crate::Builder::middleware_for)).
///
/// The first one registered is the outermost. It may inspect the context, call [`Next::run`] and inspect or replace
/// what comes back. If it returns an error without calling it, the handler does not run. A panic of a handler reaches
/// it as an error. Its own panic is a failure like a handler's. An attempt that is cut short, by its timeout or by
/// shutdown, drops its future where it waits, so what must happen then belongs in a `Drop`.
///
/// ```
/// use std::time::Instant;
///
/// use streamfleet::{Fleet, FleetConfig, Handled, JobContext, JobError, Middleware, Next};
///
/// struct Timed;
///
/// impl Middleware for Timed {
///     async fn handle(&self, context: &JobContext, next: Next<'_>) -> Handled {
///         let started = Instant::now();
///         let handled = next.run().await;
///         let error = handled.as_ref().err().and_then(JobError::failure).map(|failure| &failure.error);
///         println!("{} {}: {:?}, {error:?}", context.job_type(), context.id(), started.elapsed());
///         handled
///     }
/// }
///
/// struct Tenants;
///
/// impl Middleware for Tenants {
///     async fn handle(&self, context: &JobContext, next: Next<'_>) -> Handled {
///         match context.header("tenant") {
///             Some("closed") => Err(JobError::fatal("the tenant's account is closed")),
///             _ => next.run().await,
///         }
///     }
/// }
///
/// # fn example(handler: impl streamfleet::Handler) -> Result<(), Box<dyn std::error::Error>> {
/// let fleet = Fleet::builder(FleetConfig::default())
///     .middleware(Timed)
///     .middleware_for("mail.send", Tenants)?
///     .handler_for("mail.send", handler)?
///     .build();
/// # Ok(()) }
/// ```
pub trait Middleware: Send + Sync + 'static {
    /// Handles one attempt, usually by running what comes next.
    fn handle(&self, context: &JobContext, next: Next<'_>) -> impl Future<Output = Handled> + Send;
}

/// What comes after a middleware: the next one, or the handler; see the [example](Middleware).
pub struct Next<'a> {
    context: &'a JobContext,
    chain: &'a Chain,
    /// The rest of the chain.
    links: &'a [std::sync::Arc<dyn ErasedMiddleware>],
}

impl<'a> Next<'a> {
    pub(super) fn new(context: &'a JobContext, chain: &'a Chain) -> Self {
        Self { context, chain, links: chain.links() }
    }

    /// Shows this context to the rest of the attempt.
    pub(super) fn with<'b>(self, context: &'b JobContext) -> Next<'b>
    where
        'a: 'b,
    {
        Next { context, chain: self.chain, links: self.links }
    }

    /// Runs the rest of the attempt.
    ///
    /// # Errors
    ///
    /// [`JobError`] if the handler, or a middleware before it, did not succeed.
    pub async fn run(self) -> Handled {
        match self.links.split_first() {
            Some((link, links)) => link.call(self.context, Next { links, ..self }).await,
            None => self.chain.handle(self.context.clone()).await,
        }
    }
}
