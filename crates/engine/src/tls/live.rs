//! Certificates and keys that are read from their files again at each handshake. If a file cannot be read then, or is
//! half written, the last good version stays in use.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

use super::explain;
use crate::mutex::lock;

/// A key of the TLS settings, and what is wrong with its value.
pub(crate) type Wrong = (&'static str, String);

/// The content of files, as they are now or as they last were valid.
pub(super) struct Live<T: ?Sized> {
    read: Box<dyn Fn() -> Result<Arc<T>, Wrong> + Send + Sync>,
    last: Mutex<Last<T>>,
}

struct Last<T: ?Sized> {
    value: Arc<T>,
    /// What is wrong with the files now. Logged once.
    wrong: Option<Wrong>,
}

impl<T: ?Sized> Live<T> {
    /// Reads the files for the first time.
    pub(super) fn open(
        read: impl Fn() -> Result<Arc<T>, Wrong> + Send + Sync + 'static,
    ) -> Result<Self, Wrong> {
        let last = Mutex::new(Last { value: read()?, wrong: None });
        Ok(Self { read: Box::new(read), last })
    }

    /// Reads the files again.
    fn current(&self) -> Arc<T> {
        let read = (self.read)();
        let mut last = lock(&self.last);
        match read {
            Ok(value) => (last.value, last.wrong) = (value, None),
            Err(wrong) if last.wrong.as_ref() == Some(&wrong) => {}
            Err(wrong) => {
                let (key, reason) = &wrong;
                tracing::warn!(key, reason, "failed to reload a certificate; the last one stays in use");
                last.wrong = Some(wrong);
            }
        }
        Arc::clone(&last.value)
    }
}

/// Verifies servers' certificates.
pub(super) struct Trust {
    verifier: Live<dyn ServerCertVerifier>,
    name: Option<ServerName<'static>>,
    /// Whether the last certificate was accepted. A refusal on the first connection is reported as an error. A later
    /// one would only look like an outage, so it is logged.
    before: AtomicBool,
}

impl Trust {
    pub(super) fn new(verifier: Live<dyn ServerCertVerifier>, name: Option<ServerName<'static>>) -> Self {
        Self { verifier, name, before: AtomicBool::new(false) }
    }

    fn last(&self) -> Arc<dyn ServerCertVerifier> {
        Arc::clone(&lock(&self.verifier.last).value)
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let name = self.name.as_ref().unwrap_or(server_name);
        let verifier = self.verifier.current();
        let verified = verifier.verify_server_cert(end_entity, intermediates, name, ocsp_response, now);
        match &verified {
            Ok(_) => self.before.store(true, Ordering::Relaxed),
            Err(error) if self.before.swap(false, Ordering::Relaxed) => {
                tracing::warn!(server = %name.to_str(), "{}", explain::tls_error(error));
            }
            Err(_) => {}
        }
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.last().verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.last().verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.last().supported_verify_schemes()
    }
}

/// Our own certificate, for servers that ask for one.
pub(super) struct Identity(pub(super) Live<CertifiedKey>);

impl ResolvesClientCert for Identity {
    fn resolve(&self, _authorities: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.current())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Trust").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Identity")
    }
}
