//! Times as columns have them.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use streamfleet::job::Timestamp;

use super::mapping::Unit;

/// Reads a time.
///
/// # Errors
///
/// Says what is expected.
pub(super) fn read(text: &str, unit: Unit) -> Result<Timestamp, String> {
    let ms = match unit {
        Unit::S => seconds(text),
        Unit::Ms => text.parse().ok(),
        Unit::Utc => utc(text),
    };
    let wanted = match unit {
        Unit::S => "seconds since 1970",
        Unit::Ms => "milliseconds since 1970",
        Unit::Utc => "a date and a time of day in UTC, such as 2026-12-01 10:00:00",
    };
    ms.and_then(Timestamp::from_ms).ok_or_else(|| format!("is {text:?}, but must be {wanted}"))
}

fn seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let ms: u64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(ms)
}

fn utc(text: &str) -> Option<u64> {
    let marks = ["+00:00", "+00", "Z", " UTC"];
    let civil = marks.iter().find_map(|mark| text.strip_suffix(mark)).unwrap_or(text);
    // A text with another offset, or with a zone, would be read without it.
    if civil.get(10..)?.contains(['+', '-', '[']) {
        return None;
    }
    let civil: DateTime = civil.parse().ok()?;
    u64::try_from(civil.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit_is_read() {
        let ms = |text: &str, unit| read(text, unit).map(Timestamp::as_ms).ok();
        assert_eq!(ms("1764547200", Unit::S), Some(1_764_547_200_000));
        assert_eq!(ms("1764547200.25", Unit::S), Some(1_764_547_200_250));
        assert_eq!(ms("1764547200250", Unit::Ms), Some(1_764_547_200_250));
        for text in ["2025-12-01 00:00:00.25", "2025-12-01T00:00:00.25Z", "2025-12-01 00:00:00.25+00"] {
            assert_eq!(ms(text, Unit::Utc), Some(1_764_547_200_250), "{text}");
        }
    }

    #[test]
    fn another_text_is_no_time() {
        for (text, unit) in [
            ("-1", Unit::S),
            ("1.x", Unit::S),
            ("", Unit::Ms),
            ("0000-00-00 00:00:00", Unit::Utc),
            ("2025-12-01 00:00:00+08", Unit::Utc),
            ("99999999999999999999", Unit::S),
        ] {
            assert!(read(text, unit).unwrap_err().contains("must be"), "{text}");
        }
    }
}
