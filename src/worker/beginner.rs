//! Asks Redis whether attempts may start: one script asks for all slots that have come to this point while the questions
//! before are on their way. So a quiet queue waits for nothing, and a busy one sends few scripts.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};

use super::delivery::Delivery;
use crate::broker::{Begun, Candidate, Error, MAX_JOBS, Queue};
use crate::job::{ConsumerName, Lane};

/// The most scripts in flight.
const UNDER_WAY: usize = 2;

/// The attempts of one queue that wait for their answers.
#[derive(Debug)]
pub(crate) struct Beginner {
    questions: mpsc::Sender<Question>,
}

/// What the slots ask.
pub(crate) type Questions = mpsc::Receiver<Question>;

/// May this attempt start?
#[derive(Debug)]
pub(crate) struct Question {
    delivery: Arc<Delivery>,
    keeps_record: bool,
    answer: oneshot::Sender<Result<Begun, Error>>,
}

impl Question {
    fn candidate(&self) -> Candidate<'_> {
        Candidate { job: &self.delivery.job, keeps_record: self.keeps_record }
    }
}

impl Beginner {
    /// Creates the side of the slots, and their questions for [`answer`]. Each slot asks one at a time.
    pub(crate) fn new(slots: usize) -> (Self, Questions) {
        let (questions, asked) = mpsc::channel(slots.max(1));
        (Self { questions }, asked)
    }

    /// Asks once whether an attempt may start. The future may be dropped: then the attempt does not start, although Redis may
    /// count it as begun until it is given back.
    pub(crate) async fn ask(&self, delivery: &Arc<Delivery>, keeps_record: bool) -> Result<Begun, Error> {
        let (answer, answered) = oneshot::channel();
        let question = Question { delivery: Arc::clone(delivery), keeps_record, answer };
        // Only a bug ends the task that answers.
        self.questions.send(question).await.map_err(|_| Error::contract("begin", "no answer"))?;
        answered.await.unwrap_or_else(|_| Err(Error::contract("begin", "no answer")))
    }
}

/// Answers until all slots are gone.
pub(crate) async fn answer(queue: Queue, consumer: ConsumerName, mut questions: Questions) {
    let (mut asked, mut scripts) = (Vec::new(), FuturesUnordered::new());
    let mut open = true;
    while open || !scripts.is_empty() {
        tokio::select! {
            biased;
            Some(()) = scripts.next() => {}
            count = questions.recv_many(&mut asked, MAX_JOBS), if open && scripts.len() < UNDER_WAY => {
                open = count > 0;
                asked.retain(|question| !question.answer.is_closed());
                let of_lanes = Lane::ALL.map(|lane| (lane, take_lane(&mut asked, lane)));
                let of_lanes = of_lanes.into_iter().filter(|(_, questions)| !questions.is_empty());
                scripts.extend(of_lanes.map(|(lane, questions)| ask(&queue, &consumer, lane, questions)));
            }
        }
    }
}

fn take_lane(asked: &mut Vec<Question>, lane: Lane) -> Vec<Question> {
    asked.extract_if(.., |question| question.delivery.job.lane == lane).collect()
}

async fn ask(queue: &Queue, consumer: &ConsumerName, lane: Lane, questions: Vec<Question>) {
    let candidates: Vec<_> = questions.iter().map(Question::candidate).collect();
    let answers = match queue.begin(consumer, lane, &candidates).await {
        Ok(answers) => answers,
        Err(error) => vec![Err(error); questions.len()],
    };
    for (question, answer) in questions.into_iter().zip(answers) {
        // A slot that is gone needs no answer.
        question.answer.send(answer).ok();
    }
}
