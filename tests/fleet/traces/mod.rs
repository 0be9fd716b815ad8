//! Spans of attempts, as a collector receives them.

mod attempts;
mod carried;
mod collector;
mod outage;
mod scene;
