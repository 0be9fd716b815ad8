//! Watches one job until it ends. On a terminal, its state is redrawn continually; elsewhere, each change is printed on a
//! line.

use std::time::Duration;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use streamfleet::Queue;
use streamfleet::job::{JobId, State};
use streamfleet_engine::admin::Status;
use streamfleet_operations::jobs::{Job, find, results};

use super::exit::Exit;
use super::output::{self, harmless};
use super::times::{Clock, short};
use super::{Context, status};

/// How often the job is looked up.
const EVERY: Duration = Duration::from_millis(250);

/// Watches a job until it ends, starting with this status.
pub(super) async fn run(queue: &Queue, first: Status, context: &Context) -> anyhow::Result<Exit> {
    let id = first.id.clone();
    let mut view = View::new(context);
    let mut status = first;
    loop {
        view.show(queue, &status)?;
        if status.state.is_final() {
            view.end();
            return finish(queue, &status, context);
        }
        tokio::time::sleep(EVERY).await;
        status = match look_up(queue, &id).await? {
            Some(status) => status,
            None => {
                view.end();
                output::print_stderr(&format!(
                    "{id} has ended without a record, so its outcome is unknown; a job that is recorded only if it fails has most \
                     likely succeeded"
                ));
                return Ok(Exit::NotFound);
            }
        };
    }
}

/// Looks up the job. Nothing points to a job that waits under its own id, so it is searched for.
async fn look_up(queue: &Queue, id: &JobId) -> anyhow::Result<Option<Status>> {
    match queue.status(id).await {
        Ok(Some(status)) => Ok(Some(status)),
        Ok(None) => Ok(find(queue, id).await?),
        Err(error) => Err(error).context("failed to look up the job"),
    }
}

/// Returns the exit code for how the job ended. On a terminal, also prints everything that is known about it.
fn finish(queue: &Queue, status: &Status, context: &Context) -> anyhow::Result<Exit> {
    let Context { output, clock, .. } = context;
    if output.is_watched() {
        output.print(&Job::new(queue, status), |_| status::show(queue, status, None, clock))?;
    }
    Ok(exit_code(status.state))
}

/// The exit code for how a job ended.
pub(super) fn exit_code(state: State) -> Exit {
    if state == State::Done { Exit::Done } else { Exit::Failed }
}

/// What was shown last.
#[derive(PartialEq)]
struct Shown {
    state: State,
    progress_text: Option<String>,
    attempts: usize,
    logged: u64,
}

/// Where changes are shown.
struct View<'a> {
    context: &'a Context,
    /// Hidden unless tables are printed, and if stdout is not a terminal.
    bar: ProgressBar,
    shown: Option<Shown>,
}

impl<'a> View<'a> {
    fn new(context: &'a Context) -> Self {
        let bar = if context.output.is_watched() { ProgressBar::new(100) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{wide_bar:.cyan/dim} {pos}%\n{msg}");
        // If the template were ever invalid, the default style would do.
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { context, bar, shown: None }
    }

    fn show(&mut self, queue: &Queue, status: &Status) -> anyhow::Result<()> {
        let Context { output, clock, .. } = self.context;
        let now = Shown {
            state: status.state,
            progress_text: status.progress.as_ref().map(status::progress_text),
            attempts: status.attempts.len(),
            logged: status.logged,
        };
        let before = self.shown.replace(now);
        if !self.bar.is_hidden() {
            self.bar.set_position(status.progress.as_ref().map_or(0, |progress| u64::from(progress.percent)));
            let lines = new_lines(before.as_ref(), status, clock);
            self.bar.suspend(|| lines.iter().try_for_each(|line| output.line(line)))?;
            self.bar.set_message(headline(status));
            return Ok(());
        }
        if before == self.shown {
            return Ok(());
        }
        if output.is_json() {
            return output.line(&output::json_line(&Job::new(queue, status))?);
        }
        new_lines(before.as_ref(), status, clock).iter().try_for_each(|line| output.line(line))?;
        let same = before.zip(self.shown.as_ref()).is_some_and(|(before, now)| {
            (before.state, &before.progress_text, before.attempts)
                == (now.state, &now.progress_text, now.attempts)
        });
        if same {
            Ok(())
        } else {
            output.line(&format!("{} {}", clock.precise(status.now), headline(status)))
        }
    }

    /// Removes what is drawn.
    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// The job on one line.
fn headline(status: &Status) -> String {
    let mut parts = vec![format!("{} is {}", harmless(&status.id.to_string()), status.state)];
    parts.extend(status.progress.as_ref().filter(|_| !status.state.is_final()).map(status::progress_text));
    parts.extend(status.due.map(|due| format!("due in {}", short(due.since(status.now)))));
    let failed = status.attempts.iter().filter(|attempt| !attempt.error.is_empty()).count();
    parts.extend((failed > 0).then(|| format!("{failed} failed")));
    let error = status.error.as_deref().filter(|_| status.state != State::Done);
    parts.extend(error.map(harmless));
    let result = status.result.as_deref().filter(|_| status.state == State::Done).map(results::shown);
    parts.extend(result.as_deref().map(harmless));
    parts.join(", ")
}

/// The log lines that were not shown yet and are still kept.
fn new_lines(before: Option<&Shown>, status: &Status, clock: &Clock) -> Vec<String> {
    let shown = before.map_or(0, |before| before.logged);
    let new = usize::try_from(status.logged.saturating_sub(shown)).unwrap_or(usize::MAX);
    let kept = &status.log[status.log.len().saturating_sub(new)..];
    kept.iter().map(|line| format!("{} | {}", clock.precise(line.at), harmless(&line.text))).collect()
}
