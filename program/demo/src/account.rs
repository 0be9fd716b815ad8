//! The account at the end: what was submitted, what became of it, and whether anything is missing. It is computed from
//! Redis and the disk, never from what the demo observed while it ran.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::endpoint::Notifications;
use super::plan::Planned;

/// The submitted jobs, compared with those that ended.
#[derive(Debug)]
pub(super) struct Balance {
    submitted: usize,
    done: usize,
    dead: usize,
    /// Jobs that are neither done nor dead.
    missing: Vec<String>,
    /// Jobs that are in more than one place.
    twice: Vec<String>,
}

impl Balance {
    /// Compares the two. `dead` has one item per dead letter.
    pub(super) fn of(submitted: &BTreeSet<String>, done: &BTreeSet<String>, dead: &[String]) -> Self {
        let mut seen = done.clone();
        let again: Vec<_> = dead.iter().filter(|job| !seen.insert((*job).clone())).cloned().collect();
        let missing = submitted.difference(&seen).cloned().collect();
        let strangers = seen.difference(submitted).cloned();
        let twice = strangers.chain(again).collect();
        Self { submitted: submitted.len(), done: done.len(), dead: dead.len(), missing, twice }
    }

    /// Returns true if every job ended exactly once.
    fn holds(&self) -> bool {
        self.missing.is_empty() && self.twice.is_empty() && self.submitted == self.done + self.dead
    }
}

/// The reports that finished jobs must have written, and those that are not on disk.
#[derive(Debug)]
pub(super) struct Reports {
    expected: usize,
    missing: Vec<String>,
}

impl Reports {
    /// Looks for the report of every job that is done.
    pub(super) fn read(folder: &Path, jobs: &[Planned], done: &BTreeSet<String>) -> Self {
        let is_done = |job: &&Planned| job.id.as_ref().is_some_and(|id| done.contains(id));
        let reports: Vec<_> = jobs.iter().filter(is_done).filter_map(|job| job.report.clone()).collect();
        let expected = reports.len();
        let is_missing =
            |report: &String| !std::fs::metadata(folder.join(report)).is_ok_and(|file| file.len() > 0);
        Self { expected, missing: reports.into_iter().filter(is_missing).collect() }
    }
}

/// The whole account.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) balance: Balance,
    /// The number of dead letters by what killed their jobs.
    pub(super) dead: BTreeMap<String, usize>,
    pub(super) retries: usize,
    /// What each worker did, in words.
    pub(super) workers: Vec<String>,
    pub(super) reports: Reports,
    pub(super) notifications: Notifications,
}

impl Account {
    /// Returns true if every job ended exactly once, and every report is there.
    pub(super) fn holds(&self) -> bool {
        self.balance.holds() && self.reports.missing.is_empty()
    }

    /// Returns the account as text.
    pub(super) fn text(&self) -> String {
        let Balance { submitted, done, dead, missing, twice } = &self.balance;
        let lost = if missing.is_empty() { "0 lost".to_owned() } else { format!("{} LOST", missing.len()) };
        let reasons = self.dead.iter().map(|(reason, count)| format!("{count} {reason}"));
        let Reports { expected, missing: unwritten } = &self.reports;
        let Notifications { accepted, repeated, refused } = self.notifications;
        let mut lines = vec![
            format!("submitted {submitted} = done {done} + dead {dead}, {lost}"),
            format!("dead           {}", reasons.collect::<Vec<_>>().join(", ")),
            format!("retries        {}", self.retries),
            format!("workers        {}", self.workers.join(", ")),
            format!("reports        {} of {expected} are on disk", expected - unwritten.len()),
            format!(
                "notifications  {accepted} accepted, {repeated} of them twice; 503 answered {refused} times"
            ),
        ];
        lines.extend(listed("MISSING JOBS", missing));
        lines.extend(listed("JOBS THAT ENDED TWICE", twice));
        lines.extend(listed("MISSING REPORTS", unwritten));
        lines.join("\n")
    }
}

fn listed(what: &str, names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| format!("{what}: {}", names.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn balance(submitted: &[&str], done: &[&str], dead: &[&str]) -> Balance {
        let dead: Vec<_> = dead.iter().map(ToString::to_string).collect();
        Balance::of(&names(submitted), &names(done), &dead)
    }

    #[test]
    fn the_account_holds_if_every_job_ended_once() {
        let all = balance(&["a", "b", "c"], &["a", "c"], &["b"]);
        assert!(all.holds() && all.missing.is_empty(), "{all:?}");
    }

    #[test]
    fn a_job_that_did_not_end_is_named() {
        let short = balance(&["a", "b", "c"], &["a"], &["b"]);
        assert_eq!(short.missing, ["c"]);
        assert!(!short.holds());
    }

    #[test]
    fn a_job_that_ended_twice_or_was_never_submitted_is_named() {
        for (done, dead) in
            [(vec!["a", "b"], vec!["b"]), (vec!["a"], vec!["b", "b"]), (vec!["a", "b"], vec!["x"])]
        {
            let wrong = balance(&["a", "b"], &done, &dead);
            assert!(!wrong.holds() && wrong.missing.is_empty() && wrong.twice.len() == 1, "{wrong:?}");
        }
    }

    #[test]
    fn a_missing_report_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("reports/year")).unwrap();
        std::fs::write(dir.path().join("reports/year/2012-wind.md"), "x").unwrap();
        let done = names(&["year-2012-wind", "year-2013-wind", "notify-2012-01"]);
        let reports = Reports::read(dir.path(), &super::super::plan::jobs(1, true), &done);
        assert_eq!(reports.expected, 2);
        assert_eq!(reports.missing, ["reports/year/2013-wind.md"]);
    }
}
