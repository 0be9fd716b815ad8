//! Several lives of one job id: replays, an id that is sent again, two raw `XADD`s with one id. None touches another's.

mod cancel;
mod letters;
mod scripts;
