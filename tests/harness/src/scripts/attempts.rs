//! What the scripts that begin and end attempts are given: their keys in a call about one job, and the values of each job.

use streamfleet::job::{Envelope, Lane};

use super::keys::{
    BATCH, CANCELS, CREATED, DEAD, DELAYED, FIELDS, GENERATION, LOCK, NOTHING, PLACES, RECEIPTS, RECORD,
    STEPS, STREAM, WAKE,
};

pub const BEGIN_KEYS: [&str; 5] = [STREAM, CANCELS, DEAD, RECORD, LOCK];
pub const COMPLETE_KEYS: [&str; 9] = [STREAM, RECEIPTS, DELAYED, FIELDS, RECORD, LOCK, BATCH, STEPS, NOTHING];
pub const DEFER_KEYS: [&str; 9] =
    [STREAM, RECEIPTS, CANCELS, DELAYED, FIELDS, WAKE, RECORD, NOTHING, NOTHING];
pub const RELEASE_KEYS: [&str; 6] = [STREAM, RECEIPTS, CANCELS, RECORD, NOTHING, NOTHING];
pub const BURY_KEYS: [&str; 10] =
    [STREAM, RECEIPTS, CANCELS, DEAD, RECORD, LOCK, BATCH, STEPS, NOTHING, NOTHING];
pub const CANCELLED_KEYS: [&str; 9] =
    [STREAM, RECEIPTS, CANCELS, PLACES, RECORD, LOCK, BATCH, STEPS, NOTHING];

/// The values of one job.
pub type Values = Vec<Vec<u8>>;

/// An attempt of a job.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    pub entry: &'a str,
    pub generation: &'a str,
    pub id: &'a str,
    /// "1" if an earlier attempt of its generation failed or was lost.
    pub repeated: &'a str,
}

impl<'a> Attempt<'a> {
    /// The first attempt of a generation of `j`.
    pub fn first(entry: &'a str) -> Self {
        Self { entry, generation: GENERATION, id: "j", repeated: "0" }
    }

    /// A later attempt of the same generation.
    pub fn repeated(entry: &'a str) -> Self {
        Self { repeated: "1", ..Self::first(entry) }
    }

    pub fn begin_values(&self) -> Values {
        let Self { entry, generation, id, repeated } = *self;
        values(&[entry, generation, id, "", "", "1", "test", CREATED, repeated, "0", "", "", ""])
    }

    pub fn complete_values(&self) -> Values {
        let Self { entry, generation, id, .. } = *self;
        values(&[entry, generation, id, "5", "", "60000", "test", CREATED, "1", "", ""])
    }

    pub fn defer_values(&self, delay: &str) -> Values {
        let Self { entry, generation, id, repeated } = *self;
        let head = values(&[entry, generation, id, repeated, delay]);
        let tail = values(&["retrying", "5", "error", "me", "no", "test", "normal", CREATED, "", "0"]);
        [head, vec![packed()], tail].concat()
    }

    pub fn release_values(&self) -> Values {
        let Self { entry, generation, repeated, .. } = *self;
        values(&[entry, generation, repeated, "0", "0", "test", CREATED, "type", "test", "id", "j"])
    }

    pub fn bury_values(&self) -> Values {
        let Self { entry, generation, id, repeated } = *self;
        let head = [entry, generation, id, repeated, "fatal", "no", "1", "5", "error", "me", "test", CREATED];
        let tail = ["0123", "", "", "", "", "", "normal", "type", "test", "id", "j"];
        values(&[&head[..], &tail].concat())
    }

    pub fn cancelled_values(&self) -> Values {
        let Self { entry, generation, id, repeated } = *self;
        let why = "no longer wanted";
        let ended = ["5", "dropped", "me", "test", CREATED, "60000", "", "1", ""];
        values(&[&[entry, generation, id, repeated, why][..], &ended].concat())
    }
}

fn values(texts: &[&str]) -> Values {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Returns the fields of a job as they are packed for the set of delayed jobs.
pub fn packed() -> Vec<u8> {
    let fields =
        [("life", GENERATION), ("type", "test"), ("id", "j"), ("created_ms", CREATED), ("attempt", "1")];
    let fields = fields.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    Envelope::new(fields.into_iter()).pack(Lane::Normal)
}
