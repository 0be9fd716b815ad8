//! The ledger of a job's steps: what is known about each step, kept by Redis in one hash (`<step>:<field>`). Reading a
//! ledger never fails. A field that cannot be read counts as absent, but a state that cannot be read counts as unknown,
//! so that nothing runs twice because of it.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Plan, StepEnd, StepKind, StepName, StepState, Timestamp, Verdict};

/// The ledger of one job.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ledger {
    /// Grows with every change.
    pub version: u64,
    /// The steps as the last worker knew them; `None` if the ledger holds no valid plan.
    pub plan: Option<Plan>,
    /// The generation in which a handler dropped the whole job, and why.
    dropped: Option<(String, String)>,
    /// The generations that use it and are alive, each with the version at which it joined: usually one.
    generations: BTreeMap<String, u64>,
    steps: BTreeMap<StepName, StepRecord>,
}

/// What is known about one step.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct StepRecord {
    /// Where it is in its generation.
    pub state: StepState,
    /// The number of runs that count. Interrupted and snoozed runs do not.
    pub attempts: u32,
    /// The run that began last; empty if a person has decided about the step since.
    pub run: String,
    /// The worker of that run.
    pub worker: String,
    /// The generation of the job in which the attempts count. A replay begins another generation.
    pub generation: String,
    /// When the last run began.
    pub begun: Option<Timestamp>,
    /// When the state last changed.
    pub since: Option<Timestamp>,
    /// The step does not run again before this time.
    pub due: Option<Timestamp>,
    /// The last errors, oldest first; at most [`StepRecord::MAX_ERRORS`].
    pub errors: Vec<StepError>,
    /// What success returned, as JSON.
    pub result: Option<Bytes>,
    /// What a person last decided.
    pub decision: Option<Decision>,
    /// The version of the ledger when a run last ended.
    ended_at: u64,
}

/// One error of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepError {
    /// When it was reported.
    pub at: Timestamp,
    /// Its kind, in one word.
    pub kind: String,
    /// The text, of at most [`StepRecord::MAX_ERROR_BYTES`].
    pub text: String,
}

/// What a person decided about a step.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// When it was made.
    pub at: Timestamp,
    /// What was decided.
    pub verdict: Verdict,
    /// Who decided.
    pub by: String,
    /// Why; empty if no reason was given.
    pub reason: String,
}

impl StepRecord {
    /// The number of errors that a ledger keeps of each step.
    pub const MAX_ERRORS: usize = 5;

    /// The longest error in bytes. Longer ones are cut, and the cut is marked.
    pub const MAX_ERROR_BYTES: usize = 1024;

    /// The largest result of a step in bytes. Larger ones are not kept.
    pub const MAX_RESULT_BYTES: usize = 16 * 1024;

    /// Returns the number of runs that count in this generation of the job. After a replay, an `auto` step has all its attempts again.
    pub fn attempts_in(&self, generation: &str, kind: StepKind) -> u32 {
        if kind == StepKind::Auto && self.generation != generation { 0 } else { self.attempts }
    }
}

impl Ledger {
    /// Reads the fields of the hash.
    pub fn read<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let mut ledger = Self::default();
        for (name, value) in fields {
            match (name, std::str::from_utf8(name).ok().and_then(|name| name.split_once(':'))) {
                (b"v", _) => ledger.version = number(value).unwrap_or(0),
                (b"plan", _) => ledger.plan = text(value).parse().ok(),
                (b"dropped", _) => ledger.dropped = pair(&text(value)),
                ([b'@', generation @ ..], _) => {
                    ledger.generations.insert(text(generation), number(value).unwrap_or(u64::MAX));
                }
                (_, Some((step, field))) => {
                    if let Ok(step) = step.parse() {
                        ledger.steps.entry(step).or_default().set(field, value);
                    }
                }
                (_, None) => {}
            }
        }
        for record in ledger.steps.values_mut() {
            record.errors.sort_by_key(|error| error.at);
        }
        ledger
    }

    /// Returns why a handler dropped the whole job in this generation, if one did.
    pub fn dropped(&self, generation: &str) -> Option<&str> {
        self.dropped.as_ref().filter(|(dropped, _)| dropped == generation).map(|(_, why)| why.as_str())
    }

    /// Returns what is known about a step; `None` if it has never been touched.
    pub fn get(&self, step: &StepName) -> Option<&StepRecord> {
        self.steps.get(step)
    }

    /// Returns a step's state.
    pub fn state(&self, step: &StepName) -> StepState {
        self.get(step).map_or_else(StepState::default, |record| record.state)
    }

    /// Returns the states of the steps that have begun, as a dead letter has them: `charge=done mail=exhausted`.
    pub fn states(&self) -> String {
        let begun = self.steps.iter().filter(|(_, record)| record.state != StepState::Pending);
        let states = begun.map(|(step, record)| format!("{step}={}", record.state));
        states.collect::<Vec<_>>().join(" ")
    }

    /// Returns the number of a step's runs that count in this generation; see [`Self::counts_in`].
    #[doc(hidden)]
    pub fn attempts(&self, step: &StepName, generation: &str, kind: StepKind) -> u32 {
        let Some(record) = self.get(step) else { return 0 };
        if self.counts_in(record, generation) {
            record.attempts
        } else {
            record.attempts_in(generation, kind)
        }
    }

    /// Returns true if the runs of a step count in this generation: they were its own, or those of another generation that is alive, or
    /// was so when this one joined the ledger.
    pub(crate) fn counts_in(&self, record: &StepRecord, generation: &str) -> bool {
        let joined_before = |joined: &u64| *joined < record.ended_at;
        record.generation == generation
            || self.generations.contains_key(&record.generation)
            || self.generations.get(generation).is_some_and(joined_before)
    }

    /// Returns the steps that the ledger knows, by name.
    pub fn steps(&self) -> impl Iterator<Item = (&StepName, &StepRecord)> {
        self.steps.iter()
    }

    /// Notes what a script wrote at the start of a run.
    #[doc(hidden)]
    pub fn began(&mut self, step: &StepName, run: &str, generation: &str) {
        let record = self.steps.entry(step.clone()).or_default();
        record.state = StepState::Started;
        run.clone_into(&mut record.run);
        generation.clone_into(&mut record.generation);
        record.due = None;
    }

    /// Notes what a script wrote at the end of a run.
    #[doc(hidden)]
    pub fn ended(&mut self, step: &StepName, end: &StepEnd, now: Timestamp) {
        let record = self.steps.entry(step.clone()).or_default();
        (record.state, record.attempts) = (end.state, end.attempts);
        record.due = end.delay.map(|delay| now.after(delay));
        if end.result.is_some() {
            record.result.clone_from(&end.result);
        }
    }

    /// Notes a person's verdict.
    #[doc(hidden)]
    pub fn decided(&mut self, step: &StepName, state: StepState) {
        let record = self.steps.entry(step.clone()).or_default();
        record.state = state;
        record.run.clear();
        if state == StepState::Pending {
            record.due = None;
        }
    }
}

impl StepRecord {
    fn set(&mut self, field: &str, value: &[u8]) {
        match field {
            "state" => self.state = text(value).parse().unwrap_or(StepState::Unknown),
            "attempts" => self.attempts = number(value).unwrap_or(u32::MAX),
            "run" => self.run = text(value),
            "worker" => self.worker = text(value),
            "life" => self.generation = text(value),
            "begun" => self.begun = instant(value),
            "since" => self.since = instant(value),
            "due" => self.due = instant(value),
            "result" => self.result = Some(Bytes::copy_from_slice(value)),
            "v" => self.ended_at = number(value).unwrap_or(0),
            "decision" => self.decision = decision(&text(value)),
            _ if field.starts_with("e:") => self.errors.extend(error(&text(value))),
            _ => {}
        }
    }
}

/// `ms kind text`, as scripts write it.
fn error(text: &str) -> Option<StepError> {
    let mut parts = text.splitn(3, ' ');
    let at = instant(parts.next()?.as_bytes())?;
    let (kind, text) = (parts.next()?.to_owned(), parts.next()?.to_owned());
    Some(StepError { at, kind, text })
}

/// `ms verdict who reason`, as scripts write it.
fn decision(text: &str) -> Option<Decision> {
    let mut parts = text.splitn(4, ' ');
    let at = instant(parts.next()?.as_bytes())?;
    let verdict = parts.next()?.parse().ok()?;
    let (by, reason) = (parts.next()?.to_owned(), parts.next()?.to_owned());
    Some(Decision { at, verdict, by, reason })
}

fn pair(text: &str) -> Option<(String, String)> {
    text.split_once(' ').map(|(first, second)| (first.to_owned(), second.to_owned()))
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

fn number<T: std::str::FromStr>(value: &[u8]) -> Option<T> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

fn instant(value: &[u8]) -> Option<Timestamp> {
    Timestamp::from_ms(number(value)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn read(fields: &[(&str, &str)]) -> Ledger {
        Ledger::read(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())))
    }

    #[test]
    fn a_ledger_is_read_completely() {
        let ledger = read(&[
            ("v", "7"),
            ("plan", "charge once\nmail auto charge"),
            ("charge:state", "unknown"),
            ("charge:attempts", "1"),
            ("charge:run", "5-0/ab"),
            ("charge:worker", "host-1-00000000"),
            ("charge:since", "1700"),
            ("charge:e:1", "1700 timeout took too long"),
            ("charge:e:0", "1600 error no route"),
            ("charge:decision", "1800 run ann asked the bank"),
            ("mail:result", "{\"to\":1}"),
        ]);
        let charge = ledger.get(&"charge".parse().unwrap()).unwrap();
        assert_eq!((ledger.version, charge.state, charge.attempts), (7, StepState::Unknown, 1));
        let errors: Vec<_> = charge.errors.iter().map(|error| (&*error.kind, &*error.text)).collect();
        assert_eq!(errors, [("error", "no route"), ("timeout", "took too long")]);
        let decision = charge.decision.as_ref().unwrap();
        assert_eq!(
            (decision.verdict, &*decision.by, &*decision.reason),
            (Verdict::Run, "ann", "asked the bank")
        );
        assert_eq!(ledger.plan.unwrap().steps().len(), 2);
    }

    #[test]
    fn an_unreadable_state_is_unknown_so_nothing_runs_twice() {
        let ledger = read(&[("charge:state", "strated")]);
        assert_eq!(ledger.state(&"charge".parse().unwrap()), StepState::Unknown);
        assert_eq!(ledger.state(&"mail".parse().unwrap()), StepState::Pending);
    }

    #[test]
    fn a_replay_gives_an_auto_step_its_attempts_back_and_a_once_step_none() {
        let record = StepRecord { attempts: 3, generation: "1".to_owned(), ..StepRecord::default() };
        assert_eq!(record.attempts_in("1", StepKind::Auto), 3);
        assert_eq!(record.attempts_in("2", StepKind::Auto), 0);
        assert_eq!(record.attempts_in("2", StepKind::Once), 3);
    }

    #[test]
    fn the_attempts_of_another_generation_count_if_both_were_alive() {
        let step = "a".parse().unwrap();
        let attempts = |more: &[(&str, &str)]| {
            let fields = [&[("a:attempts", "3"), ("a:life", "1-0"), ("a:v", "7")], more].concat();
            read(&fields).attempts(&step, "2-0", StepKind::Auto)
        };
        assert_eq!(attempts(&[("@1-0", "1")]), 3, "it is alive");
        assert_eq!(attempts(&[("@2-0", "6")]), 3, "it ended later");
        assert_eq!(attempts(&[("@2-0", "8")]), 0, "it had ended before");
        assert_eq!(attempts(&[]), 0, "this life begins now");
    }

    proptest! {
        #[test]
        fn reading_any_hash_never_panics(fields in vec((any::<Vec<u8>>(), any::<Vec<u8>>()), 0..8), name: String) {
            let named = format!("charge:{name}");
            let fields = fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
            let ledger = Ledger::read(fields.chain([(named.as_bytes(), named.as_bytes())]));
            let _ignored = ledger.version;
        }
    }
}
