//! Jobs that are large, have many fields, or are many: nobody waits for them but themselves.

pub(crate) mod blocking;
mod cost;
mod fields;
mod full;
mod look;
mod offload;
mod read;
