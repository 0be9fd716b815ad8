//! The console: the real program, asked over HTTP.

mod client;
mod login;
mod slow;
