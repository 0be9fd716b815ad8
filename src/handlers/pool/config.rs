//! How a pool of programs is run.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::message::Ready;
use crate::handlers::process::runs_programs;
use crate::job::number::{count, some_count};
use crate::job::{ErrorRules, OutOfBounds, bounds, duration, size};

const PROCESSES: RangeInclusive<usize> = 1..=1000;
const INFLIGHT: RangeInclusive<usize> = 1..=10_000;
const AHEAD: RangeInclusive<usize> = 0..=1000;
const START: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(600);
const LIFETIME: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(365 * 24 * 3600);
const LEAST_MEMORY: u64 = 1024 * 1024;
const LINE: RangeInclusive<u64> = 1024..=64 * 1024 * 1024;

/// When the programs of a pool start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolStart {
    /// When there are more jobs than programs. One starts with the worker, to greet it. A program that has had no job for
    /// [`PoolConfig::idle`] ends.
    #[default]
    Demand,
    /// All of them, with the worker.
    Eager,
}

with_defaults! {
    /// How a pool of long-lived programs is run; `docs/pools.md` describes what they read and write.
    ///
    /// ```
    /// use streamfleet::handlers::{Pool, PoolConfig, PoolStart};
    ///
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let config = PoolConfig::new(["php", "worker.php"]).processes(8).max_jobs(1000).start(PoolStart::Eager);
    /// let pool = Pool::new("php".parse()?, config)?;
    /// # Ok(()) }
    /// ```
    #[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
    #[serde(default, deny_unknown_fields)]
    #[non_exhaustive]
    pub struct PoolConfig {
        /// The program and its arguments, run as they are, without a shell. A name without a slash is looked up in the
        /// child's `PATH`.
        pub command: Vec<String> = Vec::new(),
        /// The programs' working directory; default: the worker's. A relative path to the program is resolved here.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub directory: Option<PathBuf> = None,
        /// Variables that the programs get from the worker's environment, besides `PATH`, `HOME`, `LANG`, `LC_ALL`, `TZ`
        /// and `TMPDIR`.
        pub pass_env: Vec<String> = Vec::new(),
        /// Variables with fixed values. They override the worker's.
        pub env: BTreeMap<String, String> = BTreeMap::new(),
        /// The user as whom the program runs, by name or number, with its groups and its `HOME`; default: the worker's. The worker
        /// needs the right to switch: it runs as root, or has `CAP_SETUID`, `CAP_SETGID` and `CAP_KILL`. From the first start on, only root can
        /// read the memory of the worker's process, and a crash of it leaves no core dump.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub user: Option<String> = None,
        /// The group in place of that user's own, by name or number.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub group: Option<String> = None,
        /// How many programs run at most; 1 to 1000, default 4.
        #[serde(deserialize_with = "count")]
        pub processes: usize = 4,
        /// How many jobs a program gets at once, if it wants as many; 1 to 10,000, default 1.
        #[serde(deserialize_with = "count")]
        pub inflight: usize = 1,
        /// How many more jobs a program gets while it works on those, if it takes as many; at most 1000, default 0. This is for
        /// jobs of less than a millisecond: a job waits until the program is done with those before it. Its timeout counts from
        /// then on.
        #[serde(deserialize_with = "count")]
        pub ahead: usize = 0,
        /// When programs start; default: on demand.
        pub start: PoolStart = PoolStart::Demand,
        /// How long a program may take from its start to its `ready`; 100 ms to 10 min, default 10 s.
        #[serde(with = "duration")]
        pub start_timeout: Duration = Duration::from_secs(10),
        /// After this many jobs, a program is replaced; at least 1, default: never.
        #[serde(deserialize_with = "some_count", skip_serializing_if = "Option::is_none")]
        pub max_jobs: Option<u64> = None,
        /// After this time, minus up to a tenth at random, a program is replaced; 1 s to 365 d, default: never.
        #[serde(with = "duration::some", skip_serializing_if = "Option::is_none")]
        pub max_lifetime: Option<Duration> = None,
        /// When a program has this many bytes in RAM, it is replaced; at least 1 MiB, default: never. Checked every second, and
        /// after a job, unless that was within the last 20 ms; its own children do not count.
        #[serde(with = "size", skip_serializing_if = "Option::is_none")]
        pub max_memory: Option<u64> = None,
        /// A program that has had no job for this long ends, if programs start on demand; 1 s to 365 d, default 10 min.
        #[serde(with = "duration")]
        pub idle: Duration = Duration::from_secs(600),
        /// How long a program may take to end after it was asked to, before SIGKILL; default 5 s, at most 1 h.
        #[serde(with = "duration")]
        pub grace: Duration = Duration::from_secs(5),
        /// What follows from errors, by the classes that the programs report, for all types of the pool. A type's own rules
        /// replace those with the same names.
        #[serde(skip_serializing_if = "ErrorRules::is_empty")]
        pub errors: ErrorRules = ErrorRules::default(),
        /// The longest line that a program may write, in bytes; 1 KiB to 64 MiB, default 16 MiB.
        #[serde(with = "size::known")]
        pub max_line: u64 = 16 * 1024 * 1024,
    }
}

runs_programs!(PoolConfig, "pool", reserved);

impl PoolConfig {
    setters! {
        processes: usize;
        inflight: usize;
        ahead: usize;
        start: PoolStart;
        start_timeout: Duration;
        max_jobs: impl Into<Option<u64>> => max_jobs.into();
        max_lifetime: impl Into<Option<Duration>> => max_lifetime.into();
        max_memory: impl Into<Option<u64>> => max_memory.into();
        idle: Duration;
        errors: ErrorRules;
        max_line: u64;
    }

    /// Returns everything that is wrong, as `pool.<key>: reason`.
    pub fn validate(&self) -> Vec<String> {
        let small = self.max_memory.filter(|most| *most < LEAST_MEMORY);
        let short_or_long = (!LINE.contains(&self.max_line)).then_some("must be between 1KiB and 64MiB");
        let own = [
            bounds::number("processes", self.processes, &PROCESSES),
            bounds::number("inflight", self.inflight, &INFLIGHT),
            bounds::number("ahead", self.ahead, &AHEAD),
            bounds::time("start_timeout", self.start_timeout, &START),
            self.max_lifetime.and_then(|time| bounds::time("max_lifetime", time, &LIFETIME)),
            bounds::time("idle", self.idle, &LIFETIME),
            self.max_jobs.and_then(|most| bounds::at_least_one("max_jobs", most)),
            small.map(|_| OutOfBounds::new("max_memory", "must be at least 1MiB")),
            short_or_long.map(|reason| OutOfBounds::new("max_line", reason)),
        ];
        let errors = self.errors.validate().into_iter();
        let errors = errors.map(|(name, reason)| format!("pool.errors: {name:?}: {reason}"));
        let own = own.into_iter().flatten().map(|wrong| format!("pool.{wrong}"));
        self.template().validate().into_iter().chain(own).chain(errors).collect()
    }

    /// Returns what a program that greets like this leaves unused, with what to do.
    pub(super) fn unused_by(&self, ready: &Ready) -> Vec<String> {
        let mut remarks = Vec::new();
        for (key, given, does, wanted, when) in [
            ("inflight", self.inflight, "works on", ready.inflight, "at once"),
            ("ahead", self.ahead, "takes", ready.ahead, "ahead"),
        ] {
            if wanted < given {
                let jobs = if wanted == 1 { "job" } else { "jobs" };
                remarks.push(format!(
                    "{key} is {given}, but the program {does} {wanted} {jobs} {when}: lower it to {wanted}"
                ));
            }
        }
        remarks
    }

    /// Returns how many jobs its programs have at once at most.
    pub(crate) fn places(&self) -> usize {
        self.processes.saturating_mul(self.inflight.saturating_add(self.ahead))
    }
}

/// Returns why the configuration must not set this variable, if it must not.
fn reserved(name: &str) -> Option<String> {
    let own = ["STREAMFLEET_POOL", "STREAMFLEET_PROTOCOL"];
    own.contains(&name).then(|| format!("is reserved, as {} and {} are", own[0], own[1]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::RuleAction;

    #[test]
    fn all_problems_are_reported_at_once_with_their_keys() {
        let config = PoolConfig {
            env: [("STREAMFLEET_POOL".into(), "x".into())].into(),
            processes: 0,
            inflight: INFLIGHT.end() + 1,
            ahead: AHEAD.end() + 1,
            start_timeout: Duration::ZERO,
            max_jobs: Some(0),
            max_lifetime: Some(Duration::ZERO),
            max_memory: Some(1),
            idle: Duration::ZERO,
            grace: Duration::MAX,
            max_line: 1,
            errors: ErrorRules::new([("a b", RuleAction::Drop)]),
            ..PoolConfig::default()
        };
        let problems = config.validate();
        let keys: Vec<_> = problems.iter().filter_map(|problem| problem.split(':').next()).collect();
        let want = [
            "command",
            "grace",
            "env",
            "processes",
            "inflight",
            "ahead",
            "start_timeout",
            "max_lifetime",
            "idle",
            "max_jobs",
            "max_memory",
            "max_line",
            "errors",
        ];
        assert_eq!(keys, want.map(|key| format!("pool.{key}")), "{problems:?}");
        assert_eq!(PoolConfig::new(["true"]).validate(), Vec::<String>::new());
    }

    #[test]
    fn what_a_program_leaves_unused_is_named_with_what_to_do() {
        let ready = |inflight, ahead| Ready { protocol: 1, types: None, inflight, ahead, sdk: String::new() };
        let config = PoolConfig::new(["php"]).inflight(8).ahead(4);
        let want = [
            "inflight is 8, but the program works on 1 job at once: lower it to 1",
            "ahead is 4, but the program takes 0 jobs ahead: lower it to 0",
        ];
        assert_eq!(config.unused_by(&ready(1, 0)), want);
        assert_eq!(config.unused_by(&ready(9, 4)), Vec::<String>::new());
    }

    #[test]
    fn a_configuration_survives_being_written_and_read() {
        let json = r#"{"command": ["a"], "processes": "8", "max_jobs": 1000, "max_lifetime": "1h", "max_memory": "256MiB",
            "start": "eager", "max_line": "1MiB", "errors": {"A": {"retry_after": "30s"}}}"#;
        let config: PoolConfig = serde_json::from_str(json).unwrap();
        let want = PoolConfig::new(["a"]).processes(8).max_jobs(1000).max_lifetime(Duration::from_secs(3600));
        let want = want.max_memory(256 << 20).start(PoolStart::Eager).max_line(1 << 20);
        let pause = RuleAction::RetryAfter(Duration::from_secs(30));
        let want = want.errors(ErrorRules::new([("A", pause)]));
        assert_eq!(config, want);
        let written = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<PoolConfig>(&written).unwrap(), config, "{written}");
    }
}
