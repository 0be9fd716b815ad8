//! Whether workers can read a payload: they bound what they decode.

use std::io::Cursor;

use serde::de::{Deserialize as _, IgnoredAny};

use super::Encoding;

/// JSON that is nested this deep is not read: the limit of `serde_json`.
const JSON_DEPTH: usize = 128;

/// MessagePack that is nested deeper than this is not read.
pub const MSGPACK_DEPTH: usize = 64;

/// Returns true if these bytes are one value of this encoding, within the bounds of the workers' decoders.
pub fn is_readable(payload: &[u8], encoding: Encoding) -> bool {
    match encoding {
        Encoding::Json => {
            // Skipping a value checks neither its texts nor its depth.
            std::str::from_utf8(payload).is_ok()
                && serde_json::from_slice::<IgnoredAny>(payload).is_ok()
                && (is_shallow(payload) || json_depth(payload) < JSON_DEPTH)
        }
        Encoding::Msgpack => {
            let mut decoder = rmp_serde::Deserializer::new(Cursor::new(payload));
            decoder.set_max_depth(MSGPACK_DEPTH);
            IgnoredAny::deserialize(&mut decoder).is_ok() && decoder.position() == payload.len() as u64
        }
        Encoding::Raw => true,
    }
}

/// Returns true if JSON has too few brackets to be nested too deep: most of it, and this is found out quickly.
fn is_shallow(json: &[u8]) -> bool {
    json.iter().filter(|byte| matches!(byte, b'[' | b'{')).count() < JSON_DEPTH
}

/// How deep the arrays and objects of valid JSON are nested.
fn json_depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_text, mut is_escaped) = (false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(open: &str, close: &str, depth: usize) -> Vec<u8> {
        format!("{}{}", open.repeat(depth), close.repeat(depth)).into_bytes()
    }

    #[test]
    fn json_is_readable_exactly_if_workers_read_it() {
        let texts = [&b"{\"a\":[1,\"]]\\\"[\"]}"[..], b"null", b"1e999", b"{} x", b"{", b"[\"\xff\"]", b""];
        assert_eq!(
            texts.map(|text| is_readable(text, Encoding::Json)),
            [true, true, true, false, false, false, false]
        );
        for depth in [1, 126, 127, 128, 129, 10_000] {
            let payload = nested("[", "]", depth);
            let is_read = serde_json::from_slice::<serde_json::Value>(&payload).is_ok();
            assert_eq!(is_readable(&payload, Encoding::Json), is_read, "{depth}");
            let beside = [b"[\"[[[{{{\",", payload.as_slice(), b"]"].concat();
            assert_eq!(is_readable(&beside, Encoding::Json), is_read && depth < 127, "{depth}");
        }
    }

    #[test]
    fn messagepack_is_readable_without_more_bytes_and_not_too_deep() {
        assert!(is_readable(b"\x81\xa1a\x01", Encoding::Msgpack));
        assert!(!is_readable(b"\x81\xa1a\x01\x01", Encoding::Msgpack));
        assert!(!is_readable(b"\x81\xa1a", Encoding::Msgpack));
        let deep = |depth: usize| [vec![0x91; depth], vec![0xc0]].concat();
        assert!(is_readable(&deep(60), Encoding::Msgpack) && !is_readable(&deep(70), Encoding::Msgpack));
        assert!(is_readable(b"\xff", Encoding::Raw));
    }
}
