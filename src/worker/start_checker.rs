//! Asks Redis whether attempts may start: one script asks for many slots. A job that has to pass gates passes them first,
//! because its start has consequences.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::delivery::Delivery;
use super::gather::gather;
use crate::broker::{Admitted, Begun, Candidate, Error, Queue};
use crate::event::{Events, QueueEvent};
use crate::job::{ConsumerName, GateName, Lane};

/// The attempts of one queue that wait for their answers.
#[derive(Debug)]
pub(crate) struct StartChecker {
    questions: mpsc::Sender<Question>,
}

/// What the slots ask.
pub(crate) type Questions = mpsc::Receiver<Question>;

/// What has to be asked about an attempt.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// The gates that it has to pass.
    pub(crate) gates: Arc<[GateName]>,
    /// Whether its job has a record, if its start has to be noted or checked at all.
    pub(crate) keeps_record: Option<bool>,
}

/// The answer about an attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MayStart {
    /// It has passed its gates, and this is the rest.
    Begun(Begun),
    /// This one of its gates, counted from 0, refuses it.
    Refused(usize),
}

/// May this attempt start?
#[derive(Debug)]
pub(crate) struct Question {
    delivery: Arc<Delivery>,
    request: Request,
    answer: oneshot::Sender<Result<MayStart, Error>>,
}

impl Question {
    fn candidate(&self) -> Candidate<'_> {
        let keeps_record = self.request.keeps_record.unwrap_or(false);
        Candidate { job: &self.delivery.job, keeps_record }
    }

    fn answer(self, answer: Result<MayStart, Error>) {
        // A slot that is gone needs no answer.
        self.answer.send(answer).ok();
    }
}

impl StartChecker {
    /// Creates the side of the slots, and their questions for [`answer`]. Each slot asks one at a time.
    pub(crate) fn new(slots: usize) -> (Self, Questions) {
        let (questions, asked) = mpsc::channel(slots.max(1));
        (Self { questions }, asked)
    }

    /// Asks once whether an attempt may start. The future may be dropped: then the attempt does not start, although Redis may
    /// count it as begun until it is given back.
    pub(crate) async fn ask(&self, delivery: &Arc<Delivery>, request: Request) -> Result<MayStart, Error> {
        let (answer, answered) = oneshot::channel();
        let question = Question { delivery: Arc::clone(delivery), request, answer };
        // Only a bug ends the task that answers.
        self.questions.send(question).await.map_err(|_| Error::contract("begin", "no answer"))?;
        answered.await.unwrap_or_else(|_| Err(Error::contract("begin", "no answer")))
    }
}

/// Answers until all slots are gone.
pub(crate) async fn answer(queue: Queue, consumer: ConsumerName, questions: Questions, events: Events) {
    let asker = (&queue, &consumer, &events);
    gather(questions, |mut asked| {
        asked.retain(|question| !question.answer.is_closed());
        let of_lanes = Lane::ALL.map(|lane| (lane, take_lane(&mut asked, lane)));
        let of_lanes = of_lanes.into_iter().filter(|(_, questions)| !questions.is_empty());
        of_lanes.map(move |(lane, questions)| ask(asker, lane, questions))
    })
    .await;
}

fn take_lane(asked: &mut Vec<Question>, lane: Lane) -> Vec<Question> {
    asked.extract_if(.., |question| question.delivery.job.lane == lane).collect()
}

async fn ask(
    (queue, consumer, events): (&Queue, &ConsumerName, &Events),
    lane: Lane,
    questions: Vec<Question>,
) {
    let (gated, free): (Vec<_>, Vec<_>) =
        questions.into_iter().partition(|question| !question.request.gates.is_empty());
    let mut passed = admit((queue, consumer, events), lane, gated).await;
    passed.extend(free);
    let (begins, others): (Vec<_>, Vec<_>) =
        passed.into_iter().partition(|question| question.request.keeps_record.is_some());
    for question in others {
        question.answer(Ok(MayStart::Begun(Begun::Start(None))));
    }
    if begins.is_empty() {
        return;
    }
    let candidates: Vec<_> = begins.iter().map(Question::candidate).collect();
    let answers = match queue.begin(consumer, lane, &candidates).await {
        Ok(answers) => answers,
        Err(error) => vec![Err(error); begins.len()],
    };
    for (question, answer) in begins.into_iter().zip(answers) {
        question.answer(answer.map(MayStart::Begun));
    }
}

/// Answers those that do not pass their gates, and returns the others.
async fn admit(
    (queue, consumer, events): (&Queue, &ConsumerName, &Events),
    lane: Lane,
    questions: Vec<Question>,
) -> Vec<Question> {
    if questions.is_empty() {
        return questions;
    }
    let asking: Vec<_> =
        questions.iter().map(|question| (&question.delivery.job, &*question.request.gates)).collect();
    let answers = queue.admit(consumer, lane, &asking).await;
    let refused = answers.iter().filter(|answer| matches!(answer, Ok(Admitted::Refused(_)))).count() as u64;
    let granted = answers.iter().filter(|answer| matches!(answer, Ok(Admitted::Start))).count() as u64;
    events.of_queue(queue.name(), QueueEvent::Admitted { granted, refused });
    let mut passed = Vec::new();
    for (question, answer) in questions.into_iter().zip(answers) {
        match answer {
            Ok(Admitted::Start) => passed.push(question),
            Ok(Admitted::Stale) => question.answer(Ok(MayStart::Begun(Begun::Stale))),
            Ok(Admitted::Refused(gate)) => question.answer(Ok(MayStart::Refused(gate))),
            Err(error) => question.answer(Err(error)),
        }
    }
    passed
}
