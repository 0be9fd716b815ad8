//! The section `[console]`, as the file writes it.

use std::net::{Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

/// The settings of `streamfleet console`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ConsoleSection {
    /// The address that the console listens on.
    pub listen: SocketAddr,
}

impl Default for ConsoleSection {
    fn default() -> Self {
        Self { listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9470)) }
    }
}
