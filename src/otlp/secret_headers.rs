//! Headers for a collector as one text, which may be secret.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};

/// Headers as the variable `OTEL_EXPORTER_OTLP_HEADERS` has them: `name=value,name=value`, with values that may be
/// percent-encoded. It is never shown.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct SecretHeaders(SecretString);

impl SecretHeaders {
    /// Returns the text.
    pub(crate) fn text(&self) -> &str {
        self.0.expose_secret()
    }
}

impl From<&str> for SecretHeaders {
    fn from(text: &str) -> Self {
        Self(SecretString::from(text))
    }
}

impl PartialEq for SecretHeaders {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl fmt::Debug for SecretHeaders {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("***")
    }
}

impl Serialize for SecretHeaders {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str("***")
    }
}
