//! The orders of an audit: jobs of every kind, the same for the same seed.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use streamfleet::job::Lane;

use super::register::Kind;

/// The name of the orders for jobs that pass a gate.
const GATED: &str = "through a gate";

/// How many unique keys each scope has.
const KEYS: usize = 3;

/// One order: a job or a group of jobs to submit.
pub(crate) struct Order {
    /// What the report calls it.
    pub name: &'static str,
    pub what: What,
    pub lane: Lane,
}

/// How it is submitted.
pub(crate) enum What {
    /// By `XADD`, with additional fields.
    Raw {
        kind: Kind,
        job_type: &'static str,
        orders: String,
        fields: Vec<(String, String)>,
        delay_ms: u64,
    },
    /// By a producer.
    JobSpec {
        kind: Kind,
        orders: String,
        delay_ms: u64,
    },
    /// By two producers at once, with its own id.
    Twice {
        kind: Kind,
        job_type: &'static str,
        orders: String,
    },
    /// As two jobs with the same id, by `XADD`.
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

/// Returns the next order.
pub(crate) fn order(random: &mut StdRng) -> Order {
    let lane = Lane::ALL[random.random_range(0..3)];
    let (name, what) = match random.random_range(0..100) {
        ..60 => one_job(random),
        nth => several(nth, random),
    };
    // A job that leaves a waiting list runs in this lane. In one lane, fences grow even if the clock is set back.
    let lane = if name == GATED { Lane::High } else { lane };
    Order { name, what, lane }
}

/// Returns an order for one job without its own id and without ties to other jobs.
fn one_job(random: &mut StdRng) -> (&'static str, What) {
    let delay_ms = random.random_range(1..2_500);
    let (work, fails) = (work(random), format!("fail {}", random.random_range(1..4)));
    let job = |kind, orders: &str, delay_ms| What::JobSpec { kind, orders: orders.to_owned(), delay_ms };
    let raw = |kind, job_type, orders: &str, delay_ms| What::Raw {
        kind,
        job_type,
        orders: orders.to_owned(),
        fields: vec![],
        delay_ms,
    };
    match random.random_range(0..60) {
        0..10 => ("plain", raw(Kind::Done, "storm", &work, 0)),
        10..14 => (GATED, raw(Kind::Done, "gated", &short(random), 0)),
        14..28 => ("plain", job(Kind::Done, &work, 0)),
        28..33 => ("delayed", raw(Kind::Done, "storm", &work, delay_ms)),
        33..38 => ("delayed", job(Kind::Done, &work, delay_ms)),
        38..43 => ("retried", job(Kind::Done, &fails, 0)),
        43..46 => {
            let fields = vec![("tracking".to_owned(), "all".to_owned())];
            let (kind, job_type) = (Kind::Done, "storm");
            ("retried", What::Raw { kind, job_type, orders: fails, fields, delay_ms: 0 })
        }
        46..47 => ("failing each time", job(Kind::Exhausted, "fail 99", 0)),
        47..48 => ("hanging", raw(Kind::Hanging, "hang", "sleep 60000", 0)),
        48..49 => ("fatal", job(Kind::Fatal, "fatal", 0)),
        49..50 => ("fatal, letter dropped", job(Kind::Dropped, "fatal", 0)),
        50..55 => ("fatal, fixed, replayed", job(Kind::Mended, "mend", 0)),
        _ => ("made of steps", raw(Kind::Gift, "gift", &gift(random), 0)),
    }
}

/// Returns an order for jobs with their own ids, jobs tied to others, or jobs that a person handles.
fn several(nth: i32, random: &mut StdRng) -> (&'static str, What) {
    let job_type = "storm";
    let delay_ms = random.random_range(1..2_500);
    let (work, failures) = (work(random), random.random_range(1..4));
    match nth {
        60..65 => {
            ("own id, sent twice", What::Twice { kind: Kind::Gift, job_type: "gift", orders: gift(random) })
        }
        65..69 => ("own id, sent twice", What::Twice { kind: Kind::Done, job_type, orders: work }),
        69..74 => {
            let other = if random.random() { format!("fail {failures}") } else { "ok".to_owned() };
            let delay_ms = if random.random() { delay_ms } else { 0 };
            ("two generations of one id", What::Twins { job_type, orders: [work, other], delay_ms })
        }
        74..76 => {
            let orders = [gift(random), gift(random)];
            ("two generations of one id", What::Twins { job_type: "gift", orders, delay_ms: 0 })
        }
        76..84 => {
            let scope = ["running", "waiting", "window"][random.random_range(0..3)];
            let key = format!("{scope}{}", random.random_range(0..KEYS));
            let delay_ms = if random.random() { delay_ms } else { 0 };
            ("unique key", What::Unique { key, mode: random.random_range(0..3), orders: work, delay_ms })
        }
        84..89 => ("with callbacks", What::Called { kind: Kind::Done, orders: work }),
        89..90 => ("with callbacks", What::Called { kind: Kind::Fatal, orders: "fatal".to_owned() }),
        90..92 => {
            let orders = (0..4).map(|nth| if nth == 0 { work.clone() } else { "ok".to_owned() }).collect();
            ("batch", What::Batch { orders })
        }
        _ => {
            let is_delayed = random.random();
            let orders = if is_delayed { "ok".to_owned() } else { "sleep 20000".to_owned() };
            let after = Duration::from_millis(random.random_range(0..2_000));
            let delay_ms = if is_delayed { 3_000 } else { 0 };
            ("cancelled", What::Cancelled { orders, delay_ms, after })
        }
    }
}

fn work(random: &mut StdRng) -> String {
    match random.random_range(0..10) {
        0..5 => "ok".to_owned(),
        5..9 => format!("sleep {}", random.random_range(0..800)),
        _ => format!("sleep {}", random.random_range(1_000..4_000)),
    }
}

/// The gate lets few of these jobs run at once.
fn short(random: &mut StdRng) -> String {
    format!("sleep {}", random.random_range(0..200))
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
