//! What programs log: to the job's record, and to the worker's log at a bounded rate.

use std::time::{Duration, Instant};

use crate::JobContext;
use crate::job::{PoolName, cut};

/// Lines per second of one program that reach the worker's log.
const PER_SECOND: u32 = 50;

/// The longest line in the worker's log.
const LOGGED_BYTES: usize = 4096;

/// How many lines a program may still log in this second.
#[derive(Default)]
pub(super) struct LogBudget {
    since: Option<Instant>,
    logged: u32,
    suppressed: u64,
}

impl LogBudget {
    /// Logs a line of a program, about a job if it names one that it has.
    pub(super) fn log(
        &mut self,
        pool: &PoolName,
        context: Option<&JobContext>,
        level: tracing::Level,
        text: &str,
    ) {
        if let Some(context) = context {
            match level {
                tracing::Level::ERROR => context.log(&format!("error: {text}")),
                tracing::Level::WARN => context.log(&format!("warning: {text}")),
                _ => context.log(text),
            }
        }
        let Some(suppressed) = self.allow(Instant::now()) else { return };
        let text = cut(text.to_owned(), LOGGED_BYTES);
        let job = context.map(|context| context.id().to_string()).unwrap_or_default();
        match level {
            tracing::Level::ERROR => {
                tracing::error!(%pool, job, text, suppressed, "a program of a pool says")
            }
            tracing::Level::WARN => tracing::warn!(%pool, job, text, suppressed, "a program of a pool says"),
            tracing::Level::INFO => tracing::info!(%pool, job, text, suppressed, "a program of a pool says"),
            _ => tracing::debug!(%pool, job, text, suppressed, "a program of a pool says"),
        }
    }

    /// Returns how many lines were suppressed before this one, or `None` if this one is suppressed as well.
    fn allow(&mut self, now: Instant) -> Option<u64> {
        let fresh = self.since.is_none_or(|since| now.duration_since(since) >= Duration::from_secs(1));
        if fresh {
            (self.since, self.logged) = (Some(now), 0);
        }
        if self.logged >= PER_SECOND {
            self.suppressed += 1;
            return None;
        }
        self.logged += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handlers::fixture::context;

    #[test]
    fn a_job_gets_its_lines_and_the_log_a_bounded_number() {
        let (mut budget, context) = (LogBudget::default(), context(&[("tracking", "all")]));
        let pool = "php".parse().unwrap();
        (0..200).for_each(|_| budget.log(&pool, Some(&context), tracing::Level::DEBUG, "line"));
        assert!(budget.suppressed >= 100, "{}", budget.suppressed);
        assert_eq!(context.reported().1.last().map(String::as_str), Some("line"));
    }

    #[test]
    fn a_job_sees_which_of_its_lines_are_warnings_and_errors() {
        let (mut budget, context) = (LogBudget::default(), context(&[]));
        let pool = "php".parse().unwrap();
        for level in [tracing::Level::ERROR, tracing::Level::WARN, tracing::Level::INFO] {
            budget.log(&pool, Some(&context), level, "slow");
        }
        assert_eq!(context.reported().1, ["error: slow", "warning: slow", "slow"]);
    }
}
