//! SIGTERM and SIGINT as requests to stop, from the program's first moment on.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::{emulate_default_handler, signal_name};
use streamfleet::Shutdown;

/// The commands that a signal stops in good order. Others it ends at once.
const SERVING: [&str; 4] = ["worker", "dev", "demo", "demo-worker"];

/// Signals that are caught before anybody knows what the command line says.
pub(crate) struct Early(Option<Signals>);

impl Early {
    /// Begins to catch signals where an argument names a command that is stopped by them. Whatever takes time comes
    /// afterwards: a signal that comes before would end the process, and whoever sent it would see a worker that failed.
    pub(crate) fn catch() -> Self {
        let serves = std::env::args_os().skip(1).any(|arg| SERVING.iter().any(|name| arg == *name));
        Self(serves.then(signals).and_then(Result::ok))
    }

    /// Gives signals their usual meaning: the word was another argument.
    pub(crate) fn release(self) {
        let Some(mut signals) = self.0 else { return };
        let follow = move || {
            for signal in &mut signals {
                // It fails for signals that there are not.
                emulate_default_handler(signal).ok();
            }
        };
        // Without a thread to spare the command goes on, and only SIGKILL ends it early.
        std::thread::Builder::new().name("signals".to_owned()).spawn(follow).ok();
    }
}

/// Begins to catch both. The library catches a signal for a moment before it knows what to do with it, and one that came then would
/// be lost: the system holds it back until all is in place.
fn signals() -> std::io::Result<Signals> {
    let ours = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
    let before = ours.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let signals = Signals::new([SIGTERM, SIGINT]);
    before.thread_set_mask()?;
    signals
}

/// Turns signals into requests to stop: the first in good order, the second at once.
pub(crate) struct Watch {
    handle: Handle,
}

impl Watch {
    /// Begins to ask for what signals say, those included that came before.
    ///
    /// # Errors
    ///
    /// Where the system has no signals or no thread to give.
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
