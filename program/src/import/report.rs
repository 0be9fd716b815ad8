//! What `import` shows: the plan, and what became of the rows.

use serde::Serialize;
use streamfleet_operations::import::TableReport;

use crate::output;

/// What became of all tables, or would.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// True if this is only a plan, for which the first 1,000 rows of each table were looked at.
    pub(super) dry_run: bool,
    /// The database, without its login.
    pub(super) database: String,
    pub(super) tables: Vec<TableReport>,
    pub(super) seconds: f64,
}

impl Report {
    pub(super) fn refused(&self) -> u64 {
        self.tables.iter().map(|table| table.refused).sum()
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.tables.iter().any(|table| table.interrupted)
    }
}

/// Shows what is about to happen.
pub(super) fn plan(report: &Report) -> String {
    let head = format!("nothing is changed yet; from {}:", report.database);
    let mut lines = vec![head, counts(report, ["TO SUBMIT", "TO FILE"])];
    for table in &report.tables {
        let keys: Vec<String> = table.keys.iter().map(|(key, count)| format!("{key:?} ({count})")).collect();
        if !keys.is_empty() {
            lines.push(format!("{}: keys {}", table.table, keys.join(", ")));
        }
        if table.more && keys.is_empty() {
            lines.push(format!(
                "{}: only the next {} rows were looked at; there may be more",
                table.table, table.looked
            ));
        } else if table.more {
            lines.push(format!("{}: only the first 1000 jobs of each key were looked at", table.table));
        }
        let types: Vec<String> =
            table.types.iter().map(|(name, count)| format!("{name} ({count})")).collect();
        if !types.is_empty() {
            lines.push(format!("{}: types {}", table.table, types.join(", ")));
        }
        lines.extend(table.remarks.iter().cloned());
    }
    lines.extend(refused(report));
    lines.join("\n")
}

/// Shows what became of the rows.
pub(super) fn outcome(report: &Report) -> String {
    let mut lines = vec![counts(report, ["SUBMITTED", "FILED"])];
    lines.extend(refused(report));
    lines.push(format!("{:.1} s", report.seconds));
    lines.join("\n")
}

fn counts(report: &Report, [submitted, filed]: [&'static str; 2]) -> String {
    let columns = ["FROM", "QUEUE", "LOOKED AT", submitted, filed, "ALREADY THERE", "REFUSED"];
    let mut table = output::table(&columns);
    for one in &report.tables {
        let counts = [one.looked, one.submitted, one.filed, one.existing, one.refused];
        let names = [one.table.clone(), one.queue.clone()];
        table.add_row(names.into_iter().chain(counts.iter().map(ToString::to_string)));
    }
    table.to_string()
}

/// The first rows that cannot be jobs.
fn refused(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for table in &report.tables {
        let rows = table.refused_rows.iter();
        lines.extend(rows.map(|row| format!("refused: {} {}: {}", row.table, row.key, row.error)));
        let more = table.refused.saturating_sub(table.refused_rows.len() as u64);
        if more > 0 {
            lines.push(format!("refused: {more} more of {}; --refused FILE names all", table.table));
        }
    }
    lines
}
