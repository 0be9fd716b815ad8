//! The console: the real program, asked over HTTP.

mod api;
mod client;
mod login;
mod slow;
