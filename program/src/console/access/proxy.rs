//! A proxy that logs people in, and passes their names on in a header.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Once;

use axum::http::{HeaderMap, HeaderName};
use streamfleet_service::config::{Network, ProxySection};

use super::{Grants, Role};

/// The longest name that a proxy may pass on.
const MAX_NAME_BYTES: usize = 128;

/// A proxy that is trusted.
#[derive(Debug, Clone)]
pub(super) struct Proxy {
    from: Vec<Network>,
    user: Option<HeaderName>,
    groups: Option<HeaderName>,
    roles: BTreeMap<String, Role>,
}

impl Proxy {
    /// # Errors
    ///
    /// The key that is wrong, and why.
    pub(super) fn new(section: &ProxySection) -> Result<Self, String> {
        let header = |key: &str, name: &Option<String>| {
            let parsed = name.as_deref().map(str::parse::<HeaderName>).transpose();
            parsed.map_err(|_| format!("console.proxy.{key}: is not the name of a header"))
        };
        let mut roles = BTreeMap::new();
        for (group, role) in &section.roles {
            let known = Role::ALL.into_iter().find(|known| known.as_str() == role);
            let role = known.ok_or_else(|| {
                format!("console.proxy.roles.{group}: is {role:?}, but must be viewer, submitter, operator or admin")
            })?;
            roles.insert(group.clone(), role);
        }
        Ok(Self {
            from: section.from.clone(),
            user: header("user_header", &section.user_header)?,
            groups: header("groups_header", &section.groups_header)?,
            roles,
        })
    }

    /// Returns true if the proxy sent what comes from this address.
    pub(super) fn is_at(&self, address: IpAddr) -> bool {
        self.from.iter().any(|network| network.contains(address))
    }

    /// The address of the client, as the proxy says.
    pub(super) fn client(&self, headers: &HeaderMap) -> Option<IpAddr> {
        // The proxy appends the address that it sees. What is before that may be the client's invention.
        let listed = headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?;
        let address = listed.rsplit(',').next().and_then(address_of);
        if address.is_none() {
            static UNREADABLE: Once = Once::new();
            // Then all clients of the proxy share one limit on logins. What the header has may be anything, so it is not logged.
            UNREADABLE.call_once(|| tracing::warn!("the last entry of X-Forwarded-For is not an address"));
        }
        address
    }

    /// The person whom the proxy has logged in; `None` if there is none, if no group gives a role, or if two headers name one or
    /// their groups: the proxy then has passed on what the client invented.
    pub(super) fn person(&self, headers: &HeaderMap) -> Option<(String, Grants)> {
        let mut names = headers.get_all(self.user.as_ref()?).iter();
        let name = names.next().filter(|_| names.next().is_none())?.to_str().ok()?.trim();
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return None;
        }
        let mut named = self.groups.iter().flat_map(|groups| headers.get_all(groups));
        let groups = named.next().and_then(|value| value.to_str().ok()).unwrap_or_default();
        if named.next().is_some() {
            return None;
        }
        let groups = groups.split(',').map(str::trim);
        // `*` is everybody who is logged in.
        let role = groups.chain(["*"]).filter_map(|group| self.roles.get(group)).copied().max();
        role.map(|role| {
            let payloads = role >= Role::Operator;
            (name.to_owned(), Grants { everywhere: Some(role), queues: BTreeMap::new(), payloads })
        })
    }
}

/// The address of a client, to which some proxies add its port.
fn address_of(entry: &str) -> Option<IpAddr> {
    let entry = entry.trim();
    let bare = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(entry);
    bare.parse().ok().or_else(|| Some(entry.parse::<SocketAddr>().ok()?.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_a_client_is_not_part_of_its_address() {
        for (entry, address) in [
            (" 10.0.0.1", "10.0.0.1"),
            ("10.0.0.1:5001", "10.0.0.1"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:5001 ", "2001:db8::1"),
        ] {
            assert_eq!(address_of(entry), Some(address.parse().unwrap()), "{entry}");
        }
        for entry in ["", "unknown", "10.0.0.1:", "[10.0.0.1"] {
            assert_eq!(address_of(entry), None, "{entry}");
        }
    }
}
