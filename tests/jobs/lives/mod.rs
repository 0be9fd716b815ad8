//! Several lives of one job id: replays, an id that is sent again, two raw `XADD`s with one id. No life touches what belongs
//! to another.

mod cancel;
mod letters;
pub(crate) mod rooms;
mod scripts;
