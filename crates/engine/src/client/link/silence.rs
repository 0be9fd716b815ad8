//! How a link reacts to missing answers: it makes the client reconnect, then builds a new client, and looks up which
//! server it should be connected to.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fred::interfaces::ClientLike;
use fred::types::config::ServerConfig;
use futures_util::FutureExt;

use super::{COMMAND_DEADLINE, Link, Live, Role, changes};
use crate::client::error::Error;
use crate::client::locator::{Doubt, Locator};
use crate::client::meter::Reading;

/// After this long without any answer, a new client is built.
const REBUILD_AFTER: Duration = Duration::from_secs(20);

impl Link {
    /// Drops the connection, so that a new one is made; builds a new client if that has not helped.
    pub fn reconnect(&self) {
        if self.shared.role == Role::Confirming || !self.shared.is_open.load(Ordering::Acquire) {
            return;
        }
        let mut live = self.live();
        let silent_since = *live.silent_since.get_or_insert_with(Instant::now);
        self.look_up(&mut live);
        if silent_since.elapsed() > REBUILD_AFTER || live.has_ended() {
            self.shared.rebuild(&mut live);
        } else if !live.forced {
            live.forced = true;
            let client = live.client.clone();
            drop(live);
            // The first poll queues the request for the client's own task; its answer carries no information.
            client.force_reconnection().now_or_never();
        }
    }

    pub(super) fn note_answer(&self) {
        let mut live = self.live();
        live.silent_since = None;
        live.last_answer = Instant::now();
        live.forced = false;
        let times = live.take_reconnects();
        if times > 0 {
            live.xackdel.forget();
        }
        if times > 0 && self.shared.locator.sentinels().is_some() {
            live.tasks.spawn(changes::verify_primary(self.downgrade()));
        }
        drop(live);
        if let (1.., Some(meter)) = (times, &self.shared.meter) {
            meter(Reading::Reconnected(times));
        }
    }

    pub(super) fn note_silence(&self, asked: Instant) {
        let mut live = self.live();
        let silent_since = *live.silent_since.get_or_insert_with(Instant::now);
        // The client reconnects a broken connection on its own; asking it to would only make it reconnect once more.
        // But a connection on which a command waited for its whole deadline without success, while nothing else was
        // answered, is dead unnoticed.
        let dead = asked.elapsed() >= COMMAND_DEADLINE && live.last_answer < asked;
        let stuck = dead || silent_since.elapsed() > REBUILD_AFTER || live.has_ended();
        drop(live);
        if stuck {
            self.reconnect();
        }
    }

    /// Looks up the server again, if it can change.
    pub async fn look_up_server(&self) {
        let (_, doubted) = self.current();
        if let Err(error) = self.shared.locator.refresh(&doubted).await {
            tracing::debug!(%error, "failed to look up the server");
        }
    }

    pub(super) fn doubted(&self) -> (Locator, ServerConfig) {
        (self.shared.locator.clone(), self.live().server.clone())
    }

    /// True if the server has changed, or the doubted one answers.
    pub(super) fn has_found(&self, doubted: &ServerConfig) -> bool {
        let mut live = self.live();
        self.shared.follow(&mut live);
        let found = live.server != *doubted || live.silent_since.is_none();
        live.looking_up = !found;
        found
    }

    /// If an error suggests that the server is no longer the right one, looks up which is.
    pub(super) fn note_error(&self, error: &Error) {
        if !self.shared.locator.may_change() {
            return;
        }
        let mut live = self.live();
        let Some(doubt) = Doubt::of(error, &live.server) else { return };
        self.shared.locator.note_redirect(&doubt);
        self.look_up(&mut live);
    }

    /// Looks up the server in the background, until it is another one or this one answers.
    pub(super) fn look_up(&self, live: &mut Live) {
        if live.looking_up || !self.shared.locator.may_change() {
            return;
        }
        live.looking_up = true;
        while live.tasks.try_join_next().is_some() {}
        live.tasks.spawn(changes::look_up(self.downgrade()));
    }
}
