//! Calls of scripts that handle several jobs at once. Each job has an answer of its own, and one that Redis refuses keeps
//! no other from being handled. See `each_job` in `prelude/calls.lua`.

use fred::types::{Key, Value};

use crate::Queue;
use crate::attempt::args::text;
use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::{Answer, Script};
use crate::job::{ConsumerName, EntryId, Generation, Lane};

/// The most jobs of one call. It takes Redis about a millisecond; more would save little.
pub const MAX_JOBS: usize = 100;

/// The keys and arguments of one call.
#[derive(Debug)]
pub(crate) struct JobsCall {
    script: &'static Script,
    keys: Vec<Key>,
    args: Vec<Value>,
    jobs: usize,
}

impl JobsCall {
    /// Creates a call about no job yet. `shared` are the keys that all jobs have in common.
    pub(crate) fn new(
        script: &'static Script,
        (consumer, lane): (&ConsumerName, Lane),
        shared: &[&Key],
    ) -> Self {
        let keys = shared.iter().copied().cloned().collect();
        Self { script, keys, args: vec![consumer.as_str().into(), lane.as_str().into()], jobs: 0 }
    }

    /// Adds a job with its own keys and arguments.
    pub(crate) fn add(
        &mut self,
        (entry, generation): (EntryId, &Generation),
        keys: impl IntoIterator<Item = Key>,
        args: impl IntoIterator<Item = Value>,
    ) {
        let count = self.args.len();
        self.args.extend([Value::Null, text(&entry), text(generation)]);
        self.args.extend(args);
        self.args[count] = Value::Integer((self.args.len() - count - 1) as i64);
        self.keys.extend(keys);
        self.jobs += 1;
    }
}

impl Queue {
    /// Runs a script for several jobs. Returns each job's answer, or why Redis refused this job alone.
    pub(crate) async fn run_each(
        &self,
        JobsCall { script, keys, args, jobs }: JobsCall,
    ) -> Result<Vec<Result<Answer, Error>>, Error> {
        let mut answer = self.run(script, keys, args).await?;
        match answer.rest.pop() {
            Some(Value::Array(answers)) if answers.len() == jobs => {
                Ok(answers.into_iter().map(|answer| self.one_of(script, answer)).collect())
            }
            other => Err(Error::contract(script.name, other)),
        }
    }

    fn one_of(&self, script: &'static Script, answer: Value) -> Result<Answer, Error> {
        if let Value::Integer(status) = answer {
            return Ok(Answer { status, rest: Vec::new() });
        }
        if answer.is_array() {
            return script.read(answer);
        }
        Err(self.name_keys(Error::refused(script.name, decode::text(&answer))))
    }
}

/// Returns the answer of a call about one job.
pub(crate) fn only<T>(script: &'static str, mut answers: Vec<Result<T, Error>>) -> Result<T, Error> {
    answers.pop().unwrap_or_else(|| Err(Error::contract(script, "no answer")))
}
