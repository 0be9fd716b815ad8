//! The steps of a rehearsal, and how each went.

use std::future::Future;

use crate::client::error::Error;

/// One step of a rehearsal; see the [example](crate::Broker::rehearse).
#[derive(Debug)]
pub struct Step {
    /// What was done.
    pub name: &'static str,
    /// Its result. After the first failure, only the cleanup follows.
    pub result: Result<(), Error>,
}

/// The steps so far.
pub(super) struct Log(pub(super) Vec<Step>);

impl Log {
    /// Does one step and notes its result; returns `None` if it failed.
    pub(super) async fn step<T>(
        &mut self,
        name: &'static str,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Option<T> {
        let (value, result) = match work.await {
            Ok(value) => (Some(value), Ok(())),
            Err(error) => (None, Err(error)),
        };
        self.0.push(Step { name, result });
        value
    }
}
