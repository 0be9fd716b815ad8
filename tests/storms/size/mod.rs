//! How long scripts block Redis, if jobs, letters, locks and rules are as many or as large as they may be, and whether tasks about very
//! many of them do what they say.

mod claim;
mod find;
mod letters;
mod locks;
mod rules;
mod tasks;
mod weight;
