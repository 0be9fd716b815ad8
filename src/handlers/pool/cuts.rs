//! How the session of a program learns that a job was cut short, or that nobody waits for its answer any more.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::broker::mutex::lock;

/// Whether an attempt was cut short. Its handler raises it; the session that has the job hears about it.
#[derive(Debug, Default)]
pub(super) struct CutFlag(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    is_raised: bool,
    /// Who has the job, and what it calls the job.
    listener: Option<(Arc<Bell>, u64)>,
}

/// The jobs of one session that were cut short, and of which it has not heard yet.
#[derive(Debug, Default)]
pub(super) struct Bell {
    cut: Mutex<Vec<u64>>,
    rung: Notify,
}

impl CutFlag {
    /// Notes that the attempt is cut short.
    pub(super) fn raise(&self) {
        let mut state = lock(&self.0);
        state.is_raised = true;
        if let Some((bell, reference)) = state.listener.take() {
            bell.ring(reference);
        }
    }

    pub(super) fn is_raised(&self) -> bool {
        lock(&self.0).is_raised
    }

    /// Makes a session hear of the cut, and no other one, at once if there was one already.
    pub(super) fn listen(&self, bell: &Arc<Bell>, reference: u64) {
        let mut state = lock(&self.0);
        if state.is_raised {
            bell.ring(reference);
        } else {
            state.listener = Some((Arc::clone(bell), reference));
        }
    }
}

impl Bell {
    /// Waits for cuts, and returns what they cut short. If this is dropped, nothing is lost.
    pub(super) async fn heard(&self) -> Vec<u64> {
        loop {
            let cut = std::mem::take(&mut *lock(&self.cut));
            if !cut.is_empty() {
                return cut;
            }
            self.rung.notified().await;
        }
    }

    fn ring(&self, reference: u64) {
        lock(&self.cut).push(reference);
        self.rung.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn a_cut_is_heard_whether_it_comes_before_or_after_the_session() {
        let (bell, before, after) = (Arc::<Bell>::default(), CutFlag::default(), CutFlag::default());
        before.raise();
        before.listen(&bell, 1);
        after.listen(&bell, 2);
        after.raise();
        after.raise();
        assert_eq!(bell.heard().now_or_never(), Some(vec![1, 2]));
        assert_eq!(bell.heard().now_or_never(), None);
        assert!(before.is_raised() && after.is_raised());
    }

    #[test]
    fn only_the_last_session_hears_of_a_cut() {
        let (first, last, flag) = (Arc::<Bell>::default(), Arc::<Bell>::default(), CutFlag::default());
        flag.listen(&first, 1);
        flag.listen(&last, 2);
        flag.raise();
        assert_eq!((first.heard().now_or_never(), last.heard().now_or_never()), (None, Some(vec![2])));
    }

    #[tokio::test]
    async fn a_session_that_waits_is_woken() {
        let (bell, flag) = (Arc::<Bell>::default(), CutFlag::default());
        flag.listen(&bell, 7);
        let (heard, ()) = tokio::join!(bell.heard(), async { flag.raise() });
        assert_eq!(heard, [7]);
    }
}
