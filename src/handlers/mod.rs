//! The built-in handlers.
