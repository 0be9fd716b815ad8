//! What becomes of a job that the program submits, runs or shows. `tests/jobs` and `tests/control` test the same themes without the program.

mod bulk;
mod callbacks;
mod concurrency;
mod dead;
mod gates;
mod lifecycle;
mod retention;
mod running;
mod schema;
mod steps;
mod submit;
mod unknown;
