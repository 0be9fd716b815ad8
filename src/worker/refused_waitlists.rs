//! The waiting lists into which Redis does not let jobs, because their keys are not streams. The jobs that would wait there are put
//! off, so that they do not fill this process.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::broker::mutex::lock;
use crate::job::jittered;

/// Jobs of a waiting list are put off for this time after Redis has refused one, and each of them for up to twice as long.
const REFUSED_FOR: Duration = Duration::from_secs(5);

/// The most waiting lists that are remembered.
const MAX_WAITLISTS: usize = 1000;

/// The waiting lists that Redis has refused, and when.
#[derive(Debug, Default)]
pub(crate) struct RefusedWaitlists(Mutex<FxHashMap<String, Instant>>);

impl RefusedWaitlists {
    /// Notes that Redis does not let jobs into a waiting list.
    pub(crate) fn note(&self, waitlist: &str) {
        let mut refused = lock(&self.0);
        refused.retain(|_, since| since.elapsed() < REFUSED_FOR);
        if refused.len() < MAX_WAITLISTS {
            refused.insert(waitlist.to_owned(), Instant::now());
        }
    }

    /// Returns for how long to put off a job that would have to wait in a waiting list, if Redis has just refused another one.
    pub(crate) fn put_off(&self, waitlist: &str) -> Option<Duration> {
        let refused = lock(&self.0);
        let is_refused = refused.get(waitlist).is_some_and(|since| since.elapsed() < REFUSED_FOR);
        is_refused.then(|| jittered(REFUSED_FOR, 1.0..2.0, rand::random()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_a_refused_waiting_list_are_put_off_and_no_others() {
        let waitlists = RefusedWaitlists::default();
        waitlists.note("type:a");
        assert!(
            waitlists.put_off("type:a").is_some_and(|delay| delay >= REFUSED_FOR && delay < 2 * REFUSED_FOR)
        );
        assert_eq!(waitlists.put_off("type:b"), None);
        (0..2 * MAX_WAITLISTS).for_each(|nth| waitlists.note(&nth.to_string()));
        assert_eq!(waitlists.0.lock().unwrap().len(), MAX_WAITLISTS);
    }
}
