//! Dead letters: read, replayed, dropped.

pub(super) mod letter;
pub(super) mod replay;
