//! Robots of `DingTalk` groups. The signature stands in the address; errors come with the status 200. Messages are plain text,
//! so nothing in them is markup or mentions anybody.

use secrecy::SecretString;
use serde_json::json;

use super::{Answer, Message, Request, by_code, exposed, hmac_base64};

/// The most bytes of a text. The service refuses more than 20,000.
const TEXT_BYTES: usize = 8000;

/// What the service answers if it gets more than 20 messages a minute.
const TOO_FAST: [i64; 2] = [130_101, 410_100];

pub(super) fn request(message: &Message, secret: Option<&SecretString>, now_ms: i64) -> Request {
    let body = json!({ "msgtype": "text", "text": { "content": message.text(TEXT_BYTES) }, "at": { "isAtAll": false } });
    let mut request = Request::json(&body);
    if let Some(secret) = secret {
        let sign = sign(exposed(secret), now_ms);
        request.query = vec![("timestamp", now_ms.to_string()), ("sign", sign)];
    }
    request
}

fn sign(secret: &str, now_ms: i64) -> String {
    hmac_base64(secret.as_bytes(), format!("{now_ms}\n{secret}").as_bytes())
}

pub(super) fn judge(body: &[u8]) -> Answer {
    by_code(body, &["errcode"], &["errmsg"], &TOO_FAST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::sending::message::tests::{incident, now, sender};

    #[test]
    fn the_signature_is_the_documented_one() {
        let secret = "SEC000000000000000000000000000000000000000000000000000000000000000f";
        assert_eq!(sign(secret, 1_577_262_236_757), "LqAtyV170hwnOFw4aVfxs++K5mDD8PZWRlGYLejZvtY=");
    }

    #[test]
    fn a_message_is_text_and_mentions_nobody() {
        let message = sender().message(&[incident(1, "<b>@all</b> [x](http://evil)")], now());
        let request = request(&message, None, 1);
        let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!((body["msgtype"].as_str(), body["at"]["isAtAll"].as_bool()), (Some("text"), Some(false)));
        assert!(request.query.is_empty());
    }
}
