//! The built-in handlers, for jobs whose work is done elsewhere: [`Exec`] runs a program per job, `Http` sends a POST
//! per job, [`Pool`] gives jobs to programs that live on, [`Noop`] does nothing. They pass the payload on unchanged and never look into it.
//!
//! The attempt's facts (`attempt`) and the payload go out. An exit code or a status comes back and decides the outcome:
//! the type's own rules (`rule`, `verdict`) apply before the built-in ones. The output is cut and made safe to keep
//! (`output`).

mod attempt;
mod excerpt;
mod exec;
#[cfg(test)]
mod fixture;
#[cfg(feature = "http")]
mod http;
mod noop;
mod output;
mod pool;
mod process;
mod rule;
mod verdict;

use serde::{Deserialize, Serialize};

pub use crate::job::RuleAction;
pub use exec::{Exec, ExecConfig};
#[cfg(feature = "http")]
pub use http::{Http, HttpConfig};
pub use noop::Noop;
pub use pool::{Pool, PoolChoice, PoolConfig, PoolStart};
pub(crate) use process::{Invocation, Leader, find_program, on_the_thread};
pub use rule::{Code, Codes, Rule};

/// The built-in handler that runs the jobs of a type, as the configuration file writes it: `"noop"`,
/// `{ exec = { command = ["python3", "report.py"] } }`, `{ pool = "php" }` or
/// `{ http = { url = "https://example.com/jobs" } }`.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Config {
    /// Succeeds at once: for tests and measurements.
    Noop,
    /// Runs a program per job.
    Exec(ExecConfig),
    /// Gives jobs to long-lived programs.
    Pool(PoolChoice),
    /// Sends a POST per job.
    #[cfg(feature = "http")]
    Http(HttpConfig),
}

impl Config {
    /// Returns everything that is wrong, as `key: reason`. The keys are relative to this value, such as `exec.command`.
    pub fn validate(&self) -> Vec<String> {
        match self {
            Self::Noop | Self::Pool(PoolChoice::Named(_)) => Vec::new(),
            Self::Exec(config) => config.validate(),
            Self::Pool(PoolChoice::Own(config)) => config.validate(),
            #[cfg(feature = "http")]
            Self::Http(config) => config.validate(),
        }
    }

    /// Returns why the handler's program cannot be started on this machine; `None` if it can, or if the handler runs no
    /// program. See [`ExecConfig::missing_program`].
    pub fn missing_program(&self) -> Option<String> {
        match self {
            Self::Noop | Self::Pool(PoolChoice::Named(_)) => None,
            Self::Exec(config) => config.missing_program(),
            Self::Pool(PoolChoice::Own(config)) => config.missing_program(),
            #[cfg(feature = "http")]
            Self::Http(_) => None,
        }
    }
}

/// Why a handler cannot be created from its configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration breaks its rules.
    #[error("the handler's configuration is not valid: {}", problems.join("; "))]
    Invalid {
        /// The problems that [`Config::validate`] found.
        problems: Vec<String>,
    },
    /// The bearer token's file cannot be used.
    #[error("the bearer token in {path} cannot be read")]
    Bearer {
        /// The file's path.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// TLS or the HTTP client cannot be set up.
    #[error("the HTTP client cannot be set up")]
    Client {
        /// The cause; most often, no root certificates were found.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    fn unless_valid(problems: Vec<String>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self::Invalid { problems }) }
    }

    fn invalid(problem: String) -> Self {
        Self::Invalid { problems: vec![problem] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(json: &str) -> Result<Config, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn each_handler_is_named_in_one_way() {
        assert_eq!(parsed(r#""noop""#).unwrap(), Config::Noop);
        let exec = parsed(r#"{"exec": {"command": ["true"], "grace": "2s"}}"#).unwrap();
        assert!(matches!(&exec, Config::Exec(exec) if exec.grace.as_secs() == 2), "{exec:?}");
        assert_eq!(exec.validate(), Vec::<String>::new());
        assert!(parsed(r#""shell""#).unwrap_err().contains("unknown variant"));
    }

    #[test]
    fn a_key_that_is_misspelt_is_refused() {
        let error = parsed(r#"{"exec": {"comand": ["true"]}}"#).unwrap_err();
        assert!(error.contains("comand"), "{error}");
    }

    #[test]
    fn a_configuration_survives_being_written_and_read() {
        for json in [
            r#""noop""#,
            r#"{"exec": {"command": ["a"], "env": {"K": "v"}, "snooze": "1m 30s"}}"#,
            r#"{"exec": {"command": ["a"], "snooze": "1d"}}"#,
            r#"{"pool": "php"}"#,
            r#"{"pool": {"command": ["a"], "processes": 8, "idle": "1d"}}"#,
        ] {
            let config = parsed(json).unwrap();
            let written = serde_json::to_string(&config).unwrap();
            assert_eq!(parsed(&written).unwrap(), config, "{written}");
        }
    }
}
