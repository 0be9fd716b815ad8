//! Sends orders, repeats requests if that is safe, and registers the replies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use streamfleet::job::{ChainedJob, Lane};
use streamfleet::{
    Accepted, Producer, RedisError, Submission, SubmitError, Submitted, UniqueMode, UniqueScope,
};

use super::order::{Order, What};
use super::payload::{fields, job};
use super::register::{Follow, Kind, Register, Reply, Sent, ToCancel};
use harness::clock::{monotonic_ns, wall_ms};
use harness::redis_server::RedisServer;

const AGAIN: Duration = Duration::from_millis(200);

/// Sends orders.
pub(crate) struct Sender {
    pub near: Producer,
    /// A producer behind a proxy that suffers faults.
    pub far: Producer,
    pub server: Arc<RedisServer>,
    pub register: Arc<Register>,
    /// From this moment on, requests without an answer are not repeated.
    pub give_up: Instant,
}

impl Sender {
    pub(crate) async fn send(&self, mark: String, Order { name: _, what, lane }: Order) {
        match what {
            What::Raw { kind, job_type, orders, fields: more, delay_ms } => {
                let mut own = fields(job_type, &mark, &orders);
                own.extend(more);
                if delay_ms > 0 {
                    own.push(("delay_ms".to_owned(), delay_ms.to_string()));
                }
                self.add(mark, entry(kind, delay_ms), lane, own).await;
            }
            What::JobSpec { kind, orders, delay_ms } => {
                self.submit(mark, kind, &orders, delay_ms, lane).await
            }
            What::Twice { kind, job_type, orders } => {
                let submission = job(job_type, &mark, &orders).id(mark.parse().unwrap()).lane(lane);
                self.register.sent(&mark, entry(kind, 0));
                let (one, other) = tokio::join!(
                    self.until_answered(&self.near, &submission),
                    self.until_answered(&self.far, &submission)
                );
                let answers = [one, other];
                let new = answers.iter().flatten().filter(|answer| answer.accepted == Accepted::New).count();
                // If its letter is dropped, its id is free again.
                if new > 1 && !orders.contains("mend") {
                    self.register.complain(format!("{mark} ({orders}) was new twice: {answers:?}"));
                }
                let reply =
                    if answers.iter().any(Option::is_some) { Reply::Accepted } else { Reply::Unknown };
                self.register.sent(&mark, Sent { id: Some(mark.clone()), reply, ..entry(kind, 0) });
            }
            What::Twins { job_type, orders, delay_ms } => {
                let kind = if job_type == "gift" { Kind::Gift } else { Kind::Done };
                for (nth, orders) in orders.iter().enumerate() {
                    let twin = format!("{mark}.{nth}");
                    let mut own = fields(job_type, &twin, orders);
                    own.push(("id".to_owned(), format!("{mark}.twins")));
                    let delay_ms = if nth == 0 { delay_ms } else { 0 };
                    if delay_ms > 0 {
                        own.push(("delay_ms".to_owned(), delay_ms.to_string()));
                    }
                    let sent = Sent { id: Some(format!("{mark}.twins")), ..entry(kind, delay_ms) };
                    self.add(twin, sent, lane, own).await;
                }
            }
            What::Unique { key, mode, orders, delay_ms } => {
                self.unique(mark, key, mode, &orders, delay_ms).await
            }
            What::Called { kind, orders } => self.called(mark, kind, &orders, lane).await,
            What::Batch { orders } => self.batch(&mark, orders).await,
            What::Cancelled { orders, delay_ms, after } => {
                let submission = job("storm", &mark, &orders).id(mark.parse().unwrap()).lane(lane);
                let submission = submission.delay(Duration::from_millis(delay_ms));
                let sent = Sent { id: Some(mark.clone()), ..entry(Kind::Cancelled, delay_ms) };
                self.register.sent(&mark, sent.clone());
                if self.until_answered(&self.far, &submission).await.is_some() {
                    self.register.sent(&mark, Sent { reply: Reply::Accepted, ..sent });
                    let at = Instant::now() + after;
                    self.register.to_cancel.lock().unwrap().push(ToCancel { at, id: mark });
                }
            }
        }
    }

    /// Submits by `XADD`, which is never repeated.
    async fn add(&self, mark: String, sent: Sent, lane: Lane, fields: Vec<(String, String)>) {
        self.register.sent(&mark, sent.clone());
        let (reply, _entry) = add(&self.server, lane, fields).await;
        self.register.sent(&mark, Sent { reply, ..sent });
    }

    async fn submit(&self, mark: String, kind: Kind, orders: &str, delay_ms: u64, lane: Lane) {
        let sent = entry(kind, delay_ms);
        self.register.sent(&mark, sent.clone());
        let submission = job("storm", &mark, orders).lane(lane);
        let submission = match delay_ms {
            0 => submission,
            delay_ms => submission.delay(Duration::from_millis(delay_ms)),
        };
        let reply = match self.far.submit(submission).await {
            Ok(_id) => Reply::Accepted,
            Err(error) => reply_of(&error),
        };
        self.register.sent(&mark, Sent { reply, ..sent });
    }

    /// Sends a submission with an id until it is answered. Returns `None` if the time is up.
    async fn until_answered(&self, producer: &Producer, submission: &Submission) -> Option<Submitted> {
        loop {
            match producer.submit_or_find(submission.clone()).await {
                Ok(submitted) => return Some(submitted),
                Err(SubmitError::Contended { .. }) => {}
                Err(error) => drop(reply_of(&error)),
            }
            if Instant::now() > self.give_up {
                return None;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn unique(&self, mark: String, key: String, mode: u8, orders: &str, delay_ms: u64) {
        let mode = [UniqueMode::Reject, UniqueMode::Replace, UniqueMode::Debounce][usize::from(mode)];
        let submission = job("storm", &mark, orders).id(mark.parse().unwrap());
        let scope = match key.trim_end_matches(|last: char| last.is_ascii_digit()) {
            "running" => UniqueScope::Running,
            "waiting" => UniqueScope::Waiting,
            _ => UniqueScope::Window(Duration::from_secs(2)),
        };
        let submission = submission.unique(key.parse().unwrap(), scope, mode);
        let submission = submission.delay(Duration::from_millis(delay_ms));
        // A later submission may change when it is due.
        let key = Some(key).filter(|_| scope == UniqueScope::Running);
        let sent = Sent { id: Some(mark.clone()), key, ..entry(Kind::Unique, 0) };
        self.register.sent(&mark, sent.clone());
        let Some(answer) = self.until_answered(&self.far, &submission).await else { return };
        let reply = if answer.id.to_string() == mark { Reply::Accepted } else { Reply::Elsewhere };
        self.register.sent(&mark, Sent { reply, ..sent });
    }

    async fn called(&self, mark: String, kind: Kind, orders: &str, lane: Lane) {
        let link = |nth: u8| -> ChainedJob {
            let payload = format!("@{mark}.chain{nth} ok");
            serde_json::from_value(json!({ "type": "storm", "payload": payload })).unwrap()
        };
        let submission = job("storm", &mark, orders).id(mark.parse().unwrap()).lane(lane);
        let submission = submission.on_success("storm").unwrap().on_failure("storm").unwrap();
        let submission = submission.then(&[link(1), link(2)]).unwrap();
        let sent = Sent { id: Some(mark.clone()), ..entry(kind, 0) };
        self.register.sent(&mark, sent.clone());
        let follows = [
            (format!("{mark}~done"), mark.clone(), false),
            (format!("{mark}~dead"), mark.clone(), true),
            (format!("{mark}.chain1"), mark.clone(), false),
            (format!("{mark}.chain2"), format!("{mark}.chain1"), false),
        ];
        for (follower, parent, on_death) in follows {
            self.register.sent(&follower, entry(Kind::Done, 0));
            self.register.follows(Follow { mark: follower, of: vec![parent], on_death });
        }
        if self.until_answered(&self.far, &submission).await.is_some() {
            self.register.sent(&mark, Sent { reply: Reply::Accepted, ..sent });
        }
    }

    /// Sends a whole batch until it is answered.
    async fn batch(&self, mark: &str, orders: Vec<String>) {
        let ids: Vec<String> = (0..orders.len()).map(|nth| format!("{mark}.{nth}")).collect();
        let sent = |id: &String| Sent { id: Some(id.clone()), ..entry(Kind::Done, 0) };
        ids.iter().for_each(|id| self.register.sent(id, sent(id)));
        let total = format!("{mark}.total");
        self.register.sent(&total, entry(Kind::Done, 0));
        self.register.follows(Follow { mark: total.clone(), of: ids.clone(), on_death: false });
        let members: Vec<Submission> =
            ids.iter().zip(&orders).map(|(id, orders)| job("storm", id, orders)).collect();
        let batch = mark.parse().unwrap();
        while Instant::now() < self.give_up {
            match self.far.submit_batch(&batch, job("storm", &total, "ok"), members.clone()).await {
                Ok(_ids) => {
                    let accepted = |id: &String| Sent { reply: Reply::Accepted, ..sent(id) };
                    return ids.iter().for_each(|id| self.register.sent(id, accepted(id)));
                }
                Err(error) => drop(reply_of(&error)),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// Sends one `XADD`. Returns the entry's id if it is answered.
pub(crate) fn raw(server: &RedisServer, lane: Lane, fields: &[(String, String)]) -> (Reply, Option<String>) {
    let stream = match lane {
        Lane::High => "sf:{default}:jobs:high",
        Lane::Normal => "sf:{default}:jobs",
        Lane::Low => "sf:{default}:jobs:low",
    };
    let mut command = vec!["XADD", stream, "*"];
    command.extend(fields.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]));
    match server.try_cmd(&command) {
        Ok(redis::Value::ServerError(_loading)) => (Reply::Refused, None),
        Ok(entry) => (Reply::Accepted, Some(redis::from_redis_value(entry).unwrap())),
        Err(error) if error.is_connection_refusal() => (Reply::Refused, None),
        Err(_lost) => (Reply::Unknown, None),
    }
}

/// Returns what the producer knows after an error.
pub(crate) fn reply_of(error: &SubmitError) -> Reply {
    match error {
        SubmitError::Broker(RedisError::Refused { .. } | RedisError::Unreachable(_)) => Reply::Refused,
        SubmitError::Broker(RedisError::Unknown { .. }) => Reply::Unknown,
        other => panic!("a submission failed: {other}"),
    }
}

/// Returns what is known about a submission before it is sent.
pub(crate) fn entry(kind: Kind, delay_ms: u64) -> Sent {
    let not_before_ms = if delay_ms == 0 { 0 } else { wall_ms() + delay_ms };
    Sent { kind, id: None, reply: Reply::Unknown, not_before_ms, key: None, at: monotonic_ns() }
}

/// Sends these fields by `XADD`, on a thread that may block.
pub(crate) async fn add(
    server: &Arc<RedisServer>,
    lane: Lane,
    fields: Vec<(String, String)>,
) -> (Reply, Option<String>) {
    let server = Arc::clone(server);
    tokio::task::spawn_blocking(move || raw(&server, lane, &fields)).await.unwrap()
}
