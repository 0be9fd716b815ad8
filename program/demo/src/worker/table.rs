//! The table that the reports are about: the weather of every day, and summaries of some days. Pure.

use serde::{Deserialize, Serialize};

/// What was measured every day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Measure {
    Precipitation,
    TempMax,
    TempMin,
    Wind,
}

impl Measure {
    /// Every measure, in the order of the table's columns.
    pub(crate) const ALL: [Self; 4] = [Self::Precipitation, Self::TempMax, Self::TempMin, Self::Wind];

    /// Returns the name of its column.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Precipitation => "precipitation",
            Self::TempMax => "temp_max",
            Self::TempMin => "temp_min",
            Self::Wind => "wind",
        }
    }

    /// Returns its unit.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Precipitation => "mm",
            Self::TempMax | Self::TempMin => "°C",
            Self::Wind => "m/s",
        }
    }
}

/// One day.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Day {
    pub(super) year: u16,
    pub(super) month: u8,
    pub(super) day: u8,
    values: [f64; 4],
    pub(super) weather: String,
}

impl Day {
    pub(super) fn value(&self, measure: Measure) -> f64 {
        self.values[measure as usize]
    }

    fn parse(line: &str) -> Option<Self> {
        let mut cells = line.split(',');
        let mut date = cells.next()?.split('/');
        let (year, month, day) = (date.next()?, date.next()?, date.next()?);
        let mut values = [0.0; 4];
        for value in &mut values {
            *value = cells.next()?.parse().ok()?;
        }
        Some(Self {
            year: year.parse().ok()?,
            month: month.parse().ok()?,
            day: day.parse().ok()?,
            values,
            weather: cells.next()?.to_owned(),
        })
    }
}

/// All days, in order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    days: Vec<Day>,
}

impl Table {
    /// Parses the CSV; `None` if a line is not a valid day.
    pub(super) fn parse(csv: &str) -> Option<Self> {
        csv.lines().skip(1).map(Day::parse).collect::<Option<_>>().map(|days| Self { days })
    }

    /// Returns the days of one month; empty if the table has none.
    pub(super) fn month(&self, year: u16, month: u8) -> Vec<&Day> {
        self.days.iter().filter(|day| (day.year, day.month) == (year, month)).collect()
    }
}

/// A summary of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Summary {
    pub(super) days: usize,
    pub(super) mean: f64,
    pub(super) least: f64,
    pub(super) most: f64,
    pub(super) total: f64,
}

impl Summary {
    /// Returns `None` if there are no days.
    pub(super) fn of(days: &[&Day], measure: Measure) -> Option<Self> {
        let values = || days.iter().map(|day| day.value(measure));
        let total: f64 = values().sum();
        Some(Self {
            days: days.len(),
            mean: total / days.len() as f64,
            least: values().reduce(f64::min)?,
            most: values().reduce(f64::max)?,
            total,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::TABLE;

    #[test]
    fn a_summary_matches_one_computed_by_hand() {
        let three = "date,precipitation,temp_max,temp_min,wind,weather\n\
            2012/01/01,0.0,12.8,5.0,4.7,drizzle\n2012/01/02,10.9,10.6,2.8,4.5,rain\n2012/01/03,0.8,11.7,-7.2,2.3,rain\n";
        let table = Table::parse(three).unwrap();
        let days = table.month(2012, 1);
        let rain = Summary::of(&days, Measure::Precipitation).unwrap();
        // (0.0 + 10.9 + 0.8) / 3 = 11.7 / 3 = 3.9
        assert!((rain.mean - 3.9).abs() < 1e-9 && (rain.total - 11.7).abs() < 1e-9, "{rain:?}");
        let cold = Summary::of(&days, Measure::TempMin).unwrap();
        // (5.0 + 2.8 - 7.2) / 3 = 0.6 / 3 = 0.2
        assert!((cold.mean - 0.2).abs() < 1e-9, "{cold:?}");
        assert_eq!((cold.days, cold.least, cold.most), (3, -7.2, 5.0));
    }

    #[test]
    fn the_table_has_every_day_of_four_years() {
        let table = Table::parse(TABLE).unwrap();
        assert_eq!(table.days.len(), 366 + 3 * 365);
        assert_eq!(table.month(2012, 2).len(), 29);
        assert_eq!(table.month(2015, 2).len(), 28);
        assert_eq!(Summary::of(&table.month(2016, 1), Measure::Wind), None);
        // 173.3 mm fell in the 31 days of January 2012, according to a sum of the file's column by another program.
        let rain = Summary::of(&table.month(2012, 1), Measure::Precipitation).unwrap();
        assert_eq!(
            (rain.days, format!("{:.1}", rain.total), format!("{:.3}", rain.mean)),
            (31, "173.3".into(), "5.590".into())
        );
    }

    #[test]
    fn an_invalid_line_is_refused() {
        assert_eq!(Table::parse("date\n2012/01/01,0.0,12.8,5.0,4.7,rain\n2012/01/02,much\n"), None);
    }
}
