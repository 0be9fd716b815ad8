//! Stopping a fleet in two steps: gracefully first, then at once.

use tokio_util::sync::CancellationToken;

/// Stops a fleet. All clones share the same state.
///
/// ```no_run
/// # async fn example(fleet: streamfleet::Fleet) -> Result<(), Box<dyn std::error::Error>> {
/// use streamfleet::Shutdown;
///
/// let shutdown = Shutdown::new();
/// let stop = shutdown.clone();
/// std::thread::spawn(move || {
///     let _ = std::io::stdin().read_line(&mut String::new());
///     stop.request();
/// });
/// fleet.run(shutdown).await?; // until somebody presses Enter
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    stop: CancellationToken,
    hurry: CancellationToken,
}

impl Shutdown {
    /// Returns a shutdown that has not been requested.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests a graceful shutdown. A second call cuts short what is still running.
    pub fn request(&self) {
        if self.stop.is_cancelled() {
            self.hurry.cancel();
        }
        self.stop.cancel();
    }

    /// Returns true once a shutdown has been requested.
    pub fn is_requested(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Waits until a shutdown is requested.
    pub async fn requested(&self) {
        self.stop.cancelled().await;
    }

    pub(crate) fn hurry(&self) -> CancellationToken {
        self.hurry.clone()
    }
}
