//! What is asked: each question that the history answers, with each of its conditions, about lives that are drawn.

use streamfleet_domain::job::{JobId, QueueName};
use streamfleet_sql::history::Ending;
use streamfleet_sql::history::questions::{Cursor, Filter, LifeKey};

use crate::month::{DAY_MS, DAYS, Dice, Month};

/// The most rows of a page, as people ask for.
pub(crate) const PAGE: usize = 100;

/// Something to ask.
pub(crate) enum Question {
    Job(QueueName, JobId),
    Life(LifeKey),
    Jobs(Filter, Option<Cursor>),
    Stats(QueueName, u64, u64),
}

/// Draws a question.
type Draw = fn(&Month, &mut Dice) -> Question;

/// All of them, and what they are called.
pub(crate) const ALL: [(&str, Draw); 20] = [
    ("job by id", |month, dice| {
        let number = dice.below(month.lives);
        Question::Job(Month::queue(number), Month::id(number))
    }),
    ("life", |month, dice| {
        let life = month.life(dice.below(month.lives));
        Question::Life(LifeKey::new(life.queue, life.life, life.created_ms))
    }),
    ("jobs", |_, dice| jobs(dice, |_, _| {})),
    ("jobs, middle of the month", |month, dice| deep(month, dice, |_, _| {})),
    ("jobs dead", |_, dice| jobs(dice, |filter, _| filter.states = vec![Ending::Dead])),
    ("jobs dead, middle", |month, dice| deep(month, dice, |filter, _| filter.states = vec![Ending::Dead])),
    ("jobs of a type", |_, dice| jobs(dice, of_a_type)),
    ("jobs of a type, middle", |month, dice| deep(month, dice, of_a_type)),
    ("jobs of 4 types", |_, dice| {
        jobs(dice, |filter, _| filter.types = (0..4).map(Month::job_type).collect())
    }),
    ("jobs dead of a type", |_, dice| {
        jobs(dice, |filter, dice| {
            of_a_type(filter, dice);
            filter.states = vec![Ending::Dead];
        })
    }),
    ("jobs of a fingerprint", |_, dice| jobs(dice, of_a_fingerprint)),
    ("jobs of a fingerprint and a type", |_, dice| {
        jobs(dice, |filter, dice| {
            of_a_type(filter, dice);
            of_a_fingerprint(filter, dice);
        })
    }),
    ("jobs of a version", |_, dice| jobs(dice, of_a_version)),
    ("jobs dead of a version", |_, dice| {
        jobs(dice, |filter, dice| {
            of_a_version(filter, dice);
            filter.states = vec![Ending::Dead];
        })
    }),
    ("jobs of a version and a type", |_, dice| {
        jobs(dice, |filter, dice| {
            of_a_type(filter, dice);
            of_a_version(filter, dice);
        })
    }),
    ("jobs of an hour", |_, dice| {
        jobs(dice, |filter, dice| {
            let from = Month::day_ms(0) + dice.below(DAYS * 24) * DAY_MS / 24;
            (filter.from_ms, filter.to_ms) = (Some(from), Some(from + DAY_MS / 24));
        })
    }),
    ("jobs of a customer", |_, dice| jobs(dice, |filter, dice| filter.key = Some(Month::a_customer(dice)))),
    ("jobs of a large customer, middle", |month, dice| {
        let filter = Filter { key: Some(Month::customer(None)), ..of_a_queue(dice) };
        Question::Jobs(filter, Some(month.cursor_of_key()))
    }),
    ("stats of a day", |_, dice| {
        let from = Month::day_ms(dice.below(DAYS));
        Question::Stats(Month::queue(dice.roll()), from, from + DAY_MS)
    }),
    ("stats of the month", |_, dice| {
        Question::Stats(Month::queue(dice.roll()), Month::day_ms(0), Month::day_ms(DAYS + 1))
    }),
];

fn of_a_queue(dice: &mut Dice) -> Filter {
    Filter::of(Month::queue(dice.roll()))
}

fn jobs(dice: &mut Dice, condition: impl FnOnce(&mut Filter, &mut Dice)) -> Question {
    let mut filter = of_a_queue(dice);
    condition(&mut filter, dice);
    Question::Jobs(filter, None)
}

fn deep(month: &Month, dice: &mut Dice, condition: impl FnOnce(&mut Filter, &mut Dice)) -> Question {
    let number = month.lives / 4 + dice.below(month.lives / 2);
    let mut filter = Filter::of(Month::queue(number));
    condition(&mut filter, dice);
    Question::Jobs(filter, Some(month.cursor(number)))
}

fn of_a_type(filter: &mut Filter, dice: &mut Dice) {
    filter.types = vec![Month::job_type(u32::try_from(dice.below(8)).unwrap())];
}

fn of_a_fingerprint(filter: &mut Filter, dice: &mut Dice) {
    filter.fingerprint = Some(Month::fingerprint(u32::try_from(dice.below(8)).unwrap()));
}

fn of_a_version(filter: &mut Filter, dice: &mut Dice) {
    filter.worker_version = Some(Month::version(dice.below(10)));
}
