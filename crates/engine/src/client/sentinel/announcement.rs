//! The announcements of a sentinel that matter to a client of the primary.

use fred::types::config::Server;

/// A message of a sentinel about the primary that we follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Announcement {
    /// A replica is about to be promoted. The primary does not know that yet, and whatever it accepts after the
    /// promotion is lost.
    Changing,
    /// This server is the primary now.
    Primary(Server),
    /// The failover was aborted: the primary stays the same.
    Aborted,
}

/// A replica has been chosen, and is asked to stop replicating within about a tenth of a second. Published only by the
/// sentinel that conducts the failover.
const CHOSEN: &str = "+failover-state-send-slaveof-noone";

/// The replica has stopped replicating. Published by the sentinel that conducts the failover, which announces the
/// switch only after it has reconfigured the other replicas, seconds later.
const PROMOTED: &str = "+promoted-slave";

/// Published by each sentinel once it has the new configuration.
const SWITCHED: &str = "+switch-master";

/// The chosen replica did not answer.
const GIVEN_UP: &str = "-failover-abort-slave-timeout";

impl Announcement {
    /// The channels that [`Announcement::read`] understands.
    pub(super) const CHANNELS: [&str; 4] = [CHOSEN, PROMOTED, SWITCHED, GIVEN_UP];

    /// Reads a message; `None` if it is about another primary, or about something else.
    pub(super) fn read(service: &str, channel: &str, message: &str) -> Option<Self> {
        let words: Vec<&str> = message.split(' ').collect();
        if channel == SWITCHED {
            let [name, _old_host, _old_port, host, port] = words[..] else { return None };
            return (name == service).then(|| server(host, port)).flatten().map(Self::Primary);
        }
        // `slave <name> <host> <port> @ <primary> <host> <port>`, or `master <name> <host> <port>`.
        let about = match words[..] {
            ["master", name, ..] | [_, _, _, _, "@", name, ..] => name,
            _ => return None,
        };
        match (about == service, channel, &words[..]) {
            (true, CHOSEN, _) => Some(Self::Changing),
            (true, PROMOTED, [_, _, host, port, ..]) => server(host, port).map(Self::Primary),
            (true, GIVEN_UP, _) => Some(Self::Aborted),
            _ => None,
        }
    }
}

/// Creates a server from its host and its port.
pub(super) fn server(host: &str, port: &str) -> Option<Server> {
    let port = port.parse().ok().filter(|port| *port > 0)?;
    (!host.is_empty()).then(|| Server::new(host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> Server {
        Server::new("10.0.0.2", port)
    }

    #[test]
    fn a_switch_names_the_new_primary() {
        let read = |message| Announcement::read("main", SWITCHED, message);
        assert_eq!(read("main 10.0.0.1 6379 10.0.0.2 6380"), Some(Announcement::Primary(at(6380))));
        assert_eq!(
            read("main 10.0.0.1 6379 ::1 6380"),
            Some(Announcement::Primary(Server::new("::1", 6380)))
        );
        for other in
            ["cache 10.0.0.1 6379 10.0.0.2 6380", "main 10.0.0.1 6379", "main a 1 b 0", "main a 1 b x", ""]
        {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn a_promotion_names_the_new_primary_long_before_the_switch() {
        let message = "slave 10.0.0.2:6380 10.0.0.2 6380 @ main 10.0.0.1 6379";
        let read = |channel| Announcement::read("main", channel, message);
        assert_eq!(read(CHOSEN), Some(Announcement::Changing));
        assert_eq!(read(PROMOTED), Some(Announcement::Primary(at(6380))));
        assert_eq!(read("+sdown"), None);
        assert_eq!(Announcement::read("cache", PROMOTED, message), None);
    }

    #[test]
    fn an_aborted_failover_keeps_the_primary() {
        let read = |message| Announcement::read("main", GIVEN_UP, message);
        assert_eq!(read("master main 10.0.0.1 6379"), Some(Announcement::Aborted));
        assert_eq!(read("master cache 10.0.0.1 6379"), None);
    }
}
