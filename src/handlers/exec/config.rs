//! How a program is run for a job.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::environment;
use crate::handlers::process::runs_programs;
use crate::handlers::rule::{Kind, Rule};
use crate::job::duration;

with_defaults! {
    /// How a program is run for a job.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use streamfleet::handlers::{Exec, ExecConfig, Rule, RuleAction};
    ///
    /// # fn example() -> Result<(), streamfleet::handlers::Error> {
    /// let config = ExecConfig::new(["python3", "report.py"])
    ///     .pass_env(["DATABASE_URL"])
    ///     .grace(Duration::from_secs(10))
    ///     .rules([Rule::new(RuleAction::Drop).exit([3])]);
    /// let handler = Exec::new(config)?;
    /// # Ok(()) }
    /// ```
    #[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
    #[serde(default, deny_unknown_fields)]
    #[non_exhaustive]
    pub struct ExecConfig {
        /// The program and its arguments, run as they are, without a shell. A name without a slash is looked up in the
        /// child's `PATH`.
        pub command: Vec<String> = Vec::new(),
        /// The program's working directory; default: the worker's. A relative path to the program is resolved here.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub directory: Option<PathBuf> = None,
        /// Variables that the program gets from the worker's environment, besides `PATH`, `HOME`, `LANG`, `LC_ALL`, `TZ`
        /// and `TMPDIR`. Use this to pass secrets.
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
        /// How long the program may take to end after SIGTERM, before SIGKILL; default 5 s, at most 1 h.
        #[serde(with = "duration")]
        pub grace: Duration = Duration::from_secs(5),
        /// After what pause a job runs again if its program exited with 75; default 30 s, greater than zero.
        #[serde(with = "duration")]
        pub snooze: Duration = Duration::from_secs(30),
        /// Rules that map exit codes and error output to outcomes, before the built-in meanings: at most 100, default none. The first
        /// one that matches applies.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub rules: Vec<Rule> = Vec::new(),
    }
}

runs_programs!(ExecConfig, "exec", environment::reserved);

impl ExecConfig {
    setters! {
        snooze: Duration;
        rules: impl IntoIterator<Item = Rule> => rules.into_iter().collect();
    }

    /// Returns everything that is wrong, as `exec.<key>: reason`.
    pub fn validate(&self) -> Vec<String> {
        let mut problems = self.template().validate();
        if self.snooze.is_zero() {
            problems
                .push("exec.snooze: must be greater than zero, or the job would run in a loop".to_owned());
        }
        problems.extend(Kind::Exec.validate(&self.rules));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_problems_are_reported_at_once_with_their_keys() {
        let config = ExecConfig {
            command: vec![String::new(), "a\0b".into()],
            directory: Some(PathBuf::new()),
            pass_env: vec!["A=B".into()],
            env: [("STREAMFLEET_JOB_ID".into(), "x".into()), ("K".into(), "\0".into())].into(),
            grace: Duration::MAX,
            snooze: Duration::ZERO,
            rules: serde_json::from_str(r#"[{ "status": 500, "then": "drop" }]"#).unwrap(),
            user: None,
            group: None,
        };
        let problems = config.validate();
        let keys: Vec<_> = problems.iter().filter_map(|problem| problem.split(':').next()).collect();
        let expected =
            ["command", "command", "directory", "grace", "pass_env", "env", "env", "snooze", "rules"];
        assert_eq!(keys, expected.map(|key| format!("exec.{key}")), "{problems:?}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let missing = |command: &str, directory: &str| {
            let config = ExecConfig::new([command]);
            let config = if directory.is_empty() { config } else { config.directory(directory) };
            config.missing_program()
        };
        for there in [("sh", ""), ("/bin/sh", ""), ("./sh", "/bin"), ("sh", "/no/such/place"), ("", "")] {
            assert_eq!(missing(there.0, there.1), None, "{there:?}");
        }
        let not_on_path = r#"the program "no-such-program" is not on the PATH"#;
        assert_eq!(missing("no-such-program", "").as_deref(), Some(not_on_path));
        let not_there = "/bin/./no-such-program is not a program on this machine";
        assert_eq!(missing("./no-such-program", "/bin").as_deref(), Some(not_there));
        assert!(missing("/etc/passwd", "").is_some(), "a file that is not executable");
        let elsewhere = ExecConfig::new(["sh"]).env([("PATH", "/no/such/place")]);
        assert!(elsewhere.missing_program().is_some());
    }

    #[test]
    fn a_command_is_all_that_must_be_configured() {
        assert_eq!(ExecConfig::default().validate(), ["exec.command: names no program"]);
        let config = ExecConfig { command: vec!["true".into()], ..ExecConfig::default() };
        assert_eq!(config.validate(), Vec::<String>::new());
    }
}
