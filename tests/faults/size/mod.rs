//! Jobs that are large, have many fields, or are many: they delay only themselves.

mod blocking;
mod bounds;
mod cost;
mod fields;
mod full;
mod look;
mod offload;
mod read;
