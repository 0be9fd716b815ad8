//! Programs in other languages: jobs of a pool and of an `exec` handler, beside the same program without Redis.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use streamfleet::handlers::{Exec, ExecConfig, Pool, PoolConfig, PoolStart};
use streamfleet::job::{Encoding, Policy};
use streamfleet::{Builder, Submission};

use super::fleet::Running;
use super::measure::{Bench, per_s};
use super::ratio::median;
use super::tally::{Goal, Tally};

/// How many jobs run as programs of their own: each takes tens of milliseconds.
const EXEC_JOBS: usize = 100;

/// A pool gets one of this many `--jobs`.
pub(super) const SHARE: usize = 10;

/// An interpreter, and programs for it that do nothing.
struct Language {
    name: &'static str,
    interpreter: [&'static str; 2],
    /// Answers each job at once.
    pool: &'static str,
    /// Ends at once.
    exec: &'static str,
}

const LANGUAGES: [Language; 3] = [
    Language {
        name: "python",
        interpreter: ["python3", "-c"],
        pool: r#"
import json, sys
for line in sys.stdin:
    job = json.loads(line)
    if job["type"] == "hello": answer = {"type": "ready", "protocol": 1}
    else: answer = {"type": "result", "ref": job["ref"], "outcome": "done"}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
"#,
        exec: "pass",
    },
    Language {
        name: "php",
        interpreter: ["php", "-r"],
        pool: r#"
while (($line = fgets(STDIN)) !== false) {
    $job = json_decode($line, true);
    $answer = $job["type"] === "hello" ? ["type" => "ready", "protocol" => 1]
        : ["type" => "result", "ref" => $job["ref"], "outcome" => "done"];
    fwrite(STDOUT, json_encode($answer) . "\n");
}
"#,
        exec: "exit(0);",
    },
    Language {
        name: "node",
        interpreter: ["node", "-e"],
        pool: r#"
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
    const job = JSON.parse(line);
    const answer = job.type === "hello" ? { type: "ready", protocol: 1 }
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

/// How many jobs per second.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Rates {
    /// One program that gets all jobs at once, without Redis.
    pub(super) bare_per_s: f64,
    pub(super) pool_per_s: f64,
    pub(super) exec_per_s: f64,
    pub(super) pool_ratio: f64,
}

impl Language {
    fn command(&self, program: &str) -> Vec<String> {
        let [interpreter, flag] = self.interpreter;
        [interpreter, flag, program].map(str::to_owned).to_vec()
    }

    /// Returns how long one program takes for this many jobs that it gets one after the other, without waiting.
    fn bare(&self, jobs: usize, payload: &str) -> Result<Duration> {
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
        stdin.write_all(b"{\"type\":\"hello\",\"protocol\":1}\n")?;
        answers.next().context("the program is not ready")??;
        let begun = Instant::now();
        let took = std::thread::scope(|scope| -> Result<Duration> {
            let writing = scope.spawn(move || -> Result<()> {
                for nth in 0..jobs {
                    let line = serde_json::json!({"type": "job", "ref": nth.to_string(), "payload": payload});
                    writeln!(stdin, "{line}")?;
                }
                Ok(())
            });
            let answered = answers.take(jobs).filter(Result::is_ok).count();
            let took = begun.elapsed();
            ensure!(answered == jobs, "the program answered {answered} of {jobs} jobs");
            writing.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
            Ok(took)
        });
        child.wait()?;
        took
    }
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
        let (mut bare, mut pool, mut exec) = (Vec::new(), Vec::new(), Vec::new());
        let jobs = self.jobs / SHARE;
        let payload = "x".repeat(200);
        let programs = super::threads() + 1;
        for _ in 0..self.rounds {
            let text = payload.clone();
            let took = tokio::task::spawn_blocking(move || language.bare(jobs, &text)).await??;
            bare.push(per_s(jobs, took));
            let config = PoolConfig::new(language.command(language.pool));
            let handler = Pool::new("bench".parse()?, config.processes(programs).start(PoolStart::Eager))?;
            let add = |fleet: Builder| -> Result<Builder> {
                Ok(fleet.pool_for(super::TYPE, Policy::default(), &handler)?)
            };
            pool.push(self.run(jobs, &payload, add).await?);
            let handler = Exec::new(ExecConfig::new(language.command(language.exec)))?;
            let add = |fleet: Builder| -> Result<Builder> {
                Ok(fleet.handler_with(super::TYPE, Policy::default(), handler)?)
            };
            exec.push(self.run(EXEC_JOBS, &payload, add).await?);
        }
        let ratio = median(pool.iter().zip(&bare).map(|(pool, bare)| pool / bare));
        let [bare_per_s, pool_per_s, exec_per_s] = [bare, pool, exec].map(median);
        Ok(Rates { bare_per_s, pool_per_s, exec_per_s, pool_ratio: ratio })
    }

    /// Returns how many jobs per second a fleet with this handler runs.
    async fn run(
        &mut self,
        jobs: usize,
        payload: &str,
        add: impl Fn(Builder) -> Result<Builder>,
    ) -> Result<f64> {
        self.reset()?;
        let one =
            Submission::new(super::TYPE)?.payload(format!("{payload:?}").into_bytes(), Encoding::Json)?;
        self.producer().await?.submit_all((0..jobs).map(move |_| one.clone())).await?;
        let tally = Tally::new(Goal::Ended, jobs);
        let slots = 4 * (super::threads() + 1);
        let running = Running::with(&self.server, slots, &tally, add)?;
        let took = tally.took().await;
        running.stop().await;
        Ok(per_s(jobs, took?))
    }
}
