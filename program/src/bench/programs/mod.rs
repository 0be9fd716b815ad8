//! Programs in other languages: jobs of a pool, of an `http` and of an `exec` handler, beside the same program without Redis and
//! beside plain jobs.
//!
//! Each [language](languages) has the same programs. One of them runs [bare](bare), with the lines that a worker writes; a
//! [site](site) serves the jobs of the `http` handler. [Memory](memory) is measured by itself.

mod bare;
mod languages;
mod memory;
mod site;

use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use streamfleet::handlers::{Exec, ExecConfig, Http, HttpConfig, Noop, Pool, PoolConfig, PoolStart};
use streamfleet::job::{Encoding, Policy};
use streamfleet::{Builder, Submission};

use self::bare::{Bare, JobLine};
use self::languages::{LANGUAGES, Language};
use super::fleet::Running;
use super::measure::{Bench, per_s};
use super::ratio::{Ratio, median};
use super::tally::{Goal, Tally};

pub(super) use self::memory::ProgramMemory;

/// How many jobs run as programs of their own: each takes tens of milliseconds.
const EXEC_JOBS: usize = 100;

/// The most jobs that a web server gets.
const HTTP_JOBS: usize = 2000;

/// A pool gets one of this many `--jobs`.
pub(super) const SHARE: usize = 10;

/// How many jobs a program gets at once, or ahead, where it does not wait for the worker after each of them.
pub(super) const MANY: usize = 32;

/// How many jobs a worker takes there beyond those that run: they take less time than a round trip to Redis.
const PREFETCH: usize = 64;

/// Answers its first job, and keeps the line of the job in a file. A program without a job writes nothing.
const KEEP_LINE: &str = r#"
read -r hello
echo '{"type":"ready","protocol":1}'
read -r job || exit 0
printf '%s\n' "$job" > "$0"
echo '{"type":"result","ref":"1","outcome":"done"}'
exec cat > /dev/null
"#;

/// The figures of one language.
#[derive(Debug, Serialize)]
pub(super) struct LanguageFigures {
    pub(super) language: &'static str,
    /// `None` if its interpreter is not on the `PATH`.
    pub(super) rates: Option<Rates>,
}

/// How many jobs per second, and the ratios of rates in the same round.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Rates {
    /// One program that gets all jobs without waiting for its answers, without Redis.
    pub(super) bare_per_s: f64,
    /// One program that gets a job after each answer, without Redis.
    pub(super) bare_lockstep_per_s: f64,
    /// Plain jobs, whose handler is in the worker.
    pub(super) plain_per_s: f64,
    /// A pool whose programs get one job after each answer, beside one such program.
    pub(super) pool_per_s: f64,
    pub(super) pool_ratio: Ratio,
    /// A pool whose programs get jobs ahead, beside the slower of a bare program and plain jobs.
    pub(super) pool_ahead_per_s: f64,
    pub(super) pool_ahead_ratio: Ratio,
    /// A pool whose programs work on many jobs at once, if they can.
    pub(super) pool_inflight: Option<InflightRates>,
    /// Jobs that a web server takes; `None` if this program cannot send them.
    pub(super) http_per_s: Option<f64>,
    /// Jobs that are programs of their own.
    pub(super) exec_per_s: f64,
}

/// Rates of programs that work on many jobs at once.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct InflightRates {
    /// One such program that gets all jobs without waiting for its answers, without Redis.
    pub(super) bare_per_s: f64,
    pub(super) per_s: f64,
    /// Beside the slower of a bare program and plain jobs.
    #[serde(flatten)]
    pub(super) ratio: Ratio,
}

/// The rates of one round.
struct Round {
    bare: f64,
    lockstep: f64,
    plain: f64,
    pool: f64,
    ahead: f64,
    inflight: Option<Inflight>,
    http: Option<f64>,
    exec: f64,
}

/// The rates of programs that work on many jobs at once.
#[derive(Clone, Copy)]
struct Inflight {
    bare: f64,
    pool: f64,
}

impl Rates {
    fn of(rounds: &[Round]) -> Self {
        let medians = |rate: fn(&Round) -> f64| median(rounds.iter().map(rate));
        let ratio = |of: fn(&Round) -> f64| Ratio::of(rounds.iter().map(of));
        Self {
            bare_per_s: medians(|round| round.bare),
            bare_lockstep_per_s: medians(|round| round.lockstep),
            plain_per_s: medians(|round| round.plain),
            pool_per_s: medians(|round| round.pool),
            pool_ratio: ratio(|round| round.pool / round.lockstep),
            pool_ahead_per_s: medians(|round| round.ahead),
            pool_ahead_ratio: ratio(|round| round.ahead / round.bare.min(round.plain)),
            pool_inflight: InflightRates::of(rounds),
            http_per_s: rounds.iter().map(|round| round.http).collect::<Option<Vec<_>>>().map(median),
            exec_per_s: medians(|round| round.exec),
        }
    }
}

impl InflightRates {
    fn of(rounds: &[Round]) -> Option<Self> {
        let rates: Vec<Inflight> = rounds.iter().map(|round| round.inflight).collect::<Option<_>>()?;
        let bound = |(rate, round): (&Inflight, &Round)| rate.pool / rate.bare.min(round.plain);
        Some(Self {
            bare_per_s: median(rates.iter().map(|rate| rate.bare)),
            per_s: median(rates.iter().map(|rate| rate.pool)),
            ratio: Ratio::of(rates.iter().zip(rounds).map(bound)),
        })
    }
}

/// Returns true if the interpreter of a language is on the `PATH`.
fn is_installed(language: &Language) -> bool {
    ExecConfig::new([language.interpreter()]).missing_program().is_none()
}

/// How one program gets its jobs.
#[derive(Clone, Copy)]
enum Pace {
    /// All without waiting for its answers.
    Pipelined,
    /// Each after the answer to the one before.
    Lockstep,
}

/// Returns how many jobs per second one program runs without Redis.
async fn bare(command: Vec<String>, line: &JobLine, jobs: usize, pace: Pace) -> Result<f64> {
    let line = line.clone();
    let running = move || -> Result<Duration> {
        let bare = Bare::start(&command)?;
        match pace {
            Pace::Pipelined => bare.pipelined(&line, jobs),
            Pace::Lockstep => bare.lockstep(&line, jobs),
        }
    };
    Ok(per_s(jobs, tokio::task::spawn_blocking(running).await??))
}

impl Bench {
    /// Measures every language that this machine has.
    pub(super) async fn programs(&mut self) -> Result<Vec<LanguageFigures>> {
        let line = self.job_line().await?;
        let mut figures = Vec::new();
        for language in &LANGUAGES {
            let rates =
                if is_installed(language) { Some(self.language(language, &line).await?) } else { None };
            figures.push(LanguageFigures { language: language.name, rates });
        }
        Ok(figures)
    }

    /// Returns what a worker writes for a job.
    async fn job_line(&mut self) -> Result<JobLine> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("line");
        let name = file.to_string_lossy().into_owned();
        self.pool(1, PoolConfig::new(["sh", "-c", KEEP_LINE, &name])).await?;
        JobLine::of(&std::fs::read_to_string(file).context("no program got a job")?)
    }

    async fn language(&mut self, language: &'static Language, line: &JobLine) -> Result<Rates> {
        let mut rounds = Vec::new();
        for _ in 0..self.rounds {
            rounds.push(self.language_round(language, line).await?);
        }
        Ok(Rates::of(&rounds))
    }

    async fn language_round(&mut self, language: &'static Language, line: &JobLine) -> Result<Round> {
        let jobs = self.jobs / SHARE;
        let command = language.command(language.pool);
        let config = PoolConfig::new(command.clone());
        let bare_rate = bare(command.clone(), line, jobs, Pace::Pipelined).await?;
        let lockstep = bare(command, line, jobs, Pace::Lockstep).await?;
        let plain = self.run((jobs, MANY, PREFETCH), plain).await?;
        let pool = self.pool(jobs, config.clone()).await?;
        let ahead = self.pool(jobs, config.ahead(MANY)).await?;
        let inflight = match language.inflight {
            Some(program) => {
                let command = language.command(program);
                let bare = bare(command.clone(), line, jobs, Pace::Pipelined).await?;
                let pool = self.pool(jobs, PoolConfig::new(command).inflight(MANY)).await?;
                Some(Inflight { bare, pool })
            }
            None => None,
        };
        let http = Some(self.http(jobs.min(HTTP_JOBS), language).await?);
        let add = |fleet: Builder| -> Result<Builder> {
            let handler = Exec::new(ExecConfig::new(language.command(language.exec)))?;
            Ok(fleet.handler_with(super::TYPE, Policy::default(), handler)?)
        };
        let exec = self.run((EXEC_JOBS, 4 * programs(), 0), add).await?;
        Ok(Round { bare: bare_rate, lockstep, plain, pool, ahead, inflight, http, exec })
    }

    /// Returns how many jobs per second the programs of a pool run.
    async fn pool(&mut self, jobs: usize, config: PoolConfig) -> Result<f64> {
        let places = config.inflight + config.ahead;
        let (slots, prefetch) = (programs() * places.max(4), if places > 1 { PREFETCH } else { 0 });
        let config = config.processes(programs()).start(PoolStart::Eager);
        let handler = Pool::new("bench".parse()?, config)?;
        let add = |fleet: Builder| -> Result<Builder> {
            Ok(fleet.pool_for(super::TYPE, Policy::default(), &handler)?)
        };
        self.run((jobs, slots, prefetch), add).await
    }

    /// Returns how many jobs per second the web server of a language takes.
    async fn http(&mut self, jobs: usize, language: &Language) -> Result<f64> {
        let site = site::Site::start(language).await?;
        let add = |fleet: Builder| -> Result<Builder> {
            let handler = Http::open(HttpConfig::new(site.url()))?;
            Ok(fleet.handler_with(super::TYPE, Policy::default(), handler)?)
        };
        self.run((jobs, MANY, 0), add).await
    }

    /// Returns how many jobs per second a fleet with this handler runs, this many of them at once, if it takes `prefetch` more.
    async fn run(
        &mut self,
        (jobs, slots, prefetch): (usize, usize, usize),
        add: impl Fn(Builder) -> Result<Builder>,
    ) -> Result<f64> {
        self.reset()?;
        let payload = format!("{:?}", "x".repeat(200)).into_bytes();
        let one = Submission::new(super::TYPE)?.payload(payload, Encoding::Json)?;
        self.producer().await?.submit_all((0..jobs).map(move |_| one.clone())).await?;
        let tally = Tally::new(Goal::EndedAfterFirst, jobs);
        let running = Running::with(&self.server, (slots, prefetch), &tally, add)?;
        let took = tally.took().await;
        running.stop().await;
        Ok(per_s(jobs, took?))
    }
}

/// Returns how many programs a pool has: one for each core.
fn programs() -> usize {
    super::threads() + 1
}

fn plain(fleet: Builder) -> Result<Builder> {
    Ok(fleet.handler_with(super::TYPE, Policy::default(), Noop)?)
}
