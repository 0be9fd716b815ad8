//! The results of jobs and steps: as values, and short for people. Results are JSON; handlers keep bytes
//! that are not text as `{"encoding": "base64", "data": "…"}`.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::Deserialize;
use serde_json::{Value, json};

/// How many bytes of a result that is not text are shown to people.
const SHOWN_BYTES: usize = 16;

/// Bytes that are not text, as handlers keep them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bytes {
    encoding: String,
    data: String,
}

/// Converts a result to a value. Nothing is lost, whatever somebody has stored.
pub fn value(result: &[u8]) -> Value {
    match std::str::from_utf8(result) {
        Ok(text) => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
        Err(_) => json!({ "encoding": "base64", "data": BASE64_STANDARD.encode(result) }),
    }
}

/// Returns the bytes of a result that is not text.
pub fn bytes(result: &str) -> Option<Vec<u8>> {
    let packed = serde_json::from_str::<Bytes>(result).ok().filter(|packed| packed.encoding == "base64")?;
    BASE64_STANDARD.decode(packed.data).ok()
}

/// Returns a result as people read it: as it is, or the first bytes in hexadecimal if it is not text.
pub fn shown(result: &str) -> String {
    let Some(bytes) = bytes(result) else { return result.to_owned() };
    let first: Vec<String> = bytes.iter().take(SHOWN_BYTES).map(|byte| format!("{byte:02x}")).collect();
    let more = if bytes.len() > SHOWN_BYTES { " …" } else { "" };
    format!("{} bytes: {}{more}", bytes.len(), first.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_a_value_whatever_its_bytes_are() {
        assert_eq!(value(br#"{"rows": 3}"#), json!({"rows": 3}));
        assert_eq!(value(b"three rows"), json!("three rows"));
        assert_eq!(value(b"\xff\x00"), json!({"encoding": "base64", "data": "/wA="}));
    }

    #[test]
    fn bytes_are_shown_in_hexadecimal_and_text_as_it_is() {
        let packed = |bytes: &[u8]| value(bytes).to_string();
        assert_eq!(shown(&packed(b"\xff\x00")), "2 bytes: ff 00");
        let long = format!("40 bytes:{} …", " ff".repeat(16));
        assert_eq!(shown(&packed(&[0xff; 40])), long);
        for text in [r#"{"rows":3}"#, r#"{"encoding":"base64","data":"?"}"#, "\"done\"", "not JSON"] {
            assert_eq!(shown(text), text);
        }
    }
}
