//! The two steps of stopping: first in good order, then at once.

use tokio_util::sync::CancellationToken;

/// Tells a fleet to stop. Clones are one.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    stop: CancellationToken,
    hurry: CancellationToken,
}

impl Shutdown {
    /// A shutdown that nobody has asked for yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks to stop in good order; asked again, to cut short what still runs.
    pub fn request(&self) {
        if self.stop.is_cancelled() {
            self.hurry.cancel();
        }
        self.stop.cancel();
    }

    /// True once asked for.
    pub fn is_requested(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Waits until asked for.
    pub async fn requested(&self) {
        self.stop.cancelled().await;
    }

    pub(crate) fn hurry(&self) -> CancellationToken {
        self.hurry.clone()
    }
}
