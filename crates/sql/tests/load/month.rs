//! The lives of a month, as a fleet with eight queues leaves them: most succeed, some die, few are cancelled.

use streamfleet_domain::job::{Envelope, Generation, JobId, Lane, QueueName};
use streamfleet_sql::history::questions::Cursor;
use streamfleet_sql::history::{Attempt, Body, Day, Ended, Ending, Key};

/// The first millisecond of 2026-12-01.
const FIRST_MS: u64 = 1_796_083_200_000;
pub(crate) const DAY_MS: u64 = 86_400_000;
pub(crate) const DAYS: u64 = 30;
pub(crate) const QUEUES: u64 = 8;
const CUSTOMERS: u64 = 100_000;
/// One in this many lives belongs to a customer who has very many.
const LARGE_CUSTOMER: u64 = 97;
/// A new version of the workers comes every three days.
const VERSIONS: u64 = 10;

/// Numbers that look random and follow from a seed: splitmix64.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    /// 0 for half of all rolls, 1 for a quarter, and so on, up to `most`.
    fn halved(&mut self, most: u32) -> u32 {
        self.roll().trailing_zeros().min(most)
    }
}

pub(crate) struct Month {
    pub(crate) lives: u64,
    pub(crate) seed: u64,
}

impl Month {
    pub(crate) fn new(lives: u64, seed: u64) -> Self {
        Self { lives, seed }
    }

    /// The day of the first lives.
    pub(crate) fn first_day() -> Day {
        Day::of_ms(FIRST_MS)
    }

    /// The first millisecond of a day of the month, from 0 on.
    pub(crate) fn day_ms(day: u64) -> u64 {
        FIRST_MS + day * DAY_MS
    }

    pub(crate) fn queue(number: u64) -> QueueName {
        format!("queue-{}", number % QUEUES).parse().unwrap()
    }

    pub(crate) fn id(number: u64) -> JobId {
        format!("order-{number}").parse().unwrap()
    }

    pub(crate) fn job_type(nth: u32) -> String {
        format!("type-{nth}.run")
    }

    pub(crate) fn version(nth: u64) -> String {
        format!("2026.12.{nth}")
    }

    pub(crate) fn fingerprint(nth: u32) -> String {
        format!("{:016x}", 0x0123_4567_89ab_cdef_u64.rotate_left(nth))
    }

    pub(crate) fn customer(value: Option<u64>) -> Key {
        let value = value.map_or_else(|| "large".to_owned(), |value| value.to_string());
        Key { name: "customer".to_owned(), value }
    }

    pub(crate) fn a_customer(dice: &mut Dice) -> Key {
        Self::customer(Some(dice.below(CUSTOMERS)))
    }

    /// The cursor of a page that begins after this life.
    pub(crate) fn cursor(&self, number: u64) -> Cursor {
        let life = self.life(number);
        format!("{}~{}", life.ended_ms, life.life).parse().unwrap()
    }

    /// The cursor of a page of a field of the payload that begins in the middle of the month.
    pub(crate) fn cursor_of_key(&self) -> Cursor {
        format!("{}~{}", Self::day_ms(DAYS / 2), self.life(self.lives / 2).life).parse().unwrap()
    }

    /// One of the lives, in the order in which they begin.
    pub(crate) fn life(&self, number: u64) -> Ended {
        let mut dice = Dice::new(self.seed.wrapping_mul(0x1_0000_0001) ^ number);
        let span = u128::from(DAYS * DAY_MS) * u128::from(number) / u128::from(self.lives);
        let began = FIRST_MS + u64::try_from(span).unwrap();
        let state = match dice.below(100) {
            0 | 1 => Ending::Dead,
            2 => Ending::Cancelled,
            _ => Ending::Done,
        };
        let is_dead = state == Ending::Dead;
        let customer = (!number.is_multiple_of(LARGE_CUSTOMER)).then(|| dice.below(CUSTOMERS));
        let attempts = if is_dead { 3 } else { 1 + u64::from(dice.below(10) == 0) };
        let error = "smtp: 550 5.1.1 the server at 203.0.113.7 knows no such user, and says that it will not try any of its aliases";
        let worker = format!("worker-{}-{:08x}", dice.below(40), dice.below(1 << 32));
        let attempted: Vec<Attempt> =
            (1..=attempts).map(|nth| attempt(nth, attempts, is_dead, began, &worker, error)).collect();
        Ended {
            queue: Self::queue(number),
            life: format!("{began}-0").parse::<Generation>().unwrap(),
            id: Self::id(number),
            job_type: Self::job_type(dice.halved(7)),
            lane: Lane::Normal,
            state,
            created_ms: began,
            ended_ms: began + 1000 * attempts + dice.below(60_000),
            attempts,
            worker: Some(worker),
            worker_version: Some(Self::version(number * VERSIONS / self.lives)),
            reason: is_dead.then(|| "exhausted".to_owned()),
            fingerprint: is_dead.then(|| Self::fingerprint(dice.halved(15))),
            error: is_dead.then(|| error.to_owned()),
            result: (dice.below(10) == 0).then(|| format!("{{\"sent\":{number}}}")),
            root: None,
            body: if is_dead { body(number) } else { Body::None },
            attempted,
            keys: vec![Self::customer(customer)],
        }
    }
}

fn attempt(nth: u64, all: u64, is_dead: bool, began: u64, worker: &str, error: &str) -> Attempt {
    let has_failed = is_dead || nth < all;
    Attempt {
        number: nth,
        started_ms: Some(began + 1000 * (nth - 1)),
        ended_ms: began + 1000 * (nth - 1) + 400,
        outcome: if has_failed { "error" } else { "done" }.to_owned(),
        worker: Some(worker.to_owned()),
        error: has_failed.then(|| error.to_owned()),
    }
}

/// The fields of a job with a payload of about 500 bytes.
fn body(number: u64) -> Body {
    let payload = format!("{{\"order\":{number},\"text\":\"{}\"}}", "words ".repeat(80));
    let fields = [(b"type".as_slice(), b"mail.send".as_slice()), (b"payload", payload.as_bytes())];
    Body::Stored(Envelope::new(fields.into_iter()))
}
