//! The jobs that the demo submits, and their order: the same for the same seed. Pure.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use streamfleet::job::Lane;

use super::command::Command;
use super::worker::table::Measure;

const YEARS: std::ops::RangeInclusive<u16> = 2012..=2015;

/// The job whose notification is refused until the cause is fixed.
pub(super) const REFUSED: &str = "notify-2015-12";

/// A job to be submitted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Planned {
    /// The id that the producer chose; `None` for the malformed entry.
    pub(super) id: Option<String>,
    pub(super) lane: Lane,
    /// The report that the job writes, relative to the demo's folder.
    pub(super) report: Option<String>,
    fields: Vec<(&'static str, String)>,
}

impl Planned {
    fn new(job_type: &str, name: &str, payload: serde_json::Value) -> Self {
        let kind = job_type.rsplit('.').next().unwrap_or(job_type);
        let id = format!("{kind}-{name}");
        let fields =
            vec![("type", job_type.to_owned()), ("id", id.clone()), ("payload", payload.to_string())];
        Self { id: Some(id), lane: Lane::Normal, report: None, fields }
    }

    fn report(self, report: String) -> Self {
        Self { report: Some(report), ..self }
    }

    /// Returns the `XADD` that submits it.
    pub(super) fn command(&self) -> Command {
        let fields = self.fields.iter().flat_map(|(name, value)| [*name, value.as_str()]);
        Command::new(["XADD", stream(self.lane), "*"].into_iter().chain(fields))
    }
}

/// Returns the stream of a lane of the queue `default`.
pub(super) fn stream(lane: Lane) -> &'static str {
    match lane {
        Lane::High => "sf:{default}:jobs:high",
        Lane::Normal => "sf:{default}:jobs",
        Lane::Low => "sf:{default}:jobs:low",
    }
}

/// Returns all jobs, in the order of their submission. `report.year` needs Python.
pub(super) fn jobs(seed: u64, has_python: bool) -> Vec<Planned> {
    let mut chance = StdRng::seed_from_u64(seed);
    let mut jobs = months();
    jobs.shuffle(&mut chance);
    // Some jobs are delayed: the producer sets a field, and no worker waits for them.
    for job in jobs.iter_mut().take(24) {
        job.fields.push(("delay_ms", chance.random_range(2000..5000_u32).to_string()));
    }
    if has_python {
        jobs.extend(years());
    }
    jobs.extend(notices());
    jobs.extend(troubles());
    jobs.shuffle(&mut chance);
    jobs
}

/// `report.month`, a Rust handler: every measure of every month. Old years are less urgent.
fn months() -> Vec<Planned> {
    let of = |(year, month): (u16, u8)| {
        Measure::ALL.into_iter().map(move |measure| {
            let name = format!("{year}-{month:02}-{}", measure.as_str());
            let payload = serde_json::json!({ "year": year, "month": month, "measure": measure });
            let lane = if year < 2014 { Lane::Low } else { Lane::Normal };
            let job = Planned { lane, ..Planned::new("report.month", &name, payload) };
            job.report(format!("reports/month/{name}.md"))
        })
    };
    every_month().flat_map(of).collect()
}

/// `report.year`, a Python program: every measure of every year, before all other jobs.
fn years() -> impl Iterator<Item = Planned> {
    let of = |(year, measure): (u16, Measure)| {
        let name = format!("{year}-{}", measure.as_str());
        let payload = serde_json::json!({ "year": year, "measure": measure });
        let job = Planned { lane: Lane::High, ..Planned::new("report.year", &name, payload) };
        job.report(format!("reports/year/{name}.md"))
    };
    YEARS.flat_map(|year| Measure::ALL.map(|measure| (year, measure))).map(of)
}

/// `report.notify`, a POST: one for every month.
fn notices() -> impl Iterator<Item = Planned> {
    every_month().map(|(year, month)| {
        let name = format!("{year}-{month:02}");
        Planned::new("report.notify", &name, serde_json::json!({ "month": name }))
    })
}

/// Jobs that fail: some temporarily, some for good, and a malformed entry whose producer misspelled a field.
fn troubles() -> Vec<Planned> {
    let job = |job_type: &str, year: u16, month: u8| {
        let payload = serde_json::json!({ "year": year, "month": month, "measure": Measure::Wind });
        Planned::new(job_type, &format!("{year}-{month:02}"), payload)
    };
    let flaky = every_month().take(30).map(|(year, month)| {
        job("report.flaky", year, month).report(format!("reports/flaky/{year}-{month:02}-wind.md"))
    });
    let hang = (1..=5).map(|month| job("report.hang", 2012, month));
    // The table ends in 2015.
    let fatal = (1..=8).map(|month| job("report.fatal", 2016, month));
    let fields = vec![("typ", "report.month".to_owned()), ("payload", "{}".to_owned())];
    let malformed = Planned { id: None, lane: Lane::Normal, report: None, fields };
    flaky.chain(hang).chain(fatal).chain([malformed]).collect()
}

fn every_month() -> impl Iterator<Item = (u16, u8)> {
    YEARS.flat_map(|year| (1..=12).map(move |month| (year, month)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_plan_has_299_jobs_and_one_malformed_entry() {
        let jobs = jobs(1, true);
        assert_eq!(jobs.len(), 300);
        let ids: BTreeSet<_> = jobs.iter().filter_map(|job| job.id.as_deref()).collect();
        assert_eq!(ids.len(), 299);
        assert!(ids.contains(REFUSED));
        for lane in Lane::ALL {
            assert!(jobs.iter().filter(|job| job.lane == lane).count() >= 16, "{lane}");
        }
    }

    #[test]
    fn the_seed_determines_the_order() {
        assert_eq!(jobs(7, true), jobs(7, true));
        assert_ne!(jobs(7, true), jobs(8, true));
        assert_eq!(jobs(7, false).len(), 300 - 16);
    }

    #[test]
    fn a_job_is_one_xadd_of_plain_fields() {
        let year = years().next().unwrap();
        assert_eq!(
            year.command().line(),
            r#"XADD sf:{default}:jobs:high * type report.year id year-2012-precipitation payload '{"measure":"precipitation","year":2012}'"#
        );
    }
}
