//! How the session of a program waits for the next job.

use std::future::pending;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::request::Request;
use super::slots::Slots;

/// What a program may get next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Wish {
    /// A job that it begins at once.
    Begin,
    /// A job that it begins after those that it has. It gets none after this time.
    Ahead(Instant),
}

/// A program that waits for a job.
pub(super) struct Taking<'a> {
    /// Whether the program will begin the job after those that it has.
    pub(super) is_ahead: bool,
    request: BoxFuture<'a, Option<Request>>,
}

impl<'a> Taking<'a> {
    /// Waits for a job for a program.
    pub(super) fn new(slots: &'a Slots, program: u64, wish: Wish) -> Self {
        let (is_ahead, request): (_, BoxFuture<'a, _>) = match wish {
            Wish::Begin => (false, Box::pin(async move { Some(slots.take(program).await) })),
            Wish::Ahead(until) => (true, Box::pin(slots.take_ahead(program, until))),
        };
        Self { is_ahead, request }
    }
}

/// Waits for a job, forever if none is wanted.
pub(super) async fn taken(taking: &mut Option<Taking<'_>>) -> (bool, Option<Request>) {
    match taking {
        Some(taking) => (taking.is_ahead, taking.request.as_mut().await),
        None => pending().await,
    }
}
