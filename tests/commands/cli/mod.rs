//! The command line: what it prints, what it changes and how it exits.

mod bench;
mod bulk;
mod check;
mod config;
mod cron;
mod dead;
mod dev;
mod dev_programs;
mod enqueue;
mod events;
mod form;
mod help;
mod jobs;
mod letters;
mod look;
mod metrics;
mod on_call;
mod on_call_jobs;
mod on_call_page;
mod pages;
mod rehearsal;
mod repeat;
mod secrets;
mod stats;
mod stopping;
mod worker;
