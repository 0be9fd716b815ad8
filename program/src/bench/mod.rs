//! `bench`: compares streamfleet with the same work done by raw commands, on a private server, in one run. Absolute
//! figures say more about the machine than about the program; the ratios are what counts.
//!
//! A [way](ways) says what is submitted and what the handlers do. A [round](round) drains raw entries and then runs the
//! jobs of a way in a [fleet](fleet), whose events a [tally](tally) counts. The [report](report) has the medians.

mod explain;
mod figures;
mod fleet;
mod journal;
mod measure;
mod programs;
mod ratio;
mod raw;
mod report;
mod round;
mod tally;
mod ways;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use clap::builder::PossibleValue;
use clap::{Args as ClapArgs, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use super::exit::Exit;
use super::{Context, Wrong};
use measure::Bench;
use report::Report;
use ways::Way;

/// The type of the jobs that are measured.
const TYPE: &str = "bench.noop";

/// The type of the jobs that follow them.
const FOLLOW_UP: &str = "bench.follow_up";

/// The queue that is measured.
const QUEUE: &str = "default";

/// With fewer jobs, a measurement shows how a fleet starts, not how it works.
const LEAST_JOBS: usize = 500;

/// Measure each kind of job, bulk enqueue, latency, memory and backlogs against raw Redis.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// How many jobs are enqueued and drained. Slower kinds get a part of them, at most 100,000; the table says how many.
    #[arg(long, default_value_t = 200_000)]
    jobs: usize,
    /// How many times enqueue and each kind of job are measured, each time after the same work as raw commands. The medians are
    /// reported.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many handlers run at once while a kind of job is measured, at most 4000.
    #[arg(long, default_value_t = ways::SLOTS)]
    concurrency: usize,
    /// Measure only these.
    #[arg(long, value_delimiter = ',', value_enum)]
    only: Vec<Subject>,
    /// Show what Redis executed for a job of each kind, by command.
    #[arg(long)]
    explain: bool,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Enqueue,
    /// All of the next.
    Ways,
    Way(Way),
    Latency,
    Memory,
    Backlog,
    Programs,
    ProgramMemory,
}

/// Everything that `--only` knows.
static SUBJECTS: LazyLock<Vec<Subject>> = LazyLock::new(|| {
    let ways = Way::value_variants().iter().map(|way| Subject::Way(*way));
    let first = [Subject::Enqueue, Subject::Ways].into_iter();
    let last =
        [Subject::Latency, Subject::Memory, Subject::Backlog, Subject::Programs, Subject::ProgramMemory];
    first.chain(ways).chain(last).collect()
});

impl ValueEnum for Subject {
    fn value_variants<'a>() -> &'a [Self] {
        &SUBJECTS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Self::Way(way) => return way.to_possible_value(),
            Self::Enqueue => ("enqueue", "Submitting many jobs"),
            Self::Ways => ("ways", "All from plain to dead"),
            Self::Latency => {
                ("latency", "From XADD to the handler's start, at 500 jobs/s and at half of the highest rate")
            }
            Self::Memory => ("memory", "What a waiting job takes, and what is kept of it after its end"),
            Self::Backlog => (
                "backlog",
                "Plain jobs beside 5 million that wait, 1 million delayed, 100,000 dead; with 1,000 types; with 64 workers",
            ),
            Self::Programs => ("programs", "Jobs of pools, http and exec handlers in Python, PHP and Node"),
            Self::ProgramMemory => (
                "program_memory",
                "The memory of 64 programs, or --jobs if that is fewer, in Python, PHP and Node",
            ),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

impl Subject {
    /// Returns what these stand for, in the order in which it is measured; everything if there are none.
    fn chosen(only: &[Self]) -> BTreeSet<Self> {
        let only = if only.is_empty() { Self::value_variants() } else { only };
        let mut chosen: BTreeSet<Self> = only.iter().copied().collect();
        if chosen.remove(&Self::Ways) {
            chosen.extend(Way::value_variants().iter().map(|way| Self::Way(*way)));
        }
        chosen
    }

    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// The subject has one of this many `--jobs`.
    fn share(self) -> usize {
        match self {
            Self::Way(way) => way.spec().share,
            Self::Programs => programs::SHARE,
            Self::Enqueue
            | Self::Ways
            | Self::Latency
            | Self::Memory
            | Self::Backlog
            | Self::ProgramMemory => 1,
        }
    }

    /// Refuses so few jobs that the figures of the subject would mean nothing.
    fn check(self, jobs: usize) -> Result<(), Wrong> {
        let (name, part, least) = (self.name(), jobs / self.share(), LEAST_JOBS * self.share());
        let wrong = format!(
            "--jobs {jobs} leaves {part} jobs for {name}, too few for a meaningful figure: use --jobs {least} or more"
        );
        // Programs take their memory after one job each.
        let is_enough = part >= LEAST_JOBS || matches!(self, Self::ProgramMemory) && part > 0;
        if is_enough { Ok(()) } else { Err(Wrong(wrong)) }
    }
}

/// The number of threads of the measured process: all cores except one, which is left to Redis.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().saturating_sub(1).max(1))
}

/// Runs the measurements and prints them.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let subjects = Subject::chosen(&args.only);
    subjects.iter().try_for_each(|subject| subject.check(args.jobs))?;
    let progress = ProgressBar::new(subjects.len() as u64);
    progress.set_style(ProgressStyle::with_template(
        "{spinner} measuring {msg} ({pos} of {len} done, {elapsed})",
    )?);
    let mut bench = Bench::start(args.jobs, args.rounds.max(1), args.concurrency.max(1)).await?;
    let mut report = Report::new(bench.server().await?);
    for subject in subjects {
        progress.set_message(subject.name());
        progress.tick();
        match subject {
            Subject::Enqueue => report.enqueue = Some(bench.enqueue().await?),
            Subject::Way(way) => measure_way(way, &mut bench, &mut report, args.explain).await?,
            Subject::Latency => report.latency_ms = Some(bench.latency().await?),
            Subject::Memory => report.memory = Some(bench.memory().await?),
            Subject::Backlog => report.backlog = Some(bench.backlog().await?),
            Subject::Programs => report.programs = bench.programs().await?,
            Subject::ProgramMemory => report.program_memory = bench.program_memory().await?,
            // Its ways are measured one by one.
            Subject::Ways => {}
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    context.output.print(&report, Report::table)?;
    Ok(Exit::Done)
}

async fn measure_way(way: Way, bench: &mut Bench, report: &mut Report, explain: bool) -> anyhow::Result<()> {
    let rounds = bench.way(way).await?;
    report.add(way, &rounds);
    if explain {
        report.explain(way, &rounds);
    }
    if way == Way::Promotion {
        report.add_promotion(&rounds, bench.promotion_late_p99_ms().await?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_stands_for_its_ways_and_nothing_is_measured_twice() {
        let names = |only: &[Subject]| {
            let chosen = Subject::chosen(only).into_iter().map(Subject::name);
            chosen.collect::<Vec<_>>().join(" ")
        };
        let ways = "plain delayed promotion retried tracked journaled own_id unique steps callbacks snoozed gated shared dead";
        assert_eq!(names(&[]), format!("enqueue {ways} latency memory backlog programs program_memory"));
        assert_eq!(names(&[Subject::Ways, Subject::Way(Way::Steps)]), ways);
        assert_eq!(names(&[Subject::Memory, Subject::Enqueue, Subject::Memory]), "enqueue memory");
    }

    #[test]
    fn the_names_of_earlier_versions_mean_the_same() {
        let named = |name| <Subject as ValueEnum>::from_str(name, false);
        for (name, way) in [("drain", Way::Plain), ("retry", Way::Retried), ("own_id", Way::OwnId)] {
            assert_eq!(named(name), Ok(Subject::Way(way)), "{name}");
        }
        assert!(named("").is_err());
        assert!(named("own-id").is_err());
    }

    #[test]
    fn so_few_jobs_that_they_mean_nothing_are_refused() {
        let refusal = |subject: Subject, jobs| subject.check(jobs).map_err(|Wrong(why)| why);
        assert_eq!(refusal(Subject::Enqueue, 500), Ok(()));
        assert_eq!(refusal(Subject::Way(Way::Retried), 2500), Ok(()));
        insta::assert_snapshot!(refusal(Subject::Way(Way::Steps), 9_999).unwrap_err(), @"--jobs 9999 leaves 499 jobs for steps, too few for a meaningful figure: use --jobs 10000 or more");
        assert!(refusal(Subject::Memory, 0).is_err());
    }
}
