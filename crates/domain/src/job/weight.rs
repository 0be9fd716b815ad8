//! What a job weighs: about how many bytes would take Redis as long. A script is bounded by the weight of its jobs, because an
//! entry with a thousand small fields takes much longer than one with as many bytes in a single field.

/// What a field weighs beside its bytes. `prelude/fields.lua` has the same number.
const FIELD: usize = 64;

/// Returns what a job with this many bytes and fields weighs.
pub fn weight(bytes: usize, fields: usize) -> usize {
    bytes + FIELD * fields
}
