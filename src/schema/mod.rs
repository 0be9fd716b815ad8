//! The schemas of types: a producer refuses a payload that does not fit the schema of its type, and a worker buries a job
//! whose payload does not fit.
//!
//! `compiled` has a schema, which `problem` and `decoded` help to check a payload: they word what is wrong,
//! and read the payload as JSON. `by_type` has the schemas of all types. `aside` checks large payloads beside the threads of
//! the runtime. Nothing here reads a file or fetches anything. See `docs/schemas.md`.
//!
//! Without the feature `schema`, `absent` takes the place of schemas.

#[cfg(not(feature = "schema"))]
mod absent;
mod aside;
#[cfg(feature = "schema")]
mod by_type;
#[cfg(feature = "schema")]
mod compiled;
#[cfg(feature = "schema")]
mod decoded;
#[cfg(feature = "schema")]
mod problem;

#[cfg(not(feature = "schema"))]
pub(crate) use absent::Schemas;
pub(crate) use aside::aside;
#[cfg(feature = "schema")]
pub use by_type::Schemas;
#[cfg(feature = "schema")]
pub use compiled::{InvalidSchema, Schema};
