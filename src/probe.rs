//! What a process answers to probes: has it started, is it alive, is it ready?

use std::sync::{Arc, Mutex, PoisonError};

use crate::vital::Vitals;
use crate::worker::Pulse;

/// Answers probes about one process. Clones are one.
#[derive(Clone, Default)]
pub struct Probe {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
enum State {
    /// It tries to join for the first time.
    #[default]
    Starting,
    /// It could not join, and tries again.
    Waiting,
    Working {
        vitals: Vitals,
        pulses: Vec<Arc<Pulse>>,
    },
    Stopping,
}

impl Probe {
    /// It could not join yet, and goes on trying.
    pub(crate) fn waits(&self) {
        *self.lock() = State::Waiting;
    }

    pub(crate) fn works(&self, vitals: Vitals, pulses: Vec<Arc<Pulse>>) {
        *self.lock() = State::Working { vitals, pulses };
    }

    pub(crate) fn stops(&self) {
        *self.lock() = State::Stopping;
    }

    /// Started: its handlers are made, and it has joined its queues, or found that Redis is away. Whoever waits for more
    /// would start it again and again while Redis is away, and bring nothing back.
    ///
    /// # Errors
    ///
    /// What it still does, in words.
    pub fn started(&self) -> Result<(), String> {
        match &*self.lock() {
            State::Starting => Err("joining the queues".to_owned()),
            State::Waiting | State::Working { .. } | State::Stopping => Ok(()),
        }
    }

    /// Alive: no loop has died, and none waits for answers that others of this process get. Redis being away is no
    /// ailment: a restart would not bring it back.
    ///
    /// # Errors
    ///
    /// What hangs or has died, in words.
    pub fn alive(&self) -> Result<(), String> {
        match &*self.lock() {
            State::Starting | State::Waiting | State::Stopping => Ok(()),
            State::Working { vitals, pulses: _ } => {
                let ailments = vitals.ailments();
                if ailments.is_empty() { Ok(()) } else { Err(ailments.join("; ")) }
            }
        }
    }

    /// Ready: joined, in touch with Redis, and not stopping.
    ///
    /// # Errors
    ///
    /// Why not, in words.
    pub fn ready(&self) -> Result<(), String> {
        match &*self.lock() {
            State::Starting | State::Waiting => Err("waiting for redis".to_owned()),
            State::Stopping => Err("stopping".to_owned()),
            State::Working { vitals, pulses } => {
                let reads = pulses.iter().all(|pulse| pulse.in_touch());
                if reads && vitals.in_contact() { Ok(()) } else { Err("redis does not answer".to_owned()) }
            }
        }
    }

    /// Whether the process has begun to stop.
    pub fn is_stopping(&self) -> bool {
        matches!(&*self.lock(), State::Stopping)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
