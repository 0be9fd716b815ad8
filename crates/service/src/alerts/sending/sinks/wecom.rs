//! Robots of `WeCom` groups. The key in the address is all that protects them; errors come with the status 200. Messages are plain
//! text, so nothing in them is markup or mentions anybody.

use serde_json::json;

use super::{Answer, Message, Request, by_code};

/// The most bytes of a text that the service takes.
const TEXT_BYTES: usize = 2048;

/// What the service answers if it gets more than 20 messages a minute.
const TOO_FAST: [i64; 2] = [45_009, 45_033];

pub(super) fn request(message: &Message) -> Request {
    Request::json(&json!({ "msgtype": "text", "text": { "content": message.text(TEXT_BYTES) } }))
}

pub(super) fn judge(body: &[u8]) -> Answer {
    by_code(body, &["errcode"], &["errmsg"], &TOO_FAST)
}
