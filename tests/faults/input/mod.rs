//! Mistakes that producers in any language may make: each malformed entry either is buried with its bytes and a clear
//! error, or runs, and the worker survives.

mod fields;
mod server;
mod typed;
