//! What a fleet can do without, at some cost.

use super::super::client::keys::Keys;
use super::super::{Broker, Server};

impl Broker {
    /// Returns true if this server has a sound `XACKDEL`, and this login may not run it. Workers then settle plain
    /// successes by `XDEL` and `XACK`, which costs Redis a little more.
    ///
    /// Changes nothing. If the server does not answer, returns false.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(broker: streamfleet::Broker) -> Result<(), Box<dyn std::error::Error>> {
    /// for server in broker.servers().await?.found {
    ///     if broker.is_refused_xackdel(&server).await {
    ///         eprintln!("grant +xackdel");
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn is_refused_xackdel(&self, server: &Server) -> bool {
        let name = || self.name_on(server.node.as_deref(), |name| Keys::new(self.namespace(), name).control);
        server.has_xackdel() && self.queue(name()).is_refused_xackdel().await
    }
}
