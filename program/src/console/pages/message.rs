//! What the next page says about an action that was just taken. A cookie carries it, so that no address can put words there.

use axum::http::HeaderValue;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};

use super::cookie;

/// The longest message in bytes: a cookie has about 4000.
const MAX_BYTES: usize = 1500;

/// How long a message waits for the next page, in seconds.
const SECONDS: u32 = 60;

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) is_good: bool,
    pub(super) text: String,
}

impl Message {
    /// Something was done.
    pub(super) fn good(text: impl Into<String>) -> Self {
        Self { is_good: true, text: text.into() }
    }

    /// Something was not done, or not completely.
    pub(super) fn bad(text: impl Into<String>) -> Self {
        Self { is_good: false, text: text.into() }
    }

    /// The header that gives it to the browser.
    pub(super) fn header(&self) -> HeaderValue {
        let end = (0..=self.text.len().min(MAX_BYTES)).rev().find(|end| self.text.is_char_boundary(*end));
        let mut bytes = vec![u8::from(self.is_good)];
        bytes.extend_from_slice(&self.text.as_bytes()[..end.unwrap_or(0)]);
        cookie::set(cookie::MESSAGE, &BASE64_URL_SAFE_NO_PAD.encode(bytes), SECONDS)
    }

    /// The header that takes it from the browser.
    pub(super) fn spent() -> HeaderValue {
        cookie::set(cookie::MESSAGE, "", 0)
    }

    /// Reads the value of the cookie.
    pub(super) fn read(value: &str) -> Option<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(value).ok()?;
        let (is_good, text) = bytes.split_first()?;
        let text = std::str::from_utf8(text).ok().filter(|text| !text.is_empty())?;
        Some(Self { is_good: *is_good == 1, text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried(message: &Message) -> Option<Message> {
        let header = message.header();
        let value = header.to_str().unwrap().split_once('=').unwrap().1.split(';').next().unwrap().to_owned();
        Message::read(&value)
    }

    #[test]
    fn a_message_survives_the_cookie_and_a_long_one_is_cut() {
        for message in [Message::good("取消了 3 个任务"), Message::bad("<b>;\r\n=")] {
            assert_eq!(carried(&message), Some(message));
        }
        assert_eq!(carried(&Message::good("é".repeat(2000))).unwrap().text.len(), MAX_BYTES);
        for spoiled in ["", "AQ", "?", "Af8"] {
            assert_eq!(Message::read(spoiled), None, "{spoiled}");
        }
    }
}
