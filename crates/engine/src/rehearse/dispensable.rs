//! What a fleet can do without, at some cost.

use fred::interfaces::ClientLike;
use fred::types::{ClusterHash, CustomCommand, Value};

use super::super::client::decode;
use super::super::client::error::{Class, Error};
use super::super::client::keys::Keys;
use super::super::submit::offload::MAX_ARGUMENT_BYTES;
use super::super::{Broker, Queue, Server};

/// A call that submits 500 plain jobs of four fields has more arguments than this.
const MANY_ARGUMENTS: usize = 4000;

/// The bounds of what a client may send, and the least bytes that a fleet needs of each.
const SENT_BOUNDS: [(&str, u64); 2] = [
    ("proto-max-bulk-len", MAX_ARGUMENT_BYTES as u64),
    ("client-query-buffer-limit", 2 * MAX_ARGUMENT_BYTES as u64),
];

impl Broker {
    /// Returns true if this server has a sound `XACKDEL`, and this login may not run it. Workers then end plain jobs by
    /// `XDEL` and `XACK`, which costs Redis a little more.
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
        server.has_xackdel() && self.queue_on(server).is_refused_xackdel().await
    }

    /// Returns true if this server or the rights of this login refuse `CLIENT UNBLOCK`. A worker then waits up to 12 s
    /// for the end of its last read when it stops or reconnects.
    ///
    /// Changes nothing. If the server does not answer, returns false. For an example, see
    /// [`is_refused_xackdel`](Self::is_refused_xackdel).
    pub async fn is_refused_unblock(&self, server: &Server) -> bool {
        // No connection has this id.
        let answer = self.queue_on(server).try_command("CLIENT", vec!["UNBLOCK".into(), "0".into()]).await;
        matches!(answer, Err(Error::Refused { class: Class::Configuration | Class::Other, .. }))
    }

    /// Returns true if this server refuses a call because it has 4000 arguments. It then refuses to take many jobs at
    /// once.
    ///
    /// Changes nothing. If the server does not answer, or this login may not run `EXISTS`, returns false. For an example,
    /// see [`is_refused_xackdel`](Self::is_refused_xackdel).
    pub async fn is_refused_many_arguments(&self, server: &Server) -> bool {
        let queue = self.queue_on(server);
        let arguments = vec![queue.keys.control.clone().into(); MANY_ARGUMENTS];
        let answer = queue.try_command("EXISTS", arguments).await;
        matches!(answer, Err(Error::Refused { class: Class::Other, .. }))
    }

    /// Returns the settings of this server that bound what a client may send to fewer bytes than a fleet may have to send,
    /// each with the least bytes that it should have. Redis cuts the connection of a client that sends more.
    ///
    /// Changes nothing. If the server does not answer, or this login may not run `CONFIG GET`, returns nothing. For an
    /// example, see [`is_refused_xackdel`](Self::is_refused_xackdel).
    pub async fn low_bounds(&self, server: &Server) -> Vec<(&'static str, u64)> {
        let queue = self.queue_on(server);
        let mut low = Vec::new();
        for (setting, least) in SENT_BOUNDS {
            let answer = queue.try_command("CONFIG", vec!["GET".into(), setting.into()]).await;
            let bytes = answer.ok().and_then(|reply| decode::number(reply.into_array().last()?));
            if bytes.is_some_and(|bytes| bytes < least) {
                low.push((setting, least));
            }
        }
        low
    }

    /// Returns a queue of this server that does not exist.
    fn queue_on(&self, server: &Server) -> Queue {
        self.queue(self.name_on(server.node.as_deref(), |name| Keys::new(self.namespace(), name).control))
    }
}

impl Queue {
    /// Sends a command that changes nothing.
    async fn try_command(&self, command: &'static str, arguments: Vec<Value>) -> Result<Value, Error> {
        let (link, custom) = (self.link(), CustomCommand::new_static(command, ClusterHash::Random, false));
        let client = link.client();
        link.ask("check", client.custom::<Value, Value>(custom, arguments)).await
    }
}
