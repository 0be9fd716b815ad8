//! SIGTERM and SIGINT as requests to stop, from the start of the program.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::{emulate_default_handler, signal_name};
use streamfleet::Shutdown;

/// The commands that a signal stops gracefully. It ends the others at once.
const SERVING: [&str; 4] = ["worker", "dev", "demo", "demo-worker"];

/// Signals that are caught before the command line is parsed.
pub(crate) struct Early(Option<Signals>);

impl Early {
    /// Starts to catch signals if an argument names a command that they stop gracefully. Everything that takes time comes
    /// afterwards: an earlier signal would end the process, and its sender would see a worker that failed.
    pub(crate) fn catch() -> Self {
        let serves = std::env::args_os().skip(1).any(|arg| SERVING.iter().any(|name| arg == *name));
        Self(serves.then(signals).and_then(Result::ok))
    }

    /// Gives signals their usual meaning again: the argument was not the command.
    pub(crate) fn release(self) {
        let Some(mut signals) = self.0 else { return };
        let follow = move || {
            for signal in &mut signals {
                // It fails only for signals that do not exist.
                emulate_default_handler(signal).ok();
            }
        };
        // If no thread can be started, the command continues, and only SIGKILL ends it early.
        std::thread::Builder::new().name("signals".to_owned()).spawn(follow).ok();
    }
}

/// Starts to catch both. The crate installs its handler shortly before it can pass a signal on, and a signal in between would
/// be lost, so both are blocked until everything is in place.
fn signals() -> std::io::Result<Signals> {
    let ours = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
    let before = ours.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let signals = Signals::new([SIGTERM, SIGINT]);
    before.thread_set_mask()?;
    signals
}

/// Turns signals into requests to stop: the first gracefully, the second at once.
pub(crate) struct Watch {
    handle: Handle,
}

impl Watch {
    /// Starts to turn signals into requests to stop, including those that came earlier.
    ///
    /// # Errors
    ///
    /// If the system cannot register the signals or start a thread.
    pub(crate) fn start(early: Early, shutdown: Shutdown) -> std::io::Result<Self> {
        let mut signals = early.0.map_or_else(signals, Ok)?;
        let handle = signals.handle();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in &mut signals {
                let signal = signal_name(signal).unwrap_or("signal");
                let again = shutdown.is_requested();
                tracing::info!(signal, again, "asked to stop");
                shutdown.request();
            }
        })?;
        Ok(Self { handle })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.handle.close();
    }
}
