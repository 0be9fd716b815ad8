//! Tells systemd, or whoever speaks its protocol, how the process does: started, what it is at, stopping, and alive. It
//! says nothing where nobody asked for it by `NOTIFY_SOCKET`. Each word waits until it is taken, so they are said on a
//! thread that nobody waits for.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use streamfleet::Probe;

/// How often the process is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// At the end, the last word gets so long.
const LAST_WORD: Duration = Duration::from_millis(500);

/// The thread that tells.
pub(super) struct Telling {
    /// Dropped to stop it.
    stop: SyncSender<()>,
    /// Ends with it.
    ended: Receiver<()>,
}

/// What was told already.
struct Reported {
    ready: bool,
    stopping: bool,
    status: String,
    /// How often systemd wants to hear that the process lives, halved; `None` where it does not.
    pet_every: Option<Duration>,
    petted: Option<Instant>,
}

impl Telling {
    /// Begins to tell.
    ///
    /// # Errors
    ///
    /// Where the system has no thread to give.
    pub(super) fn start(probe: Probe) -> std::io::Result<Self> {
        let ((stop, stopped), (end, ended)) = (sync_channel(0), sync_channel(0));
        thread::Builder::new().name("systemd".to_owned()).spawn(move || {
            tell(&probe, &stopped);
            drop(end);
        })?;
        Ok(Self { stop, ended })
    }

    /// Tells of the stop, and waits a little until it is taken.
    pub(super) fn stop(self) {
        drop(self.stop);
        // Nothing is ever sent: it ends, or it does not.
        self.ended.recv_timeout(LAST_WORD).ok();
    }
}

/// Tells until stopped, and of the stop. A word that did not arrive is said again.
fn tell(probe: &Probe, stopped: &Receiver<()>) {
    let pet_every = sd_notify::watchdog_enabled().map(|timeout| timeout / 2);
    let mut told = Reported { ready: false, stopping: false, status: String::new(), pet_every, petted: None };
    let look_every = pet_every.unwrap_or(LOOK_EVERY).clamp(LOOK_EVERY / 10, LOOK_EVERY);
    while stopped.recv_timeout(look_every) == Err(RecvTimeoutError::Timeout) {
        told.look(probe);
    }
    told.look(probe);
}

impl Reported {
    fn look(&mut self, probe: &Probe) {
        // Not when it is ready: where Redis is away at the start, systemd would start the process again and again.
        if !self.ready && probe.started().is_ok() {
            self.ready = say(&[NotifyState::Ready]);
        }
        if !self.stopping && probe.is_stopping() {
            self.stopping = say(&[NotifyState::Stopping]);
        }
        let alive = probe.alive();
        let status = match (&alive, probe.ready()) {
            (Err(ailment), _) => format!("hangs: {ailment}"),
            (Ok(()), Err(why)) => why,
            (Ok(()), Ok(())) => [vec!["working".to_owned()], probe.unserved()].concat().join("; "),
        };
        // What it waits for grows by the second; the watchdog's end says enough.
        let news = status.split(" has waited ").next() != self.status.split(" has waited ").next();
        if news && say(&[NotifyState::Status(&status)]) {
            self.status = status;
        }
        let due = |every| self.petted.is_none_or(|at: Instant| at.elapsed() + LOOK_EVERY >= every);
        if self.ready && alive.is_ok() && self.pet_every.is_some_and(due) && say(&[NotifyState::Watchdog]) {
            self.petted = Some(Instant::now());
        }
    }
}

/// True where the word is on its way, or nobody wants it.
fn say(state: &[NotifyState<'_>]) -> bool {
    match sd_notify::notify(state) {
        Ok(()) => true,
        Err(error) => {
            tracing::debug!(%error, "the service manager was not told");
            false
        }
    }
}
