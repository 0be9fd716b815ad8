//! The report of one measure in one month. The text is generated here and written atomically.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use super::table::{Day, Measure, Summary};

/// Returns one month of one measure, day by day, and the mean. `None` if there are no days.
pub(super) fn month(days: &[&Day], measure: Measure) -> Option<(String, f64)> {
    let (name, unit) = (measure.as_str(), measure.unit());
    let Summary { days: count, mean, least, most, total } = Summary::of(days, measure)?;
    let first = days.first()?;
    let mut text = format!(
        "# Seattle, {}-{:02}: {name} ({unit})\n\n| days | mean | min | max | total |\n|---|---|---|---|---|\n\
         | {count} | {mean:.2} | {least:.1} | {most:.1} | {total:.1} |\n\n| day | {unit} | | |\n|---|---|---|---|\n",
        first.year, first.month
    );
    for day in days {
        let value = day.value(measure);
        let bar = "#".repeat(value.abs().round() as usize);
        writeln!(text, "| {} | {value:.1} | {} | {bar} |", day.day, day.weather).ok()?;
    }
    Some((text, mean))
}

/// Writes a report completely or not at all: the worker may be killed at any time, and the job then runs again.
/// `attempt` keeps the drafts of two attempts of one job apart.
pub(super) fn write(report: &str, attempt: &str, text: &str) -> io::Result<()> {
    if let Some(parent) = Path::new(report).parent() {
        fs::create_dir_all(parent)?;
    }
    let draft = format!("{report}.{attempt}.draft");
    fs::write(&draft, text)?;
    fs::rename(draft, report)
}

#[cfg(test)]
mod tests {
    use super::super::table::Table;
    use super::*;
    use crate::folder::TABLE;

    #[test]
    fn a_report_has_the_averages_and_every_day() {
        let table = Table::parse(TABLE).unwrap();
        let (text, _) = month(&table.month(2012, 1), Measure::Wind).unwrap();
        // 120.9 m/s over 31 days.
        assert!(text.contains("| 31 | 3.90 | 1.3 | 8.2 | 120.9 |"), "{text}");
        assert_eq!(text.lines().filter(|line| line.ends_with("# |")).count(), 31, "{text}");
        assert_eq!(month(&table.month(2016, 1), Measure::Wind), None);
    }
}
