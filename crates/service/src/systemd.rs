//! Reports the state of the process to systemd, or to any service manager that speaks its protocol: started, current
//! status, stopping, and alive. It reports nothing unless `NOTIFY_SOCKET` is set. A notification blocks until it is
//! received, so they are sent from a separate thread that nobody waits for.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use streamfleet::Probe;

/// How often the state of the process is checked.
const UPDATE_EVERY: Duration = Duration::from_millis(250);

/// How long the last notification may take.
const STOP_TIMEOUT: Duration = Duration::from_millis(500);

/// The thread that sends notifications.
pub(super) struct Notifier {
    /// Dropped to stop the thread.
    stop: SyncSender<()>,
    /// Closed when the thread ends.
    ended: Receiver<()>,
}

/// What was reported already.
struct Reported {
    ready: bool,
    stopping: bool,
    status: String,
    /// Half of the watchdog interval that systemd set; `None` if it set none.
    watchdog_every: Option<Duration>,
    watchdog_fed: Option<Instant>,
}

impl Notifier {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the system cannot start a thread.
    pub(super) fn start(probe: Probe) -> std::io::Result<Self> {
        let ((stop, stopped), (end, ended)) = (sync_channel(0), sync_channel(0));
        thread::Builder::new().name("systemd".to_owned()).spawn(move || {
            run(&probe, &stopped);
            drop(end);
        })?;
        Ok(Self { stop, ended })
    }

    /// Reports that the process is stopping, and waits a little until that is received.
    pub(super) fn stop(self) {
        drop(self.stop);
        // Nothing is ever sent: this returns when the thread ends, or when the time is up.
        self.ended.recv_timeout(STOP_TIMEOUT).ok();
    }
}

/// Reports until stopped, and then reports the stop. A notification that did not arrive is sent again.
fn run(probe: &Probe, stopped: &Receiver<()>) {
    let watchdog_every = sd_notify::watchdog_enabled().map(|timeout| timeout / 2);
    let mut reported =
        Reported { ready: false, stopping: false, status: String::new(), watchdog_every, watchdog_fed: None };
    let update_every = watchdog_every.unwrap_or(UPDATE_EVERY).clamp(UPDATE_EVERY / 10, UPDATE_EVERY);
    while stopped.recv_timeout(update_every) == Err(RecvTimeoutError::Timeout) {
        reported.update(probe);
    }
    reported.update(probe);
}

impl Reported {
    fn update(&mut self, probe: &Probe) {
        // Not when it is ready: if Redis is unreachable at startup, systemd would restart the process again and again.
        if !self.ready && probe.started().is_ok() {
            self.ready = notify(&[NotifyState::Ready]);
        }
        if !self.stopping && probe.is_stopping() {
            self.stopping = notify(&[NotifyState::Stopping]);
        }
        let alive = probe.alive();
        let status = match (&alive, probe.ready()) {
            (Err(failure), _) => format!("hangs: {failure}"),
            (Ok(()), Err(why)) => why,
            (Ok(()), Ok(())) => [vec!["working".to_owned()], probe.unserved()].concat().join("; "),
        };
        // The waiting time changes every second, so it alone does not make the status new.
        let news = status.split(" has waited ").next() != self.status.split(" has waited ").next();
        if news && notify(&[NotifyState::Status(&status)]) {
            self.status = status;
        }
        let due = |every| self.watchdog_fed.is_none_or(|at: Instant| at.elapsed() + UPDATE_EVERY >= every);
        if self.ready
            && alive.is_ok()
            && self.watchdog_every.is_some_and(due)
            && notify(&[NotifyState::Watchdog])
        {
            self.watchdog_fed = Some(Instant::now());
        }
    }
}

/// Returns true if the notification was sent, or if nobody wants it.
fn notify(state: &[NotifyState<'_>]) -> bool {
    match sd_notify::notify(state) {
        Ok(()) => true,
        Err(error) => {
            tracing::debug!(%error, "failed to notify the service manager");
            false
        }
    }
}
