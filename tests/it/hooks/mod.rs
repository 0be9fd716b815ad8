//! What is wrapped around handlers, and those who are told of jobs: none of them can change what becomes of a job,
//! but by the outcome that a middleware returns.

mod dispatch;
mod hook;
mod middleware;
mod script;
mod stream;
