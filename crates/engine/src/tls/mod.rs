//! TLS for the connections that this process opens. It uses ring, whatever else the process has installed, and trusts
//! what the system trusts or what a file names.

mod explain;
mod files;
mod handshake;
mod live;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, RootCertStore};

pub use files::Files;
pub use handshake::{ProbeResult, probe};

/// Returns the TLS configuration for `scheme://…`. Connections without TLS need no root certificates, which a minimal
/// container may not have.
pub fn config(scheme: &str) -> Result<ClientConfig, rustls::Error> {
    use rustls_platform_verifier::BuilderVerifierExt;

    let builder = ClientConfig::builder_with_provider(ring()).with_safe_default_protocol_versions()?;
    let builder = match scheme {
        "http" => builder.with_root_certificates(RootCertStore::empty()),
        _ => builder.with_platform_verifier()?,
    };
    Ok(builder.with_no_client_auth())
}

fn ring() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
