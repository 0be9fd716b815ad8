//! Dead letters at scale, while workers are killed.

mod campaign;
mod groups;

use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);
