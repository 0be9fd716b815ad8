//! Jobs: a page of those that a filter matches, or those that run longest. A search that takes long says how far it is, and where to go
//! on.

use std::time::Duration;

use streamfleet::Shutdown;
use streamfleet::job::State;
use streamfleet_operations::jobs::search::{self, Found, Search, Start, USUAL_STATES};

use crate::jobs::Told as _;
use crate::output::counted;
use crate::top::action::Desk;
use crate::top::state::{Cell, Column, Page, Place, Row, Sought, Subject, View, conditions};

pub(super) const COLUMNS: &[Column] = &[
    Column::text("job", 0),
    Column::text("type", 0),
    Column::text("state", 0),
    Column::figure("age", 0),
    Column::figure("attempts", 90),
    Column::text("where", 80),
    Column::text("queue", 100),
];

/// How many jobs a page has, at most.
const MOST: u64 = 100;

/// After so long, a search shows what it has found.
const LONGEST: Duration = Duration::from_secs(1);

/// Reads a page of jobs.
pub(super) async fn read(place: &Place, desk: &Desk) -> anyhow::Result<Page> {
    let Sought { mut states, filter, worker, gate } =
        conditions(&place.filter).map_err(anyhow::Error::msg)?;
    let running = place.view == View::Running;
    if running {
        states = vec![State::Running];
    } else if states.is_empty() {
        states = USUAL_STATES.to_vec();
    }
    let names = place.queue.clone().map_or_else(|| desk.names.to_vec(), |queue| vec![queue]);
    let after = place.after.as_deref().map(str::parse::<Start>).transpose().map_err(anyhow::Error::msg)?;
    let search = Search { names, states, filter, running, worker, gate, past: None, limit: MOST, after };
    let stop = Shutdown::new();
    let finding = search::find(&search, &desk.broker, (&stop, None));
    tokio::pin!(finding);
    let found = tokio::select! {
        biased;
        found = &mut finding => found?,
        () = tokio::time::sleep(LONGEST) => {
            stop.request();
            finding.await?
        }
    };
    Ok(page(found))
}

fn page(found: Found) -> Page {
    let Found { jobs, next, facts, mut remarks, missing, .. } = found;
    remarks.extend(facts.unread.iter().cloned());
    remarks.extend(missing.iter().map(ToString::to_string));
    remarks.insert(
        0,
        format!("{}; {} looked at", counted(jobs.len() as u64, "job", "jobs"), facts.looked_at_text()),
    );
    let rows = jobs.iter().filter_map(row).collect();
    Page { rows, next, remark: remarks.join("; "), ..Page::default() }
}

fn row(job: &search::Row) -> Option<Row> {
    let is_dead = job.state == State::Dead.as_str();
    let subject = Subject::Job {
        queue: job.queue.parse().ok()?,
        id: job.id.clone(),
        job_type: job.job_type.clone(),
        letter: job.entry.clone().filter(|_| is_dead),
        is_edited: false,
    };
    Some(Row {
        subject,
        cells: vec![
            job.id.clone().into(),
            job.job_type.clone().into(),
            job.state.into(),
            Cell::ranked(job.shown_age(), job.age_ms),
            Cell::count(job.attempts),
            job.place().into(),
            job.queue.clone().into(),
        ],
        note: job.error.clone().unwrap_or_default(),
    })
}
