//! Where a request comes from: to which host it was sent, and which site's page sent it.

use axum::http::{HeaderMap, Method, header};
use streamfleet_service::server::host;

/// The hosts under which the console may be asked. A page of another site whose name resolves to this machine (DNS rebinding)
/// sends another one.
#[derive(Debug, Clone)]
pub(super) struct Hosts {
    /// The host of the public address, and its port if it has one.
    public: Option<String>,
    /// The IP address that the console listens on, if it is a certain one.
    listens: Option<String>,
}

impl Hosts {
    pub(super) fn new(public_url: Option<&axum::http::Uri>, listen: std::net::SocketAddr) -> Self {
        let public = public_url.and_then(axum::http::Uri::host).map(str::to_lowercase);
        let ip = listen.ip();
        Self { public, listens: (!ip.is_unspecified()).then(|| shown(ip)) }
    }

    /// Returns true if a request with these headers was sent to this console.
    pub(super) fn includes(&self, headers: &HeaderMap) -> bool {
        let Some(host) = host(headers) else { return false };
        is_loopback(&host) || [&self.public, &self.listens].into_iter().flatten().any(|known| *known == host)
    }
}

fn shown(ip: std::net::IpAddr) -> String {
    match ip {
        std::net::IpAddr::V4(ip) => ip.to_string(),
        std::net::IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

fn is_loopback(host: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].contains(&host)
}

/// Returns true if a request was sent to a name of this machine, where no certificate is needed.
pub(super) fn is_local(headers: &HeaderMap) -> bool {
    host(headers).is_some_and(|host| is_loopback(&host))
}

/// Returns true if a method changes nothing.
pub(super) fn is_safe(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS].contains(method)
}

/// Returns true if the browser says that another site's page sent a request. Old browsers say nothing, and programs neither.
pub(super) fn is_foreign(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site != "same-origin" && site != "none";
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let sent_to = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let of_origin = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    of_origin.is_none() || of_origin != sent_to
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        pairs.collect()
    }

    #[test]
    fn only_the_consoles_own_names_are_served() {
        let public = "https://jobs.example.com".parse().unwrap();
        let hosts = Hosts::new(Some(&public), "10.0.0.7:9470".parse().unwrap());
        for host in [
            "localhost:1",
            "127.0.0.1",
            "[::1]:9470",
            "jobs.example.com",
            "JOBS.example.com:443",
            "10.0.0.7:9470",
        ] {
            assert!(hosts.includes(&headers(&[("host", host)])), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "10.0.0.8", "a b", ""] {
            assert!(!hosts.includes(&headers(&[("host", host)])), "{host}");
        }
        assert!(!hosts.includes(&headers(&[])));
        let mut two = headers(&[("host", "localhost")]);
        two.append("host", "evil.example".parse().unwrap());
        assert!(!hosts.includes(&two));
    }

    #[test]
    fn a_request_of_another_sites_page_is_foreign() {
        let host = ("host", "jobs.example.com");
        for own in [
            &[host][..],
            &[host, ("origin", "https://jobs.example.com")],
            &[host, ("sec-fetch-site", "same-origin")],
            &[host, ("sec-fetch-site", "none")],
        ] {
            assert!(!is_foreign(&headers(own)), "{own:?}");
        }
        for foreign in [
            &[host, ("origin", "https://evil.example")][..],
            &[host, ("origin", "null")],
            &[host, ("sec-fetch-site", "cross-site"), ("origin", "https://jobs.example.com")],
            &[host, ("sec-fetch-site", "same-site")],
        ] {
            assert!(is_foreign(&headers(foreign)), "{foreign:?}");
        }
    }
}
