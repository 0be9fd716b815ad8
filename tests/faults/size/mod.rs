//! Jobs that are large, have many fields, or are many: they delay only themselves.

mod blocking;
mod claim;
mod cost;
mod fields;
mod full;
mod letters;
mod locks;
mod look;
mod offload;
mod read;
mod rules;
mod weight;
