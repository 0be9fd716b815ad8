//! Lists that are shown again and again: repainted in place on a terminal, one below the other elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use streamfleet::RedisError;
use streamfleet_engine::admin::Missing;

use super::{Format, Output, print_stderr};
use crate::exit::Exit;
use crate::times;

/// The shortest interval: each look costs Redis a few commands.
const SHORTEST: Duration = Duration::from_millis(100);

/// The arguments of a list that can be shown repeatedly.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct Repeat {
    /// Show the list again every 2 s, or as --watch=INTERVAL says, until interrupted.
    #[arg(
        long,
        value_name = "INTERVAL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2s",
        value_parser = Repeat::interval
    )]
    watch: Option<Duration>,
}

/// One look at a list.
pub(crate) struct Listing {
    /// The list, as it is printed; none if there is nothing to list, which has been reported.
    text: Option<String>,
    /// What to print to stderr after it.
    remarks: Vec<String>,
    /// The exit code of a command that shows the list only once.
    exit: Exit,
}

impl Listing {
    /// Returns a list that is complete.
    pub(crate) fn new(text: String) -> Self {
        Self { text: Some(text), remarks: Vec::new(), exit: Exit::Done }
    }

    /// Returns what to show if the object does not exist whose parts were to be listed.
    pub(crate) fn not_found() -> Self {
        Self { text: None, remarks: Vec::new(), exit: Exit::NotFound }
    }

    /// Returns true if there is something to show.
    pub(crate) fn has_text(&self) -> bool {
        self.text.is_some()
    }

    /// Shows another list below this one.
    pub(crate) fn above(mut self, other: Self) -> Self {
        let texts: Vec<String> = [self.text.take(), other.text].into_iter().flatten().collect();
        self.text = Some(texts.join("\n\n"));
        self.remarks.extend(other.remarks);
        self
    }

    /// Adds a remark.
    pub(crate) fn remark(mut self, text: String) -> Self {
        self.remarks.push(text);
        self
    }

    /// Adds which servers of a cluster could not be asked.
    pub(crate) fn without(mut self, missing: &[Missing]) -> Self {
        self.remarks.extend(missing.iter().map(ToString::to_string));
        if missing.is_empty() { self } else { self.exit(Exit::Redis) }
    }

    /// Sets the exit code.
    pub(crate) fn exit(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }
}

impl Repeat {
    /// Reads an interval.
    ///
    /// # Errors
    ///
    /// Says what a valid text looks like.
    pub(crate) fn interval(text: &str) -> Result<Duration, String> {
        let interval = times::duration(text)?;
        if interval < SHORTEST { Err("an interval must be at least 100ms".to_owned()) } else { Ok(interval) }
    }

    /// Returns the arguments of a list that is always shown repeatedly.
    pub(crate) fn every(interval: Duration) -> Self {
        Self { watch: Some(interval) }
    }

    /// Returns true if the list is shown again and again.
    pub(crate) fn repeats(self) -> bool {
        self.watch.is_some()
    }

    /// Prints what `look` finds, once or repeatedly, and returns the exit code.
    pub(crate) async fn run(
        self,
        output: Output,
        mut look: impl AsyncFnMut() -> anyhow::Result<Listing>,
    ) -> anyhow::Result<Exit> {
        let mut screen = Screen::new(output, self.watch.is_some());
        loop {
            match look().await {
                Ok(Listing { text: Some(text), remarks, exit }) => {
                    let is_read = screen.show(text, &remarks)?;
                    if self.watch.is_none() || !is_read {
                        return Ok(exit);
                    }
                }
                Ok(Listing { text: None, exit, .. }) => return Ok(exit),
                Err(error) if self.watch.is_some() && is_transient(&error) => {
                    screen.remark(&[format!("{error:#}; trying again")]);
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(self.watch.unwrap_or_default()).await;
        }
    }
}

/// Whether waiting may help.
fn is_transient(error: &anyhow::Error) -> bool {
    let cause = error.chain().find_map(|cause| cause.downcast_ref::<RedisError>());
    cause.is_some_and(RedisError::is_transient)
}

/// Where a list is shown.
struct Screen {
    output: Output,
    /// Repaints in place. Hidden unless a terminal is watched.
    bar: ProgressBar,
    has_shown: bool,
}

impl Screen {
    fn new(output: Output, is_repeated: bool) -> Self {
        let is_painted = is_repeated && output.is_watched();
        let target = if is_painted { ProgressDrawTarget::stdout() } else { ProgressDrawTarget::hidden() };
        // If the template were ever invalid, the default style would do.
        let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(None, target).with_style(style);
        Self { output, bar, has_shown: false }
    }

    /// Shows the list instead of the last one, or below it. Returns whether anybody still reads.
    fn show(&mut self, text: String, remarks: &[String]) -> anyhow::Result<bool> {
        if !self.bar.is_hidden() {
            self.remark(remarks);
            self.bar.set_message(text);
            return Ok(true);
        }
        // An empty line separates tables. Other forms need nothing between them.
        let is_table = matches!(self.output.format, Format::Table | Format::Wide);
        let gap = if self.has_shown && is_table { "\n" } else { "" };
        self.has_shown = true;
        let is_read = self.output.block(&format!("{gap}{text}"))?;
        self.remark(remarks);
        Ok(is_read)
    }

    fn remark(&self, remarks: &[String]) {
        self.bar.suspend(|| remarks.iter().for_each(|remark| print_stderr(remark)));
    }
}
