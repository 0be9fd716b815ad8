//! SIGTERM and SIGINT as requests to stop, and SIGHUP as one to stop or to reload. A process that is PID 1 of a container
//! ignores all three unless it catches them.

use std::sync::Arc;
use std::thread;
use std::{fs, io};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals as Caught;
use signal_hook::low_level::{emulate_default_handler, signal_name};

use streamfleet::{Reload, Shutdown};

/// SIGTERM, SIGINT and SIGHUP, caught since [`Signals::catch`].
///
/// Most programs need only [`Signals::shutdown`].
pub struct Signals {
    caught: Caught,
    /// What SIGHUP asks for, if not to stop.
    reload: Option<Reload>,
}

impl Signals {
    /// Starts to catch the signals. Those that arrive from now on wait for [`Signals::request`] or
    /// [`Signals::release`]. SIGHUP stays ignored if it is, as under `nohup`. SIGCHLD does not: the system would tell nobody how a
    /// program has ended.
    ///
    /// # Errors
    ///
    /// If the system cannot register the signals.
    pub fn catch() -> io::Result<Self> {
        // The crate installs its handler shortly before it can pass a signal on, and a signal in between would be lost,
        // so all are blocked until everything is in place.
        let ours = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
        let before = ours.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        let caught = Caught::new([SIGTERM, SIGINT].into_iter().chain(hangup));
        before.thread_set_mask()?;
        if is_ignored(SIGCHLD) {
            signal_hook::flag::register(SIGCHLD, Arc::default())?;
        }
        Ok(Self { caught: caught?, reload: None })
    }

    /// Makes SIGHUP replace the programs of the pools, as daemons do, instead of stopping the process. If the process has a
    /// terminal, SIGHUP still stops it: that is what a terminal sends when it closes.
    #[must_use]
    pub fn reloading(self, reload: &Reload) -> Self {
        Self { reload: (!has_terminal()).then(|| reload.clone()), ..self }
    }

    /// Turns signals into requests to stop: the first gracefully, the second at once. SIGHUP only asks for the former,
    /// because a closing terminal may send it twice, or for new programs after [`Signals::reloading`].
    ///
    /// # Errors
    ///
    /// If the system cannot start a thread.
    pub fn request(mut self, shutdown: Shutdown) -> io::Result<()> {
        let follow = move || {
            for signal in &mut self.caught {
                if let Some(reload) = self.reload.as_ref().filter(|_| signal == SIGHUP) {
                    tracing::info!(signal = "SIGHUP", "asked to replace the programs of the pools");
                    reload.request();
                    continue;
                }
                let again = shutdown.is_requested();
                if again && signal == SIGHUP {
                    continue;
                }
                let signal = signal_name(signal).unwrap_or("signal");
                if again {
                    tracing::info!(
                        signal,
                        "asked to stop at once: jobs that still run are cut short, and run again later"
                    );
                } else {
                    tracing::info!(
                        signal,
                        "asked to stop: running jobs may end; a second SIGTERM or SIGINT (Ctrl-C) cuts them short"
                    );
                }
                shutdown.request();
            }
        };
        thread::Builder::new().name("signals".to_owned()).spawn(follow).map(drop)
    }

    /// Gives the signals their usual meaning again, including those that have arrived.
    pub fn release(mut self) {
        let follow = move || {
            for signal in &mut self.caught {
                // It fails only for signals that do not exist.
                emulate_default_handler(signal).ok();
            }
        };
        // If no thread can be started, the program continues, and only SIGKILL ends it early.
        thread::Builder::new().name("signals".to_owned()).spawn(follow).ok();
    }
}

/// Returns true if this process has a terminal that sends SIGHUP when it closes.
fn has_terminal() -> bool {
    fs::File::open("/dev/tty").is_ok()
}

/// Returns true if this process ignores the signal. Such a setting is inherited: `nohup` makes it for SIGHUP.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    ignored >> (signal - 1) & 1 == 1
}

impl Signals {
    /// Returns a shutdown that SIGTERM, SIGINT and SIGHUP request: the first signal gracefully, the second at once. Call
    /// it early in `main`: a signal that arrives before it ends the process, or is ignored if the process is PID 1.
    ///
    /// # Errors
    ///
    /// If the system cannot register the signals or start a thread.
    pub fn shutdown() -> io::Result<Shutdown> {
        let shutdown = Shutdown::new();
        Self::catch()?.request(shutdown.clone())?;
        Ok(shutdown)
    }
}
