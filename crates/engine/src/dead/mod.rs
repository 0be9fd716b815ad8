//! Reading, counting, replaying and dropping dead letters.

pub(super) mod edit;
pub(super) mod file;
pub(super) mod gone;
pub(super) mod groups;
pub(super) mod letter;
pub(super) mod replay;
pub(super) mod selection;
