//! Determines which server a link connects to. A plain address fixes it. In a cluster it is the master that has the
//! slot of the link's keys, and may change at any time.

use std::sync::Arc;

use fred::types::Key;
use fred::types::config::{Config, Server, ServerConfig};

use crate::client::cluster::Cluster;
use crate::client::error::{Class, Error};
use crate::client::sentinel::Sentinels;

/// Knows which server a link is to connect to. Clones for one address share what they learn.
#[derive(Clone)]
pub(crate) enum Locator {
    /// Always this server.
    Fixed(ServerConfig),
    /// The master that has this slot.
    Slot {
        /// What is known about the cluster.
        cluster: Arc<Cluster>,
        /// The slot of the link's keys.
        slot: u16,
    },
    /// The primary, according to sentinels.
    Watched(Arc<Sentinels>),
}

/// Why a link doubts that its server is still the right one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// It did not answer, or no connection to it could be made.
    Silent,
    /// It said that it cannot serve: it is a replica, or its part of the cluster is down.
    Refuses,
    /// It named another server; `None` if that name is unusable.
    Moved(Option<Server>),
}

impl Locator {
    /// Creates the locator of an address, for keys that belong to no queue. Asks a cluster for its slots.
    ///
    /// # Errors
    ///
    /// [`Error`] if no node of a cluster, or no sentinel, answers that.
    pub(crate) async fn find(access: &Config) -> Result<Self, Error> {
        if let Some(sentinels) = Sentinels::listen(access) {
            sentinels.primary().await?;
            return Ok(Self::Watched(Arc::new(sentinels)));
        }
        if !access.server.is_clustered() {
            return Ok(Self::Fixed(access.server.clone()));
        }
        let cluster = Arc::new(Cluster::new(access.clone()));
        cluster.refresh(None).await?;
        Ok(Self::Slot { cluster, slot: 0 })
    }

    /// Creates a locator from the same address for the server of this key.
    pub(crate) fn for_key(&self, key: &Key) -> Self {
        match self {
            Self::Fixed(server) => Self::Fixed(server.clone()),
            Self::Slot { cluster, slot: _ } => {
                Self::Slot { cluster: Arc::clone(cluster), slot: key.cluster_hash() }
            }
            Self::Watched(sentinels) => Self::Watched(Arc::clone(sentinels)),
        }
    }

    /// True if the server may change.
    pub(crate) fn may_change(&self) -> bool {
        match self {
            Self::Fixed(_) => false,
            Self::Slot { .. } | Self::Watched(_) => true,
        }
    }

    /// The cluster, if the address names one.
    pub(crate) fn cluster(&self) -> Option<&Arc<Cluster>> {
        match self {
            Self::Fixed(_) | Self::Watched(_) => None,
            Self::Slot { cluster, slot: _ } => Some(cluster),
        }
    }

    /// The sentinels, if the address names any.
    pub(crate) fn sentinels(&self) -> Option<&Arc<Sentinels>> {
        match self {
            Self::Fixed(_) | Self::Slot { .. } => None,
            Self::Watched(sentinels) => Some(sentinels),
        }
    }

    /// Returns the server, as far as it is known. Sends nothing.
    pub(crate) fn current(&self) -> ServerConfig {
        match self {
            Self::Fixed(server) => server.clone(),
            Self::Slot { cluster, slot } => ServerConfig::Centralized { server: cluster.owner(*slot) },
            Self::Watched(sentinels) => ServerConfig::Centralized { server: sentinels.current() },
        }
    }

    /// Changes whenever [`Locator::current`] may have changed.
    pub(crate) fn version(&self) -> u64 {
        match self {
            Self::Fixed(_) => 0,
            Self::Slot { cluster, slot: _ } => cluster.version(),
            Self::Watched(sentinels) => sentinels.version(),
        }
    }

    /// Uses what a server's answer says about the location of the keys. Sends nothing.
    pub(crate) fn note_redirect(&self, doubt: &Doubt) {
        if let (Self::Slot { cluster, slot }, Doubt::Moved(Some(to))) = (self, doubt) {
            cluster.note_redirect(*slot, to);
        }
    }

    /// Looks up the server again, if it can change. Concurrent callers share few requests.
    ///
    /// # Errors
    ///
    /// [`Error`] if no server knows. What was known before stays.
    pub(crate) async fn refresh(&self, doubted: &ServerConfig) -> Result<(), Error> {
        match self {
            Self::Fixed(_) => Ok(()),
            Self::Slot { cluster, slot: _ } => cluster.refresh(doubted.hosts().first()).await,
            Self::Watched(sentinels) => sentinels.refresh(doubted.hosts().first()).await,
        }
    }

    /// Adds to an error of the first connection what the address alone does not show.
    pub(crate) fn explain(&self, server: &ServerConfig, error: Error) -> Error {
        let at = server.hosts().first().map(ToString::to_string).unwrap_or_default();
        match (self, error) {
            (Self::Slot { .. }, Error::Unreachable(why)) => Error::Unreachable(format!(
                "{at}, which has the keys according to the cluster, cannot be reached: {why} (if it is running, but not at this \
                     address when seen from here, set cluster-announce-ip or cluster-announce-hostname on it)"
            )),
            (Self::Watched(_), Error::Unreachable(why)) => Error::Unreachable(format!(
                "{at}, which is the primary according to the sentinels, cannot be used: {why}"
            )),
            (_, error) => error,
        }
    }
}

impl Doubt {
    /// Derives a doubt from a command's error.
    pub(crate) fn of(error: &Error, asked: &ServerConfig) -> Option<Self> {
        match error {
            Error::Unknown { .. } | Error::Unreachable(_) => Some(Self::Silent),
            Error::Refused { class: Class::Busy, detail, .. } => match detail.split(' ').next()? {
                "MOVED" => Some(Self::Moved(target(detail, asked))),
                // Without replicas it may be a primary that was left behind.
                "READONLY" | "MASTERDOWN" | "CLUSTERDOWN" | "NOREPLICAS" => Some(Self::Refuses),
                _ => None,
            },
            Error::Refused { .. } | Error::Contract { .. } | Error::Address(_) => None,
        }
    }
}

/// Returns the server that `MOVED 3999 host:port` names. Without a host, it is on the host that was asked.
fn target(detail: &str, asked: &ServerConfig) -> Option<Server> {
    let (host, port) = detail.split(' ').nth(2)?.rsplit_once(':')?;
    let port = port.parse().ok()?;
    match host {
        "" => Some(Server::new(asked.hosts().first()?.host.clone(), port)),
        // The node does not know the other node's name.
        "?" => None,
        host => Some(Server::new(host, port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(detail: &str) -> Error {
        Error::Refused { command: "xadd", class: Class::Busy, detail: detail.to_owned() }
    }

    #[test]
    fn an_answer_that_names_another_server_is_followed() {
        let asked = ServerConfig::new_centralized("10.0.0.1", 7000);
        let moved = |host, port| Some(Doubt::Moved(Some(Server::new(host, port))));
        let heard = |detail| Doubt::of(&refused(detail), &asked);
        assert_eq!(heard("MOVED 3999 10.0.0.2:7001"), moved("10.0.0.2", 7001));
        assert_eq!(heard("MOVED 3999 fd00::2:7001"), moved("fd00::2", 7001));
        assert_eq!(heard("MOVED 3999 :7001"), moved("10.0.0.1", 7001));
        assert_eq!(heard("MOVED 3999 ?:7001"), Some(Doubt::Moved(None)));
        assert_eq!(heard("CLUSTERDOWN Hash slot not served"), Some(Doubt::Refuses));
    }

    #[test]
    fn a_migrating_slot_still_belongs_to_its_old_server() {
        let asked = ServerConfig::new_centralized("10.0.0.1", 7000);
        for detail in ["ASK 3999 10.0.0.2:7001", "TRYAGAIN Multiple keys request during rehashing of slot"] {
            assert_eq!(Doubt::of(&refused(detail), &asked), None, "{detail}");
        }
    }
}
