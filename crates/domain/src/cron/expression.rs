//! A cron expression: five fields, or six with seconds before them.

use std::fmt;
use std::str::FromStr;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;

use super::Invalid;

/// The longest expression in bytes.
const MAX_BYTES: usize = 256;

/// The fields, from the first of six, and the values that they take.
const FIELDS: [(&str, &str); 6] = [
    ("second", "0 to 59"),
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of the month", "1 to 31 or L"),
    ("month", "1 to 12 or JAN to DEC"),
    ("day of the week", "0 to 7 or SUN to SAT"),
];

/// What the nicknames stand for.
const NICKNAMES: [(&str, &str); 6] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// When something recurs, by the wall clock of some time zone.
#[derive(Debug, Clone)]
pub struct Expression {
    text: String,
    cron: Cron,
    fixed: bool,
}

impl Expression {
    /// Returns true if the expression names times of day, and false if it recurs all the time. The latter is the case
    /// if its second, minute or hour begins with `*` or names every value.
    pub fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// Returns the first match at or after `time`, by the wall clock.
    pub(super) fn at_or_after(&self, time: DateTime) -> Option<DateTime> {
        self.cron.find_next_occurrence(&time, true).ok()
    }

    /// Returns the first match after `time`, by the wall clock.
    pub(super) fn after(&self, time: DateTime) -> Option<DateTime> {
        self.cron.find_next_occurrence(&time, false).ok()
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Expression {}

impl FromStr for Expression {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let text = text.trim();
        let refused = |reason: &str| Invalid::Expression {
            expression: text.chars().take(MAX_BYTES).collect(),
            reason: reason.to_owned(),
        };
        if text.len() > MAX_BYTES || text.chars().any(|c| !c.is_ascii_graphic() && c != ' ' && c != '\t') {
            return Err(refused("it may have at most 256 characters: letters, digits, blanks and *,-/#+?@"));
        }
        let nickname = NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        if nickname.is_none() && text.starts_with('@') {
            return Err(refused(
                "the nicknames are @yearly, @annually, @monthly, @weekly, @daily and @hourly",
            ));
        }
        let plain = nickname.map_or(text, |(_, plain)| plain);
        let count = plain.split_ascii_whitespace().count();
        if !matches!(count, 5 | 6) {
            return Err(refused(&format!(
                "it has {count} fields, but needs 5 (minute, hour, day of the month, month, day of the week), or 6 \
                 with the second before the minute"
            )));
        }
        check_fields(plain, count)?;
        let cron = parse(plain).map_err(|reason| refused(&reason))?;
        if cron.find_next_occurrence(&DateTime::constant(2000, 1, 1, 0, 0, 0, 0), true).is_err() {
            return Err(refused("no day ever matches it"));
        }
        let fixed = is_fixed(&cron, plain, count);
        Ok(Self { text: text.to_owned(), cron, fixed })
    }
}

/// Checks each field alone, so that the error can name the one that is wrong.
fn check_fields(plain: &str, count: usize) -> Result<(), Invalid> {
    for (at, field) in plain.split_ascii_whitespace().enumerate() {
        let at = at + FIELDS.len() - count;
        let (name, range) = FIELDS[at];
        let wrong = |reason: String| Invalid::Field {
            expression: plain.to_owned(),
            field: name,
            text: field.to_owned(),
            column: 1 + field.as_ptr().addr() - plain.as_ptr().addr(),
            reason,
        };
        if field.split(',').any(str::is_empty) {
            return Err(wrong("a list must have a value on both sides of each comma".to_owned()));
        }
        let mut alone = ["*"; FIELDS.len()];
        alone[at] = field;
        parse(&alone.join(" ")).map_err(|reason| wrong(format!("{reason}; allowed: {range}")))?;
    }
    Ok(())
}

fn parse(plain: &str) -> Result<Cron, String> {
    let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
    parser.parse(plain).map_err(|error| {
        let text = error.to_string();
        let text = text.strip_prefix("Component error: ").unwrap_or(&text).trim_end_matches('.');
        let mut letters = text.chars();
        letters
            .next()
            .map_or_else(String::new, |first| first.to_ascii_lowercase().to_string() + letters.as_str())
    })
}

fn is_fixed(cron: &Cron, plain: &str, count: usize) -> bool {
    let first = FIELDS.len() - count;
    let star = plain.split_ascii_whitespace().take(3 - first).any(|field| field.starts_with('*'));
    let pattern = &cron.pattern;
    let full = [(&pattern.seconds, 60), (&pattern.minutes, 60), (&pattern.hours, 24)];
    !star && full.iter().all(|(field, all)| field.values().len() < *all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(text: &str) -> Invalid {
        text.parse::<Expression>().unwrap_err()
    }

    #[test]
    fn five_fields_six_fields_names_and_nicknames_are_understood() {
        for text in [
            "0 3 * * *",
            "*/5 * * * *",
            "0 30 2 * * *",
            "0 0 L * *",
            "0 0 15W * *",
            "0 9 * JAN-MAR mon-fri",
            "0 0 * * 5#2",
            "0 0 1 * +MON",
            "@hourly",
            "@Daily",
            "  1,2 3-9/2 ? * *  ",
        ] {
            assert!(text.parse::<Expression>().is_ok(), "{text}: {:?}", text.parse::<Expression>());
        }
    }

    #[test]
    fn an_error_names_the_field_and_its_column() {
        let want = [
            ("0 25 * * *", "the hour \"25\" (column 3)"),
            ("0  3 * 13 *", "the month \"13\" (column 8)"),
            ("61 0 3 * * *", "the second \"61\" (column 1)"),
            ("0 3 * * MOONDAY", "the day of the week \"MOONDAY\" (column 9)"),
            ("0 3,,4 * * *", "the hour \"3,,4\" (column 3)"),
            ("0 3 * *", "has 4 fields"),
            ("0 0 3 * * * 2030", "has 7 fields"),
            ("@reboot", "the nicknames are"),
            ("", "has 0 fields"),
            ("0 3 * * \u{e9}", "at most 256 characters"),
            ("0 0 30 2 *", "no day ever matches it"),
        ];
        for (text, part) in want {
            let error = refused(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert_eq!(refused("0 25 * * *").pointed().unwrap(), "0 25 * * *\n  ^^");
    }

    #[test]
    fn an_expression_without_stars_in_its_time_of_day_is_fixed() {
        for text in ["30 2 * * *", "0,30 1-3 * * *", "5 30 2 * * *", "@daily"] {
            assert!(text.parse::<Expression>().unwrap().is_fixed(), "{text}");
        }
        for text in ["* 2 * * *", "0 * * * *", "0 */2 * * *", "0 0-23 * * *", "*/10 0 2 * * *", "@hourly"] {
            assert!(!text.parse::<Expression>().unwrap().is_fixed(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[-0-9*,/#LW+?@A-Za-z \u{e9}]{0,40}") {
            let _ignored = text.parse::<Expression>().is_ok();
        }

        #[test]
        fn no_fields_make_the_parser_panic(fields in prop::collection::vec("[-0-9*,/#LW+?]{1,6}", 4..8)) {
            let _ignored = fields.join(" ").parse::<Expression>().is_ok();
        }
    }
}
