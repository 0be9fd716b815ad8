//! The schemas of types: a producer refuses a payload that does not fit the schema of its type, and a worker buries a job
//! whose payload does not fit.
//!
//! `compiled` is a schema, which checks a payload. `by_type` has the schemas of all types. `blocking` checks large payloads beside
//! the threads of the runtime. Nothing here reads a file or fetches anything. See `docs/schemas.md`.
//!
//! Without the feature `schema`, `absent` takes the place of `compiled`, and no schema can be read.

mod blocking;
mod by_type;
#[cfg_attr(not(feature = "schema"), path = "absent.rs")]
mod compiled;

pub(crate) use blocking::blocking;
pub use by_type::Schemas;
pub use compiled::{InvalidSchema, Schema};
