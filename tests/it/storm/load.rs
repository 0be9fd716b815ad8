//! The load of a storm: jobs of every kind, submitted in every way, the same for the same seed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use streamfleet::broker::{Broker, Error};
use streamfleet::job::{Encoding, Envelope, Lane};
use streamfleet::{Producer, Submission, SubmitError};
use tokio::task::JoinSet;

use super::person::number;
use super::register::{Follow, Kind, Register, Reply, Sent, ToCancel};
use super::send::{Sender, raw};
use crate::harness::clock::wall_ms;
use crate::harness::fleet::config;
use crate::harness::redis_server::RedisServer;

const STEP: Duration = Duration::from_millis(100);
/// Jobs, or groups of them, in each step.
const SOME: usize = 2;
const UNDER_WAY: usize = 64;
const KEYS: usize = 3;

/// Whom it goes to.
pub(super) struct Load {
    pub(super) server: Arc<RedisServer>,
    /// The address of a proxy, which is hit too.
    pub(super) through: String,
    pub(super) register: Arc<Register>,
    pub(super) seed: u64,
}

/// One thing to submit.
pub(super) struct Order {
    pub(super) mark: String,
    pub(super) what: What,
    pub(super) lane: Lane,
}

/// How it is submitted.
pub(super) enum What {
    /// By `XADD`, with these fields more.
    Raw {
        kind: Kind,
        job_type: &'static str,
        orders: String,
        fields: Vec<(String, String)>,
        delay_ms: u64,
    },
    /// By a producer.
    Job {
        kind: Kind,
        orders: String,
        delay_ms: u64,
    },
    /// The same with an id of its own, sent by two producers at once.
    Twice {
        kind: Kind,
        job_type: &'static str,
        orders: String,
    },
    /// Two jobs that share an id, by `XADD`.
    Twins {
        job_type: &'static str,
        orders: [String; 2],
        delay_ms: u64,
    },
    Unique {
        key: String,
        mode: u8,
        orders: String,
        delay_ms: u64,
    },
    /// With a callback of each kind, and a chain.
    Called {
        kind: Kind,
        orders: String,
    },
    Batch {
        orders: Vec<String>,
    },
    Cancelled {
        orders: String,
        delay_ms: u64,
        after: Duration,
    },
}

impl Load {
    /// Submits for so long, and until all is answered.
    pub(super) fn run(&self, over: Duration) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.unwrap().block_on(self.submit(over));
    }

    async fn submit(&self, over: Duration) {
        let until = Instant::now() + over;
        let sender = Arc::new(Sender {
            near: connect(&self.server.url()).await,
            far: connect(&self.through).await,
            server: Arc::clone(&self.server),
            register: Arc::clone(&self.register),
            give_up: until + Duration::from_secs(60),
        });
        let mut random = StdRng::seed_from_u64(self.seed);
        let (mut ticks, mut under_way, mut nth) = (tokio::time::interval(STEP), JoinSet::new(), 0_usize);
        while Instant::now() < until {
            ticks.tick().await;
            for _ in 0..SOME {
                nth += 1;
                let order = order(&mut random, nth);
                let sender = Arc::clone(&sender);
                under_way.spawn(async move { sender.send(order).await });
            }
            while under_way.len() > UNDER_WAY {
                under_way.join_next().await.unwrap().unwrap();
            }
        }
        while let Some(sent) = under_way.join_next().await {
            sent.unwrap();
        }
    }
}

async fn connect(url: &str) -> Producer {
    let broker = Broker::connect(config(url).redis).await.unwrap();
    Producer::new(broker.queue("default".parse().unwrap()))
}

fn order(random: &mut StdRng, nth: usize) -> Order {
    let mark = format!("j{nth}");
    let lane = Lane::ALL[random.random_range(0..3)];
    let job_type = "storm";
    let delay_ms = random.random_range(1..2_500);
    let (work, failures) = (work(random), random.random_range(1..4));
    let what = match random.random_range(0..100) {
        0..16 => What::Raw { kind: Kind::Done, job_type, orders: work, fields: vec![], delay_ms: 0 },
        16..30 => What::Job { kind: Kind::Done, orders: work, delay_ms: 0 },
        30..35 => What::Raw { kind: Kind::Done, job_type, orders: work, fields: vec![], delay_ms },
        35..40 => What::Job { kind: Kind::Done, orders: work, delay_ms },
        40..44 => What::Job { kind: Kind::Done, orders: format!("fail {failures}"), delay_ms: 0 },
        44..47 => What::Raw {
            kind: Kind::Done,
            job_type,
            orders: format!("fail {failures}"),
            fields: vec![("tracking".to_owned(), "all".to_owned())],
            delay_ms: 0,
        },
        47..48 => What::Job { kind: Kind::Exhausted, orders: "fail 99".to_owned(), delay_ms: 0 },
        48..49 => What::Job { kind: Kind::Fatal, orders: "fatal".to_owned(), delay_ms: 0 },
        49..50 => What::Job { kind: Kind::Dropped, orders: "fatal".to_owned(), delay_ms: 0 },
        50..55 => What::Job { kind: Kind::Mended, orders: "mend".to_owned(), delay_ms: 0 },
        55..60 => {
            let fields = vec![];
            What::Raw { kind: Kind::Gift, job_type: "gift", orders: gift(random), fields, delay_ms: 0 }
        }
        60..65 => What::Twice { kind: Kind::Gift, job_type: "gift", orders: gift(random) },
        65..69 => What::Twice { kind: Kind::Done, job_type, orders: work },
        69..74 => {
            let other = if random.random() { format!("fail {failures}") } else { "ok".to_owned() };
            let delay_ms = if random.random() { delay_ms } else { 0 };
            What::Twins { job_type, orders: [work, other], delay_ms }
        }
        74..76 => What::Twins { job_type: "gift", orders: [gift(random), gift(random)], delay_ms: 0 },
        76..84 => What::Unique {
            key: format!(
                "{}{}",
                ["running", "waiting", "window"][random.random_range(0..3)],
                random.random_range(0..KEYS)
            ),
            mode: random.random_range(0..3),
            orders: work,
            delay_ms: if random.random() { delay_ms } else { 0 },
        },
        84..89 => What::Called { kind: Kind::Done, orders: work },
        89..90 => What::Called { kind: Kind::Fatal, orders: "fatal".to_owned() },
        90..92 => What::Batch {
            orders: (0..4).map(|nth| if nth == 0 { work.clone() } else { "ok".to_owned() }).collect(),
        },
        _ => {
            let is_delayed = random.random();
            What::Cancelled {
                orders: if is_delayed { "ok".to_owned() } else { "sleep 20000".to_owned() },
                delay_ms: if is_delayed { 3_000 } else { 0 },
                after: Duration::from_millis(random.random_range(0..2_000)),
            }
        }
    };
    Order { mark, what, lane }
}

fn work(random: &mut StdRng) -> String {
    match random.random_range(0..10) {
        0..5 => "ok".to_owned(),
        5..9 => format!("sleep {}", random.random_range(0..800)),
        _ => format!("sleep {}", random.random_range(1_000..4_000)),
    }
}

fn gift(random: &mut StdRng) -> String {
    match random.random_range(0..10) {
        0..4 => format!("charge sleep {}", random.random_range(0..1_500)),
        4 => "charge fatal".to_owned(),
        5 => "charge ok; mail sleep 900".to_owned(),
        6 => "mail fail 1".to_owned(),
        7 => "charge ok; mail mend".to_owned(),
        _ => "charge ok".to_owned(),
    }
}

/// What a job is to do. That of some is so large that it has a key of its own as soon as a script moves it.
fn payload(mark: &str, orders: &str) -> String {
    let is_large = number(mark).is_multiple_of(6) && orders != "ok";
    let padding =
        if is_large { format!("{}{LAST}", " ".repeat(2 * Envelope::LARGE_BYTES)) } else { String::new() };
    format!("@{mark} {orders}{padding}")
}

/// The last character of a large payload.
pub(super) const LAST: char = '#';

/// The orders of a payload, which is whole.
pub(super) fn orders_of(text: &str) -> &str {
    match text.strip_suffix(LAST) {
        Some(large) => {
            assert!(large.len() > 2 * Envelope::LARGE_BYTES, "{} bytes are missing", large.len());
            large.trim_end()
        }
        None => {
            assert!(text.len() < 1_000, "the end of {} bytes is missing", text.len());
            text
        }
    }
}

/// A job of the test's type that does this.
pub(super) fn job(job_type: &str, mark: &str, orders: &str) -> Submission {
    let payload = payload(mark, orders);
    Submission::new(job_type).unwrap().payload(payload, Encoding::Raw).unwrap()
}

/// What the producer knows after an error.
pub(super) fn reply_of(error: &SubmitError) -> Reply {
    match error {
        SubmitError::Broker(Error::Refused { .. } | Error::Unreachable(_)) => Reply::Refused,
        SubmitError::Broker(Error::Unknown { .. }) => Reply::Unknown,
        other => panic!("a submission of a storm was answered: {other}"),
    }
}

/// What is known of it before it is sent.
pub(super) fn entry(kind: Kind, delay_ms: u64) -> Sent {
    let not_before_ms = if delay_ms == 0 { 0 } else { wall_ms() + delay_ms };
    Sent { kind, id: None, reply: Reply::Unknown, not_before_ms, key: None }
}

pub(super) fn follow(mark: String, of: Vec<String>, on_death: bool) -> Follow {
    Follow { mark, of, on_death }
}

pub(super) fn cancel_later(register: &Register, id: String, after: Duration) {
    register.to_cancel.lock().unwrap().push(ToCancel { at: Instant::now() + after, id });
}

/// The same as [`job`], as fields of an entry.
pub(super) fn fields(job_type: &str, mark: &str, orders: &str) -> Vec<(String, String)> {
    let own = |name: &str, value: String| (name.to_owned(), value);
    vec![
        own("type", job_type.to_owned()),
        own("payload", payload(mark, orders)),
        own("encoding", "raw".to_owned()),
    ]
}

/// Sends these fields by `XADD`, on a thread that may wait.
pub(super) async fn add(
    server: &Arc<RedisServer>,
    lane: Lane,
    fields: Vec<(String, String)>,
) -> (Reply, Option<String>) {
    let server = Arc::clone(server);
    tokio::task::spawn_blocking(move || raw(&server, lane, &fields)).await.unwrap()
}
