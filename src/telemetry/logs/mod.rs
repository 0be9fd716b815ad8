//! Logs: for people on a terminal, JSON lines elsewhere, always on standard error.
//!
//! Lines go through a `writer` that never blocks whoever logs; events become lines in `events`, at a bounded rate.

mod events;
mod writer;

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

pub use events::listener;
pub use writer::Flush;

use super::{Config, LogFormat};

/// Libraries that say much of little interest.
const QUIET: &str = "fred=warn,hyper=warn,hyper_util=warn,h2=warn,rustls=warn,reqwest=warn";

/// The filter for these directives.
pub(super) fn filter(directives: &str) -> Result<EnvFilter, String> {
    let builder = EnvFilter::builder().with_regex(false);
    builder.parse(format!("{QUIET},{directives}")).map_err(|error| error.to_string())
}

/// Starts to log. What is still to be written when the process ends is written when the [`Flush`] is dropped.
///
/// # Errors
///
/// Where the directives are not valid, or another subscriber is there.
pub fn start(config: &Config) -> Result<Flush, String> {
    let filter = filter(&config.log).map_err(|reason| format!("telemetry.log: {reason}"))?;
    let terminal = std::io::stderr().is_terminal();
    let human = match config.log_format {
        LogFormat::Auto => terminal,
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    let (lines, flush) = writer::open().map_err(|error| format!("no thread for logs: {error}"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(lines);
    let started = match (human, terminal) {
        (false, _) => builder.json().flatten_event(true).with_current_span(false).try_init(),
        // On a terminal the builder itself honours NO_COLOR.
        (true, true) => builder.with_target(false).try_init(),
        (true, false) => builder.with_target(false).with_ansi(false).try_init(),
    };
    started.map(|()| flush).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_checked_and_may_make_a_quiet_library_speak() {
        assert!(filter("streamfleet=nonsense").is_err());
        let shown = filter("debug,fred=trace").unwrap().to_string();
        assert!(shown.contains("fred=trace") && shown.contains("hyper=warn"), "{shown}");
    }
}
