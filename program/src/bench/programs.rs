//! Programs in other languages: jobs of a pool and of an `exec` handler, beside the same program without Redis and beside plain
//! jobs.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use streamfleet::handlers::{Exec, ExecConfig, Noop, Pool, PoolConfig, PoolStart};
use streamfleet::job::{Encoding, Policy};
use streamfleet::{Builder, Submission};

use super::fleet::Running;
use super::measure::{Bench, per_s};
use super::ratio::{Ratio, median};
use super::tally::{Goal, Tally};

/// How many jobs run as programs of their own: each takes tens of milliseconds.
const EXEC_JOBS: usize = 100;

/// A pool gets one of this many `--jobs`.
pub(super) const SHARE: usize = 10;

/// How many jobs a program gets at once, or ahead, where it does not wait for the worker after each of them.
pub(super) const MANY: usize = 32;

/// An interpreter, and programs for it that do nothing.
struct Language {
    name: &'static str,
    interpreter: [&'static str; 2],
    /// Whether a program may work on many jobs at once.
    is_concurrent: bool,
    /// Answers each job at once.
    pool: &'static str,
    /// Ends at once.
    exec: &'static str,
}

const LANGUAGES: [Language; 3] = [
    Language {
        name: "python",
        interpreter: ["python3", "-c"],
        is_concurrent: false,
        pool: r#"
import json, sys
for line in sys.stdin:
    job = json.loads(line)
    if job["type"] == "hello": answer = {"type": "ready", "protocol": 1, "ahead": job["ahead"]}
    else: answer = {"type": "result", "ref": job["ref"], "outcome": "done"}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
"#,
        exec: "pass",
    },
    Language {
        name: "php",
        interpreter: ["php", "-r"],
        is_concurrent: false,
        pool: r#"
while (($line = fgets(STDIN)) !== false) {
    $job = json_decode($line, true);
    $answer = $job["type"] === "hello" ? ["type" => "ready", "protocol" => 1, "ahead" => $job["ahead"]]
        : ["type" => "result", "ref" => $job["ref"], "outcome" => "done"];
    fwrite(STDOUT, json_encode($answer) . "\n");
}
"#,
        exec: "exit(0);",
    },
    Language {
        name: "node",
        interpreter: ["node", "-e"],
        is_concurrent: true,
        pool: r#"
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
    const job = JSON.parse(line);
    const answer = job.type === "hello" ? { type: "ready", protocol: 1, ahead: job.ahead, inflight: job.inflight }
        : { type: "result", ref: job.ref, outcome: "done" };
    process.stdout.write(JSON.stringify(answer) + "\n");
});
"#,
        exec: "0",
    },
];

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
    /// A pool whose programs get one job after each answer, and its ratio to one such program.
    pub(super) pool_per_s: f64,
    pub(super) pool_ratio: f64,
    /// A pool whose programs get jobs ahead, beside the slower of a bare program and plain jobs.
    pub(super) pool_ahead_per_s: f64,
    pub(super) pool_ahead_ratio: Ratio,
    /// A pool whose programs work on many jobs at once, if they can, beside the same.
    pub(super) pool_inflight_per_s: Option<f64>,
    pub(super) pool_inflight_ratio: Option<Ratio>,
    pub(super) exec_per_s: f64,
}

/// The rates of one round.
#[derive(Default)]
struct Round {
    bare: f64,
    lockstep: f64,
    plain: f64,
    pool: f64,
    ahead: f64,
    inflight: Option<f64>,
    exec: f64,
}

impl Rates {
    fn of(rounds: &[Round]) -> Self {
        let medians = |rate: fn(&Round) -> f64| median(rounds.iter().map(rate));
        let bound = |round: &Round| round.bare.min(round.plain);
        let inflight: Option<Vec<f64>> = rounds.iter().map(|round| round.inflight).collect();
        let inflight_ratio =
            |rates: &Vec<f64>| Ratio::of(rates.iter().zip(rounds).map(|(rate, round)| rate / bound(round)));
        Self {
            bare_per_s: medians(|round| round.bare),
            bare_lockstep_per_s: medians(|round| round.lockstep),
            plain_per_s: medians(|round| round.plain),
            pool_per_s: medians(|round| round.pool),
            pool_ratio: medians(|round| round.pool / round.lockstep),
            pool_ahead_per_s: medians(|round| round.ahead),
            pool_ahead_ratio: Ratio::of(rounds.iter().map(|round| round.ahead / bound(round))),
            pool_inflight_ratio: inflight.as_ref().map(inflight_ratio),
            pool_inflight_per_s: inflight.map(median),
            exec_per_s: medians(|round| round.exec),
        }
    }
}

impl Language {
    fn command(&self, program: &str) -> Vec<String> {
        let [interpreter, flag] = self.interpreter;
        [interpreter, flag, program].map(str::to_owned).to_vec()
    }

    /// Starts one program, and returns how long it takes for this many jobs: all at once, or each after the answer of the one
    /// before.
    fn bare(&self, jobs: usize, payload: &str, is_lockstep: bool) -> Result<Duration> {
        let command = self.command(self.pool);
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("failed to start {}", command[0]))?;
        let mut stdin = child.stdin.take().context("the program has no input")?;
        let stdout = child.stdout.take().context("the program has no output")?;
        let mut answers = BufReader::new(stdout).lines();
        stdin.write_all(b"{\"type\":\"hello\",\"protocol\":1,\"inflight\":1,\"ahead\":0}\n")?;
        answers.next().context("the program is not ready")??;
        let lines = (0..jobs).map(|nth| {
            let job = serde_json::json!({"type": "job", "ref": nth.to_string(), "payload": payload});
            format!("{job}\n")
        });
        let took =
            if is_lockstep { lockstep(stdin, answers, lines) } else { pipelined(stdin, answers, lines) };
        child.wait()?;
        took
    }
}

/// The lines that a program writes.
type Answers = std::io::Lines<BufReader<ChildStdout>>;

/// Returns how long a program takes for lines that it gets one after the other.
fn lockstep(
    mut stdin: ChildStdin,
    mut answers: Answers,
    lines: impl Iterator<Item = String>,
) -> Result<Duration> {
    let begun = Instant::now();
    for line in lines {
        stdin.write_all(line.as_bytes())?;
        answers.next().context("the program ended before it had answered all jobs")??;
    }
    Ok(begun.elapsed())
}

/// Returns how long a program takes for lines that are written as fast as it reads them.
fn pipelined(
    stdin: ChildStdin,
    answers: Answers,
    lines: impl ExactSizeIterator<Item = String> + Send,
) -> Result<Duration> {
    let (jobs, begun) = (lines.len(), Instant::now());
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || -> Result<()> {
            let mut stdin = BufWriter::new(stdin);
            let mut lines = lines;
            lines.try_for_each(|line| stdin.write_all(line.as_bytes()))?;
            Ok(stdin.flush()?)
        });
        let answered = answers.take(jobs).filter(Result::is_ok).count();
        let took = begun.elapsed();
        ensure!(answered == jobs, "the program answered {answered} of {jobs} jobs");
        writing.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
        Ok(took)
    })
}

impl Bench {
    /// Measures every language that this machine has.
    pub(super) async fn programs(&mut self) -> Result<Vec<LanguageFigures>> {
        let mut figures = Vec::new();
        for language in &LANGUAGES {
            let is_there = ExecConfig::new([language.interpreter[0]]).missing_program().is_none();
            let rates = if is_there { Some(self.language(language).await?) } else { None };
            figures.push(LanguageFigures { language: language.name, rates });
        }
        Ok(figures)
    }

    async fn language(&mut self, language: &'static Language) -> Result<Rates> {
        let (jobs, payload) = (self.jobs / SHARE, "x".repeat(200));
        let mut rounds = Vec::new();
        for _ in 0..self.rounds {
            let mut round = Round::default();
            for (is_lockstep, rate) in [(false, &mut round.bare), (true, &mut round.lockstep)] {
                let text = payload.clone();
                let bare = move || language.bare(jobs, &text, is_lockstep);
                *rate = per_s(jobs, tokio::task::spawn_blocking(bare).await??);
            }
            round.plain = self.run((jobs, MANY), &payload, plain).await?;
            let config = PoolConfig::new(language.command(language.pool));
            round.pool = self.pool(jobs, &payload, config.clone()).await?;
            round.ahead = self.pool(jobs, &payload, config.clone().ahead(MANY)).await?;
            if language.is_concurrent {
                round.inflight = Some(self.pool(jobs, &payload, config.inflight(MANY)).await?);
            }
            let add = |fleet: Builder| -> Result<Builder> {
                let handler = Exec::new(ExecConfig::new(language.command(language.exec)))?;
                Ok(fleet.handler_with(super::TYPE, Policy::default(), handler)?)
            };
            round.exec = self.run((EXEC_JOBS, 4 * programs()), &payload, add).await?;
            rounds.push(round);
        }
        Ok(Rates::of(&rounds))
    }

    /// Returns how many jobs per second the programs of a pool run.
    async fn pool(&mut self, jobs: usize, payload: &str, config: PoolConfig) -> Result<f64> {
        let slots = programs() * (config.inflight + config.ahead).max(4);
        let config = config.processes(programs()).start(PoolStart::Eager);
        let handler = Pool::new("bench".parse()?, config)?;
        let add = |fleet: Builder| -> Result<Builder> {
            Ok(fleet.pool_for(super::TYPE, Policy::default(), &handler)?)
        };
        self.run((jobs, slots), payload, add).await
    }

    /// Returns how many jobs per second a fleet with this handler runs, and this many of them at once.
    async fn run(
        &mut self,
        (jobs, slots): (usize, usize),
        payload: &str,
        add: impl Fn(Builder) -> Result<Builder>,
    ) -> Result<f64> {
        self.reset()?;
        let one =
            Submission::new(super::TYPE)?.payload(format!("{payload:?}").into_bytes(), Encoding::Json)?;
        self.producer().await?.submit_all((0..jobs).map(move |_| one.clone())).await?;
        let tally = Tally::new(Goal::EndedAfterFirst, jobs);
        let running = Running::with(&self.server, slots, &tally, add)?;
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
