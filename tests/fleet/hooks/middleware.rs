//! Middleware: its order, what it sees, and what it may change.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use streamfleet::job::{FailureKind, Policy, State, Tracking};
use streamfleet::{Builder, Fleet, Handled, JobContext, JobError, Middleware, Next};

use harness::fleet::{Acts, Running, config, queue, quick, submit, until_state};
use harness::redis_server::RedisServer;

/// A record of what happened, in order.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn read(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// Notes what it sees before and after.
struct Notes(&'static str, Diary);

impl Middleware for Notes {
    async fn handle(&self, context: &JobContext, next: Next<'_>) -> Handled {
        let Self(name, diary) = self;
        diary.note(format!("{name} before {} attempt {}", context.job_type(), context.attempt()));
        let handled = next.run().await;
        diary.note(match &handled {
            Ok(result) => {
                format!("{name} after {:?}", result.as_ref().map(|json| String::from_utf8_lossy(json)))
            }
            Err(error) => {
                let failure = error.failure().unwrap();
                format!("{name} after {} {}", failure.kind.as_str(), failure.error)
            }
        });
        handled
    }
}

/// Replaces every outcome with this.
struct With(fn(Handled) -> Handled);

impl Middleware for With {
    async fn handle(&self, _context: &JobContext, next: Next<'_>) -> Handled {
        (self.0)(next.run().await)
    }
}

/// Returns this error without calling the handler.
struct Refuses(fn() -> JobError);

impl Middleware for Refuses {
    async fn handle(&self, _context: &JobContext, _next: Next<'_>) -> Handled {
        Err((self.0)())
    }
}

fn tracked(max_attempts: u32) -> Policy {
    quick(max_attempts).tracking(Tracking::All)
}

fn builder(server: &RedisServer) -> Builder {
    Fleet::builder(config(&server.url()))
}

fn start(builder: Builder, max_attempts: u32, handler: &Acts) -> Running {
    Running::of(builder.handler_with("test", tracked(max_attempts), handler.clone()).unwrap().build())
}

#[tokio::test(flavor = "multi_thread")]
async fn middleware_runs_in_registration_order_and_sees_attempt_and_result() {
    let server = RedisServer::start();
    let (queue, diary) = (queue(&server).await, Diary::default());
    let handler = Acts::new(|_, _| Ok(Value::from(42)));
    let builder = builder(&server)
        .middleware(Notes("outer", diary.clone()))
        .middleware_for("other", Notes("other", diary.clone()))
        .unwrap()
        .middleware_for("test", Notes("own", diary.clone()))
        .unwrap();
    // A middleware that is registered after the handler wraps it too.
    let builder = builder.handler_with("test", tracked(1), handler.clone()).unwrap();
    let fleet = Running::of(builder.middleware(Notes("inner", diary.clone())).build());
    let job = submit(&queue, "{}").await;
    let status = until_state(&queue, &job, State::Done).await;
    assert_eq!(status.result.as_deref(), Some("42"));
    let want = [
        "outer before test attempt 1",
        "own before test attempt 1",
        "inner before test attempt 1",
        "inner after Some(\"42\")",
        "own after Some(\"42\")",
        "outer after Some(\"42\")",
    ];
    assert_eq!(diary.read(), want);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_middleware_that_refuses_keeps_the_handler_from_running() {
    let server = RedisServer::start();
    let (queue, handler) = (queue(&server).await, Acts::well());
    let fleet = start(builder(&server).middleware(Refuses(|| JobError::fatal("closed"))), 4, &handler);
    let job = submit(&queue, "{}").await;
    let status = until_state(&queue, &job, State::Dead).await;
    assert_eq!((status.error.as_deref(), handler.all_runs()), (Some("closed"), 0));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn middleware_may_turn_a_fatal_error_into_a_retry_and_replace_a_result() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Acts::new(|context, _| match context.attempt() {
        1 => Err(JobError::fatal("never")),
        _ => Ok(Value::Null),
    });
    let milder = With(|handled| match handled {
        Err(error) => Err(JobError::retry(&error.failure().unwrap().error)),
        Ok(_) => Ok(Some("\"better\"".into())),
    });
    let fleet = start(builder(&server).middleware(milder), 4, &handler);
    let job = submit(&queue, "{}").await;
    let status = until_state(&queue, &job, State::Done).await;
    assert_eq!((status.result.as_deref(), handler.runs(&job)), (Some("\"better\""), 2));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn middleware_sees_a_handlers_panic_and_its_own_panic_is_a_failure() {
    let server = RedisServer::start();
    let (queue, diary) = (queue(&server).await, Diary::default());
    let handler = Acts::new(|context, _| match context.attempt() {
        1 => panic!("handler fell"),
        _ => Ok(Value::Null),
    });
    let falls = With(|handled| match handled {
        Ok(_) => panic!("middleware fell"),
        Err(error) => {
            assert_eq!(error.failure().unwrap().kind, FailureKind::Panic);
            Err(error)
        }
    });
    let builder = builder(&server).middleware(Notes("outer", diary.clone())).middleware(falls);
    let fleet = start(builder, 2, &handler);
    let job = submit(&queue, "{}").await;
    let status = until_state(&queue, &job, State::Dead).await;
    assert_eq!(status.error.as_deref(), Some("the middleware around the handler panicked: middleware fell"));
    assert_eq!(diary.read()[1], "outer after panic the handler panicked: handler fell");
    assert_eq!(handler.runs(&job), 2);
    fleet.stop().await;
}
