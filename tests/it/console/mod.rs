//! The console as a browser meets it: the real program, on a real server.

mod browser;
mod pages;
