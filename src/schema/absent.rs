//! Replaces the schema if the feature `schema` is not enabled: a type without values.

use crate::job::{Encoding, InvalidPayload};

/// A JSON Schema for payloads.
#[derive(Debug, Clone, Copy)]
pub enum Schema {}

/// Why a text is not a schema that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot be used: this program was built without the feature schema")]
pub struct InvalidSchema;

impl Schema {
    /// Whether this build has the feature `schema`.
    #[doc(hidden)]
    pub const AVAILABLE: bool = false;

    /// The most bytes of a schema as JSON: 1 MiB.
    pub const MAX_BYTES: usize = 1024 * 1024;

    /// Refuses every schema.
    ///
    /// # Errors
    ///
    /// [`InvalidSchema`].
    pub fn parse(_json: &[u8]) -> Result<Self, InvalidSchema> {
        Err(InvalidSchema)
    }

    /// Checks a payload.
    ///
    /// # Errors
    ///
    /// Never.
    pub fn check(&self, _payload: &[u8], _encoding: Encoding) -> Result<(), InvalidPayload> {
        match *self {}
    }
}
