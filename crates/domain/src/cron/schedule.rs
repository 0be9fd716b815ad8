//! An expression in a time zone: which instants are its ticks, even on the days when the clocks change.
//!
//! The rule is that of Vixie cron. A time of day that is skipped when the clocks go forward ticks at the first instant after
//! the gap. One that occurs twice when they go back ticks only the first time. An expression that recurs all the time (see
//! [`Expression::is_fixed`]) ticks whenever the wall clock matches: never in the gap, and in both of the repeated hours.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

use super::{Expression, Invalid};
use crate::job::Timestamp;

with_defaults! {
    /// A time zone of the IANA database.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Zone {
        name: String = "UTC".to_owned(),
        rules: TimeZone = TimeZone::UTC,
    }
}

impl Zone {
    /// Returns the wall-clock time in this zone, such as `2026-12-01T03:00:00+01:00[Europe/Berlin]`.
    pub fn shown(&self, time: Timestamp) -> String {
        instant(time).map_or_else(String::new, |time| time.to_zoned(self.rules.clone()).to_string())
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name)
    }
}

impl FromStr for Zone {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_+-/".contains(c);
        // The name is looked up below a system folder.
        let fits = (1..=64).contains(&name.len()) && name.chars().all(plain) && !name.starts_with('/');
        let rules = fits.then(|| TimeZone::get(name).ok()).flatten();
        let rules = rules.ok_or_else(|| Invalid::Zone { name: name.chars().take(64).collect() })?;
        Ok(Self { name: rules.iana_name().unwrap_or(name).to_owned(), rules })
    }
}

/// When something recurs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// When it recurs, by the wall clock.
    pub expression: Expression,
    /// The time zone of the wall clock.
    pub zone: Zone,
}

impl Schedule {
    /// Creates a schedule in a time zone.
    ///
    /// # Errors
    ///
    /// [`Invalid`], with what is wrong with the expression or the zone.
    pub fn new(expression: &str, zone: &str) -> Result<Self, Invalid> {
        Ok(Self { expression: expression.parse()?, zone: zone.parse()? })
    }

    /// Returns the first tick after an instant, which is a whole second; `None` if there is none before the year 5000.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let after = instant(after)?;
        let tick = if self.expression.is_fixed() { self.next_fixed(after) } else { self.next_wild(after) };
        u64::try_from(tick?.as_millisecond()).ok().and_then(Timestamp::from_ms)
    }

    /// Returns the next ticks after an instant.
    pub fn upcoming(&self, after: Timestamp) -> impl Iterator<Item = Timestamp> + '_ {
        std::iter::successors(self.next(after), |tick| self.next(*tick))
    }

    /// Returns the last `most` ticks after `after` and not later than `until`, oldest first.
    pub fn last(&self, most: usize, after: Timestamp, until: Timestamp) -> Vec<Timestamp> {
        let first = |count: usize, after| -> Vec<Timestamp> {
            self.upcoming(after).take_while(|tick| *tick <= until).take(count).collect()
        };
        let is_too_long = |after| first(most + 1, after).len() > most;
        if !is_too_long(after) {
            return first(most, after);
        }
        // From `few` on, there are no more than `most` ticks; from `many` on, there are more. Double the step, then halve the interval.
        let (mut few, mut many, mut step) = (until, until, Duration::from_secs(1));
        while !is_too_long(many) {
            few = many;
            many = until.before(step).max(after);
            step *= 2;
        }
        while few.since(many) > Duration::from_secs(1) {
            let middle = many.after(few.since(many) / 2);
            if is_too_long(middle) { many = middle } else { few = middle }
        }
        first(most, few)
    }

    /// Each time of day is one instant, however often the wall clock shows it.
    fn next_fixed(&self, after: jiff::Timestamp) -> Option<jiff::Timestamp> {
        let mut wall = self.zone.rules.to_datetime(after);
        loop {
            wall = self.expression.after(wall)?;
            // In the second of two repeated hours, these times belong to the first one.
            let tick = self.instant_of(wall)?;
            if tick > after {
                return Some(tick);
            }
        }
    }

    /// From one clock change to the next, the wall clock runs as time does.
    fn next_wild(&self, after: jiff::Timestamp) -> Option<jiff::Timestamp> {
        let rules = &self.zone.rules;
        let mut from = after;
        let mut wall = self.expression.after(rules.to_datetime(from))?;
        loop {
            let tick = rules.to_offset(from).to_timestamp(wall).ok()?;
            match rules.following(from).next().map(|change| change.timestamp()) {
                Some(change) if change <= tick => {
                    from = change;
                    wall = self.expression.at_or_after(rules.to_datetime(from))?;
                }
                _ => return Some(tick),
            }
        }
    }

    /// Returns the first instant at which the wall clock shows this time, or has skipped it.
    fn instant_of(&self, wall: DateTime) -> Option<jiff::Timestamp> {
        let rules = &self.zone.rules;
        match rules.to_ambiguous_timestamp(wall).offset() {
            AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
                offset.to_timestamp(wall).ok()
            }
            AmbiguousOffset::Gap { after, .. } => {
                let before_the_change = after.to_timestamp(wall).ok()?;
                rules.following(before_the_change).next().map(|change| change.timestamp())
            }
        }
    }
}

fn instant(time: Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_millisecond(i64::try_from(time.as_ms()).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BERLIN: &str = "Europe/Berlin";
    const NEW_YORK: &str = "America/New_York";

    fn time(text: &str) -> Timestamp {
        let time: jiff::Timestamp = text.parse().unwrap();
        Timestamp::from_ms(time.as_millisecond().cast_unsigned()).unwrap()
    }

    fn schedule(expression: &str, zone: &str) -> Schedule {
        Schedule::new(expression, zone).unwrap()
    }

    /// The ticks between two instants, as `day hour:minute` by the wall clock and the hours that it is ahead of UTC.
    fn ticks(expression: &str, zone: &str, from: &str, to: &str) -> Vec<String> {
        let schedule = schedule(expression, zone);
        let shown = |tick: Timestamp| {
            let zoned = instant(tick).unwrap().to_zoned(schedule.zone.rules.clone());
            zoned.strftime("%d %H:%M %:::z").to_string()
        };
        schedule.upcoming(time(from)).take_while(|tick| *tick < time(to)).map(shown).collect()
    }

    #[test]
    fn a_fixed_time_that_the_clocks_skip_ticks_once_at_the_end_of_the_gap() {
        let berlin = |expression| ticks(expression, BERLIN, "2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z");
        assert_eq!(berlin("30 2 * * *"), ["29 03:00 +02", "30 02:30 +02"]);
        assert_eq!(
            berlin("0,15,30 2 * * *"),
            ["29 03:00 +02", "30 02:00 +02", "30 02:15 +02", "30 02:30 +02"]
        );
        assert_eq!(berlin("0 2,3 * * *"), ["29 03:00 +02", "30 02:00 +02", "30 03:00 +02"]);
        assert_eq!(berlin("0 1 * * *"), ["29 01:00 +01", "30 01:00 +02"]);
        let new_york =
            |expression| ticks(expression, NEW_YORK, "2026-03-07T12:00:00Z", "2026-03-09T12:00:00Z");
        assert_eq!(new_york("30 2 * * *"), ["08 03:00 -04", "09 02:30 -04"]);
    }

    #[test]
    fn a_fixed_time_that_comes_twice_ticks_the_first_time() {
        let berlin = |expression| ticks(expression, BERLIN, "2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z");
        assert_eq!(berlin("30 2 * * *"), ["25 02:30 +02", "26 02:30 +01"]);
        assert_eq!(berlin("0,30 2 * * *"), ["25 02:00 +02", "25 02:30 +02", "26 02:00 +01", "26 02:30 +01"]);
        let new_york =
            |expression| ticks(expression, NEW_YORK, "2026-10-31T12:00:00Z", "2026-11-02T12:00:00Z");
        assert_eq!(new_york("30 1 * * *"), ["01 01:30 -04", "02 01:30 -05"]);
        // Asked from within the second of the repeated hours, today's tick is over.
        let second = ticks("30 2 * * *", BERLIN, "2026-10-25T01:10:00Z", "2026-10-26T12:00:00Z");
        assert_eq!(second, ["26 02:30 +01"]);
    }

    #[test]
    fn a_recurring_interval_ticks_in_every_real_hour() {
        let spring = ticks("0 * * * *", BERLIN, "2026-03-28T23:30:00Z", "2026-03-29T03:00:00Z");
        assert_eq!(spring, ["29 01:00 +01", "29 03:00 +02", "29 04:00 +02"]);
        let autumn = ticks("0 * * * *", BERLIN, "2026-10-24T23:30:00Z", "2026-10-25T03:00:00Z");
        assert_eq!(autumn, ["25 02:00 +02", "25 02:00 +01", "25 03:00 +01"]);
        let halves = ticks("*/30 * * * *", NEW_YORK, "2026-11-01T05:10:00Z", "2026-11-01T07:10:00Z");
        assert_eq!(halves, ["01 01:30 -04", "01 01:00 -05", "01 01:30 -05", "01 02:00 -05"]);
        let gap = ticks("*/30 * * * *", NEW_YORK, "2026-03-08T06:10:00Z", "2026-03-08T07:40:00Z");
        assert_eq!(gap, ["08 01:30 -05", "08 03:00 -04", "08 03:30 -04"]);
    }

    #[test]
    fn each_minute_is_sixty_seconds_after_the_last_whatever_the_clocks_do() {
        for (zone, from) in [(BERLIN, "2026-03-28T20:00:00Z"), (NEW_YORK, "2026-11-01T03:00:00Z")] {
            let schedule = schedule("* * * * *", zone);
            let ticks: Vec<_> = schedule.upcoming(time(from)).take(600).collect();
            assert!(ticks.windows(2).all(|pair| pair[1].since(pair[0]) == Duration::from_secs(60)), "{zone}");
        }
    }

    #[test]
    fn zones_are_known_by_their_names_alone() {
        for name in ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5"] {
            assert_eq!(name.parse::<Zone>().unwrap().to_string(), name);
        }
        for name in ["", "Berlin", "Europe/Nowhere", "../UTC", "/etc/localtime", "Europe/Berlin\n"] {
            assert!(
                name.parse::<Zone>().unwrap_err().to_string().contains("not a known time zone"),
                "{name}"
            );
        }
    }

    fn any_schedule() -> impl Strategy<Value = Schedule> {
        let expressions = prop::sample::select(vec![
            "* * * * *",
            "*/7 * * * * *",
            "30 2 * * *",
            "0,30 1-3 * * *",
            "0 */2 * * *",
            "0 0 29 2 *",
            "15 4 L * *",
            "0 0 1 * +MON",
            "59 23 * * SUN",
            "*/20 30 1-2 * * *",
        ]);
        let zones = prop::sample::select(vec![
            "UTC",
            BERLIN,
            NEW_YORK,
            "Australia/Lord_Howe",
            "Pacific/Apia",
            "Asia/Kathmandu",
            "Africa/Casablanca",
        ]);
        (expressions, zones).prop_map(|(expression, zone)| schedule(expression, zone))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn ticks_are_whole_seconds_that_strictly_increase(schedule in any_schedule(), from in 0..2_000_000_000_000_u64) {
            let from = Timestamp::from_ms(from).unwrap();
            let mut last = from;
            for tick in schedule.upcoming(from).take(20) {
                prop_assert!(tick > last && tick.as_ms() % 1000 == 0);
                last = tick;
            }
        }

        #[test]
        fn no_tick_is_skipped(schedule in any_schedule(), from in 0..2_000_000_000_000_u64, part in 0.0..1.0) {
            let from = Timestamp::from_ms(from).unwrap();
            let tick = schedule.next(from).unwrap();
            let between = from.after(tick.since(from).mul_f64(part));
            prop_assume!(between < tick);
            prop_assert_eq!(schedule.next(between), Some(tick));
        }

        #[test]
        fn the_last_ticks_are_those_that_iterating_finds(
            schedule in any_schedule(), from in 0..2_000_000_000_000_u64, long in 0..20_000_000_u64, most in 1..20_usize,
        ) {
            let from = Timestamp::from_ms(from).unwrap();
            let until = from.after(Duration::from_millis(long));
            let all: Vec<_> = schedule.upcoming(from).take_while(|tick| *tick <= until).collect();
            let want = &all[all.len().saturating_sub(most)..];
            prop_assert_eq!(schedule.last(most, from, until), want);
        }
    }
}
