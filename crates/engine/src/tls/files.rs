//! The files with the certificates to trust and our own certificate, and how they are read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore};

use super::live::{Identity, Live, Trust, Wrong};
use super::ring;

/// The TLS settings: which servers to trust, and our own certificate. All keys are optional. Files are in PEM form, and
/// are read again for each new connection, so that a certificate can be replaced while the process runs. See the
/// [example](crate::Config).
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Files {
    /// The certificates of the authorities that servers' certificates must come from, instead of the system's. Without
    /// this file, the authorities that the system trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// This client's certificate, followed by those between it and its authority, for servers that ask for one. Needs
    /// `key_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_file: Option<PathBuf>,
    /// The private key of `cert_file`: PKCS#8, PKCS#1 or SEC1, without a passphrase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// The name that servers' certificates must be for, and that is requested (SNI), instead of the name or IP address
    /// in the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
}

impl Files {
    setters! {
        ca_file: impl Into<PathBuf> => Some(ca_file.into());
        cert_file: impl Into<PathBuf> => Some(cert_file.into());
        key_file: impl Into<PathBuf> => Some(key_file.into());
        server_name: impl Into<String> => Some(server_name.into());
    }

    /// Returns the keys that are set.
    #[doc(hidden)]
    pub fn keys(&self) -> impl Iterator<Item = &'static str> {
        let Self { ca_file, cert_file, key_file, server_name } = self;
        let set = [
            ("ca_file", ca_file.is_some()),
            ("cert_file", cert_file.is_some()),
            ("key_file", key_file.is_some()),
            ("server_name", server_name.is_some()),
        ];
        set.into_iter().filter_map(|(key, is_set)| is_set.then_some(key))
    }

    /// Returns the name that certificates must be for, if it differs from that in the address.
    #[doc(hidden)]
    pub fn name(&self) -> Result<Option<ServerName<'static>>, Wrong> {
        let wrong = |_| ("server_name", "is neither a host name nor an IP address".to_owned());
        self.server_name.clone().map(|name| ServerName::try_from(name).map_err(wrong)).transpose()
    }

    /// Returns the TLS client's configuration. Sessions are never resumed: a resumed session would continue with the
    /// old certificates.
    ///
    /// # Errors
    ///
    /// The first problem found.
    #[doc(hidden)]
    pub fn client(&self) -> Result<ClientConfig, Wrong> {
        let provider = ring();
        let name = self.name()?;
        let trust = Trust::new(self.trust(&provider)?, name);
        let identity = self.identity(&provider)?;
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| ("ca_file", error.to_string()))?;
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(trust));
        let mut config = match identity {
            Some(identity) => builder.with_client_cert_resolver(Arc::new(Identity(identity))),
            None => builder.with_no_client_auth(),
        };
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    fn trust(&self, provider: &Arc<CryptoProvider>) -> Result<Live<dyn ServerCertVerifier>, Wrong> {
        let provider = Arc::clone(provider);
        match self.ca_file.clone() {
            Some(file) => {
                let read = move || authorities(&file, &provider).map_err(|reason| ("ca_file", reason));
                Live::open(read)
            }
            None => {
                let system = rustls_platform_verifier::Verifier::new(provider).map_err(|error| {
                    (
                        "ca_file",
                        format!("is required, because this system has no trusted authorities: {error}"),
                    )
                })?;
                let system: Arc<dyn ServerCertVerifier> = Arc::new(system);
                Live::open(move || Ok(Arc::clone(&system)))
            }
        }
    }

    fn identity(&self, provider: &Arc<CryptoProvider>) -> Result<Option<Live<CertifiedKey>>, Wrong> {
        let provider = Arc::clone(provider);
        match (self.cert_file.clone(), self.key_file.clone()) {
            (None, None) => Ok(None),
            (Some(_), None) => Err(("key_file", "is missing: cert_file needs its key".to_owned())),
            (None, Some(_)) => Err(("cert_file", "is missing: key_file needs its certificate".to_owned())),
            (Some(cert), Some(key)) => Live::open(move || certified(&cert, &key, &provider)).map(Some),
        }
    }
}

fn authorities(file: &Path, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        let unusable =
            |error| format!("{} contains a certificate that cannot be used: {error}", file.display());
        roots.add(certificate).map_err(unusable)?;
    }
    let builder =
        rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let verifier = builder.build().map_err(|error| format!("{} cannot be used: {error}", file.display()))?;
    Ok(verifier)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "another crate's enum; only these variants matter")]
fn certified(cert: &Path, key: &Path, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, Wrong> {
    let chain = certificates(cert).map_err(|reason| ("cert_file", reason))?;
    let private = private_key(key).map_err(|reason| ("key_file", reason))?;
    let certified = CertifiedKey::from_der(chain, private, provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            ("key_file", format!("{} is not the key of the certificate in {}", key.display(), cert.display()))
        }
        rustls::Error::InvalidCertificate(_) => {
            ("cert_file", format!("{} contains a certificate that cannot be used: {error}", cert.display()))
        }
        // The error's own text is left out: nothing of a key is ever shown.
        _ => ("key_file", format!("{} contains a private key of an unsupported kind", key.display())),
    })?;
    Ok(Arc::new(certified))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read(file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(format!("{} contains no certificate in PEM format", file.display())),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let text = read(file)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
        let locked = text.windows(9).any(|word| word == b"ENCRYPTED");
        let why = if locked { "; it needs a passphrase, which is not supported" } else { "" };
        format!("{} contains no private key in PEM format{why}", file.display())
    })
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| format!("{} cannot be read: {error}", file.display()))
}
