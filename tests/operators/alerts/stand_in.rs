//! Servers that stand in for chat services: they check signatures, answer errors with the status 200, and keep what they took.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use ring::hmac;
use serde_json::{Value, json};
use streamfleet_service::alerts::{SinkConfig, SinkKind};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

/// What a stand-in has taken, what it answers first, and how often it was asked.
type Own = (Arc<Mutex<Vec<String>>>, Arc<Mutex<VecDeque<(u16, String)>>>, Arc<Mutex<usize>>);

pub(crate) const SECRET: &str = "SEC-of-the-robot-0123456789";

/// A token in an address, which no text may show.
pub(crate) const TOKEN: &str = "canary-token-0123456789";

/// A chat service.
pub(crate) struct Robot {
    pub(crate) server: MockServer,
    /// The texts that it took.
    taken: Arc<Mutex<Vec<String>>>,
    /// What it answers first, instead of taking a message.
    first: Arc<Mutex<VecDeque<(u16, String)>>>,
    /// How many requests it got.
    asked: Arc<Mutex<usize>>,
}

impl Robot {
    /// Starts a service that checks a request and says what is in it, or why it refuses.
    pub(super) async fn start(check: fn(&Request) -> Result<String, String>, success: &'static str) -> Self {
        let server = MockServer::start().await;
        let (taken, first, asked) =
            (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<VecDeque<_>>>::default(), Arc::default());
        let own = (Arc::clone(&taken), Arc::clone(&first), Arc::clone(&asked));
        let respond = move |request: &Request| {
            let (taken, first, asked): &Own = &own;
            *asked.lock().unwrap() += 1;
            if let Some((status, body)) = first.lock().unwrap().pop_front() {
                return ResponseTemplate::new(status).set_body_string(body).insert_header("retry-after", "1");
            }
            match check(request) {
                Ok(text) => {
                    taken.lock().unwrap().push(text);
                    ResponseTemplate::new(200).set_body_string(success)
                }
                // As these services do.
                Err(why) => ResponseTemplate::new(200).set_body_string(
                    json!({ "errcode": 310_000, "code": 19_021, "errmsg": why, "msg": why }).to_string(),
                ),
            }
        };
        Mock::given(any()).respond_with(respond).mount(&server).await;
        Self { server, taken, first, asked }
    }

    /// Starts a stand-in for `DingTalk`.
    pub(crate) async fn dingtalk() -> Self {
        Self::start(dingtalk, r#"{"errcode":0,"errmsg":"ok"}"#).await
    }

    /// Starts a stand-in for Feishu.
    pub(super) async fn feishu() -> Self {
        Self::start(feishu, r#"{"code":0,"msg":"success","data":{}}"#).await
    }

    /// Starts a stand-in for `WeCom`.
    pub(super) async fn wecom() -> Self {
        Self::start(wecom, r#"{"errcode":0,"errmsg":"ok"}"#).await
    }

    /// Starts a stand-in for Slack.
    pub(crate) async fn slack() -> Self {
        Self::start(slack, "ok").await
    }

    /// The sink that posts to it.
    pub(super) fn sink(&self, kind: SinkKind) -> SinkConfig {
        SinkConfig::new(kind)
            .url(format!("{}/robot/send?access_token={TOKEN}", self.server.uri()))
            .secret(SECRET)
    }

    /// The texts that it took so far.
    pub(crate) fn taken(&self) -> Vec<String> {
        self.taken.lock().unwrap().clone()
    }

    /// How many requests it got so far.
    pub(super) fn asked(&self) -> usize {
        *self.asked.lock().unwrap()
    }

    /// Lets it refuse the next requests in this way.
    pub(crate) fn refuse(&self, times: usize, status: u16, body: &str) {
        self.first.lock().unwrap().extend(std::iter::repeat_n((status, body.to_owned()), times));
    }
}

pub(super) fn hmac_base64(key: &[u8], text: &[u8]) -> String {
    BASE64_STANDARD.encode(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text))
}

pub(super) fn body(request: &Request) -> Result<Value, String> {
    serde_json::from_slice(&request.body).map_err(|error| format!("no JSON: {error}"))
}

fn dingtalk(request: &Request) -> Result<String, String> {
    let part = |name: &str| {
        let found = request.url.query_pairs().find(|(key, _)| key == name);
        found.map(|(_, value)| value.into_owned()).ok_or(format!("no {name}"))
    };
    if part("access_token")? != TOKEN {
        return Err("token is not exist".to_owned());
    }
    let timestamp = part("timestamp")?;
    let signed = format!("{timestamp}\n{SECRET}");
    if timestamp.len() != 13 || part("sign")? != hmac_base64(SECRET.as_bytes(), signed.as_bytes()) {
        return Err("sign not match".to_owned());
    }
    let body = body(request)?;
    let text = body["text"]["content"].as_str().filter(|_| body["msgtype"] == "text");
    text.map(str::to_owned).ok_or_else(|| "param error".to_owned())
}

fn feishu(request: &Request) -> Result<String, String> {
    let body = body(request)?;
    let timestamp = body["timestamp"].as_str().ok_or("no timestamp")?;
    let key = format!("{timestamp}\n{SECRET}");
    if timestamp.len() != 10 || body["sign"] != hmac_base64(key.as_bytes(), b"") {
        return Err("sign match fail or timestamp is not within one hour from current time".to_owned());
    }
    let post = &body["content"]["post"]["zh_cn"];
    let title = post["title"].as_str().filter(|_| body["msg_type"] == "post").ok_or("params error")?;
    Ok(format!("{title}\n{}", post["content"]))
}

fn slack(request: &Request) -> Result<String, String> {
    let body = body(request)?;
    let header = body["blocks"][0]["text"]["text"].as_str().ok_or("no_text")?;
    Ok(header.to_owned())
}

fn wecom(request: &Request) -> Result<String, String> {
    let body = body(request)?;
    let text =
        body["text"]["content"].as_str().filter(|text| body["msgtype"] == "text" && text.len() <= 2048);
    text.map(str::to_owned).ok_or_else(|| "content size exceed limit".to_owned())
}
