//! Replacing the programs of a fleet's pools while it works.

use tokio::sync::watch;

/// Replaces the programs of the pools of a fleet, for example after a deployment of their code. All clones share the same state.
///
/// In each pool, one new program starts beside the old ones. Once it is ready, the others start, each beside the one that it
/// replaces. A program that is replaced gets no more jobs, and finishes those that it has begun; those that it has ahead go to
/// other programs. No job uses up an attempt. If the first new program is not ready in time, the log says why, and the old ones
/// stay in service.
///
/// ```no_run
/// # async fn run(builder: streamfleet::Builder) -> Result<(), Box<dyn std::error::Error>> {
/// use streamfleet::{Reload, Shutdown};
///
/// let reload = Reload::new();
/// let fleet = builder.reload(&reload).build();
/// // From anywhere, any time later: reload.request();
/// fleet.run(Shutdown::new()).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Reload {
    requests: watch::Sender<u64>,
}

impl Reload {
    /// Returns a handle of which nothing has been requested.
    pub fn new() -> Self {
        Self { requests: watch::Sender::new(0) }
    }

    /// Requests new programs, and returns at once. Requests while programs are being replaced count as one, which follows.
    pub fn request(&self) {
        self.requests.send_modify(|count| *count += 1);
    }

    /// Returns how often it has been requested, now and later.
    pub(crate) fn requests(&self) -> watch::Receiver<u64> {
        self.requests.subscribe()
    }
}

impl Default for Reload {
    fn default() -> Self {
        Self::new()
    }
}
