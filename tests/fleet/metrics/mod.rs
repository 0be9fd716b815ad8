//! What a fleet reports at `/metrics`: whether it is documented, and whether it agrees with what happened.

mod account;
mod leader;
mod page;
mod push;
mod refused;
mod script;
