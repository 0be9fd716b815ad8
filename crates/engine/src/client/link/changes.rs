//! How a link handles a change of its server: it looks up the current one. If there are sentinels, it waits for a
//! change in progress to finish, follows it at once, and checks that the new server considers itself the primary too.

use std::time::{Duration, Instant};

use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::config::ServerConfig;
use fred::types::{ClusterHash, ConnectHandle, CustomCommand, Value};

use super::{COMMAND_DEADLINE, Link, Role, WeakLink};
use crate::client::decode;
use crate::client::error::{Class, Error};
use crate::job::jittered;

/// How long commands in flight at the old server may still be answered after a change.
const RETIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// After a command without an answer, the server is looked up repeatedly, with pauses from this to …
pub(super) const FIRST_LOOKUP: Duration = Duration::from_millis(200);

/// … this.
const MAX_LOOKUP_PAUSE: Duration = Duration::from_secs(1);

/// How long a blocking command may take to end if the primary is about to change.
const UNBLOCK_TIMEOUT: Duration = Duration::from_millis(200);

/// How often a server that is a replica is asked whether it still is one, and the sentinels which server is the
/// primary.
const VERIFY_EVERY: Duration = Duration::from_millis(500);

impl Link {
    /// Checks that a server which sentinels call the primary considers itself one.
    pub(super) async fn refuse_replica(&self, client: &Client) -> Result<(), Error> {
        if self.locator().sentinels().is_some() && is_replica(client).await {
            return Err(Error::Unreachable("it is a replica".to_owned()));
        }
        Ok(())
    }

    /// Waits if another server is about to become the primary: whatever the old one accepts now may be lost without an
    /// error.
    pub(super) async fn await_change(&self) {
        if let Some(sentinels) = self.locator().sentinels() {
            sentinels.await_settled().await;
        }
    }

    /// Waits, before the current client sends a command, if another server is about to become the primary.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if that client is outdated by then: nothing was sent.
    pub(super) async fn await_change_before(&self, command: Option<&'static str>) -> Result<(), Error> {
        let Some(sentinels) = self.locator().sentinels().filter(|sentinels| sentinels.is_changing()) else {
            return Ok(());
        };
        let before = self.current().1;
        sentinels.await_settled().await;
        self.check_not_moved(&before, command)
    }

    /// Refuses a command that is meant for another server than the current one.
    pub(super) fn check_not_moved(
        &self,
        before: &ServerConfig,
        command: Option<&'static str>,
    ) -> Result<(), Error> {
        if self.current().1 == *before { Ok(()) } else { Err(moved(command)) }
    }
}

/// The error for a command that was not sent because it was meant for another server than the current one.
pub(super) fn moved(command: Option<&'static str>) -> Error {
    let detail = "the keys moved to another server; nothing was sent".to_owned();
    Error::Refused { command: command.unwrap_or("connect"), class: Class::Busy, detail }
}

/// Follows every change until the link is gone.
pub(super) async fn follow_changes(link: WeakLink) {
    let Some(mut known) = link.upgrade().and_then(|link| Some(link.locator().sentinels()?.watch())) else {
        return;
    };
    while known.changed().await.is_ok() {
        let Some(link) = link.upgrade() else { return };
        let is_changing = known.borrow_and_update().is_changing(Instant::now());
        link.shared.follow(&mut link.live());
        // Whatever is read from now on may be delivered to another consumer too.
        if is_changing && link.shared.role == Role::Blocking {
            tokio::select! {
                _ = tokio::time::timeout(UNBLOCK_TIMEOUT, link.unblock()) => {}
                _ = known.changed() => known.mark_changed(),
            }
        }
    }
}

/// Asks the current server whether it is a primary, and the sentinels as long as it is not.
pub(super) async fn verify_primary(link: WeakLink) {
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
        if let Err(error) = locator.refresh(&server).await {
            tracing::debug!(%error, "failed to find out which server is the primary");
        }
        tokio::time::sleep(jittered(VERIFY_EVERY, 0.5..1.5, rand::random())).await;
    }
}

/// True if a server reports that it is a replica. A user without the right to ask learns it from refused writes.
async fn is_replica(client: &Client) -> bool {
    let command = CustomCommand::new_static("ROLE", ClusterHash::Random, false);
    let reply = Box::pin(client.custom::<Value, Value>(command, Vec::new()));
    let Ok(Ok(Value::Array(parts))) = tokio::time::timeout(COMMAND_DEADLINE, reply).await else {
        return false;
    };
    parts.first().is_some_and(|role| decode::text(role) == "slave")
}

/// Looks up the server repeatedly, until it is another one or this one answers.
pub(super) async fn look_up(link: WeakLink) {
    let mut pause = FIRST_LOOKUP;
    while let Some((locator, doubted)) = link.upgrade().map(|link| link.doubted()) {
        if let Err(error) = locator.refresh(&doubted).await {
            tracing::debug!(%error, "failed to look up the server");
        }
        if link.upgrade().is_none_or(|link| link.has_found(&doubted)) {
            return;
        }
        tokio::time::sleep(jittered(pause, 0.5..1.5, rand::random())).await;
        pause = (pause * 2).min(MAX_LOOKUP_PAUSE);
    }
}

/// Lets a client finish its commands in flight.
pub(super) async fn retire(task: ConnectHandle) {
    let end = task.abort_handle();
    if tokio::time::timeout(RETIRE_TIMEOUT, task).await.is_err() {
        end.abort();
    }
}
