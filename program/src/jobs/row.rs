//! One job of the list, in the table.

use streamfleet::job::State;
use streamfleet_operations::jobs::search::{Page, Row, Search, USUAL_STATES};

use crate::output::{self, Column, View, harmless};
use crate::times::{Clock, short};

/// What people read about a job.
pub(crate) trait Told {
    /// Where the job is, in words.
    fn place(&self) -> String;

    /// How old the job is, or how long it has been running or dead; `-` if it has not begun, as far as is known.
    fn shown_age(&self) -> String;
}

impl Told for Row {
    fn place(&self) -> String {
        let lane = self.lane.unwrap_or("?");
        let Some(job) = &self.job else { return "history".to_owned() };
        match (&job.holder, job.state) {
            (Some(holder), _) => harmless(&holder.worker),
            (None, State::Scheduled | State::Retrying) => match job.due {
                Some(due) if due > self.now => format!("due in {}", short(due.since(self.now))),
                Some(_) | None => "due".to_owned(),
            },
            (None, State::Waiting | State::Running) => match &self.gate {
                Some(gate) => format!("gate {}", harmless(gate)),
                None => format!("lane {lane}"),
            },
            (None, State::Dead) => format!("letter {}", self.entry.as_deref().unwrap_or("?")),
            (None, State::Done | State::Cancelled) => "record".to_owned(),
        }
    }

    fn shown_age(&self) -> String {
        let holder = self.job.as_ref().and_then(|job| job.holder.as_ref());
        if holder.is_some_and(|holder| !holder.has_begun) {
            return "-".to_owned();
        }
        let age = self.age.map_or_else(|| "?".to_owned(), short);
        // The start of an attempt that its worker has not reported yet is not known.
        let is_exact = self.started_exact.unwrap_or(true);
        if is_exact { age } else { format!("< {age}") }
    }
}

pub(super) fn show(page: &Page, search: &Search, clock: &Clock) -> View {
    let more = page.next.as_ref().map_or_else(String::new, |next| format!("; next page: --after {next}"));
    let looked_at = page.facts.looked_at_text();
    if page.items.is_empty() {
        let filter = &search.filter;
        let which = if filter.is_empty() { String::new() } else { format!(" match {filter}") };
        if !page.facts.complete {
            return format!("no jobs{which} so far; {looked_at} were looked at{more}").into();
        }
        if search.after.is_some() {
            return format!("no more jobs{which}; {looked_at} were looked at from there on").into();
        }
        // Somebody who looks for a job that has succeeded would think that it was lost.
        let rest = if search.states == USUAL_STATES {
            ", none of them done or cancelled; for those: --state done,cancelled"
        } else {
            ""
        };
        return format!("no jobs{which}; {looked_at} were looked at{rest}").into();
    }
    let created = |row: &Row| row.created_ms.map(|created| clock.time(created)).unwrap_or_default();
    let table = output::table_of(
        &page.items,
        &[
            (Column::from("queue"), &|row| row.queue.clone()),
            (Column::id("job"), &|row| harmless(&row.id)),
            (Column::from("type"), &|row| harmless(&row.job_type)),
            (Column::state("state"), &|row| row.state.to_owned()),
            (Column::from("age"), &Row::shown_age),
            (Column::from("attempts"), &|row| row.attempts.to_string()),
            (Column::from("where"), &Row::place),
            (Column::wide("created"), &created),
            (Column::wide("entry"), &|row| row.entry.clone().unwrap_or_default()),
            (Column::wide("error"), &|row| harmless(row.error.as_deref().unwrap_or_default())),
        ],
    );
    let found = output::counted(page.items.len() as u64, "job", "jobs");
    View::from(table).then(format!("{found}; {looked_at} looked at{more}"))
}
