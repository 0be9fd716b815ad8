//! Whether this process takes jobs, or drains because somebody has asked it to. The heartbeat hears of it and notes it here;
//! the readers follow.

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::broker::Drain;

/// What people have asked of this process.
#[derive(Debug)]
pub(crate) struct Duty {
    drain: watch::Sender<Option<Drain>>,
    /// Cancelled once the process is to end, because it is drained and was asked to end then.
    ended: CancellationToken,
}

impl Duty {
    /// Creates the duty of a process that takes jobs.
    pub(crate) fn new() -> Self {
        Self { drain: watch::Sender::new(None), ended: CancellationToken::new() }
    }

    /// Returns true while the process takes no further job.
    pub(crate) fn is_draining(&self) -> bool {
        self.drain.borrow().is_some()
    }

    /// Returns the request that the process follows, if it drains.
    pub(crate) fn drain(&self) -> Option<Drain> {
        self.drain.borrow().clone()
    }

    /// Waits until the process drains.
    pub(crate) async fn draining(&self) {
        // The sender is here, so this cannot fail.
        self.drain.subscribe().wait_for(Option::is_some).await.ok();
    }

    /// Follows a request to drain, or to take jobs if there is none. Returns true if that is news.
    pub(crate) fn follow(&self, request: Option<Drain>) -> bool {
        match (&request, self.is_draining()) {
            (Some(Drain { by, why, exits, .. }), false) => {
                tracing::info!(by, why, exits, "draining: taking no further job, finishing what runs");
            }
            (None, true) => tracing::info!("taking jobs again"),
            (Some(_), true) | (None, false) => {}
        }
        self.drain.send_if_modified(|known| {
            let is_news = *known != request;
            *known = request;
            is_news
        })
    }

    /// Returns how the process describes itself. `is_busy`: whether it holds jobs.
    pub(crate) fn state(&self, is_busy: bool) -> &'static str {
        match (self.is_draining(), is_busy) {
            (false, _) => "running",
            (true, true) => "draining",
            (true, false) => "drained",
        }
    }

    /// Notes that the process holds no job. If it drains to its end, that has come.
    pub(crate) fn note_idle(&self) {
        if self.drain.borrow().as_ref().is_some_and(|drain| drain.exits) {
            self.ended.cancel();
        }
    }

    /// Waits until the process has drained to its end.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn a_process_drains_until_it_is_asked_to_work() {
        let duty = Duty::new();
        assert_eq!((duty.is_draining(), duty.state(true)), (false, "running"));
        let mut draining = std::pin::pin!(duty.draining());
        assert!(poll!(&mut draining).is_pending());
        assert!(duty.follow(Some(Drain::new("ann", "its disk"))));
        assert!(poll!(&mut draining).is_ready());
        assert_eq!((duty.state(true), duty.state(false)), ("draining", "drained"));
        assert_eq!(duty.drain().map(|drain| drain.by), Some("ann".to_owned()));
        assert!(!duty.follow(Some(Drain::new("ann", "its disk"))), "no news");
        assert!(duty.follow(None) && !duty.is_draining());
    }

    #[tokio::test]
    async fn a_process_ends_only_if_it_is_asked_to_and_holds_no_job() {
        let duty = Duty::new();
        let mut ended = std::pin::pin!(duty.ended());
        duty.note_idle();
        duty.follow(Some(Drain::new("ann", "")));
        duty.note_idle();
        assert!(poll!(&mut ended).is_pending());
        assert!(
            duty.follow(Some(Drain::new("ann", "").exits(true))),
            "a drain that ends the process is news"
        );
        assert!(poll!(&mut ended).is_pending());
        duty.note_idle();
        assert!(poll!(&mut ended).is_ready());
    }
}
