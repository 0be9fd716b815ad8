//! Spans of attempts, as a collector gets them.

mod attempts;
mod carried;
mod collector;
mod outage;
mod scene;
