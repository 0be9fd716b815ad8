//! Tells Redis when runs of steps begin and end: one script for all slots that have come to this point while the scripts
//! before are on their way. So a quiet queue waits for nothing, and a busy one sends few scripts.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};

use crate::broker::{Error, MAX_JOBS, Queue, StepAnswer, StepBegun, StepCall, StepReported, StepScript};
use crate::job::ConsumerName;

/// The most scripts in flight before more runs are gathered.
const UNDER_WAY: usize = 2;

/// The most bytes that one script is sent, unless one run alone has more.
const MAX_BYTES: usize = 256 << 10;

/// The runs of one queue that wait for their answers.
#[derive(Debug)]
pub(in crate::worker) struct Recorder {
    told: mpsc::Sender<Told>,
}

/// What the slots tell.
pub(in crate::worker) type Tidings = mpsc::Receiver<Told>;

/// What one slot tells.
#[derive(Debug)]
pub(in crate::worker) struct Told {
    call: StepCall,
    answer: oneshot::Sender<Result<StepAnswer, Error>>,
}

impl Recorder {
    /// Creates the side of the slots, and what they tell for [`record`]. Each slot tells one thing at a time.
    pub(in crate::worker) fn new(slots: usize) -> (Self, Tidings) {
        let (told, tidings) = mpsc::channel(slots.max(1));
        (Self { told }, tidings)
    }

    /// Asks once whether a run may start. If the future is dropped, the run may be recorded as started.
    pub(super) async fn begin(&self, call: StepCall) -> Result<StepBegun, Error> {
        match self.tell(call).await? {
            StepAnswer::Begun(begun) => Ok(begun),
            answer @ StepAnswer::Reported(_) => Err(Error::contract("step_begin", answer)),
        }
    }

    /// Reports once how a run ended. If the future is dropped, it is reported all the same.
    pub(super) async fn end(&self, call: StepCall) -> Result<StepReported, Error> {
        match self.tell(call).await? {
            StepAnswer::Reported(reported) => Ok(reported),
            answer @ StepAnswer::Begun(_) => Err(Error::contract("step_end", answer)),
        }
    }

    async fn tell(&self, call: StepCall) -> Result<StepAnswer, Error> {
        let (answer, answered) = oneshot::channel();
        // Only a bug ends the task that answers.
        let gone = || Error::contract("step", "no answer");
        self.told.send(Told { call, answer }).await.map_err(|_| gone())?;
        answered.await.unwrap_or_else(|_| Err(gone()))
    }
}

/// Tells Redis until all slots are gone.
pub(in crate::worker) async fn record(queue: Queue, consumer: ConsumerName, mut tidings: Tidings) {
    let (mut told, mut scripts) = (Vec::new(), FuturesUnordered::new());
    let mut open = true;
    while open || !scripts.is_empty() {
        tokio::select! {
            biased;
            Some(()) = scripts.next() => {}
            count = tidings.recv_many(&mut told, MAX_JOBS), if open && scripts.len() < UNDER_WAY => {
                open = count > 0;
                // A run that nobody waits for need not start, but the end of one is true.
                told.retain(|one| one.call.kind.0 == StepScript::End || !one.answer.is_closed());
                let groups = in_groups(std::mem::take(&mut told), |one| (one.call.kind, one.call.bytes()));
                scripts.extend(groups.into_iter().map(|group| send(&queue, &consumer, group)));
            }
        }
    }
}

async fn send(queue: &Queue, consumer: &ConsumerName, group: Vec<Told>) {
    let (calls, waiting): (Vec<_>, Vec<_>) = group.into_iter().map(|one| (one.call, one.answer)).unzip();
    let answers = match queue.steps().tell(consumer, calls).await {
        Ok(answers) => answers,
        Err(error) => vec![Err(error); waiting.len()],
    };
    for (answer, told) in waiting.into_iter().zip(answers) {
        // A slot that is gone needs no answer.
        answer.send(told).ok();
    }
}

/// Forms groups of one kind, bounded in bytes. Each keeps the order.
fn in_groups<T, K: PartialEq + Copy>(told: Vec<T>, of: impl Fn(&T) -> (K, usize)) -> Vec<Vec<T>> {
    let mut groups: Vec<(K, usize, Vec<T>)> = Vec::new();
    for one in told {
        let (kind, bytes) = of(&one);
        // The last group of its kind has room, or none has.
        match groups.iter_mut().rfind(|(of, ..)| *of == kind) {
            Some((_, total, group)) if *total + bytes <= MAX_BYTES => {
                *total += bytes;
                group.push(one);
            }
            Some(_) | None => groups.push((kind, bytes, vec![one])),
        }
    }
    groups.into_iter().map(|(.., group)| group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_one_kind_and_a_bounded_size() {
        let told = vec![('a', 1), ('b', MAX_BYTES), ('a', 2), ('b', 1), ('a', 3), ('b', 2)];
        let groups = in_groups(told, |(kind, bytes)| (*kind, *bytes));
        let sizes: Vec<Vec<usize>> =
            groups.iter().map(|group| group.iter().map(|(_, bytes)| *bytes).collect()).collect();
        assert_eq!(sizes, [vec![1, 2, 3], vec![MAX_BYTES], vec![1, 2]]);
        assert!(in_groups(Vec::<(char, usize)>::new(), |one| *one).is_empty());
    }
}
