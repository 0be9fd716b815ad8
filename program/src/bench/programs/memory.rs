//! The memory of many programs that have run a job each.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::bare::{Bare, JobLine};
use super::is_installed;
use super::languages::{LANGUAGES, Language};
use crate::bench::measure::Bench;

/// The most programs that are measured.
const MAX_PROGRAMS: usize = 64;

/// The memory of all programs of a language together, in bytes.
#[derive(Debug, Serialize)]
pub(in crate::bench) struct ProgramMemory {
    pub(in crate::bench) language: &'static str,
    pub(in crate::bench) programs: usize,
    /// Resident memory: what programs share counts for each of them.
    pub(in crate::bench) rss_bytes: u64,
    /// Proportional memory: what programs share counts once.
    pub(in crate::bench) pss_bytes: u64,
}

impl Bench {
    /// Measures the memory of many programs of each language that this machine has.
    pub(in crate::bench) async fn program_memory(&mut self) -> Result<Vec<ProgramMemory>> {
        let (line, count) = (self.job_line().await?, MAX_PROGRAMS.min(self.jobs));
        let mut figures = Vec::new();
        for language in LANGUAGES.iter().filter(|language| is_installed(language)) {
            let line = line.clone();
            figures.push(tokio::task::spawn_blocking(move || of(language, count, &line)).await??);
        }
        Ok(figures)
    }
}

/// Starts this many programs, and measures them after a job each.
fn of(language: &Language, count: usize, line: &JobLine) -> Result<ProgramMemory> {
    let command = language.command(language.pool);
    let mut programs = (0..count).map(|_| Bare::start(&command)).collect::<Result<Vec<_>>>()?;
    programs.iter_mut().try_for_each(|program| program.once(line))?;
    let (mut rss_bytes, mut pss_bytes) = (0, 0);
    for program in &programs {
        let rollup =
            std::fs::read_to_string(Path::new("/proc").join(program.pid().to_string()).join("smaps_rollup"))?;
        rss_bytes += bytes(&rollup, "Rss:")?;
        pss_bytes += bytes(&rollup, "Pss:")?;
    }
    programs.into_iter().try_for_each(Bare::end)?;
    Ok(ProgramMemory { language: language.name, programs: count, rss_bytes, pss_bytes })
}

/// Returns a figure of `smaps_rollup`, which has them in KiB.
fn bytes(rollup: &str, name: &str) -> Result<u64> {
    let line =
        rollup.lines().find_map(|line| line.strip_prefix(name)).context("smaps_rollup lacks a figure")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_their_whole_names() {
        let rollup =
            "55d0-7ffe ---p 00000000 00:00 0  [rollup]\nRss:   3124 kB\nPss:    812 kB\nPss_Dirty:  100 kB\n";
        assert_eq!(bytes(rollup, "Rss:").unwrap(), 3124 * 1024);
        assert_eq!(bytes(rollup, "Pss:").unwrap(), 812 * 1024);
        assert!(bytes(rollup, "Swap:").is_err());
    }
}
