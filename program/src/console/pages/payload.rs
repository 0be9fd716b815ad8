//! A payload, a result or a header as people read it: as JSON, MessagePack, text or bytes. Long ones are cut.

use std::fmt::Write as _;

use serde_json::Value;
use streamfleet::job::Encoding;
use streamfleet_engine::admin::unpacked;
use streamfleet_operations::jobs::results;

use super::excerpt::end_within;

/// The most bytes of a text that a page shows …
const MAX_TEXT: usize = 24 * 1024;

/// … the most that this text takes in the page …
const MAX_HTML: usize = 40 * 1024;

/// … and the most bytes that it shows in hexadecimal.
const MAX_HEX: usize = 2048;

/// How many bytes a line in hexadecimal has.
const PER_LINE: usize = 16;

/// The largest payload that a page decodes.
const MAX_DECODED: usize = 1024 * 1024;

/// How bytes are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Msgpack,
    Text,
    Hex,
}

impl Form {
    /// All forms.
    pub(super) const ALL: [Self; 4] = [Self::Json, Self::Msgpack, Self::Text, Self::Hex];

    /// Its name in addresses.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Msgpack => "msgpack",
            Self::Text => "text",
            Self::Hex => "hex",
        }
    }

    /// The key of its name.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Json => "form.json",
            Self::Msgpack => "form.msgpack",
            Self::Text => "form.text",
            Self::Hex => "form.hex",
        }
    }

    /// The form with this name.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.as_str() == name)
    }

    /// The form that suits an encoding.
    pub(super) fn of_encoding(encoding: Option<Encoding>, bytes: &[u8]) -> Self {
        match encoding {
            Some(Encoding::Json) => Self::Json,
            Some(Encoding::Msgpack) => Self::Msgpack,
            Some(Encoding::Raw) | None if std::str::from_utf8(bytes).is_ok() => Self::Text,
            Some(Encoding::Raw) | None => Self::Hex,
        }
    }
}

/// Bytes as people read them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) text: String,
    /// Whether it is only a part.
    pub(super) is_cut: bool,
    /// Whether it is not what the form says, because the bytes are not in it.
    pub(super) is_other: bool,
}

/// Shows bytes in a form. What is masked must not be in them any more: some form would show it.
pub(super) fn shown(bytes: &[u8], form: Form) -> Shown {
    let decoded = match form {
        Form::Json => value(bytes, Encoding::Json),
        Form::Msgpack => value(bytes, Encoding::Msgpack),
        Form::Text | Form::Hex => None,
    };
    if let Some(value) = decoded {
        let pretty = serde_json::to_string_pretty(&value).unwrap_or_else(|_| value.to_string());
        return cut(&pretty, false);
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if form != Form::Hex => cut(text, form != Form::Text),
        Ok(_) | Err(_) => Shown {
            text: hex(&bytes[..bytes.len().min(MAX_HEX)]),
            is_cut: bytes.len() > MAX_HEX,
            is_other: form != Form::Hex,
        },
    }
}

/// Decodes bytes, if they are in this encoding and not too large.
pub(super) fn value(bytes: &[u8], encoding: Encoding) -> Option<Value> {
    if bytes.len() > MAX_DECODED {
        return None;
    }
    match encoding {
        Encoding::Json => serde_json::from_slice(bytes).ok(),
        Encoding::Msgpack => unpacked(bytes),
        Encoding::Raw => None,
    }
}

/// The bytes of a result: handlers keep bytes that are not text as `{"encoding": "base64", "data": "…"}`.
pub(super) fn result(text: &str) -> Vec<u8> {
    results::bytes(text).unwrap_or_else(|| text.as_bytes().to_vec())
}

fn cut(text: &str, is_other: bool) -> Shown {
    let end = (0..=text.len().min(MAX_TEXT)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let end = end_within(&text[..end], MAX_HTML);
    Shown { text: text[..end].to_owned(), is_cut: end < text.len(), is_other }
}

/// Bytes in lines of sixteen: the offset, the bytes, and those of them that are plain letters.
fn hex(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (at, line) in bytes.chunks(PER_LINE).enumerate() {
        let mut digits = String::new();
        for byte in line {
            // Writing to a string cannot fail.
            let written = write!(digits, "{byte:02x} ");
            debug_assert!(written.is_ok());
        }
        let plain: String = line
            .iter()
            .map(|byte| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '.' })
            .collect();
        out.push_str(&format!("{:08x}  {digits:<48} {plain}\n", at * PER_LINE));
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bytes_are_shown_in_every_form() {
        let json = br#"{"a":[1,"x"]}"#;
        let pretty = "{\n  \"a\": [\n    1,\n    \"x\"\n  ]\n}";
        assert_eq!(shown(json, Form::Json).text, pretty);
        let packed = rmp_serde::to_vec_named(&json!({"a": [1, "x"]})).unwrap();
        assert_eq!(shown(&packed, Form::Msgpack).text, pretty);
        assert_eq!(shown(json, Form::Text).text, r#"{"a":[1,"x"]}"#);
        assert_eq!(shown(b"a\xff", Form::Hex).text, format!("00000000  {:<48} a.\n", "61 ff "));
        let other = shown(b"\xff", Form::Json);
        assert!(other.is_other && other.text.starts_with("00000000  ff"), "{other:?}");
        assert!(shown(b"plain", Form::Json).is_other);
    }

    #[test]
    fn long_ones_are_cut() {
        let long = "é".repeat(MAX_TEXT);
        let cut = shown(long.as_bytes(), Form::Text);
        assert!(cut.is_cut && cut.text.len() == MAX_TEXT);
        let quotes = shown("\"".repeat(MAX_TEXT).as_bytes(), Form::Text);
        assert!(quotes.is_cut && quotes.text.len() == MAX_HTML / 5);
        assert!(shown(&[0; MAX_HEX + 1], Form::Hex).is_cut);
        assert!(!shown(&vec![b'1'; MAX_DECODED + 1], Form::Json).text.is_empty());
    }

    #[test]
    fn a_result_may_be_bytes() {
        assert_eq!(result(r#"{"encoding":"base64","data":"/wA="}"#), [0xff, 0]);
        assert_eq!(result(r#"{"rows":3}"#), br#"{"rows":3}"#);
    }
}
