//! The rooms into which Redis does not let jobs, because their keys are not streams. The jobs that would wait there are put
//! off, so that they do not fill this process.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::broker::mutex::lock;
use crate::job::jittered;

/// Jobs of a room are put off for this time after Redis has refused one, and each of them for up to twice as long.
const REFUSED_FOR: Duration = Duration::from_secs(5);

/// The most rooms that are remembered.
const MAX_ROOMS: usize = 1000;

/// The rooms that Redis has refused, and when.
#[derive(Debug, Default)]
pub(crate) struct RefusedRooms(Mutex<FxHashMap<String, Instant>>);

impl RefusedRooms {
    /// Notes that Redis does not let jobs into a room.
    pub(crate) fn note(&self, room: &str) {
        let mut refused = lock(&self.0);
        refused.retain(|_, since| since.elapsed() < REFUSED_FOR);
        if refused.len() < MAX_ROOMS {
            refused.insert(room.to_owned(), Instant::now());
        }
    }

    /// Returns for how long to put off a job that would have to wait in a room, if Redis has just refused another one.
    pub(crate) fn put_off(&self, room: &str) -> Option<Duration> {
        let refused = lock(&self.0);
        let is_refused = refused.get(room).is_some_and(|since| since.elapsed() < REFUSED_FOR);
        is_refused.then(|| jittered(REFUSED_FOR, 1.0..2.0, rand::random()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_a_refused_room_are_put_off_and_no_others() {
        let rooms = RefusedRooms::default();
        rooms.note("type:a");
        assert!(rooms.put_off("type:a").is_some_and(|delay| delay >= REFUSED_FOR && delay < 2 * REFUSED_FOR));
        assert_eq!(rooms.put_off("type:b"), None);
        (0..2 * MAX_ROOMS).for_each(|nth| rooms.note(&nth.to_string()));
        assert_eq!(rooms.0.lock().unwrap().len(), MAX_ROOMS);
    }
}
