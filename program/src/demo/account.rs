//! The account at the end: what was submitted, what became of it, and whether anything is missing. It is computed from
//! Redis and the disk, never from what the demo observed while it ran.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use super::endpoint::Notifications;
use super::plan::Planned;

/// The submitted jobs, compared with those that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Balance {
    pub(super) submitted: usize,
    pub(super) done: usize,
    pub(super) dead: usize,
    pub(super) lost: usize,
    /// Jobs that are neither done nor dead.
    pub(super) missing: Vec<String>,
    /// Jobs that are in more than one place.
    pub(super) twice: Vec<String>,
}

impl Balance {
    /// Compares the two. `dead` has one item per dead letter.
    pub(super) fn of(submitted: &BTreeSet<String>, done: &BTreeSet<String>, dead: &[String]) -> Self {
        let mut seen = done.clone();
        let again: Vec<_> = dead.iter().filter(|job| !seen.insert((*job).clone())).cloned().collect();
        let missing: Vec<_> = submitted.difference(&seen).cloned().collect();
        let strangers = seen.difference(submitted).cloned();
        let twice: Vec<String> = strangers.chain(again).collect();
        let (submitted, lost) = (submitted.len(), missing.len());
        Self { submitted, done: done.len(), dead: dead.len(), lost, missing, twice }
    }

    /// Returns true if every job ended exactly once.
    pub(super) fn holds(&self) -> bool {
        self.missing.is_empty() && self.twice.is_empty() && self.submitted == self.done + self.dead
    }
}

/// The reports that finished jobs must have written, and those on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Reports {
    pub(super) expected: usize,
    pub(super) found: usize,
    pub(super) missing: Vec<String>,
}

impl Reports {
    /// Looks for the report of every job that is done.
    pub(super) fn look(folder: &Path, jobs: &[Planned], done: &BTreeSet<String>) -> Self {
        let is_done = |job: &&Planned| job.id.as_ref().is_some_and(|id| done.contains(id));
        let reports: Vec<_> = jobs.iter().filter(is_done).filter_map(|job| job.report.clone()).collect();
        let expected = reports.len();
        let is_missing =
            |report: &String| !std::fs::metadata(folder.join(report)).is_ok_and(|file| file.len() > 0);
        let missing: Vec<_> = reports.into_iter().filter(is_missing).collect();
        Self { expected, found: expected - missing.len(), missing }
    }
}

/// The worker that was killed, and what became of its jobs.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Kill {
    pub(super) worker: String,
    pub(super) pid: u32,
    /// The jobs that it was running.
    pub(super) jobs: Vec<String>,
    /// How long after the kill other workers had taken over all of them.
    pub(super) taken_over_ms: Option<u64>,
    /// How long after the kill the first and the last of them started again.
    pub(super) first_restart_ms: Option<u64>,
    pub(super) last_restart_ms: Option<u64>,
}

/// The dead letter that was replayed.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Replay {
    pub(super) job: String,
    pub(super) letter: String,
    pub(super) command: String,
    pub(super) done: bool,
}

/// What one worker did.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Share {
    pub(super) worker: String,
    pub(super) pid: u32,
    pub(super) done: usize,
    pub(super) failed: usize,
}

/// The whole account, for JSON output.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Account {
    pub(super) holds: bool,
    #[serde(flatten)]
    pub(super) balance: Balance,
    pub(super) dead_by_reason: BTreeMap<String, usize>,
    pub(super) retries: usize,
    pub(super) reports: Reports,
    pub(super) notifications: Notifications,
    pub(super) killed: Kill,
    pub(super) replay: Option<Replay>,
    pub(super) workers: Vec<Share>,
    pub(super) sent_by: &'static str,
    pub(super) seed: u64,
    pub(super) took_ms: u64,
    pub(super) output: String,
}

impl Account {
    /// Returns the account as text.
    pub(super) fn text(&self) -> String {
        let Balance { submitted, done, dead, lost, missing, twice } = &self.balance;
        let reasons = self.dead_by_reason.iter().map(|(reason, count)| format!("{count} {reason}"));
        let Notifications { accepted, repeated, refused } = self.notifications;
        let workers = self.workers.iter().map(|share| {
            let killed = if share.pid == self.killed.pid { " before it was killed" } else { "" };
            format!("{} finished {}{killed}", share.worker, share.done)
        });
        let verdict = if *lost == 0 { "0 lost".to_owned() } else { format!("{lost} LOST") };
        let mut lines = vec![
            format!("submitted {submitted} = done {done} + dead {dead}, {verdict}"),
            format!("dead           {}", reasons.collect::<Vec<_>>().join(", ")),
            format!("retries        {}", self.retries),
            format!("workers        {}", workers.collect::<Vec<_>>().join(", ")),
            format!("reports        {} of {} are on disk", self.reports.found, self.reports.expected),
            format!(
                "notifications  {accepted} accepted, {repeated} of them twice; 503 answered {refused} times"
            ),
        ];
        lines.extend(listed("MISSING JOBS", missing));
        lines.extend(listed("JOBS THAT ENDED TWICE", twice));
        lines.extend(listed("MISSING REPORTS", &self.reports.missing));
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
        assert!(all.holds() && all.lost == 0, "{all:?}");
    }

    #[test]
    fn a_job_that_did_not_end_is_named() {
        let short = balance(&["a", "b", "c"], &["a"], &["b"]);
        assert_eq!((short.lost, short.missing.as_slice()), (1, &["c".to_owned()][..]));
        assert!(!short.holds());
    }

    #[test]
    fn a_job_that_ended_twice_or_was_never_submitted_is_named() {
        for (done, dead) in
            [(vec!["a", "b"], vec!["b"]), (vec!["a"], vec!["b", "b"]), (vec!["a", "b"], vec!["x"])]
        {
            let wrong = balance(&["a", "b"], &done, &dead);
            assert!(!wrong.holds() && wrong.lost == 0 && wrong.twice.len() == 1, "{wrong:?}");
        }
    }

    #[test]
    fn a_missing_report_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("reports/year")).unwrap();
        std::fs::write(dir.path().join("reports/year/2012-wind.md"), "x").unwrap();
        let jobs = super::super::plan::jobs(1, super::super::plan::Python::Installed);
        let done = names(&["year-2012-wind", "year-2013-wind", "notify-2012-01"]);
        let reports = Reports::look(dir.path(), &jobs, &done);
        assert_eq!((reports.expected, reports.found), (2, 1));
        assert_eq!(reports.missing, ["reports/year/2013-wind.md"]);
    }
}
