//! What a link does where its server may change: it looks for the one of now. Where sentinels say which that is, it waits
//! out a change that is under way, follows it at once, and makes sure that the server takes itself for the primary too.

use std::time::{Duration, Instant};

use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::config::ServerConfig;
use fred::types::{ClusterHash, ConnectHandle, CustomCommand, Value};

use super::{COMMAND_DEADLINE, Link, Role, WeakLink};
use crate::broker::client::decode;
use crate::broker::client::error::{Class, Error};

/// Where the server has changed, what is under way at the old one may still be answered for so long.
const RETIRES_AFTER: Duration = Duration::from_secs(10);

/// After a command that was not answered, it is asked where the server is, again and again with pauses from this to …
pub(super) const FIRST_LOOK: Duration = Duration::from_millis(200);

/// … this.
const LATER_LOOKS: Duration = Duration::from_secs(1);

/// How long a blocking command may take to end where the primary is about to change.
const UNBLOCKED_WITHIN: Duration = Duration::from_millis(200);

/// How often a server that is a replica is asked whether it still is, and the sentinels which one is the primary.
const ASKED_AGAIN: Duration = Duration::from_millis(500);

impl Link {
    /// Makes sure that a server which sentinels call the primary takes itself for one.
    pub(super) async fn admit(&self, client: &Client) -> Result<(), Error> {
        if self.locator().sentinels().is_some() && is_replica(client).await {
            return Err(Error::Unreachable("it is a replica".to_owned()));
        }
        Ok(())
    }

    /// Waits where another server is about to become the primary: what the old one is given now may be thrown away, by
    /// nobody's fault and without an error.
    pub(super) async fn await_change(&self) {
        if let Some(sentinels) = self.locator().sentinels() {
            sentinels.settled().await;
        }
    }

    /// The same for a command that the client of the moment is about to send.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] where that client is of the past then: nothing was sent.
    pub(super) async fn await_change_before(&self, command: Option<&'static str>) -> Result<(), Error> {
        let Some(sentinels) = self.locator().sentinels().filter(|sentinels| sentinels.is_changing()) else {
            return Ok(());
        };
        let before = self.current().1;
        sentinels.settled().await;
        self.unless_moved(&before, command)
    }

    /// Refuses a command that is for another server than the one of now.
    pub(super) fn unless_moved(
        &self,
        before: &ServerConfig,
        command: Option<&'static str>,
    ) -> Result<(), Error> {
        if self.current().1 == *before { Ok(()) } else { Err(moved(command)) }
    }
}

/// Nothing was sent, since it was for another server than the one of now.
pub(super) fn moved(command: Option<&'static str>) -> Error {
    let detail = "another server has the keys now; nothing was sent".to_owned();
    Error::Refused { command: command.unwrap_or("connect"), class: Class::Busy, detail }
}

/// Follows every change, until the link is gone.
pub(super) async fn attend(link: WeakLink) {
    let Some(mut known) = link.upgrade().and_then(|link| Some(link.locator().sentinels()?.watch())) else {
        return;
    };
    while known.changed().await.is_ok() {
        let Some(link) = link.upgrade() else { return };
        let is_changing = known.borrow_and_update().is_changing(Instant::now());
        link.shared.follow(&mut link.live());
        // What is read from now on may be given to somebody else as well.
        if is_changing && link.shared.role == Role::Blocking {
            tokio::select! {
                _ = tokio::time::timeout(UNBLOCKED_WITHIN, link.unblock()) => {}
                _ = known.changed() => known.mark_changed(),
            }
        }
    }
}

/// Asks the server of the moment whether it is a primary, and the sentinels as long as it is not.
pub(super) async fn verify(link: WeakLink) {
    loop {
        let Some((client, server, locator)) = link.upgrade().map(|link| {
            let (client, server) = link.current();
            (client, server, link.locator().clone())
        }) else {
            return;
        };
        if !is_replica(&client).await {
            return;
        }
        tracing::warn!(server = ?server.hosts(), "the redis server is a replica");
        if let Err(error) = locator.look_again(&server).await {
            tracing::debug!(%error, "it is not known which server is the primary");
        }
        tokio::time::sleep(ASKED_AGAIN.mul_f64(0.5 + rand::random::<f64>())).await;
    }
}

/// Whether a server says that it is a replica. A user who may not ask learns it from refused writes.
async fn is_replica(client: &Client) -> bool {
    let command = CustomCommand::new_static("ROLE", ClusterHash::Random, false);
    let reply = Box::pin(client.custom::<Value, Value>(command, Vec::new()));
    let Ok(Ok(Value::Array(parts))) = tokio::time::timeout(COMMAND_DEADLINE, reply).await else {
        return false;
    };
    parts.first().is_some_and(|role| decode::text(role) == "slave")
}

/// Finds out which server it is, again and again until that is another one, or this one answers.
pub(super) async fn look(link: WeakLink) {
    let mut pause = FIRST_LOOK;
    while let Some((locator, doubted)) = link.upgrade().map(|link| link.doubted()) {
        if let Err(error) = locator.look_again(&doubted).await {
            tracing::debug!(%error, "it is not known which server it is");
        }
        if link.upgrade().is_none_or(|link| link.has_found(&doubted)) {
            return;
        }
        tokio::time::sleep(pause.mul_f64(0.5 + rand::random::<f64>())).await;
        pause = (pause * 2).min(LATER_LOOKS);
    }
}

/// Lets a client end what is under way.
pub(super) async fn retire(task: ConnectHandle) {
    let end = task.abort_handle();
    if tokio::time::timeout(RETIRES_AFTER, task).await.is_err() {
        end.abort();
    }
}
