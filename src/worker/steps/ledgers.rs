//! The step ledgers of a queue, as its slots write them: one script records the starts or the ends of many runs.

use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::broker::{EndedRun, Error, GroupMember, NewRun, Queue, StepBegun, StepReported, grouped};
use crate::job::{ConsumerName, JobSpec, Lane};
use crate::worker::delivery::Delivery;
use crate::worker::gather::gather;

/// The ledgers of one queue's jobs.
#[derive(Debug)]
pub(in crate::worker) struct Ledgers {
    writes: mpsc::Sender<Write>,
}

/// What the slots want to be written.
pub(in crate::worker) type Writes = mpsc::Receiver<Write>;

/// A write that a slot waits for.
#[derive(Debug)]
pub(in crate::worker) enum Write {
    Begin(StepRequest<NewRun, StepBegun>),
    End(StepRequest<EndedRun, StepReported>),
}

/// What is asked about a run of a job's step.
#[derive(Debug)]
pub(in crate::worker) struct StepRequest<R, A> {
    delivery: Arc<Delivery>,
    run: Arc<R>,
    answer: oneshot::Sender<Result<A, Error>>,
}

impl Write {
    fn member(&self) -> GroupMember<Discriminant<Self>> {
        let (delivery, weight) = match self {
            Self::Begin(asked) => (&asked.delivery, asked.run.weight()),
            Self::End(asked) => (&asked.delivery, asked.run.weight()),
        };
        GroupMember { lane: delivery.job.lane, kind: discriminant(self), weight }
    }

    /// True if nobody waits any more for the permission to start.
    fn is_moot(&self) -> bool {
        matches!(self, Self::Begin(asked) if asked.answer.is_closed())
    }
}

impl Ledgers {
    /// Creates the side of the slots, and what they want to be written, for [`write()`]. Each slot asks for one write at a time.
    pub(in crate::worker) fn new(slots: usize) -> (Self, Writes) {
        let (writes, wanted) = mpsc::channel(slots.max(1));
        (Self { writes }, wanted)
    }

    /// Asks once whether a run may start.
    pub(super) async fn begin(
        &self,
        delivery: &Arc<Delivery>,
        run: &Arc<NewRun>,
    ) -> Result<StepBegun, Error> {
        self.ask(delivery, run, Write::Begin).await
    }

    /// Records once how a run ended.
    pub(super) async fn end(
        &self,
        delivery: &Arc<Delivery>,
        run: &Arc<EndedRun>,
    ) -> Result<StepReported, Error> {
        self.ask(delivery, run, Write::End).await
    }

    async fn ask<R, A>(
        &self,
        delivery: &Arc<Delivery>,
        run: &Arc<R>,
        write: impl FnOnce(StepRequest<R, A>) -> Write,
    ) -> Result<A, Error> {
        let (answer, answered) = oneshot::channel();
        let asked = StepRequest { delivery: Arc::clone(delivery), run: Arc::clone(run), answer };
        // Only a bug ends the task that writes.
        let unanswered = || Error::contract("steps", "no answer");
        self.writes.send(write(asked)).await.map_err(|_| unanswered())?;
        answered.await.unwrap_or_else(|_| Err(unanswered()))
    }
}

/// Writes until all slots are gone.
pub(in crate::worker) async fn write(queue: Queue, consumer: ConsumerName, wanted: Writes) {
    let (queue, consumer) = (&queue, &consumer);
    gather(wanted, |mut writes| {
        writes.retain(|write| !write.is_moot());
        grouped(writes, Write::member).into_iter().map(move |group| send(queue, consumer, group))
    })
    .await;
}

/// Sends writes of one lane and one kind.
async fn send(queue: &Queue, consumer: &ConsumerName, writes: Vec<Write>) {
    let (mut begins, mut ends) = (Vec::new(), Vec::new());
    for write in writes {
        match write {
            Write::Begin(asked) => begins.push(asked),
            Write::End(asked) => ends.push(asked),
        }
    }
    if let Some(lane) = lane_of(&begins) {
        let answers = queue.steps().begin_all(consumer, lane, &runs_of(&begins)).await;
        answer(begins, answers);
    }
    if let Some(lane) = lane_of(&ends) {
        let answers = queue.steps().end_all(consumer, lane, &runs_of(&ends)).await;
        answer(ends, answers);
    }
}

fn lane_of<R, A>(asked: &[StepRequest<R, A>]) -> Option<Lane> {
    asked.first().map(|asked| asked.delivery.job.lane)
}

fn runs_of<R, A>(asked: &[StepRequest<R, A>]) -> Vec<(&JobSpec, &R)> {
    asked.iter().map(|asked| (&asked.delivery.job, &*asked.run)).collect()
}

/// Gives everybody the answer, or the error of the whole call.
fn answer<R, A: Clone>(asked: Vec<StepRequest<R, A>>, answers: Result<Vec<Result<A, Error>>, Error>) {
    let answers = answers.unwrap_or_else(|error| vec![Err(error); asked.len()]);
    for (asked, answer) in asked.into_iter().zip(answers) {
        // A slot that is gone needs no answer.
        asked.answer.send(answer).ok();
    }
}
