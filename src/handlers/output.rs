//! The output of a program or an endpoint, cut and made safe to keep: results for records, excerpts for error texts.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

/// Returns `bytes` as a result: JSON if they parse as JSON, otherwise a string without trailing line ends, or null if
/// they are empty. Bytes that are not text become `{"encoding": "base64", "data": "…"}`.
pub(super) fn result(bytes: &[u8]) -> Value {
    if let Ok(value) = serde_json::from_slice(bytes) {
        return value;
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return json!({ "encoding": "base64", "data": BASE64_STANDARD.encode(bytes) });
    };
    match text.trim_end_matches(['\n', '\r']) {
        "" => Value::Null,
        text => Value::String(text.to_owned()),
    }
}

/// Returns `bytes` as one line of text that is safe in a log or a terminal.
pub(super) fn line(bytes: &[u8]) -> String {
    escaped(bytes, |_| false)
}

/// Escapes what a log must not have, but keeps the line breaks.
pub(super) fn lines(bytes: &[u8]) -> String {
    escaped(bytes, |c| c == '\n')
}

/// Returns `bytes` as one line of text as it was written, with its indentation, that is safe in a log or a terminal.
pub(super) fn indented(bytes: &[u8]) -> String {
    kept(String::from_utf8_lossy(bytes).trim_end(), |c| c == '\t')
}

fn escaped(bytes: &[u8], is_kept: impl Fn(char) -> bool) -> String {
    kept(String::from_utf8_lossy(bytes).trim(), is_kept)
}

fn kept(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && !is_kept(c) { safe.extend(c.escape_default()) } else { safe.push(c) }
    }
    safe
}

/// Returns the end of `bytes` as text of at most `max` bytes that is safe in a log or a terminal, with its line breaks.
pub(super) fn tail(bytes: &[u8], max: usize) -> String {
    // A cut may have left the end of a character at the front.
    let start = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    let text = lines(&bytes[start..]);
    let mut start = text.len().saturating_sub(max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text[start..].trim_start_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_result_is_json_if_it_parses_else_text_else_base64() {
        assert_eq!(result(b"{\"rows\": 18446744073709551615}\n"), json!({"rows": u64::MAX}));
        assert_eq!(result(b"3 rows\n"), json!("3 rows"));
        assert_eq!(result(b"{\"cut"), json!("{\"cut"));
        assert_eq!(result(b"\xff\n"), json!({"encoding": "base64", "data": "/wo="}));
        assert_eq!([result(b""), result(b"\r\n"), result(b"null")], [Value::Null, Value::Null, Value::Null]);
    }

    #[test]
    fn control_characters_are_escaped_and_other_letters_kept() {
        assert_eq!(line("\u{1b}[2Jé\n{\"level\":1}\0\n".as_bytes()), r#"\u{1b}[2Jé\n{"level":1}\u{0}"#);
    }

    #[test]
    fn a_line_that_is_shown_as_it_was_written_keeps_its_indentation() {
        assert_eq!(indented(b"  [\"a\"]=>\n"), "  [\"a\"]=>");
        assert_eq!(indented(b"\tone\ttwo\x1b[2J \r\n"), "\tone\ttwo\\u{1b}[2J");
    }

    #[test]
    fn lines_keep_their_breaks_and_nothing_else() {
        assert_eq!(lines(b"\na\n  b\r\n\x1b[2J\tc\n"), "a\n  b\\r\n\\u{1b}[2J\\tc");
    }

    #[test]
    fn a_tail_keeps_line_breaks_between_its_lines() {
        assert_eq!(
            tail(b"Traceback:\n  File\n\nValueError: no\n", 100),
            "Traceback:\n  File\n\nValueError: no"
        );
        assert_eq!(tail(b"first\nlast", 5), "last");
    }

    #[test]
    fn a_tail_starts_with_a_whole_character() {
        assert_eq!(tail(&"éa".as_bytes()[1..], 100), "a");
        assert_eq!(tail("aéb".as_bytes(), 2), "b");
    }

    proptest! {
        #[test]
        fn a_tail_of_any_bytes_is_bounded_and_has_no_control_characters_but_line_breaks(bytes: Vec<u8>, max in 0_usize..50) {
            let tail = tail(&bytes, max);
            let is_safe = |c: char| c == '\n' || !c.is_control();
            prop_assert!(tail.len() <= max && tail.chars().all(is_safe) && !tail.starts_with('\n'), "{tail:?}");
        }
    }
}
