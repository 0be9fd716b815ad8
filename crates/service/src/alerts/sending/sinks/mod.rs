//! Sinks: where messages go. Each has its own form of a message, its own signature, and its own way to say that it did not take
//! a message. Secrets and addresses with tokens stay in here: no error and no log line has them.

mod dingtalk;
mod feishu;
mod mail;
mod post;
mod slack;
mod webhook;
mod wecom;

use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use hyper::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use self::mail::Mail;
use self::post::Post;
use super::message::Message;
use crate::alerts::sink::{SinkConfig, SinkKind};
use crate::job::SinkName;
use crate::job::incident::line::plain_line;

/// The most bytes of what a sink answers, in texts.
const ANSWER_BYTES: usize = 300;

/// Why a sink cannot be used. The text never has a secret.
#[derive(Debug, thiserror::Error)]
#[error("alerts.sinks.{sink}.{reason}")]
#[non_exhaustive]
pub struct Error {
    /// The sink.
    pub sink: SinkName,
    /// Which key is wrong, and why: `key: reason`.
    pub reason: String,
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// The sink has taken it, and said this.
    Accepted { said: String },
    /// It may be sent again, after a pause if the sink wants one.
    Later { pause: Option<Duration>, why: String },
    /// It will not be taken as it is.
    Refused { why: String },
}

/// One place where messages go.
pub(super) struct Sink {
    pub(super) name: SinkName,
    via: Via,
}

/// How messages get there.
enum Via {
    Post(Box<Post>, Service),
    Mail(Box<Mail>),
}

/// Which service is behind an address.
enum Service {
    Dingtalk(Option<SecretString>),
    Feishu(Option<SecretString>),
    Wecom,
    Slack,
    Webhook(SecretString),
}

/// What is posted, besides the address.
struct Request {
    /// Added to the address.
    query: Vec<(&'static str, String)>,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Request {
    fn json(body: &Value) -> Self {
        Self { query: Vec::new(), headers: Vec::new(), body: body.to_string().into_bytes() }
    }
}

impl Sink {
    /// Reads the secrets and prepares connections. Whether the sink answers only shows with the first message.
    pub(super) fn open(name: &SinkName, config: &SinkConfig) -> Result<Self, Error> {
        let via = Via::open(config).map_err(|reason| Error { sink: name.clone(), reason })?;
        Ok(Self { name: name.clone(), via })
    }

    /// Sends a message once. This takes about 20 s at most.
    pub(super) async fn send(&self, message: &Message) -> Answer {
        match &self.via {
            Via::Post(post, service) => {
                let reply = match post.send(service.request(message, jiff::Timestamp::now())).await {
                    Ok(reply) => reply,
                    Err(why) => return Answer::Later { pause: None, why },
                };
                match usual(reply.status, reply.pause, &reply.body) {
                    Some(answer) => answer,
                    None => service.judge(&reply.body),
                }
            }
            Via::Mail(mail) => mail.send(message).await,
        }
    }
}

impl Via {
    fn open(config: &SinkConfig) -> Result<Self, String> {
        let secret = config.read_secret()?;
        let service = match config.kind {
            SinkKind::Mail => return Ok(Self::Mail(Box::new(Mail::open(config, secret)?))),
            SinkKind::Dingtalk => Service::Dingtalk(secret.clone()),
            SinkKind::Feishu => Service::Feishu(secret.clone()),
            SinkKind::Wecom => Service::Wecom,
            SinkKind::Slack => Service::Slack,
            SinkKind::Webhook => {
                Service::Webhook(secret.clone().ok_or_else(|| "secret_file: is missing".to_owned())?)
            }
        };
        let url = config.read_url()?.ok_or_else(|| "url_file: is missing".to_owned())?;
        Ok(Self::Post(Box::new(Post::open(&url, secret)?), service))
    }
}

impl Service {
    fn request(&self, message: &Message, now: jiff::Timestamp) -> Request {
        match self {
            Self::Dingtalk(secret) => dingtalk::request(message, secret.as_ref(), now.as_millisecond()),
            Self::Feishu(secret) => feishu::request(message, secret.as_ref(), now.as_second()),
            Self::Wecom => wecom::request(message),
            Self::Slack => slack::request(message),
            Self::Webhook(secret) => webhook::request(message, secret, now.as_second()),
        }
    }

    /// Decides what the body of a response with a good status means.
    fn judge(&self, body: &[u8]) -> Answer {
        match self {
            Self::Dingtalk(_) => dingtalk::judge(body),
            Self::Feishu(_) => feishu::judge(body),
            Self::Wecom => wecom::judge(body),
            Self::Slack => slack::judge(body),
            Self::Webhook(_) => Answer::Accepted { said: said(body) },
        }
    }
}

/// Decides what a status means; `None` if the body says more.
fn usual(status: StatusCode, pause: Option<Duration>, body: &[u8]) -> Option<Answer> {
    if status.is_success() {
        return None;
    }
    let why = match said(body) {
        text if text.is_empty() => format!("answered {status}"),
        text => format!("answered {status}: {text}"),
    };
    let is_temporary = status.is_server_error()
        || matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY
        );
    Some(if is_temporary { Answer::Later { pause, why } } else { Answer::Refused { why } })
}

/// Decides what an answer with a number means that is 0 for success. The services answer so with the status 200.
fn by_code(body: &[u8], codes: &[&str], texts: &[&str], too_fast: &[i64]) -> Answer {
    /// How long a service that got too many messages is left alone.
    const TOO_FAST: Duration = Duration::from_secs(60);
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let code = codes.iter().find_map(|name| answer.get(name)?.as_i64());
    let text = texts.iter().find_map(|name| answer.get(name)?.as_str()).unwrap_or_default();
    let text = plain_line(text, ANSWER_BYTES);
    match code {
        Some(0) => Answer::Accepted { said: text },
        Some(code) if too_fast.contains(&code) => {
            Answer::Later { pause: Some(TOO_FAST), why: format!("answered with the error {code}: {text}") }
        }
        // The services use it for errors of their own.
        Some(-1) => Answer::Later { pause: None, why: format!("answered with the error -1: {text}") },
        Some(code) => Answer::Refused { why: format!("answered with the error {code}: {text}") },
        None => Answer::Refused { why: format!("answered with no code, but: {}", said(body)) },
    }
}

/// The beginning of an answer as one line.
fn said(body: &[u8]) -> String {
    plain_line(&String::from_utf8_lossy(body), ANSWER_BYTES)
}

/// HMAC-SHA256.
fn hmac(key: &[u8], text: &[u8]) -> ring::hmac::Tag {
    ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key), text)
}

fn hmac_base64(key: &[u8], text: &[u8]) -> String {
    BASE64_STANDARD.encode(hmac(key, text))
}

fn exposed(secret: &SecretString) -> &str {
    secret.expose_secret()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_decides_unless_it_is_good() {
        let answer = |status: u16| usual(StatusCode::from_u16(status).unwrap(), None, b"no\n");
        assert_eq!(answer(200), None);
        for status in [429, 500, 503, 408] {
            assert!(matches!(answer(status), Some(Answer::Later { .. })), "{status}");
        }
        for status in [301, 400, 401, 404] {
            assert!(
                matches!(answer(status), Some(Answer::Refused { why }) if why.ends_with(": no")),
                "{status}"
            );
        }
    }

    #[test]
    fn a_code_other_than_0_is_no_success() {
        let judge = |body: &[u8]| by_code(body, &["errcode"], &["errmsg"], &[45009]);
        assert_eq!(judge(br#"{"errcode":0,"errmsg":"ok"}"#), Answer::Accepted { said: "ok".to_owned() });
        assert!(matches!(judge(br#"{"errcode":45009}"#), Answer::Later { pause: Some(_), .. }));
        assert!(matches!(judge(br#"{"errcode":-1}"#), Answer::Later { pause: None, .. }));
        for body in [&br#"{"errcode":93000,"errmsg":"invalid"}"#[..], b"{}", b"", b"<html>", b"[0]"] {
            assert!(matches!(judge(body), Answer::Refused { .. }), "{body:?}");
        }
    }
}
