//! Operations on many jobs at once: each is done once to each job, also under load and if it is sent again.

mod load;
mod scripts;
mod tasks;
