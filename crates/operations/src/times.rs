//! Times and durations: how they are printed, and how they are read from arguments. What is printed comes from the
//! server's clock; the local clock is never read.

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use streamfleet::job::{Timestamp, parse_duration};
pub use streamfleet_engine::admin::short;

/// The first year whose times nothing precedes in any zone.
const FIRST_YEAR: i16 = 1971;

/// RFC 3339 in UTC, with milliseconds: a time in JSON.
pub fn rfc3339(time: Timestamp) -> String {
    format!("{:.3}", instant_of(time))
}

fn instant_of(time: Timestamp) -> jiff::Timestamp {
    let ms = i64::try_from(time.as_ms()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX)
}

/// Shows times to people, in one time zone.
#[derive(Debug, Clone)]
pub struct Clock {
    zone: TimeZone,
    /// What follows each time. A time in the zone of those who read it needs no mark.
    mark: &'static str,
}

impl Clock {
    /// Returns a clock in the time zone of the machine, or of the variable `TZ`.
    pub fn local() -> Self {
        Self { zone: TimeZone::system(), mark: "" }
    }

    /// Returns a clock in UTC.
    pub fn utc() -> Self {
        Self { zone: TimeZone::UTC, mark: "Z" }
    }

    /// A time: `2026-12-01 11:00:00`, in UTC `2026-12-01 10:00:00Z`.
    pub fn time(&self, time: impl Into<Timestamp>) -> String {
        self.formatted(time.into(), "%Y-%m-%d %H:%M:%S")
    }

    /// A time with milliseconds: `2026-12-01 11:00:00.000`.
    pub fn precise(&self, time: Timestamp) -> String {
        self.formatted(time, "%Y-%m-%d %H:%M:%S%.3f")
    }

    /// A time with its distance from `now`: `2026-12-01 11:00:00 (5m ago)`.
    pub fn with_age(&self, time: impl Into<Timestamp>, now: Timestamp) -> String {
        let time = time.into();
        let distance = if time > now {
            format!("in {}", short(time.since(now)))
        } else {
            format!("{} ago", short(now.since(time)))
        };
        format!("{} ({distance})", self.time(time))
    }

    /// The instant that somebody means who reads times of this clock.
    pub fn instant(&self, moment: Moment) -> Timestamp {
        let civil = match moment {
            Moment::At(time) => return time,
            Moment::Civil(civil) => civil,
        };
        let Ok(zoned) = civil.to_zoned(self.zone.clone()) else { return Timestamp::MAX };
        let ms = u64::try_from(zoned.timestamp().as_millisecond()).unwrap_or(0);
        Timestamp::from_ms(ms).unwrap_or(Timestamp::MAX)
    }

    fn formatted(&self, time: Timestamp, format: &str) -> String {
        let zoned = instant_of(time).to_zoned(self.zone.clone());
        format!("{}{}", zoned.strftime(format), self.mark)
    }
}

/// Reads a duration such as `10s`, `1h 30m` or `2 days`.
///
/// # Errors
///
/// Says what a valid text looks like.
pub fn duration(text: &str) -> Result<Duration, String> {
    const RULE: &str =
        "a duration must be a number with a unit, such as 500ms, 10s, 1h30m or 2d, and must not be negative";
    parse_duration(text).ok_or_else(|| RULE.to_owned())
}

/// A time that somebody has typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// With a zone.
    At(Timestamp),
    /// Without one: by the clock that shows the times.
    Civil(DateTime),
}

/// Where a span of time begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// A time.
    At(Moment),
    /// So long ago, by the server's clock.
    Ago(Duration),
}

/// Reads an instant, or a time as it is shown, such as `2026-12-01 11:00:00`, `2026-12-01 11:00` or `2026-12-01`.
///
/// # Errors
///
/// Says what a valid text looks like.
pub fn moment(text: &str) -> Result<Moment, String> {
    const RULE: &str = "a time must be as it is shown, such as 2026-12-01 11:00 or 2026-12-01, or an instant with a zone, such as 2026-12-01T10:00:00Z";
    let is_civil = text.chars().all(|c| c.is_ascii_digit() || "-:. Tt".contains(c));
    match text.parse::<DateTime>() {
        Ok(civil) if is_civil && civil.year() >= FIRST_YEAR => Ok(Moment::Civil(civil)),
        Ok(_) | Err(_) => instant(text).map(Moment::At).map_err(|_| RULE.to_owned()),
    }
}

/// Reads where a span of time begins or ends: a time, or a duration ago, such as `1d`.
///
/// # Errors
///
/// Says what a valid text looks like.
pub fn bound(text: &str) -> Result<Bound, String> {
    if let Ok(age) = duration(text) {
        return Ok(Bound::Ago(age));
    }
    moment(text).map(Bound::At).map_err(|rule| format!("{rule}, or a duration ago, such as 1d or 90m"))
}

/// Reads an instant such as `2026-12-01T10:00:00Z` or `2026-12-01T10:00[Europe/Berlin]`.
///
/// # Errors
///
/// Says what a valid text looks like.
pub fn instant(text: &str) -> Result<Timestamp, String> {
    let zoned = || text.parse::<jiff::Zoned>().map(|zoned| zoned.timestamp());
    let time = text.parse::<jiff::Timestamp>().or_else(|_| zoned()).map_err(|error| {
        format!("an instant must have a date, a time and a zone, such as 2026-12-01T10:00:00Z, 2026-12-01T12:00+02:00 or 2026-12-01T11:00[Europe/Berlin] ({error})")
    })?;
    let ms = u64::try_from(time.as_millisecond()).ok().and_then(Timestamp::from_ms);
    ms.ok_or_else(|| "an instant must not be before 1970".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_needs_a_unit() {
        let read = ["500ms", "10s", "1h30m", "2d", "1h 30m"].map(|text| duration(text).unwrap().as_millis());
        assert_eq!(read, [500, 10_000, 5_400_000, 172_800_000, 5_400_000]);
        for text in ["", "10", "ten", "-5s", "1 month"] {
            assert!(duration(text).unwrap_err().contains("a number with a unit"), "{text}");
        }
    }

    #[test]
    fn an_instant_needs_a_zone() {
        for text in ["2026-12-01T10:00:00Z", "2026-12-01T12:00:00+02:00", "2026-12-01T10:00[UTC]"] {
            assert_eq!(instant(text).unwrap().as_ms(), 1_796_119_200_000, "{text}");
        }
        for text in ["2026-12-01T10:00:00", "tomorrow", "1969-01-01T00:00:00Z"] {
            assert!(instant(text).unwrap_err().starts_with("an instant "), "{text}");
        }
    }

    #[test]
    fn a_time_without_a_zone_is_one_of_the_clock_that_shows_it() {
        let berlin = Clock { zone: TimeZone::get("Europe/Berlin").unwrap(), mark: "" };
        let read = |clock: &Clock, text: &str| clock.instant(moment(text).unwrap());
        let at = Timestamp::from_ms(1_796_119_200_000).unwrap();
        for clock in [&berlin, &Clock::utc()] {
            assert_eq!(read(clock, &clock.time(at)), at);
            assert_eq!(read(clock, "2026-12-01T12:00+02:00"), at, "it has a zone");
        }
        assert_eq!(read(&berlin, "2026-12-01 11:00"), at);
        assert_eq!(rfc3339(read(&berlin, "2026-12-01")), "2026-11-30T23:00:00.000Z");
        assert_eq!(read(&berlin, "9999-12-31"), Timestamp::MAX);
        for text in [
            "",
            "11:00",
            "tomorrow",
            "2026-13-01",
            "1969-01-01",
            "2026-12-01T10:00[Nowhere/Else]",
            "2026-12-01T10:00+99:00",
        ] {
            assert!(moment(text).unwrap_err().starts_with("a time must be"), "{text}");
        }
    }

    #[test]
    fn a_bound_is_a_time_or_a_duration_ago() {
        assert_eq!(bound("90m"), Ok(Bound::Ago(Duration::from_secs(5400))));
        assert_eq!(bound("1d"), Ok(Bound::Ago(Duration::from_secs(86_400))));
        let at = Timestamp::from_ms(1_796_119_200_000).unwrap();
        assert_eq!(bound("2026-12-01T10:00:00Z"), Ok(Bound::At(Moment::At(at))));
        assert!(bound("-1d").unwrap_err().ends_with("a duration ago, such as 1d or 90m"));
    }

    #[test]
    fn a_time_is_shown_with_its_distance_from_now() {
        let (at, clock) = (|ms| Timestamp::from_ms(ms).unwrap(), Clock::utc());
        assert_eq!(clock.with_age(at(1_000), at(6_000)), "1970-01-01 00:00:01Z (5s ago)");
        assert_eq!(clock.with_age(at(6_000), at(1_000)), "1970-01-01 00:00:06Z (in 5s)");
        assert!(rfc3339(Timestamp::MAX).starts_with("9999-12-30"));
    }

    #[test]
    fn a_clock_shows_times_in_its_zone() {
        let at = Timestamp::from_ms(1_796_119_200_007).unwrap();
        let berlin = Clock { zone: TimeZone::get("Europe/Berlin").unwrap(), mark: "" };
        assert_eq!(
            (berlin.time(at), Clock::utc().time(at)),
            ("2026-12-01 11:00:00".into(), "2026-12-01 10:00:00Z".into())
        );
        assert_eq!(berlin.precise(at), "2026-12-01 11:00:00.007");
        assert_eq!(rfc3339(at), "2026-12-01T10:00:00.007Z");
        assert!(berlin.time(Timestamp::MAX).starts_with("9999-12-30"));
    }
}
