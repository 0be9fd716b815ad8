//! What a fleet tells at `/metrics`: whether the documents have it, whether it agrees with what happened, and whether its
//! memory stays bounded.

mod account;
mod leader;
mod page;
mod refused;
mod scene;
mod script;
mod soak;
