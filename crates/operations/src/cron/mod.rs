//! Recurring jobs: adding, listing, pausing, resuming, running and removing them.

mod add;
mod change;
mod list;
mod ticks;

pub use add::{NewRecurringJob, RecurringAdded, add};
pub use change::{RecurringChanged, pause, remove, resume, run};
pub use list::{RecurringJob, Ticks, list};
pub use ticks::{RecurringTick, ticks};
