//! May these jobs pass their gates? One script asks for several.

use crate::broker::attempt::call::JobsCall;
use crate::broker::client::decode;
use crate::broker::client::error::Error;
use crate::broker::client::script::scripts;
use crate::broker::{Answer, Queue, bytes};
use crate::job::{ConsumerName, GateName, JobSpec, Lane};

scripts! { ADMIT "admit" }

/// The answer of `admit` to a job that has to pass gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// It passes all of them.
    Start,
    /// Another process settled this entry.
    Stale,
    /// This one of its gates, counted from 0, refuses it.
    Refused(usize),
}

impl Queue {
    /// Asks whether jobs of one lane may pass their gates. Returns for each the answer, or why Redis refused this one
    /// alone. See `admit.lua`.
    pub(crate) async fn admit(
        &self,
        consumer: &ConsumerName,
        lane: Lane,
        asking: &[(&JobSpec, &[GateName])],
    ) -> Result<Vec<Result<Admitted, Error>>, Error> {
        let [high, normal, low] = self.keys.streams();
        let shared = [&self.keys.gates, &self.keys.rooms, self.keys.stream(lane), high, normal, low];
        let mut call = JobsCall::new(&ADMIT, (consumer, lane), &shared);
        for (job, gates) in asking {
            let names = gates.iter().map(|gate| bytes(gate.as_str().as_bytes()));
            call.add((job.entry, &job.life), [], names);
        }
        let answers = self.run_each(call).await?;
        Ok(answers.into_iter().map(|answer| admitted(answer?)).collect())
    }
}

fn admitted(answer: Answer) -> Result<Admitted, Error> {
    match (answer.status, answer.rest.first().and_then(decode::number)) {
        (0, _) => Ok(Admitted::Stale),
        (1, _) => Ok(Admitted::Start),
        (2, Some(nth @ 1..)) => Ok(Admitted::Refused(usize::try_from(nth - 1).unwrap_or(usize::MAX))),
        _ => Err(Error::contract("admit", answer)),
    }
}
