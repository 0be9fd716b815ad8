//! The steps whose handlers run: all of them go on while one write to the ledger is waited for.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;

use super::handling::EndedStep;

/// The steps that run, and those that have ended and are not recorded yet.
#[derive(Default)]
pub(super) struct Running<'a> {
    handlers: FuturesUnordered<BoxFuture<'a, EndedStep>>,
    ended: VecDeque<EndedStep>,
}

impl<'a> Running<'a> {
    /// Adds a step that begins to run.
    pub(super) fn add(&mut self, step: impl Future<Output = EndedStep> + Send + 'a) {
        self.handlers.push(Box::pin(step));
    }

    /// Returns how many steps have begun and are not recorded as ended.
    pub(super) fn len(&self) -> usize {
        self.handlers.len() + self.ended.len()
    }

    /// Returns true if no handler runs.
    pub(super) fn is_idle(&self) -> bool {
        self.handlers.is_empty()
    }

    /// Waits for the next step that ends; `None` if none runs.
    pub(super) async fn next(&mut self) -> Option<EndedStep> {
        match self.ended.pop_front() {
            Some(ended) => Some(ended),
            None => self.handlers.next().await,
        }
    }

    /// Waits for something else, while the handlers go on.
    pub(super) async fn beside<T>(&mut self, wanted: impl Future<Output = T>) -> T {
        let mut wanted = pin!(wanted);
        while !self.handlers.is_empty() {
            tokio::select! {
                biased;
                found = &mut wanted => return found,
                Some(ended) = self.handlers.next() => self.ended.push_back(ended),
            }
        }
        wanted.await
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::broker::StepRun;
    use crate::job::{Outcome, StepKind};

    fn ended(at: usize) -> EndedStep {
        let run = StepRun { step: "a".parse().unwrap(), kind: StepKind::Auto, run: "1-0/0".into() };
        EndedStep { at, run, attempts: 0, outcome: Ok(Outcome::Done(None)) }
    }

    #[tokio::test]
    async fn handlers_go_on_while_something_else_is_waited_for() {
        let mut running = Running::default();
        let (first, waits) = oneshot::channel();
        running.add(async move {
            first.send(7).unwrap();
            ended(1)
        });
        running.add(std::future::pending());
        // Only the first handler lets this end.
        assert_eq!(running.beside(waits).await, Ok(7));
        assert_eq!((running.len(), running.is_idle()), (2, false));
        assert_eq!(running.next().await.unwrap().at, 1);
        assert_eq!(running.len(), 1);
    }

    #[tokio::test]
    async fn nothing_that_has_ended_is_forgotten() {
        let mut running = Running::default();
        assert!(running.next().await.is_none() && running.beside(async { true }).await);
        (0..3).for_each(|at| running.add(async move { ended(at) }));
        running.beside(tokio::task::yield_now()).await;
        assert_eq!(running.len(), 3);
        let mut seen = Vec::new();
        while let Some(ended) = running.next().await {
            seen.push(ended.at);
        }
        seen.sort_unstable();
        assert_eq!((seen, running.is_idle()), (vec![0, 1, 2], true));
    }
}
