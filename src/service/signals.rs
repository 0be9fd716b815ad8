//! SIGTERM and SIGINT as requests to stop. A process that is PID 1 of a container ignores both unless it catches them.

use std::io;
use std::thread;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals as Caught;
use signal_hook::low_level::{emulate_default_handler, signal_name};

use crate::Shutdown;

/// SIGTERM and SIGINT, caught since [`Signals::catch`].
///
/// Most programs need only [`Shutdown::on_signals`].
pub struct Signals(Caught);

impl Signals {
    /// Starts to catch both signals. Those that arrive from now on wait for [`Signals::request`] or
    /// [`Signals::release`].
    ///
    /// # Errors
    ///
    /// If the system cannot register the signals.
    pub fn catch() -> io::Result<Self> {
        // The crate installs its handler shortly before it can pass a signal on, and a signal in between would be lost,
        // so both are blocked until everything is in place.
        let ours = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
        let before = ours.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let caught = Caught::new([SIGTERM, SIGINT]);
        before.thread_set_mask()?;
        Ok(Self(caught?))
    }

    /// Turns signals into requests to stop: the first gracefully, the second at once.
    ///
    /// # Errors
    ///
    /// If the system cannot start a thread.
    pub fn request(mut self, shutdown: Shutdown) -> io::Result<()> {
        let follow = move || {
            for signal in &mut self.0 {
                let signal = signal_name(signal).unwrap_or("signal");
                let again = shutdown.is_requested();
                tracing::info!(signal, again, "asked to stop");
                shutdown.request();
            }
        };
        thread::Builder::new().name("signals".to_owned()).spawn(follow).map(drop)
    }

    /// Gives the signals their usual meaning again, including those that have arrived.
    pub fn release(mut self) {
        let follow = move || {
            for signal in &mut self.0 {
                // It fails only for signals that do not exist.
                emulate_default_handler(signal).ok();
            }
        };
        // If no thread can be started, the program continues, and only SIGKILL ends it early.
        thread::Builder::new().name("signals".to_owned()).spawn(follow).ok();
    }
}

impl Shutdown {
    /// Returns a shutdown that SIGTERM and SIGINT request: the first signal gracefully, the second at once. Call it
    /// early in `main`: a signal that arrives before it ends the process, or is ignored if the process is PID 1.
    ///
    /// # Errors
    ///
    /// If the system cannot register the signals or start a thread.
    pub fn on_signals() -> io::Result<Self> {
        let shutdown = Self::new();
        Signals::catch()?.request(shutdown.clone())?;
        Ok(shutdown)
    }
}
