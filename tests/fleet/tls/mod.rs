//! TLS: a private authority, client certificates, and the errors when it fails.

mod refused;
mod rotated;
mod spoken;
mod topologies;

use streamfleet::{RedisConfig, RedisTls};

use harness::certificates::{Authority, Certified};

/// Returns a configuration that trusts this authority and uses this client certificate.
pub(crate) fn tls(authority: &Authority, client: Option<&Certified>) -> RedisTls {
    let mut tls = RedisTls::default();
    tls.ca_file = Some(authority.file());
    tls.cert_file = client.map(|client| client.cert.clone());
    tls.key_file = client.map(|client| client.key.clone());
    tls
}

/// Returns a configuration with this address and this TLS.
pub(crate) fn redis(url: &str, tls: RedisTls) -> RedisConfig {
    RedisConfig::from(url).tls(tls)
}
