//! May these jobs pass their gates? One script asks for several.

use crate::attempt::call::{JobsCall, MAX_JOBS};
use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::scripts;
use crate::job::{ConsumerName, GateName, JobSpec, Lane};
use crate::{Answer, Queue, bytes};

scripts! { ADMIT "admit" }

/// The most names of gates in one script. To pass one that has all kinds of rules takes about 12 commands, and a name has at most
/// about 200 bytes.
const MAX_GATES: usize = 100;

/// The answer of `admit` to a job that has to pass gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admitted {
    /// It passes all of them.
    Start,
    /// Another process settled this entry.
    Stale,
    /// This one of its gates, counted from 0, refuses it.
    Refused(usize),
}

impl Queue {
    /// Asks whether jobs of one lane may pass their gates. Returns for each the answer, or why there is none. Jobs with many
    /// gates need several scripts.
    #[doc(hidden)]
    pub async fn admit(
        &self,
        consumer: &ConsumerName,
        lane: Lane,
        asking: &[(&JobSpec, &[GateName])],
    ) -> Vec<Result<Admitted, Error>> {
        let (mut answers, mut rest) = (Vec::with_capacity(asking.len()), asking);
        while !rest.is_empty() {
            let (some, others) = rest.split_at(portion(rest.iter().map(|(_, gates)| gates.len())));
            match self.admit_some(consumer, lane, some).await {
                Ok(some) => answers.extend(some),
                Err(error) => answers.extend(some.iter().map(|_| Err(error.clone()))),
            }
            rest = others;
        }
        answers
    }

    /// Asks in one script. See `admit.lua`.
    async fn admit_some(
        &self,
        consumer: &ConsumerName,
        lane: Lane,
        asking: &[(&JobSpec, &[GateName])],
    ) -> Result<Vec<Result<Admitted, Error>>, Error> {
        let [high, normal, low] = self.keys.streams();
        let shared = [&self.keys.gates, &self.keys.waitlists, self.keys.stream(lane), high, normal, low];
        let mut call = JobsCall::new(&ADMIT, (consumer, lane), &shared);
        for (job, gates) in asking {
            let names = gates.iter().map(|gate| bytes(gate.as_str().as_bytes()));
            call.add((job.entry, &job.generation), [], names);
        }
        let answers = self.run_each(call).await?;
        Ok(answers.into_iter().map(|answer| admitted(answer?)).collect())
    }
}

/// Returns for how many jobs one script asks, at least one. Each job has as many gates as the iterator says.
fn portion(gates: impl Iterator<Item = usize>) -> usize {
    let mut sum = 0usize;
    let fit = gates.take(MAX_JOBS).take_while(|gates| {
        sum += gates;
        sum <= MAX_GATES
    });
    fit.count().max(1)
}

fn admitted(answer: Answer) -> Result<Admitted, Error> {
    match (answer.status, answer.rest.first().and_then(decode::number)) {
        (0, _) => Ok(Admitted::Stale),
        (1, _) => Ok(Admitted::Start),
        (2, Some(nth @ 1..)) => Ok(Admitted::Refused(usize::try_from(nth - 1).unwrap_or(usize::MAX))),
        _ => Err(Error::contract("admit", answer)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_asks_for_few_jobs_and_few_gates() {
        assert_eq!(portion(std::iter::repeat_n(1, 120)), MAX_JOBS);
        assert_eq!(portion(std::iter::repeat_n(10, 120)), MAX_GATES / 10);
        assert_eq!(portion([MAX_GATES + 1, 1].into_iter()), 1);
    }
}
