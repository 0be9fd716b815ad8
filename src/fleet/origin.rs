//! What a process was configured with, as its worker reports it.

use super::Builder;

impl Builder {
    /// Sets a text that workers with another configuration do not have.
    #[doc(hidden)]
    pub fn config_digest(mut self, digest: String) -> Self {
        self.registry.config_digest = Some(digest);
        self
    }
}
