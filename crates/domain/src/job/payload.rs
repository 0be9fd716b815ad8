//! Reading payloads, and whether workers can read one: they bound what they decode.

use std::io::Cursor;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, DeserializeSeed, IgnoredAny};

use super::Encoding;

/// JSON that is nested this deep is not read: the limit of `serde_json`.
const JSON_DEPTH: usize = 128;

/// MessagePack that is nested deeper than this is not read: each level takes space on the stack of a thread.
const MSGPACK_DEPTH: usize = 64;

/// Reads MessagePack that somebody sent: everything that does so calls this. Returns the value, and how many bytes follow it.
///
/// # Errors
///
/// If it is not what the seed expects, or is nested too deep.
pub fn read_msgpack<'de, S: DeserializeSeed<'de>>(
    payload: &[u8],
    seed: S,
) -> Result<(S::Value, u64), rmp_serde::decode::Error> {
    let mut decoder = rmp_serde::Deserializer::new(Cursor::new(payload));
    // The decoder counts the innermost value, too.
    decoder.set_max_depth(MSGPACK_DEPTH + 1);
    let value = seed.deserialize(&mut decoder)?;
    Ok((value, (payload.len() as u64).saturating_sub(decoder.position())))
}

/// Reads MessagePack that is one value of this type, within the same bounds. `None` if it is not, or if anything follows it.
pub fn unpacked<T: DeserializeOwned>(payload: &[u8]) -> Option<T> {
    let (value, left) = read_msgpack(payload, PhantomData::<T>).ok()?;
    (left == 0).then_some(value)
}

/// Returns true if these bytes are one value of this encoding, within the bounds of the workers' decoders.
pub fn is_readable(payload: &[u8], encoding: Encoding) -> bool {
    match encoding {
        Encoding::Json => {
            // Skipping a value checks neither its texts nor its depth.
            std::str::from_utf8(payload).is_ok()
                && serde_json::from_slice::<IgnoredAny>(payload).is_ok()
                && (is_shallow(payload) || json_depth(payload) < JSON_DEPTH)
        }
        Encoding::Msgpack => unpacked::<IgnoredAny>(payload).is_some(),
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
