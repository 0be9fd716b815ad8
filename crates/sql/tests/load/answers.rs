//! How long the answers take, and how many rows the database expects to read for them.

use std::time::Instant;

use serde::Serialize;
use streamfleet_sql::history::questions::{Asked, job, jobs, life, plans, stats};
use streamfleet_sql::{Database, Error, Options};

use crate::month::{Dice, Month};
use crate::place::Place;
use crate::questions::{ALL, PAGE, Question};

/// What became of one question.
#[derive(Serialize)]
pub(crate) struct Answers {
    pub(crate) question: &'static str,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
    /// How many rows an answer had, at most.
    pub(crate) rows: usize,
    /// How many answers did not come within 5 s.
    pub(crate) too_late: usize,
    /// How many rows the plan expects to read; absent in SQLite, which does not say.
    pub(crate) planned_rows: Option<u64>,
}

pub(crate) async fn of(place: &Place, month: &Month, times: u32) -> Vec<Answers> {
    let database = place.open_with(Options::reading()).await;
    let mut all = Vec::new();
    for (name, draw) in ALL {
        let mut dice = Dice::new(month.seed);
        let mut took = Vec::new();
        let (mut rows, mut too_late) = (0, 0);
        let planned = plans(&database, asked(&draw(month, &mut dice))).await.unwrap();
        for _ in 0..times {
            let question = draw(month, &mut dice);
            let began = Instant::now();
            match ask(&database, &question).await {
                Ok(found) => rows = rows.max(found),
                Err(error) if error.is_transient() => too_late += 1,
                Err(error) => panic!("{name}: {error}"),
            }
            took.push(began.elapsed().as_secs_f64() * 1000.0);
            if too_late == 3 {
                break;
            }
        }
        took.sort_unstable_by(f64::total_cmp);
        all.push(Answers {
            question: name,
            p50_ms: quantile(&took, 50),
            p99_ms: quantile(&took, 99),
            max_ms: quantile(&took, 100),
            rows,
            too_late,
            planned_rows: planned
                .iter()
                .map(|plan| rows_of(plan))
                .sum::<Option<u64>>()
                .filter(|rows| *rows > 0),
        });
    }
    database.close().await;
    all
}

/// Returns how many rows the answer has.
async fn ask(database: &Database, question: &Question) -> Result<usize, Error> {
    Ok(match question {
        Question::Job(queue, id) => job(database, queue, id).await?.len(),
        Question::Life(key) => usize::from(life(database, key).await?.is_some()),
        Question::Jobs(filter, after) => jobs(database, filter, after.as_ref(), PAGE).await?.rows.len(),
        Question::Stats(queue, from, to) => stats(database, queue, *from, *to).await?.counts.len(),
    })
}

fn asked(question: &Question) -> Asked<'_> {
    match question {
        Question::Job(queue, id) => Asked::Job(queue, id),
        Question::Life(key) => Asked::Life(key),
        Question::Jobs(filter, after) => Asked::Jobs(filter, after.as_ref()),
        Question::Stats(queue, _, _) => Asked::Stats(queue),
    }
}

/// The rows that a plan expects: in PostgreSQL those of the whole statement, in MySQL those that it reads from all tables.
fn rows_of(plan: &str) -> Option<u64> {
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
    if let Some((_, rest)) = plan.split_once(" rows=") {
        return digits(rest);
    }
    plan.split("\"rows\": ").skip(1).map(digits).sum()
}

/// Returns the percentile of the sorted values.
pub(crate) fn quantile(sorted: &[f64], percent: usize) -> f64 {
    let at = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(at).copied().unwrap_or_default()
}
