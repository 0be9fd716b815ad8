//! What a process was configured with, as its worker reports it.
#![cfg(feature = "service")]

use super::Builder;

impl Builder {
    /// Sets a text that workers with another configuration do not have.
    pub(crate) fn config_digest(mut self, digest: String) -> Self {
        self.registry.set_config_digest(digest);
        self
    }
}
