//! A sink as the configuration has it: where messages go. Secrets never leave [`SecretString`]s, and nothing here shows one.

use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};

/// The most recipients of a mail.
const MAX_RECIPIENTS: usize = 50;

/// The most bytes of a file with a secret.
const SECRET_BYTES: u64 = 16 * 1024;

variants! {
    /// What a sink is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
    #[serde(rename_all = "snake_case")]
    #[non_exhaustive]
    pub enum SinkKind {
        /// A robot of a `DingTalk` group.
        Dingtalk = "dingtalk",
        /// A bot of a Feishu or Lark group.
        Feishu = "feishu",
        /// A robot of a `WeCom` group.
        Wecom = "wecom",
        /// An incoming webhook of Slack.
        Slack = "slack",
        /// An HTTP endpoint of your own.
        Webhook = "webhook",
        /// Mail over SMTP.
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

/// One place where messages go; see the [example](super::Config).
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
    pub(super) fn validate(&self) -> Vec<String> {
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
    use std::collections::BTreeMap;

    use super::*;
    use crate::alerts::Config;

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
