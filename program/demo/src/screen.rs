//! What a person sees while the demo runs: one line per event and, below them on a terminal, a live table.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Result;
use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::Instant;

use super::census::Census;
use super::workers::Worker;

/// How often the progress is printed on a line if stderr is not a terminal.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// The output of the demo.
pub(super) struct Screen {
    /// Hidden if stderr is not a terminal.
    bar: ProgressBar,
    begun: Instant,
    line_due: Instant,
}

impl Screen {
    pub(super) fn new(jobs: u64) -> Self {
        let bar = ProgressBar::new(jobs);
        let style = ProgressStyle::with_template("{msg}\n {wide_bar:.cyan/dim} {pos} of {len} jobs ended ");
        // If the template were ever invalid, the default style would do.
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let now = Instant::now();
        Self { bar, begun: now, line_due: now + LINE_EVERY }
    }

    /// Prints that something happened, above the table.
    pub(super) fn log(&self, text: &str) -> Result<()> {
        self.print(&format!("{:>5.1}s  {text}", self.elapsed().as_secs_f64()))
    }

    /// Prints text without a time.
    pub(super) fn print(&self, text: &str) -> Result<()> {
        self.bar.suspend(|| writeln!(io::stdout().lock(), "{text}"))?;
        Ok(())
    }

    /// Shows where all jobs are.
    pub(super) fn show(&mut self, census: &Census, workers: &[Worker]) -> Result<()> {
        if !self.bar.is_hidden() {
            self.bar.set_message(overview(census, workers));
            self.bar.set_position(census.done().count() as u64 + census.snapshot.dead);
        } else if Instant::now() >= self.line_due {
            self.line_due = Instant::now() + LINE_EVERY;
            self.log(&line(census, workers))?;
        }
        Ok(())
    }

    /// Removes the table.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// Returns the time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// Returns an empty table with these headings, at most as wide as the terminal.
pub(super) fn table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    // In a pipe, there is no width.
    if let Ok(size) = rustix::termios::tcgetwinsize(io::stdout())
        && size.ws_col > 0
    {
        table.set_width(size.ws_col);
    }
    table.set_header(headings.iter().copied());
    table
}

/// Returns one row for all jobs and one per worker.
fn overview(census: &Census, workers: &[Worker]) -> String {
    let mut table = table(&["", "waiting", "running", "delayed", "done", "dead", "retries"]);
    let snapshot = &census.snapshot;
    let (done, retries) = (census.done().count() as u64, census.retries() as u64);
    let counts = [snapshot.waiting(), snapshot.running(), snapshot.delayed, done, snapshot.dead, retries];
    table.add_row(["all jobs".to_owned()].into_iter().chain(counts.map(|count| count.to_string())));
    for worker in workers {
        let state = if worker.killed { ", killed" } else { "" };
        let name = format!("{} (pid {}{state})", worker.name, worker.pid);
        let running = census.running_on(&worker.consumer).len().to_string();
        let done = census.done_by(&worker.consumer).to_string();
        table.add_row([name, String::new(), running, String::new(), done, String::new(), String::new()]);
    }
    table.to_string()
}

fn line(census: &Census, workers: &[Worker]) -> String {
    let snapshot = &census.snapshot;
    let each = workers.iter().map(|worker| {
        let state = if worker.killed {
            "killed, with".to_owned()
        } else {
            format!("{} running,", census.running_on(&worker.consumer).len())
        };
        format!("{}: {state} {} done", worker.name, census.done_by(&worker.consumer))
    });
    format!(
        "{} waiting, {} running, {} delayed, {} done, {} dead, {} retries ({})",
        snapshot.waiting(),
        snapshot.running(),
        snapshot.delayed,
        census.done().count(),
        snapshot.dead,
        census.retries(),
        each.collect::<Vec<_>>().join("; ")
    )
}
