//! Middleware and hooks. None of them can change the outcome of a job, except through the outcome that a middleware
//! returns.

mod dispatch;
mod hook;
mod middleware;
mod script;
mod stream;
