//! Logs: readable text on a terminal, JSON lines elsewhere, always on standard error.
//!
//! Lines go through a `writer` that never blocks the caller. Events become lines in `events`, at a bounded rate, and `human` makes
//! them readable. A [`Process`](crate::Process) starts the logs; see the [example](crate).

mod events;
mod human;
mod writer;

use std::io::IsTerminal;

use tracing_subscriber::filter::{FilterExt, Targets, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

pub use events::listener;
pub use writer::Flush;

use self::human::{Fields, Human};
use super::{Config, LogFormat};
use streamfleet::traces::{self, Traces};

/// Libraries that log a lot of little interest.
const QUIET: &str = "fred=warn,hyper=warn,hyper_util=warn,h2=warn,rustls=warn";

/// Directives for people who write handlers: also the end of each attempt, and what the programs of handlers write.
pub const DEVELOPMENT: &str = "info,streamfleet::attempts=debug,streamfleet::handlers=debug";

/// Returns the filter for these directives: levels, and levels of targets.
pub(super) fn filter(directives: &str) -> Result<Targets, String> {
    if directives.contains(['[', '{']) {
        return Err("a directive is a level, or target=level".to_owned());
    }
    let own = directives.split(',').map(str::trim).filter(|directive| !directive.is_empty());
    let all: Vec<_> = QUIET.split(',').chain(own).collect();
    all.join(",").parse().map_err(|error: tracing_subscriber::filter::ParseError| error.to_string())
}

/// Starts logging, and the spans if there are `traces`. Dropping the [`Flush`] writes the lines that are still queued.
///
/// # Errors
///
/// If the directives are not valid, the thread for logs cannot be started, or another subscriber is installed.
pub fn start(config: &Config, traces: Option<&Traces>) -> Result<Flush, String> {
    let filter = filter(&config.log).map_err(|reason| format!("telemetry.log: {reason}"))?;
    let terminal = std::io::stderr().is_terminal();
    let human = match config.log_format {
        LogFormat::Auto => terminal,
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    let (lines, flush) = writer::open().map_err(|error| format!("cannot start the log thread: {error}"))?;
    let layer = fmt::layer().with_writer(lines);
    let layer = match (human, terminal) {
        (false, _) => layer.json().flatten_event(true).with_current_span(false).boxed(),
        // On a terminal the layer itself respects NO_COLOR.
        (true, true) => layer.event_format(Human::new()).fmt_fields(Fields).boxed(),
        (true, false) => layer.event_format(Human::new()).fmt_fields(Fields).with_ansi(false).boxed(),
    };
    // Spans of attempts are only for traces; a log line has its job as a field.
    let filter = filter.and(filter_fn(|metadata| metadata.target() != traces::TARGET));
    let spans: Option<Box<dyn Layer<Registry> + Send + Sync>> = traces.map(Traces::layer);
    let subscriber = tracing_subscriber::registry().with(spans).with(layer.with_filter(filter));
    subscriber.try_init().map(|()| flush).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_checked_and_may_make_a_quiet_library_speak() {
        for wrong in ["streamfleet=nonsense", "a=b=c", "streamfleet[attempt]=debug"] {
            assert!(filter(wrong).is_err(), "{wrong}");
        }
        assert!(filter(" info, streamfleet=debug,").is_ok());
        let shown = filter("debug,fred=trace").unwrap().to_string();
        assert!(shown.contains("fred=trace") && shown.contains("hyper=warn"), "{shown}");
    }

    #[test]
    fn in_development_attempts_and_programs_are_logged_and_nothing_else_in_addition() {
        let filter = filter(DEVELOPMENT).unwrap();
        let debug = tracing::Level::DEBUG;
        for target in [events::ATTEMPTS].into_iter().chain(human::PROGRAMS) {
            assert!(filter.would_enable(target, &debug), "{target}");
        }
        assert!(!filter.would_enable("streamfleet::worker", &debug));
    }
}
