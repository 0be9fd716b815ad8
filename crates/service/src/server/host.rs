//! The host that a request was sent to. A page of another site whose name resolves to this machine (DNS rebinding) sends that name.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::http::uri::Authority;
use axum::http::{HeaderMap, header};

/// Returns the host that a request was sent to, in lower case and without its port. `None` if the headers name none, or several.
pub fn host(headers: &HeaderMap) -> Option<String> {
    let mut named = headers.get_all(header::HOST).iter();
    let (Some(only), None) = (named.next(), named.next()) else { return None };
    let authority: Authority = only.to_str().ok()?.parse().ok()?;
    Some(authority.host().to_lowercase())
}

/// Returns true if no browser can have sent a request for the page of another site: it names an IP address, this machine, or
/// nothing, which no browser does.
pub fn names_no_site(headers: &HeaderMap) -> bool {
    let is_no_site = |host: String| {
        let v6 = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_v6 = v6.is_some_and(|host| host.parse::<Ipv6Addr>().is_ok());
        host == "localhost" || host.parse::<Ipv4Addr>().is_ok() || is_v6
    };
    !headers.contains_key(header::HOST) || host(headers).is_some_and(is_no_site)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(hosts: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, host.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_request_is_sent_to_one_host() {
        assert_eq!(host(&named(&["Jobs.Example.com:443"])).as_deref(), Some("jobs.example.com"));
        for several in [&[][..], &[""], &["localhost", "localhost"], &["localhost", "evil.example"], &["a b"]]
        {
            assert_eq!(host(&named(several)), None, "{several:?}");
        }
    }

    #[test]
    fn only_names_of_sites_are_sites() {
        for none in [&[][..], &["localhost:9464"], &["127.0.0.1:9464"], &["[::1]:9464"], &["10.0.0.7"]] {
            assert!(names_no_site(&named(none)), "{none:?}");
        }
        for site in [
            &["evil.example"][..],
            &["localhost.evil.example:9464"],
            &["127.0.0.1", "evil.example"],
            &["1.evil"],
        ] {
            assert!(!names_no_site(&named(site)), "{site:?}");
        }
    }
}
