//! The rules for incidents, and where messages about them go.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::sink::SinkConfig;
use crate::job::incident::IncidentKind;
use crate::job::number::fraction;
use crate::job::{SinkName, bounds, duration};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The most sinks. What each has got is kept for each incident.
const MAX_SINKS: usize = 16;

with_defaults! {
    /// What counts as an incident, and where messages about incidents go.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use streamfleet_service::alerts::{Config, SinkConfig, SinkKind};
    ///
    /// # fn example() -> Result<(), streamfleet::job::InvalidName> {
    /// let ops = SinkConfig::new(SinkKind::Dingtalk)
    ///     .url_file("/run/secrets/dingtalk-url")
    ///     .secret_file("/run/secrets/dingtalk-secret");
    /// let config = Config::default().sinks([("ops".parse()?, ops)]).paused_for(Duration::from_secs(7200));
    /// # Ok(()) }
    /// ```
    #[derive(Debug, Clone, Deserialize, Serialize)]
    #[serde(default, deny_unknown_fields)]
    #[non_exhaustive]
    pub struct Config {
        /// How often queues and servers are checked; 100 ms to 1 h, by default every 15 s.
        #[serde(with = "duration")]
        pub every: Duration = Duration::from_secs(15),
        /// The address of the console, for links in messages.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub console_url: Option<String> = None,
        /// What the title of each message names besides the namespace, such as `staging`; at most 40 characters.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub environment: Option<String> = None,
        /// The language of messages; by default, English.
        pub language: Language = Language::default(),
        /// Whether messages have the errors of jobs, which may have anything in them; by default, they do.
        pub errors: bool = true,
        /// When the first reminder of an open incident is sent; 1 s to 7 d, by default after 1 h. The pause doubles with each reminder.
        #[serde(with = "duration")]
        pub remind_after: Duration = Duration::from_secs(3600),
        /// The longest pause between two reminders; 1 s to 30 d, by default 24 h.
        #[serde(with = "duration")]
        pub remind_most: Duration = DAY,
        /// For how long nothing must be wrong before an incident is resolved; at most 1 d, by default 2 min.
        #[serde(with = "duration")]
        pub resolve_after: Duration = 2 * MINUTE,
        /// For how long no job must have died of a cause before its incident is resolved, if a person has acknowledged it; 1 s to 7 d, by
        /// default 15 min. A cause that is older is not new.
        #[serde(with = "duration")]
        pub quiet_after: Duration = 15 * MINUTE,
        /// How many jobs may die per minute, by default 10, of causes that have no incident of their own …
        #[serde(deserialize_with = "fraction")]
        pub dead_per_minute: f64 = 10.0,
        /// … on average over this time; 1 s to 1 d, by default 10 min.
        #[serde(with = "duration")]
        pub dead_window: Duration = 10 * MINUTE,
        /// For how long jobs may wait while no worker is live; at most 1 d, by default 1 min.
        #[serde(with = "duration")]
        pub no_worker_for: Duration = MINUTE,
        /// For how long jobs may wait while no live worker knows their type; at most 1 d, by default 1 min.
        #[serde(with = "duration")]
        pub unserved_for: Duration = MINUTE,
        /// For how long a queue may be paused; at most 365 d, by default 1 h.
        #[serde(with = "duration")]
        pub paused_for: Duration = Duration::from_secs(3600),
        /// The share of its memory that Redis may use; above 0, at most 1, by default 0.9.
        #[serde(deserialize_with = "fraction")]
        pub redis_memory: f64 = 0.9,
        /// Kinds of incidents that never open.
        pub off: Vec<IncidentKind> = Vec::new(),
        /// Where messages go; at most 16 sinks. Without sinks, incidents are only listed.
        pub sinks: BTreeMap<SinkName, SinkConfig> = BTreeMap::new(),
    }
}

impl Config {
    setters! {
        every: Duration;
        console_url: impl Into<String> => Some(console_url.into());
        environment: impl Into<String> => Some(environment.into());
        language: Language;
        errors: bool;
        remind_after: Duration;
        remind_most: Duration;
        resolve_after: Duration;
        quiet_after: Duration;
        dead_per_minute: f64;
        dead_window: Duration;
        no_worker_for: Duration;
        unserved_for: Duration;
        paused_for: Duration;
        redis_memory: f64;
        off: impl IntoIterator<Item = IncidentKind> => off.into_iter().collect();
        sinks: impl IntoIterator<Item = (SinkName, SinkConfig)> => sinks.into_iter().collect();
    }

    /// Returns everything that is wrong with these values, each as `key: reason`. No text contains a secret.
    pub fn validate(&self) -> Vec<String> {
        let second = Duration::from_secs(1);
        let times = [
            ("every", self.every, Duration::from_millis(100)..=Duration::from_secs(3600)),
            ("remind_after", self.remind_after, second..=7 * DAY),
            ("remind_most", self.remind_most, second..=30 * DAY),
            ("resolve_after", self.resolve_after, Duration::ZERO..=DAY),
            ("quiet_after", self.quiet_after, second..=7 * DAY),
            ("dead_window", self.dead_window, second..=DAY),
            ("no_worker_for", self.no_worker_for, Duration::ZERO..=DAY),
            ("unserved_for", self.unserved_for, Duration::ZERO..=DAY),
            ("paused_for", self.paused_for, Duration::ZERO..=365 * DAY),
        ];
        let times = times.into_iter().filter_map(|(key, time, range)| bounds::time(key, time, &range));
        let mut wrong: Vec<String> = times.map(|wrong| wrong.to_string()).collect();
        if !(self.dead_per_minute > 0.0 && self.dead_per_minute.is_finite()) {
            wrong.push("dead_per_minute: must be more than 0".to_owned());
        }
        if !(self.redis_memory > 0.0 && self.redis_memory <= 1.0) {
            wrong.push("redis_memory: must be more than 0 and at most 1, such as 0.9".to_owned());
        }
        if let Some(url) = &self.console_url
            && !is_console(url)
        {
            let rule = "must begin with http:// or https://, and have no login, query or white space";
            wrong.push(format!("console_url: {rule}"));
        }
        if let Some(environment) = &self.environment
            && !is_tag(environment)
        {
            let rule = "must have 1 to 40 characters, and neither brackets nor control characters";
            wrong.push(format!("environment: {rule}"));
        }
        if self.sinks.len() > MAX_SINKS {
            wrong.push(format!("sinks: has {} sinks, but must have at most {MAX_SINKS}", self.sinks.len()));
        }
        if !self.sinks.is_empty() && !cfg!(feature = "alerts") {
            wrong.push("sinks: this build cannot send messages; it needs the feature alerts".to_owned());
        }
        for (name, sink) in &self.sinks {
            wrong.extend(sink.validate().into_iter().map(|problem| format!("sinks.{name}.{problem}")));
        }
        wrong
    }
}

fn is_console(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '@' | '?' | '#' | '<' | '>' | '|' | '"');
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/') && rest.chars().all(is_plain))
}

/// Whether a text can stand in brackets before a title.
fn is_tag(text: &str) -> bool {
    let is_plain = |c: char| !c.is_control() && !matches!(c, '[' | ']');
    (1..=40).contains(&text.chars().count()) && text.trim() == text && text.chars().all(is_plain)
}

/// The language of messages. Names, errors, commands and what a webhook gets stay as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Language {
    /// English.
    #[default]
    En,
    /// Chinese, in simplified characters.
    ZhCn,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_is_an_address_without_secrets() {
        for url in ["https://jobs.example.com", "http://127.0.0.1:8080/streamfleet"] {
            assert!(is_console(url), "{url}");
        }
        for url in
            ["", "https://", "jobs.example.com", "https://a:b@c", "https://a/?t=1", "javascript:alert(1)"]
        {
            assert!(!is_console(url), "{url}");
        }
    }

    #[test]
    fn bounds_are_checked_and_named() {
        let config = Config {
            every: Duration::ZERO,
            dead_per_minute: f64::NAN,
            redis_memory: 1.5,
            console_url: Some("x".to_owned()),
            environment: Some("[prod]".to_owned()),
            ..Config::default()
        };
        let wrong = config.validate();
        let keys: Vec<_> = wrong.iter().filter_map(|problem| problem.split(':').next()).collect();
        assert_eq!(keys, ["every", "dead_per_minute", "redis_memory", "console_url", "environment"]);
    }
}
