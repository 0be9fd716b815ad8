//! Certificates for one test: authorities and the certificates that they sign, as files.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use tempfile::TempDir;

/// When a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Valid {
    /// Valid now.
    Now,
    /// Expired in the year 2021.
    Over,
    /// Valid from the year 2090 on.
    Later,
}

/// A certificate authority. Its files are removed on drop.
pub struct Authority {
    dir: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, as files.
#[derive(Clone)]
pub struct Certified {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    /// Creates an authority.
    pub fn new(name: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("streamfleet-authority-").tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let cert = params.self_signed(&key).unwrap();
        fs::write(dir.path().join("ca.pem"), cert.pem()).unwrap();
        Self { dir, issuer: Issuer::new(params, key) }
    }

    /// Returns the file with its own certificate.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// Returns a folder for more files.
    pub fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// Issues a certificate for these host names and IP addresses, in files of this name. Existing files are replaced.
    pub fn issue(&self, file: &str, names: &[&str], valid: Valid) -> Certified {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, file);
        (params.not_before, params.not_after) = match valid {
            Valid::Now => (date_time_ymd(2020, 1, 1), date_time_ymd(2099, 1, 1)),
            Valid::Over => (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1)),
            Valid::Later => (date_time_ymd(2090, 1, 1), date_time_ymd(2099, 1, 1)),
        };
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let at = |ending: &str| self.dir.path().join(format!("{file}.{ending}"));
        let files = Certified { cert: at("pem"), key: at("key") };
        fs::write(&files.cert, cert.pem()).unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }

    /// Issues a certificate for a server on this machine.
    pub fn server(&self) -> Certified {
        self.issue("server", &["127.0.0.1", "localhost"], Valid::Now)
    }
}
