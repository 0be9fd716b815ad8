//! The section `[console]`, as the file writes it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::job::number::count;
use crate::job::{OutOfBounds, bounds, duration};

const SESSION_LIFETIME: RangeInclusive<Duration> =
    Duration::from_secs(60)..=Duration::from_secs(30 * 24 * 3600);
const REQUESTS: RangeInclusive<u32> = 1..=1_000_000;

/// What fields with passwords, keys and numbers of cards are usually called, in the ways in which these words are put together.
const SECRETS: &str = "password passwd pwd passphrase secret client_secret client-secret clientsecret token access_token access-token \
    accesstoken refresh_token refresh-token refreshtoken id_token auth_token x-auth-token authorization proxy-authorization cookie \
    set-cookie api_key api-key apikey x-api-key private_key private-key privatekey credentials card_number card-number cardnumber cvv cvc \
    iban ssn otp";

with_defaults! {
    /// The settings of `streamfleet console`.
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
    #[serde(default, deny_unknown_fields)]
    #[non_exhaustive]
    pub struct ConsoleSection {
        /// The address that the console listens on.
        pub listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 9470)),
        /// The address under which people reach it, such as `https://jobs.example.com`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub public_url: Option<String> = None,
        /// The file of people and tokens.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub accounts_file: Option<PathBuf> = None,
        /// A file with the key that signs sessions: at least 32 bytes. Consoles that share it accept each other's sessions.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub session_key_file: Option<PathBuf> = None,
        /// How long people stay logged in.
        #[serde(with = "duration")]
        pub session_lifetime: Duration = Duration::from_secs(12 * 3600),
        /// How many requests a second a person or a token may send.
        #[serde(deserialize_with = "count")]
        pub requests_per_second: u32 = 100,
        /// The names of payload fields and headers whose values nobody sees, such as `password`.
        pub mask: Vec<String> = Vec::new(),
        /// The names of those whose values only operators see: below that, `payloads = true` does not show them.
        pub secrets: Vec<String> = SECRETS.split_whitespace().map(str::to_owned).collect(),
        /// A proxy that logs people in.
        pub proxy: ProxySection = ProxySection::default(),
    }
}

/// A proxy that logs people in and is trusted to name them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ProxySection {
    /// The networks that it sends from, such as `10.1.0.0/16`. Its headers are ignored from elsewhere.
    pub from: Vec<Network>,
    /// The header with the name of the person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_header: Option<String>,
    /// The header with the person's groups, separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups_header: Option<String>,
    /// The role of each group: `viewer`, `submitter`, `operator` or `admin`. The group `*` is everybody.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<String, String>,
}

/// A network of IP addresses, such as `10.1.0.0/16`. An address alone is a network of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(IpNet);

impl Network {
    /// Returns true if the network includes this address. An IPv4 address may be written as one of IPv6.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        network.map(Self).map_err(|_| {
            format!("{text:?} is no network; write an address and its bits, such as 10.1.0.0/16")
        })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(to)
    }
}

as_text!(Network);

impl ConsoleSection {
    /// Returns everything that is out of its bounds.
    pub(super) fn check(&self) -> Vec<OutOfBounds> {
        let ProxySection { from, user_header, roles, .. } = &self.proxy;
        let is_open = user_header.is_some() && (from.is_empty() || roles.is_empty());
        let why = "names a header, but not whom to trust with it: set both `from` and `roles`";
        let problems = [
            bounds::time("session_lifetime", self.session_lifetime, &SESSION_LIFETIME),
            bounds::number("requests_per_second", self.requests_per_second, &REQUESTS),
            is_open.then(|| OutOfBounds::new("proxy", why)),
        ];
        problems.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_its_addresses() {
        for (network, inside, outside) in [
            ("10.1.0.0/16", "10.1.255.1", "10.2.0.1"),
            ("10.1.0.7", "10.1.0.7", "10.1.0.8"),
            ("10.1.0.0/16", "::ffff:10.1.0.1", "::1"),
            ("fd00::/8", "fd12::1", "fe80::1"),
        ] {
            let network: Network = network.parse().unwrap();
            assert!(network.contains(inside.parse().unwrap()), "{network}");
            assert!(!network.contains(outside.parse().unwrap()), "{network}");
        }
        assert!("0.0.0.0/0".parse::<Network>().unwrap().contains("203.0.113.9".parse().unwrap()));
        for wrong in ["", "10.1", "10.1.0.0/33", "::/129", "10.1.0.0/x", "jobs.example.com"] {
            assert!(wrong.parse::<Network>().unwrap_err().contains("is no network"), "{wrong}");
        }
    }
}
