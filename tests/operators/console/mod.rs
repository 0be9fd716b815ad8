//! The console: the real program, asked over HTTP.

mod alerting;
mod api;
mod client;
mod document;
mod limits;
mod login;
mod slow;
mod trouble;
