//! What producers in any language may get wrong: each malformed entry is buried with its bytes and a clear error, or
//! runs, and the worker lives.

mod fields;
mod server;
mod typed;
