//! Decides when a process is recycled: after a number of attempts, after a lifetime, above an amount of memory, or once it
//! is drained, if an operator asked for that. It never ends anything itself. The fleet stops as it does on a signal, and the
//! process's supervisor starts a fresh one.

use std::fmt;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::health::Probe;
use crate::job::jittered;
use crate::worker::{Config, Duty, Quota};

/// How often the process's memory is measured.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// How often the connection to Redis is checked if Redis is unreachable when the process is due.
const IN_TOUCH_EVERY: Duration = Duration::from_millis(100);

/// The largest fraction of a lifetime that jitter takes away, so that workers that started together do not stop
/// together.
const JITTER: f64 = 0.1;

/// Waits until this process is due for recycling.
pub(crate) struct Recycler {
    max_lifetime: Option<Duration>,
    max_rss: Option<u64>,
    quota: Option<Arc<Quota>>,
    duty: Option<Arc<Duty>>,
}

/// Why a process is recycled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It has started this many attempts.
    Jobs(u64),
    /// It has worked for this long.
    Lifetime(Duration),
    /// It uses `rss` bytes of memory and may use `most`.
    Memory { rss: u64, most: u64 },
    /// An operator asked it to drain and end.
    Drained,
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jobs(most) => write!(out, "max_jobs: {most} attempts were started"),
            Self::Lifetime(lived) => {
                write!(out, "max_lifetime: the process has run for {:.1} s", lived.as_secs_f64())
            }
            Self::Memory { rss, most } => {
                write!(
                    out,
                    "max_rss: the process uses {} MiB of memory, at most {} MiB are allowed",
                    mib(*rss),
                    mib(*most)
                )
            }
            Self::Drained => out.write_str("drained, as an operator asked"),
        }
    }
}

impl Recycler {
    /// Checks that the bounds can be enforced on this machine.
    ///
    /// # Errors
    ///
    /// Returns the reason as text: the process's memory cannot be read, or exceeds its bound before the first job.
    pub(crate) fn new(config: &Config) -> Result<Self, String> {
        let Config { max_lifetime, max_rss, .. } = *config;
        if let Some(most) = max_rss {
            let rss = resident().map_err(|error| {
                format!("worker.max_rss needs {STATM}, which only Linux provides: {error}")
            })?;
            if rss >= most {
                let (rss, most) = (mib(rss), mib(most));
                return Err(format!(
                    "worker.max_rss is {most} MiB, but this process already uses {rss} MiB before its first job"
                ));
            }
        }
        Ok(Self { max_lifetime, max_rss, quota: None, duty: None })
    }

    /// Counts the attempts of a worker that has started, and watches what people ask of it. It may already use too much
    /// memory: then it is due, because it may have taken jobs.
    pub(crate) fn of_worker(self, quota: Option<Arc<Quota>>, duty: Arc<Duty>) -> Self {
        Self { quota, duty: Some(duty), ..self }
    }

    /// Waits until the process is due and in contact with Redis, so that the results of its jobs are not lost when it
    /// ends.
    pub(crate) async fn due(&self, probe: &Probe) -> Reason {
        let reason = tokio::select! {
            biased;
            reason = spent(self.quota.as_deref()) => reason,
            reason = drained(self.duty.as_deref()) => reason,
            reason = aged(self.max_lifetime) => reason,
            reason = grown(self.max_rss) => reason,
        };
        while !probe.in_touch() {
            tokio::time::sleep(IN_TOUCH_EVERY).await;
        }
        reason
    }
}

async fn spent(quota: Option<&Quota>) -> Reason {
    let Some(quota) = quota else { return pending().await };
    quota.spent().await;
    Reason::Jobs(quota.most())
}

async fn drained(duty: Option<&Duty>) -> Reason {
    let Some(duty) = duty else { return pending().await };
    duty.ended().await;
    Reason::Drained
}

async fn aged(most: Option<Duration>) -> Reason {
    let Some(most) = most else { return pending().await };
    let lifetime = jittered(most, 1.0 - JITTER..1.0, rand::random());
    tokio::time::sleep(lifetime).await;
    Reason::Lifetime(lifetime)
}

async fn grown(most: Option<u64>) -> Reason {
    let Some(most) = most else { return pending().await };
    loop {
        tokio::time::sleep(POLL_EVERY).await;
        match resident() {
            Ok(rss) if rss >= most => return Reason::Memory { rss, most },
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "failed to read the memory of this process"),
        }
    }
}

const STATM: &str = "/proc/self/statm";

/// Returns this process's resident memory in bytes, without that of the programs it has started.
fn resident() -> io::Result<u64> {
    let pages = resident_pages(&std::fs::read_to_string(STATM)?);
    let pages = pages.ok_or_else(|| io::Error::other(format!("{STATM} has no second number")))?;
    Ok(pages * rustix::param::page_size() as u64)
}

/// Returns the second number of statm.
fn resident_pages(statm: &str) -> Option<u64> {
    statm.split_whitespace().nth(1)?.parse().ok()
}

fn mib(bytes: u64) -> u64 {
    bytes / (1024 * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_this_process_is_read_in_bytes() {
        assert_eq!(resident_pages("3000 1200 300 9 0 900 0\n"), Some(1200));
        assert_eq!((resident_pages(""), resident_pages("1 x")), (None, None));
        let rss = resident().unwrap();
        assert!((1024 * 1024..1 << 40).contains(&rss), "{rss}");
    }

    #[test]
    fn a_bound_that_is_exceeded_before_the_first_job_is_refused() {
        let error = Recycler::new(&Config::default().max_rss(1024 * 1024)).err().unwrap();
        assert!(error.starts_with("worker.max_rss is 1 MiB, but this process already uses "), "{error}");
        assert!(Recycler::new(&Config::default()).is_ok());
    }

    #[tokio::test]
    async fn without_bounds_a_process_is_never_due() {
        let recycler = Recycler::new(&Config::default()).unwrap();
        let probe = Probe::default();
        let mut due = std::pin::pin!(recycler.due(&probe));
        assert!(futures_util::poll!(&mut due).is_pending());
    }
}
