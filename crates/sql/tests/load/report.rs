//! The figures of one database, as a table.

use std::fmt;

use serde::Serialize;

use crate::answers::Answers;
use crate::fill::Filled;
use crate::retention::Dropped;
use crate::sizes::Sizes;

#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) database: &'static str,
    pub(crate) lives: u64,
    /// How the first nine tenths were written, into empty tables, and the last tenth, beside all others.
    pub(crate) filled: Filled,
    pub(crate) filled_last: Filled,
    pub(crate) sizes: Sizes,
    pub(crate) answers: Vec<Answers>,
    pub(crate) dropped: Dropped,
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "\n{}: {} lives", self.database, self.lives)?;
        for (which, filled) in [("first nine tenths", &self.filled), ("last tenth", &self.filled_last)] {
            let Filled { lives, seconds, lives_per_second, p50_ms, p99_ms, repeated } = filled;
            writeln!(
                out,
                "{which}: {lives} in {seconds:.0} s, {lives_per_second:.0} lives/s; 500 lives: p50 {p50_ms:.0} ms, p99 {p99_ms:.0} ms; \
                 repeated {repeated} times"
            )?;
        }
        let (table, index) = (self.sizes.table / self.lives, self.sizes.index / self.lives);
        writeln!(out, "bytes per life: table {table}, index {index}")?;
        if let Some(file) = self.sizes.file {
            writeln!(out, "bytes per life in the file: {}", file / self.lives)?;
        }
        let Dropped { seconds, longest_call, partitions, rows } = &self.dropped;
        writeln!(
            out,
            "drop of a day: {seconds:.2} s, longest call {longest_call:.2} s, {partitions} partitions, {rows} rows\n"
        )?;
        writeln!(
            out,
            "{:<34} {:>9} {:>9} {:>9} {:>5} {:>8} {:>9}",
            "QUESTION", "P50 MS", "P99 MS", "MAX MS", "ROWS", "TOO LATE", "PLANNED"
        )?;
        for one in &self.answers {
            let planned = one.planned_rows.map_or_else(|| "-".to_owned(), |rows| rows.to_string());
            writeln!(
                out,
                "{:<34} {:>9.2} {:>9.2} {:>9.2} {:>5} {:>8} {planned:>9}",
                one.question, one.p50_ms, one.p99_ms, one.max_ms, one.rows, one.too_late
            )?;
        }
        Ok(())
    }
}
