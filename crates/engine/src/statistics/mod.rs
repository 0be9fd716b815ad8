//! What happened in a queue lately, for charts: the [tally] is what workers have counted since the leader took the last of
//! its [samples]; the same counts for each type are [`type_stats`].

pub(super) mod samples;
pub(super) mod tally;
pub(super) mod type_stats;
