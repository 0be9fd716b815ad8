//! Which type has which schema.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Schema;
use crate::job::{Encoding, InvalidName, InvalidPayload, JobType};

/// The schemas of types. Clones share them. A type without a schema takes any payload.
///
/// Give the same schemas to producers and workers, so that they cannot disagree:
///
/// ```no_run
/// # async fn example(handler: impl streamfleet::Handler) -> Result<(), Box<dyn std::error::Error>> {
/// use streamfleet::schema::{Schema, Schemas};
/// use streamfleet::{Fleet, FleetConfig, Producer};
///
/// let mail = Schema::parse(br#"{"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}}}"#)?;
/// let schemas = Schemas::default().with("mail.send", mail)?;
/// let producer = Producer::connect("redis://127.0.0.1:6379", "default").await?.schemas(schemas.clone());
/// let fleet = Fleet::builder(FleetConfig::default()).schemas(schemas).handler_for("mail.send", handler)?.build();
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Schemas(Arc<BTreeMap<JobType, Schema>>);

impl Schemas {
    /// Returns true if no type has a schema.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the type has a schema.
    pub(crate) fn has(&self, job_type: &JobType) -> bool {
        self.0.contains_key(job_type)
    }

    /// Adds the schema of a type, in place of a former one.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] if the type breaks the rule for types.
    pub fn with(mut self, job_type: &str, schema: Schema) -> Result<Self, InvalidName> {
        self.insert(job_type.parse()?, schema);
        Ok(self)
    }

    /// Adds the schema of a type whose name is known to be valid.
    #[doc(hidden)]
    pub fn insert(&mut self, job_type: JobType, schema: Schema) {
        Arc::make_mut(&mut self.0).insert(job_type, schema);
    }

    /// Checks a payload against the schema of its type. Large payloads take a while.
    ///
    /// # Errors
    ///
    /// [`InvalidPayload`] if the type has a schema, and the payload does not fit it.
    pub fn check(
        &self,
        job_type: &JobType,
        payload: &[u8],
        encoding: Encoding,
    ) -> Result<(), InvalidPayload> {
        self.0.get(job_type).map_or(Ok(()), |schema| schema.check(payload, encoding))
    }
}
