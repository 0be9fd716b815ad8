//! The rules for incidents, and where messages about them go. Secrets never leave [`SecretString`]s, and nothing here shows one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};

use crate::job::incident::IncidentKind;
use crate::job::number::fraction;
use crate::job::{SinkName, bounds, duration};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The most sinks. What each has got is kept for each incident.
const MAX_SINKS: usize = 16;

/// The most recipients of a mail.
const MAX_RECIPIENTS: usize = 50;

/// The most bytes of a file with a secret.
const SECRET_BYTES: u64 = 16 * 1024;

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
    pub every: Duration,
    /// The address of the console, for links in messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub console_url: Option<String>,
    /// What the title of each message names besides the namespace, such as `staging`; at most 40 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// The language of messages; by default, English.
    pub language: Language,
    /// Whether messages have the errors of jobs, which may have anything in them; by default, they do.
    pub errors: bool,
    /// When the first reminder of an open incident is sent; 1 s to 7 d, by default after 1 h. The pause doubles with each reminder.
    #[serde(with = "duration")]
    pub remind_after: Duration,
    /// The longest pause between two reminders; 1 s to 30 d, by default 24 h.
    #[serde(with = "duration")]
    pub remind_most: Duration,
    /// For how long nothing must be wrong before an incident is resolved; at most 1 d, by default 2 min.
    #[serde(with = "duration")]
    pub resolve_after: Duration,
    /// For how long no job must have died of a cause before its incident is resolved, if a person has acknowledged it; 1 s to 7 d, by
    /// default 15 min. A cause that is older is not new.
    #[serde(with = "duration")]
    pub quiet_after: Duration,
    /// How many jobs may die per minute, by default 10, of causes that have no incident of their own …
    #[serde(deserialize_with = "fraction")]
    pub dead_per_minute: f64,
    /// … on average over this time; 1 s to 1 d, by default 10 min.
    #[serde(with = "duration")]
    pub dead_window: Duration,
    /// For how long jobs may wait while no worker is live; at most 1 d, by default 1 min.
    #[serde(with = "duration")]
    pub no_worker_for: Duration,
    /// For how long jobs may wait while no live worker knows their type; at most 1 d, by default 1 min.
    #[serde(with = "duration")]
    pub unserved_for: Duration,
    /// For how long a queue may be paused; at most 365 d, by default 1 h.
    #[serde(with = "duration")]
    pub paused_for: Duration,
    /// The share of its memory that Redis may use; above 0, at most 1, by default 0.9.
    #[serde(deserialize_with = "fraction")]
    pub redis_memory: f64,
    /// Kinds of incidents that never open.
    pub off: Vec<IncidentKind>,
    /// Where messages go; at most 16 sinks. Without sinks, incidents are only listed.
    pub sinks: BTreeMap<SinkName, SinkConfig>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(15),
            console_url: None,
            environment: None,
            language: Language::default(),
            errors: true,
            remind_after: Duration::from_secs(3600),
            remind_most: DAY,
            resolve_after: 2 * MINUTE,
            quiet_after: 15 * MINUTE,
            dead_per_minute: 10.0,
            dead_window: 10 * MINUTE,
            no_worker_for: MINUTE,
            unserved_for: MINUTE,
            paused_for: Duration::from_secs(3600),
            redis_memory: 0.9,
            off: Vec::new(),
            sinks: BTreeMap::new(),
        }
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

/// What a sink is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SinkKind {
    /// A robot of a `DingTalk` group.
    Dingtalk,
    /// A bot of a Feishu or Lark group.
    Feishu,
    /// A robot of a `WeCom` group.
    Wecom,
    /// An incoming webhook of Slack.
    Slack,
    /// An HTTP endpoint of your own.
    Webhook,
    /// Mail over SMTP.
    Mail,
}

variants! {
    /// Returns the name of the kind, as the configuration has it.
    SinkKind {
        Dingtalk = "dingtalk",
        Feishu = "feishu",
        Wecom = "wecom",
        Slack = "slack",
        Webhook = "webhook",
        Mail = "mail",
    }
}

/// How a connection to a mail server is protected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SmtpTls {
    /// By `STARTTLS`, which the server must offer.
    #[default]
    Starttls,
    /// From the first byte.
    Tls,
    /// Not at all. Only for a server on the same machine.
    Off,
}

/// One place where messages go; see the [example](Config).
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SinkConfig {
    /// What it is.
    pub kind: SinkKind,
    /// The address that messages are posted to. Most contain a token, so it comes from a file or the environment.
    #[serde(default, serialize_with = "masked", skip_serializing_if = "Option::is_none")]
    pub url: Option<SecretString>,
    /// A file with the address. Takes precedence over `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_file: Option<PathBuf>,
    /// The secret that signs messages, for `dingtalk`, `feishu` and `webhook`; for `mail`, the password.
    #[serde(default, serialize_with = "masked", skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretString>,
    /// A file with the secret. Takes precedence over `secret`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_file: Option<PathBuf>,
    /// The mail server: a host, or a host and a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// How the connection to the mail server is protected; by default, by `STARTTLS`.
    #[serde(default)]
    pub tls: SmtpTls,
    /// A file with the authorities that the mail server's certificate must come from, in PEM format, beside the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The user at the mail server. Its password is the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The sender of mails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The recipients of mails; 1 to 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
}

impl SinkConfig {
    /// Returns a sink of this kind, which still needs an address.
    pub fn new(kind: SinkKind) -> Self {
        Self {
            kind,
            url: None,
            url_file: None,
            secret: None,
            secret_file: None,
            server: None,
            tls: SmtpTls::default(),
            ca_file: None,
            user: None,
            from: None,
            to: Vec::new(),
        }
    }

    setters! {
        url: impl Into<SecretString> => Some(url.into());
        url_file: impl Into<PathBuf> => Some(url_file.into());
        secret: impl Into<SecretString> => Some(secret.into());
        secret_file: impl Into<PathBuf> => Some(secret_file.into());
        server: impl Into<String> => Some(server.into());
        tls: SmtpTls;
        ca_file: impl Into<PathBuf> => Some(ca_file.into());
        user: impl Into<String> => Some(user.into());
        from: impl Into<String> => Some(from.into());
        to: impl IntoIterator<Item = impl Into<String>> => to.into_iter().map(Into::into).collect();
    }

    /// Returns what is wrong, each as `key: reason`, without reading a file.
    fn validate(&self) -> Vec<String> {
        let is_mail = self.kind == SinkKind::Mail;
        let kind = self.kind.as_str();
        let mut wrong = Vec::new();
        let posts = [("url", self.url.is_some()), ("url_file", self.url_file.is_some())];
        let mails = [
            ("server", self.server.is_some()),
            ("ca_file", self.ca_file.is_some()),
            ("user", self.user.is_some()),
            ("from", self.from.is_some()),
            ("to", !self.to.is_empty()),
        ];
        let foreign = if is_mail { &posts[..] } else { &mails[..] };
        for (key, _) in foreign.iter().filter(|(_, is_set)| *is_set) {
            wrong.push(format!("{key}: has no effect for a sink of the kind {kind}"));
        }
        if is_mail {
            wrong.extend(self.check_mail());
        } else if self.url.is_none() && self.url_file.is_none() {
            wrong.push(
                "url_file: is missing: the file with the address that messages are posted to".to_owned(),
            );
        }
        let has_secret = self.secret.is_some() || self.secret_file.is_some();
        match self.kind {
            SinkKind::Slack | SinkKind::Wecom if has_secret => {
                wrong.push(format!("secret_file: has no effect: messages to {kind} are not signed"));
            }
            SinkKind::Webhook if !has_secret => {
                wrong
                    .push("secret_file: is missing: the file with the secret that signs messages".to_owned());
            }
            SinkKind::Mail if has_secret != self.user.is_some() => {
                wrong.push(
                    "user: needs the file with its password, secret_file, and the other way round".to_owned(),
                );
            }
            SinkKind::Dingtalk
            | SinkKind::Feishu
            | SinkKind::Wecom
            | SinkKind::Slack
            | SinkKind::Webhook
            | SinkKind::Mail => {}
        }
        wrong
    }

    fn check_mail(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let is_blank = |text: &Option<String>| text.as_ref().is_none_or(|text| text.trim().is_empty());
        if is_blank(&self.server) {
            wrong.push("server: is missing: the mail server, such as smtp.example.com:587".to_owned());
        }
        if is_blank(&self.from) {
            wrong.push("from: is missing: the sender, such as streamfleet@example.com".to_owned());
        }
        if !(1..=MAX_RECIPIENTS).contains(&self.to.len()) {
            wrong.push(format!("to: has {} addresses, but must have 1 to {MAX_RECIPIENTS}", self.to.len()));
        }
        wrong
    }

    /// Reads the address.
    #[cfg_attr(not(feature = "alerts"), expect(dead_code, reason = "only those who send need it"))]
    pub(crate) fn read_url(&self) -> Result<Option<SecretString>, String> {
        read("url_file", self.url_file.as_deref(), self.url.as_ref())
    }

    /// Reads the secret.
    #[cfg_attr(not(feature = "alerts"), expect(dead_code, reason = "only those who send need it"))]
    pub(crate) fn read_secret(&self) -> Result<Option<SecretString>, String> {
        read("secret_file", self.secret_file.as_deref(), self.secret.as_ref())
    }
}

/// Reads a secret from its file, or else from the value itself. Errors never contain it.
fn read(
    key: &str,
    file: Option<&Path>,
    value: Option<&SecretString>,
) -> Result<Option<SecretString>, String> {
    let text = match (file, value) {
        (Some(path), _) => {
            let wrong = |reason: String| format!("{key}: {} {reason}", path.display());
            let length =
                std::fs::metadata(path).map_err(|error| wrong(format!("cannot be read: {error}")))?.len();
            if length > SECRET_BYTES {
                return Err(wrong(format!("has more than {SECRET_BYTES} bytes")));
            }
            std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))?
        }
        (None, Some(value)) => value.expose_secret().to_owned(),
        (None, None) => return Ok(None),
    };
    match text.trim() {
        "" => Err(format!("{key}: is empty")),
        text => Ok(Some(text.into())),
    }
}

fn masked<S: Serializer>(_: &Option<SecretString>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str("***")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn posting(kind: SinkKind) -> SinkConfig {
        SinkConfig::new(kind).url("https://example.com/robot?access_token=canary")
    }

    #[test]
    fn the_defaults_and_a_sink_are_enough() {
        assert_eq!(Config::default().validate(), Vec::<String>::new());
        for kind in [SinkKind::Dingtalk, SinkKind::Feishu, SinkKind::Wecom, SinkKind::Slack] {
            assert_eq!(posting(kind).validate(), Vec::<String>::new());
        }
        assert_eq!(posting(SinkKind::Webhook).secret("s").validate(), Vec::<String>::new());
        let mail =
            SinkConfig::new(SinkKind::Mail).server("localhost").from("a@example.com").to(["b@example.com"]);
        assert_eq!(mail.validate(), Vec::<String>::new());
    }

    #[test]
    fn what_a_sink_lacks_or_does_not_use_is_named() {
        let keys = |sink: SinkConfig| -> Vec<String> {
            sink.validate().into_iter().map(|problem| problem.split(':').next().unwrap().to_owned()).collect()
        };
        assert_eq!(keys(SinkConfig::new(SinkKind::Dingtalk)), ["url_file"]);
        assert_eq!(keys(posting(SinkKind::Slack).secret("s").to(["a"])), ["to", "secret_file"]);
        assert_eq!(keys(posting(SinkKind::Webhook)), ["secret_file"]);
        assert_eq!(keys(SinkConfig::new(SinkKind::Mail).user("a")), ["server", "from", "to", "user"]);
    }

    #[test]
    fn no_secret_is_shown() {
        let sink = posting(SinkKind::Feishu).secret("canary");
        let config = Config { sinks: BTreeMap::from([("ops".parse().unwrap(), sink)]), ..Config::default() };
        let shown = format!("{config:?} {}", serde_json::to_string(&config).unwrap());
        assert!(!shown.contains("canary") && shown.contains("***"), "{shown}");
    }

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

    #[test]
    fn a_secret_in_a_file_beats_the_value_and_must_not_be_empty() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let sink = SinkConfig::new(SinkKind::Slack).url("other").url_file(file.path());
        assert!(sink.read_url().unwrap_err().starts_with("url_file: is empty"));
        std::io::Write::write_all(&mut file, b"https://example.com\n").unwrap();
        assert_eq!(sink.read_url().unwrap().unwrap().expose_secret(), "https://example.com");
        let missing = SinkConfig::new(SinkKind::Slack).url_file("no/such/file");
        assert!(missing.read_url().unwrap_err().starts_with("url_file: no/such/file cannot be read"));
    }
}
