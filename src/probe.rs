//! What a process answers to probes: is it alive, is it ready?

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::worker::Pulse;

/// Reads complete at least every few seconds, whether entries come or not. A reader that was silent for longer hangs.
const READER_SILENCE: Duration = Duration::from_secs(25);

/// Answers probes about one process. Clones are one.
#[derive(Clone, Default)]
pub struct Probe {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
enum State {
    #[default]
    Starting,
    Working(Vec<Arc<Pulse>>),
    Stopping,
}

impl Probe {
    pub(crate) fn started(&self, pulses: Vec<Arc<Pulse>>) {
        *self.lock() = State::Working(pulses);
    }

    pub(crate) fn stopping(&self) {
        *self.lock() = State::Stopping;
    }

    /// Alive: every reader reads, or has a reason not to. Redis being away is one: a restart would not bring it back.
    ///
    /// # Errors
    ///
    /// What hangs, in words.
    pub fn alive(&self) -> Result<(), String> {
        match &*self.lock() {
            State::Starting | State::Stopping => Ok(()),
            State::Working(pulses) => {
                let hangs = pulses.iter().any(|pulse| pulse.silent() > READER_SILENCE);
                if hangs { Err("a reader has not completed a read in time".to_owned()) } else { Ok(()) }
            }
        }
    }

    /// Ready: started, in touch with Redis, and not stopping.
    ///
    /// # Errors
    ///
    /// Why not, in words.
    pub fn ready(&self) -> Result<(), String> {
        match &*self.lock() {
            State::Starting => Err("waiting for redis".to_owned()),
            State::Stopping => Err("stopping".to_owned()),
            State::Working(pulses) if pulses.iter().any(|pulse| !pulse.in_touch()) => {
                Err("redis does not answer".to_owned())
            }
            State::Working(_) => Ok(()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
