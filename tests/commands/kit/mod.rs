//! The kit for users' own tests, used as users would, and the programs in `examples/`.

mod examples;
mod inline;
mod sandbox;
