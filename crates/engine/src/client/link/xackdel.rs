//! Whether a link's server has a sound `XACKDEL`. A connection that is made again may lead to another server, so the server
//! is asked over each. Nothing waits for the answer: until it is there, the server counts as one without the command.

use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::{InfoKind, Value};

use super::{Link, WeakLink};
use crate::client::decode;
use crate::inspect::server::Server;

/// What is known about the server of the current connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Xackdel {
    /// How many connections were made before this one.
    connection: u64,
    found: Found,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Found {
    #[default]
    NotAsked,
    Asked,
    Present,
    Absent,
}

impl Xackdel {
    /// Forgets the answer, because another connection was made.
    pub(super) fn forget(&mut self) {
        *self = Self { connection: self.connection + 1, found: Found::NotAsked };
    }

    /// Notes an answer; `None` if there was none. Ignores what was asked over an earlier connection.
    fn note(&mut self, connection: u64, is_present: Option<bool>) {
        if self.connection == connection {
            self.found = match is_present {
                Some(true) => Found::Present,
                Some(false) => Found::Absent,
                None => Found::NotAsked,
            };
        }
    }
}

impl Link {
    /// The current client if its server is known to have a sound `XACKDEL`. If the server was not asked yet, asks it in
    /// the background.
    pub(crate) fn client_with_xackdel(&self) -> Option<Client> {
        let mut live = self.live();
        self.shared.follow(&mut live);
        // The next answer shows that there is another connection, and makes the link forget.
        if !live.reconnections.is_empty() {
            return None;
        }
        let found = live.xackdel.found;
        match found {
            Found::Present => Some(live.client.clone()),
            Found::Absent | Found::Asked => None,
            Found::NotAsked => {
                live.xackdel.found = Found::Asked;
                let connection = live.xackdel.connection;
                while live.tasks.try_join_next().is_some() {}
                live.tasks.spawn(ask_server(self.downgrade(), connection));
                None
            }
        }
    }

    /// Notes that the server of this client refuses the command.
    pub(crate) fn note_no_xackdel(&self, client: &Client) {
        let mut live = self.live();
        if live.client.id() == client.id() {
            live.xackdel.found = Found::Absent;
        }
    }
}

/// Asks the server which version it is.
async fn ask_server(link: WeakLink, connection: u64) {
    let Some(link) = link.upgrade() else { return };
    let client = link.client();
    let is_present = match link.ask("info", client.info::<Value>(Some(InfoKind::Server))).await {
        Ok(reply) => Some(Server::read(&decode::text(&reply)).has_xackdel()),
        Err(error) => {
            tracing::debug!(%error, "failed to ask redis for its version");
            // A login without the right to ask does not get it over the same connection.
            (!error.is_transient()).then_some(false)
        }
    };
    let mut live = link.live();
    // Otherwise, the answer may be another server's.
    if live.reconnections.is_empty() {
        live.xackdel.note(connection, is_present);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_only_for_the_connection_that_was_asked() {
        let mut known = Xackdel::default();
        known.note(0, Some(true));
        assert_eq!(known.found, Found::Present);
        known.forget();
        assert_eq!(known.found, Found::NotAsked);
        known.note(0, Some(true));
        assert_eq!(known.found, Found::NotAsked);
        known.note(1, Some(false));
        assert_eq!(known.found, Found::Absent);
        known.forget();
        known.note(2, None);
        assert_eq!(known.found, Found::NotAsked);
    }
}
