//! Replaces schemas if the feature `schema` is not enabled: no type has one.

use crate::job::{Encoding, InvalidPayload, JobType};

/// A schema, which does not exist in this build.
#[derive(Debug, Clone)]
pub(crate) enum Schema {}

impl Schema {
    /// Checks a payload.
    pub(crate) fn check(&self, _payload: &[u8], _encoding: Encoding) -> Result<(), InvalidPayload> {
        match *self {}
    }
}

/// The schemas of types, of which there are none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Schemas;

impl Schemas {
    /// Returns true: no type has a schema.
    pub(crate) fn is_empty(&self) -> bool {
        true
    }

    /// Returns `None`: the type has no schema.
    pub(crate) fn get(&self, _job_type: &JobType) -> Option<&Schema> {
        None
    }
}
