//! The reports: a month of one measure, and the extremes of a month. The text is generated here and written atomically.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use super::table::{Day, Measure, Summary};

/// Returns one month of one measure, day by day. `None` if there are no days.
pub(super) fn month(days: &[&Day], measure: Measure) -> Option<(String, Summary)> {
    let summary = Summary::of(days, measure)?;
    let (name, unit) = (measure.as_str(), measure.unit());
    let Summary { days: count, mean, least, most, total } = summary;
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
    Some((text, summary))
}

/// Returns the warmest, coldest, wettest and windiest day of a month. `None` if there are no days.
pub(super) fn extremes(days: &[&Day]) -> Option<String> {
    let most = |measure: Measure| {
        days.iter().copied().max_by(|one, other| one.value(measure).total_cmp(&other.value(measure)))
    };
    let coldest = days
        .iter()
        .copied()
        .min_by(|one, other| one.value(Measure::TempMin).total_cmp(&other.value(Measure::TempMin)))?;
    let first = days.first()?;
    let mut text =
        format!("# Seattle, {}-{:02}: extremes\n\n| | day | |\n|---|---|---|\n", first.year, first.month);
    let rows = [
        ("warmest", most(Measure::TempMax)?, Measure::TempMax),
        ("coldest", coldest, Measure::TempMin),
        ("wettest", most(Measure::Precipitation)?, Measure::Precipitation),
        ("windiest", most(Measure::Wind)?, Measure::Wind),
    ];
    for (name, day, measure) in rows {
        writeln!(text, "| {name} | {} | {:.1} {} |", day.day, day.value(measure), measure.unit()).ok()?;
    }
    Some(text)
}

/// Writes a report completely or not at all: the worker may be killed at any time, and the job then runs again.
/// `attempt` keeps the drafts of two attempts of one job apart.
pub(super) fn write(folder: &Path, report: &str, attempt: &str, text: &str) -> io::Result<()> {
    let place = folder.join(report);
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent)?;
    }
    let draft = folder.join(format!("{report}.{attempt}.draft"));
    fs::write(&draft, text)?;
    fs::rename(draft, place)
}

#[cfg(test)]
mod tests {
    use super::super::table::Table;
    use super::*;
    use crate::demo::folder::TABLE;

    #[test]
    fn a_report_has_the_averages_and_every_day() {
        let table = Table::parse(TABLE).unwrap();
        let (text, _) = month(&table.month(2012, 1), Measure::Wind).unwrap();
        // 120.9 m/s over 31 days.
        assert!(text.contains("| 31 | 3.90 | 1.3 | 8.2 | 120.9 |"), "{text}");
        assert_eq!(text.lines().filter(|line| line.ends_with("# |")).count(), 31, "{text}");
    }

    #[test]
    fn extremes_name_their_days() {
        let table = Table::parse(TABLE).unwrap();
        let text = extremes(&table.month(2012, 2)).unwrap();
        assert!(text.contains("| warmest | 6 | 16.1 °C |"), "{text}");
        assert_eq!(extremes(&table.month(2016, 2)), None);
    }
}
