//! How long scripts block Redis, if jobs, letters, locks and rules are as many or as large as they may be.

mod claim;
mod find;
mod letters;
mod locks;
mod rules;
mod weight;
