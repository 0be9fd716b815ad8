//! What a fleet reports at `/metrics`: whether it is documented, whether it agrees with what happened, and whether memory
//! stays bounded.

mod account;
mod leader;
mod page;
mod refused;
mod scene;
mod script;
mod soak;
