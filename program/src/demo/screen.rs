//! What a person sees while the demo runs: one line per event and, below them on a terminal, a live table.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::Instant;

use super::census::Census;
use super::workers::Worker;
use crate::output::{self, Output};

/// How often the progress is printed on a line if stderr is not a terminal.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// The output of the demo.
pub(super) struct Screen {
    output: Output,
    /// Hidden if stderr is not a terminal, and with `--json`.
    bar: ProgressBar,
    begun: Instant,
    line_due: Instant,
}

impl Screen {
    pub(super) fn new(output: Output, jobs: u64) -> Self {
        let is_watched = output == Output::People && std::io::stderr().is_terminal();
        let bar = if is_watched { ProgressBar::new(jobs) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{msg}\n {wide_bar:.cyan/dim} {pos} of {len} jobs ended ");
        // If the template were ever invalid, the default style would do.
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let now = Instant::now();
        Self { output, bar, begun: now, line_due: now + LINE_EVERY }
    }

    /// Prints that something happened, above the table.
    pub(super) fn say(&self, text: &str) -> Result<()> {
        match self.output {
            Output::People => {
                let line = format!("{:>5.1}s  {text}", self.begun.elapsed().as_secs_f64());
                self.bar.suspend(|| self.output.line(&line))
            }
            Output::Programs => Ok(()),
        }
    }

    /// Prints text without a time.
    pub(super) fn print(&self, text: &str) -> Result<()> {
        match self.output {
            Output::People => self.bar.suspend(|| self.output.line(text)),
            Output::Programs => Ok(()),
        }
    }

    /// Shows where all jobs are.
    pub(super) fn show(&mut self, census: &Census, workers: &[Worker]) -> Result<()> {
        if !self.bar.is_hidden() {
            self.bar.set_message(table(census, workers));
            self.bar.set_position(census.done() + census.depths.dead);
        } else if Instant::now() >= self.line_due {
            self.line_due = Instant::now() + LINE_EVERY;
            self.say(&line(census, workers))?;
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

fn table(census: &Census, workers: &[Worker]) -> String {
    let mut table = output::table(&["", "waiting", "running", "delayed", "done", "dead", "retries"]);
    let depths = &census.depths;
    let counts = [depths.waiting(), depths.running(), depths.delayed, census.done(), depths.dead];
    let retries = census.retries() as u64;
    let fleet = counts.into_iter().chain([retries]).map(|count| count.to_string());
    table.add_row(["all jobs".to_owned()].into_iter().chain(fleet));
    for worker in workers {
        let share = census.share(&worker.consumer);
        let state = if worker.killed { ", killed" } else { "" };
        let name = format!("{} (pid {}{state})", worker.name, worker.pid);
        let [running, done] = [share.running, share.done].map(|count| count.to_string());
        table.add_row([name, String::new(), running, String::new(), done, String::new(), String::new()]);
    }
    table.to_string()
}

fn line(census: &Census, workers: &[Worker]) -> String {
    let depths = &census.depths;
    let each = workers.iter().map(|worker| {
        let share = census.share(&worker.consumer);
        let state =
            if worker.killed { "killed, with".to_owned() } else { format!("{} running,", share.running) };
        format!("{}: {state} {} done", worker.name, share.done)
    });
    format!(
        "{} waiting, {} running, {} delayed, {} done, {} dead, {} retries ({})",
        depths.waiting(),
        depths.running(),
        depths.delayed,
        census.done(),
        depths.dead,
        census.retries(),
        each.collect::<Vec<_>>().join("; ")
    )
}
