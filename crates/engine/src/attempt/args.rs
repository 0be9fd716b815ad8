//! Values in the form that the scripts of an attempt take.

use fred::types::Value;

use crate::bytes;
use crate::job::{Envelope, JobSpec, Timestamp};
use crate::submit::enqueue::optional;

/// Tells `begin` and `bury` about the dead letter whose fields a job has: which generation ended in it, and when.
pub(crate) fn letter_of(job: &JobSpec) -> [Value; 2] {
    let former = job.former.as_deref();
    let generation =
        former.and_then(|former| former.generation.as_ref()).map_or_else(|| Value::from(""), text);
    let at = former.and_then(|former| former.dead_at);
    [generation, at.map_or_else(|| Value::from(""), |at| at.to_string().into())]
}

/// Converts any value to a text argument.
pub(crate) fn text(shown: &impl ToString) -> Value {
    shown.to_string().into()
}

/// Adds the fields of an entry, each name before its value.
pub(crate) fn flatten(envelope: &Envelope, args: &mut Vec<Value>) {
    args.extend(envelope.fields().flat_map(|(name, value)| [bytes(name), bytes(value)]));
}

/// Converts the start of a job's generation to an argument.
pub(crate) fn created(job: &JobSpec) -> Value {
    Value::Integer(job.created.as_ms().cast_signed())
}

/// Converts a time to an argument; '' if there is none.
pub(crate) fn time(time: Option<Timestamp>) -> Value {
    optional(time.map(Timestamp::as_ms))
}

/// Converts a truth value to `1` or `0`.
pub(crate) fn flag(set: bool) -> Value {
    Value::from(if set { "1" } else { "0" })
}
