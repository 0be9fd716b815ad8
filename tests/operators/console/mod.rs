//! The console: the real program, asked over HTTP.

mod api;
mod browser;
mod client;
mod limits;
mod login;
mod pages;
mod slow;
mod trouble;
