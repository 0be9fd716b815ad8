//! Leases: which process does what one process at a time does. Nothing that must be correct depends on a lease.

use std::time::Duration;

use fred::types::Key;

use crate::client::error::Error;
use crate::client::link::Link;
use crate::client::script::{args, scripts};
use crate::millis;

scripts! { LEASE "lease" }

impl Link {
    /// Takes or renews the lease of this key; zero gives it up. Returns whether this process has it.
    pub(crate) async fn take_lease(&self, key: &Key, own: &str, lease: Duration) -> Result<bool, Error> {
        let args = args![LEASE; own, lease_ms = millis(lease)];
        Ok(self.run(&LEASE, vec![key.clone()], args.into()).await?.status == 1)
    }
}
