//! The end of a job, as a script wrote it into the journal.

use bytes::Bytes;

use crate::client::decode::timestamp;
use crate::inspect::history::{Attempt, attempt};
use crate::job::{EntryId, Envelope, Lane, State, Timestamp, unpack_texts, weight};

/// A generation of a job that ended. What cannot be read is left out or empty: somebody may have written into the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedJob {
    /// The entry of the journal.
    pub entry: EntryId,
    /// What the journal counts for it.
    pub weight: usize,
    /// The generation.
    pub generation: String,
    /// The job's id.
    pub id: String,
    /// Its type; empty for a dead letter that is not a job.
    pub job_type: String,
    /// Its lane; empty if that is not known.
    pub lane: String,
    /// How it ended: done, dead or cancelled. `None` if the entry does not say.
    pub state: Option<State>,
    /// When it was accepted.
    pub created: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// How long its last attempt ran, in ms.
    pub elapsed_ms: Option<u64>,
    /// The consumer or the person that ended it; empty if that is not known.
    pub worker: String,
    /// Its last attempts, oldest first, at most 20.
    pub attempts: Vec<Attempt>,
    /// After how many failures it was given up.
    pub failures: Option<u32>,
    /// Why it is dead, in one word; empty if it is not.
    pub reason: String,
    /// The error of its last attempt, or who cancelled it; empty if there is none.
    pub error: String,
    /// What groups its error with others; empty if it is not dead.
    pub fingerprint: String,
    /// The first generation of its series of replays; empty if it is that itself.
    pub root: String,
    /// Its dead letter.
    pub letter: Option<EntryId>,
    /// What its handler returned.
    pub result: Option<Bytes>,
    /// Its fields and its lane, if the journal has them.
    pub fields: Option<(Envelope, Lane)>,
    /// The fields of the entry, as the journal has them.
    raw: Envelope,
}

impl EndedJob {
    /// Returns what [`EndedJob::read`] reads, with the large fields of the job in place.
    pub fn whole(&self) -> Envelope {
        let Some((fields, lane)) = &self.fields else { return self.raw.clone() };
        self.raw.edited(|name| name == b"fields", &[(b"fields", &fields.pack(*lane))])
    }

    /// Reads an end from the fields of an entry.
    pub fn read(entry: EntryId, fields: &Envelope) -> Self {
        let text = |name: &str| {
            fields.get(name.as_bytes()).map(String::from_utf8_lossy).unwrap_or_default().into_owned()
        };
        let number = |name: &str| text(name).parse::<u64>().ok();
        let time = |name: &str| timestamp(number(name).unwrap_or(entry.ms));
        let created = time("created_ms");
        let packed = fields.get(b"attempts").and_then(unpack_texts).unwrap_or_default();
        let noted = packed.iter().filter_map(|packed| attempt(&String::from_utf8_lossy(packed)));
        // The record of an id has the attempts of earlier generations, too.
        let mut attempts: Vec<_> = noted.filter(|attempt| attempt.ended >= created).collect();
        attempts.sort_by_key(|attempt| (attempt.ended, attempt.started));
        Self {
            entry,
            weight: weight(fields.size(), fields.len()),
            id: text("id"),
            job_type: text("type"),
            lane: text("lane"),
            state: text("state").parse().ok().filter(|state: &State| state.is_final()),
            created,
            ended: time("ended_ms"),
            elapsed_ms: number("elapsed_ms"),
            worker: text("worker"),
            attempts,
            failures: number("failures").and_then(|count| u32::try_from(count).ok()),
            reason: text("reason"),
            error: text("error"),
            fingerprint: text("fingerprint"),
            root: text("root"),
            letter: text("letter").parse().ok(),
            result: fields.get(b"result").filter(|result| !result.is_empty()).map(Bytes::copy_from_slice),
            fields: fields.get(b"fields").and_then(|packed| Envelope::unpack(packed).ok()),
            generation: text("life"),
            raw: fields.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::pack_texts;

    fn read(fields: &[(&str, &[u8])]) -> EndedJob {
        let fields = Envelope::new(fields.iter().map(|(name, value)| (name.as_bytes(), *value)));
        EndedJob::read(EntryId::new(9_000, 0), &fields)
    }

    #[test]
    fn attempts_of_earlier_generations_are_not_its_own() {
        let noted = ["2500 2900 failed w1 no", "4000 4100 done w2 ", "x"];
        let attempts = pack_texts(noted.iter().map(|text| text.as_bytes()));
        let ended = read(&[
            ("life", b"3000-1-high"),
            ("created_ms", b"3000"),
            ("attempts", &attempts),
            ("state", b"done"),
        ]);
        assert_eq!(ended.attempts.iter().map(|attempt| attempt.worker.as_str()).collect::<Vec<_>>(), ["w2"]);
        assert_eq!((ended.state, ended.ended.as_ms()), (Some(State::Done), 9_000));
    }

    #[test]
    fn what_somebody_wrote_by_hand_is_read_as_far_as_it_goes() {
        let ended =
            read(&[("state", b"running"), ("attempts", b"\xff"), ("fields", b"x"), ("failures", b"-1")]);
        assert_eq!((ended.state, ended.attempts.len(), ended.fields.is_none()), (None, 0, true));
        assert_eq!(ended.failures, None);
        assert_eq!(ended.weight, 4 * 64 + 33 + 5);
        assert_eq!(EndedJob::read(ended.entry, &ended.whole()), ended);
    }
}
