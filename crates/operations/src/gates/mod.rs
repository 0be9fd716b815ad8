//! Gates, which keep jobs from starting: pausing and resuming, limits, and where each gate stands.

mod doubt;
mod limits;
mod list;
mod pauses;
mod settings;

pub use doubt::unknown_queue;
pub use limits::{BreakerText, GateChanged, clear_limits, limits_in_effect, set_limits, shown_limits};
pub use list::{Gate, list};
pub use pauses::{Pause, Paused, pause, resume, value_gate};
pub use settings::{Setting, Settings, settings};
pub use streamfleet_engine::admin::GateStanding as Standing;
