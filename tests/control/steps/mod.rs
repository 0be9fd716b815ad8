//! Jobs made of steps: what runs, what runs again, and what never does.

mod attempts;
mod decide;
mod halfway;
mod late;
mod lost_reply;
mod once;
mod overlap;
mod replay;
mod scripts;
mod side_by_side;
