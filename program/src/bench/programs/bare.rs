//! One program without Redis and without a worker. It gets the lines that a worker would write.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// What a worker writes for the first job of a program, which is named `1`.
const FIRST: &str = r#"{"type":"job","ref":"1","#;

/// What a worker writes for a job, except for its ref.
#[derive(Debug, Clone)]
pub(super) struct JobLine(String);

impl JobLine {
    /// Reads what a worker wrote for the first job of a program.
    pub(super) fn of(line: &str) -> Result<Self> {
        let rest = line.trim_end().strip_prefix(FIRST).context("a worker's line begins differently")?;
        Ok(Self(rest.to_owned()))
    }

    fn numbered(&self, nth: usize) -> String {
        format!("{{\"type\":\"job\",\"ref\":\"{nth}\",{}\n", self.0)
    }
}

/// A program that is ready.
pub(super) struct Bare {
    child: Child,
    stdin: ChildStdin,
    answers: Answers,
}

/// The lines that a program writes.
type Answers = std::io::Lines<BufReader<ChildStdout>>;

impl Bare {
    /// Starts a program and exchanges greetings.
    pub(super) fn start(command: &[String]) -> Result<Self> {
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
        Ok(Self { child, stdin, answers })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Has it run one job.
    pub(super) fn once(&mut self, line: &JobLine) -> Result<()> {
        self.stdin.write_all(line.numbered(1).as_bytes())?;
        self.answers.next().context("the program ended before it had answered")??;
        Ok(())
    }

    /// Returns how long it takes for this many jobs, each after the answer of the one before, and ends it.
    pub(super) fn lockstep(mut self, line: &JobLine, jobs: usize) -> Result<Duration> {
        let begun = Instant::now();
        for nth in 1..=jobs {
            self.stdin.write_all(line.numbered(nth).as_bytes())?;
            self.answers.next().context("the program ended before it had answered all jobs")??;
        }
        let took = begun.elapsed();
        self.end()?;
        Ok(took)
    }

    /// Returns how long it takes for this many jobs that are written as fast as it reads them, and ends it.
    pub(super) fn pipelined(self, line: &JobLine, jobs: usize) -> Result<Duration> {
        let Self { mut child, stdin, answers } = self;
        let begun = Instant::now();
        let took = std::thread::scope(|scope| {
            let writing = scope.spawn(move || -> Result<()> {
                let mut stdin = BufWriter::new(stdin);
                (1..=jobs).try_for_each(|nth| stdin.write_all(line.numbered(nth).as_bytes()))?;
                Ok(stdin.flush()?)
            });
            let answered = answers.take(jobs).filter(Result::is_ok).count();
            let took = begun.elapsed();
            ensure!(answered == jobs, "the program answered {answered} of {jobs} jobs");
            writing.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
            Ok(took)
        })?;
        child.wait()?;
        Ok(took)
    }

    /// Ends it.
    pub(super) fn end(self) -> Result<()> {
        let Self { mut child, stdin, .. } = self;
        drop(stdin);
        child.wait()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_keeps_everything_but_its_ref() {
        let line = JobLine::of("{\"type\":\"job\",\"ref\":\"1\",\"payload\":{\"ref\":\"1\"}}\n").unwrap();
        assert_eq!(line.numbered(17), "{\"type\":\"job\",\"ref\":\"17\",\"payload\":{\"ref\":\"1\"}}\n");
        assert!(JobLine::of("{\"type\":\"cancel\",\"ref\":\"1\"}").is_err());
    }
}
