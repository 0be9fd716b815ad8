//! The part of a rehearsal that reports counts, takes samples, and reads both.

use std::time::Duration;

use super::{Error, Rehearsal, expect_same};
use crate::job::Timestamp;
use crate::statistics::type_stats::Window;
use crate::{Tallied, Tally, TallyReport, TypeFigures};

impl Rehearsal<'_> {
    /// Reports a success of a type, and takes samples until one has been added.
    pub(super) async fn statistics(&self) -> Result<(), Error> {
        let window = Duration::from_secs(3600);
        let mut figures = TypeFigures::of("rehearsal".parse().expect("a plain word is a valid type"));
        figures.done = 1;
        figures.run.add(0, 1);
        let tally = Tally { done: 1, ..Tally::default() };
        let report = TallyReport { call: self.named_call(), tally, types: vec![figures] };
        self.report(&report).await?;
        let types = self.queue.type_stats(window).await?.types;
        expect_same("type_stats", types, report.types)?;
        let snapshot = self.queue.snapshot().await?;
        self.queue.sample(&snapshot).await?;
        expect_same("xrange", self.queue.samples(window).await?.is_empty(), false)
    }

    /// Reports until the keys are those of the server's hour.
    async fn report(&self, report: &TallyReport) -> Result<(), Error> {
        let mut now = Timestamp::default();
        loop {
            for window in [Window::TenMinutes, Window::Hour] {
                self.note_key(self.queue.keys.type_stats(window, window.number_at(now)));
            }
            match self.queue.tally(report, now).await? {
                Tallied::Added(_) => return Ok(()),
                // Twice in a row only if an hour has just begun.
                Tallied::AnotherTime(at) => now = at,
            }
        }
    }
}
