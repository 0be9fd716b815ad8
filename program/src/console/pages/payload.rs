//! A payload, a result or a header as people read it: as JSON, MessagePack, text or bytes. Long ones are cut.

use std::fmt::Write as _;
use std::io;

use serde_json::Value;
use streamfleet::job::Encoding;
use streamfleet_engine::admin::unpacked;
use streamfleet_operations::jobs::results;

use super::excerpt::end_within;
use crate::console::access::Mask;
use crate::console::api::heaviest;

/// The most bytes of a text that a page shows …
const MAX_TEXT: usize = 24 * 1024;

/// … the most that this text takes in the page …
const MAX_HTML: usize = 40 * 1024;

/// … and the most bytes that it shows in hexadecimal.
const MAX_HEX: usize = 2048;

/// How many bytes a line in hexadecimal has.
const PER_LINE: usize = 16;

/// The largest payload that a page decodes, …
const MAX_DECODED: usize = 1024 * 1024;

/// … and the most bytes that its values may take.
const MAX_WEIGHT: usize = 64 * 1024 * 1024;

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

/// How much memory the values in these bytes take while they are shown: 0 if they take too much, because then they are not
/// decoded.
pub(super) fn weight(bytes: &[u8]) -> usize {
    let weight = if bytes.len() > MAX_DECODED { 0 } else { heaviest(bytes) };
    if weight > MAX_WEIGHT { 0 } else { weight }
}

/// Shows bytes in a form. If anything is masked, each form has only what was decoded of them and is not masked. `None` if they
/// cannot be decoded to find that, or if it would take too much memory.
pub(super) fn shown((bytes, encoding): (&[u8], Option<Encoding>), form: Form, mask: &Mask) -> Option<Shown> {
    if mask.is_empty() || bytes.is_empty() {
        let decoded = match form {
            Form::Json => value(bytes, Encoding::Json),
            Form::Msgpack => value(bytes, Encoding::Msgpack),
            Form::Text | Form::Hex => None,
        };
        return Some(decoded.map_or_else(|| as_they_are(bytes, form), |value| in_lines(&value)));
    }
    if weight(bytes) == 0 {
        return None;
    }
    let own = if encoding == Some(Encoding::Msgpack) { Form::Msgpack } else { Form::Json };
    if form == own {
        mask.value(bytes, encoding).map(|value| in_lines(&value))
    } else {
        mask.bytes(bytes, encoding).map(|seen| as_they_are(&seen, form))
    }
}

fn in_lines(value: &Value) -> Shown {
    cut(&pretty(value), false)
}

/// Bytes that are not decoded: as text, or else in hexadecimal.
fn as_they_are(bytes: &[u8], form: Form) -> Shown {
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
    if weight(bytes) == 0 {
        return None;
    }
    match encoding {
        Encoding::Json => serde_json::from_slice(bytes).ok(),
        Encoding::Msgpack => unpacked(bytes),
        Encoding::Raw => None,
    }
}

/// The beginning of a value in lines. Deep ones are mostly spaces, so that all of it may take hundreds of times as many bytes.
fn pretty(value: &Value) -> String {
    let mut text = Beginning(Vec::new());
    // It fails where the beginning ends.
    let is_whole = serde_json::to_writer_pretty(&mut text, value).is_ok();
    debug_assert!(is_whole || text.0.len() > MAX_TEXT);
    String::from_utf8_lossy(&text.0).into_owned()
}

/// Takes what is written, up to a bit more than is shown.
struct Beginning(Vec<u8>);

impl io::Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min((MAX_TEXT + 1).saturating_sub(self.0.len()));
        self.0.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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

    fn unmasked(bytes: &[u8], form: Form) -> Shown {
        shown((bytes, None), form, &Mask::default()).unwrap()
    }

    fn masked(bytes: &[u8], encoding: Encoding, form: Form) -> Option<Shown> {
        shown((bytes, Some(encoding)), form, &Mask::new(["card"]))
    }

    #[test]
    fn bytes_are_shown_in_every_form() {
        let json = br#"{"a":[1,"x"]}"#;
        let pretty = "{\n  \"a\": [\n    1,\n    \"x\"\n  ]\n}";
        assert_eq!(unmasked(json, Form::Json).text, pretty);
        let packed = rmp_serde::to_vec_named(&json!({"a": [1, "x"]})).unwrap();
        assert_eq!(unmasked(&packed, Form::Msgpack).text, pretty);
        assert_eq!(unmasked(json, Form::Text).text, r#"{"a":[1,"x"]}"#);
        assert_eq!(unmasked(b"a\xff", Form::Hex).text, format!("00000000  {:<48} a.\n", "61 ff "));
        let other = unmasked(b"\xff", Form::Json);
        assert!(other.is_other && other.text.starts_with("00000000  ff"), "{other:?}");
        assert!(unmasked(b"plain", Form::Json).is_other);
    }

    #[test]
    fn long_ones_are_cut() {
        let long = "é".repeat(MAX_TEXT);
        let cut = unmasked(long.as_bytes(), Form::Text);
        assert!(cut.is_cut && cut.text.len() == MAX_TEXT);
        let quotes = unmasked("\"".repeat(MAX_TEXT).as_bytes(), Form::Text);
        assert!(quotes.is_cut && quotes.text.len() == MAX_HTML / 5);
        assert!(unmasked(&[0; MAX_HEX + 1], Form::Hex).is_cut);
        assert!(!unmasked(&vec![b'1'; MAX_DECODED + 1], Form::Json).text.is_empty());
    }

    #[test]
    fn what_is_masked_cannot_be_read_in_another_form() {
        let twice = br#"{"card":{"n":"4111"},"card":"4111"}"#;
        let packed = rmp_serde::to_vec_named(&json!({"card": "4111"})).unwrap();
        for form in Form::ALL {
            for (bytes, encoding) in [(&twice[..], Encoding::Json), (&packed[..], Encoding::Msgpack)] {
                let text = masked(bytes, encoding, form).unwrap().text;
                assert!(!text.contains("4111") && !text.contains("34 31 31 31"), "{form:?}: {text}");
                assert!(text.contains("***") || text.contains("2a 2a 2a"), "{form:?}: {text}");
            }
        }
        let pretty = "{\n  \"card\": \"***\"\n}";
        assert_eq!(masked(twice, Encoding::Json, Form::Json).unwrap().text, pretty);
        assert_eq!(masked(&packed, Encoding::Msgpack, Form::Msgpack).unwrap().text, pretty);
        let other = masked(twice, Encoding::Json, Form::Msgpack).unwrap();
        assert_eq!((&*other.text, other.is_other), (r#"{"card":"***"}"#, true));
    }

    #[test]
    fn what_cannot_be_decoded_is_shown_only_if_nothing_is_masked() {
        // A member that JSON cannot express.
        let binary = [&[0x81, 0xa4][..], b"card", &[0xc4, 0x01, 0xff]].concat();
        let (packed, large) = (rmp_serde::to_vec(&json!([1])).unwrap(), many_objects());
        for form in Form::ALL {
            for (bytes, encoding) in [
                (&br#"{"iban":"4111""#[..], Encoding::Json),
                (&binary[..], Encoding::Msgpack),
                (&packed[..], Encoding::Json),
                (&large[..], Encoding::Json),
            ] {
                assert_eq!(masked(bytes, encoding, form), None, "{form:?}");
                assert!(!unmasked(bytes, form).text.is_empty());
            }
            for (bytes, encoding) in [
                (&br#"{"iban":"4111"}"#[..], Encoding::Json),
                (&br#"{"iban":"4111"}"#[..], Encoding::Raw),
                (&packed[..], Encoding::Msgpack),
                (&b""[..], Encoding::Json),
            ] {
                assert!(masked(bytes, encoding, form).is_some(), "{form:?}");
            }
        }
    }

    /// A payload that is not large, with values that are.
    fn many_objects() -> Vec<u8> {
        format!("[{}1]", "{\"\":1},".repeat(140_000)).into_bytes()
    }

    #[test]
    fn what_takes_much_memory_is_not_decoded() {
        let large = many_objects();
        assert!(large.len() < MAX_DECODED && weight(&large) == 0);
        let shown = unmasked(&large, Form::Json);
        assert!(shown.is_other && shown.is_cut && shown.text.starts_with("[{\"\":1},{"), "{}", shown.text);
        assert!(weight(&vec![b'1'; MAX_DECODED + 1]) == 0 && weight(b"[1]") > 0);
    }

    #[test]
    fn only_the_beginning_of_a_deep_value_is_written() {
        let deep = format!("{}{}1{}", "[".repeat(100), "1,".repeat(400_000), "]".repeat(100));
        let value = value(deep.as_bytes(), Encoding::Json).unwrap();
        assert_eq!(pretty(&value).len(), MAX_TEXT + 1);
        let shown = unmasked(deep.as_bytes(), Form::Json);
        assert!(shown.is_cut && !shown.is_other && shown.text.len() == MAX_TEXT);
    }

    #[test]
    fn a_result_may_be_bytes() {
        assert_eq!(result(r#"{"encoding":"base64","data":"/wA="}"#), [0xff, 0]);
        assert_eq!(result(r#"{"rows":3}"#), br#"{"rows":3}"#);
    }
}
