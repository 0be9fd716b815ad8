//! TLS for what this process calls itself: by ring, whatever else the process has installed, trusting what the system
//! trusts.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

/// How to call `scheme://…`. What is called without TLS needs no roots, which a minimal container may not have.
pub(crate) fn config(scheme: &str) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match scheme {
        "http" => builder.with_root_certificates(RootCertStore::empty()),
        _ => builder.with_platform_verifier()?,
    };
    Ok(builder.with_no_client_auth())
}
