//! Reading, replaying and dropping dead letters.

pub(super) mod letter;
pub(super) mod replay;
