//! Several generations of one job id: replays, an id that is sent again, two raw `XADD`s with one id. No generation touches what belongs
//! to another.

mod cancel;
mod letters;
mod scripts;
pub(crate) mod waitlists;
