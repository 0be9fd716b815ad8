//! The kit for users' own tests, used as they use it, and the programs of `examples/`.

mod examples;
mod inline;
mod sandbox;
