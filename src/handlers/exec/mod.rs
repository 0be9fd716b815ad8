//! The handler that runs a program per job: the payload on standard input, the outcome in the exit code.
//!
//! The input of each `child` is complete before it starts, and it is watched until it ends. Nothing here starts a shell or
//! puts any part of a job into arguments.

mod child;
mod config;
mod environment;
mod input;
mod progress;

use std::io;
use std::time::Duration;

use serde_json::Value;

use self::child::{Child, End};
use self::progress::ProgressReader;
use super::excerpt::{Excerpt, error_text, stopped_text};
use super::process::{Invocation, Setting};
use super::rule::Kind;
use super::verdict::{Answer, TEXT_BYTES, Verdicts};
use super::{Error, output};
use crate::event::ChildEnding;
use crate::job::RuleAction;
use crate::{Handler, JobContext, JobError, RawPayload};

pub use config::ExecConfig;

/// After what pause a job runs again if the worker had no process, memory or file to spare.
const SHORT_OF_RESOURCES: Duration = Duration::from_secs(5);
/// sysexits.h: the input is wrong and will always be.
const EX_DATAERR: i32 = 65;
/// sysexits.h: not now, try again later.
const EX_TEMPFAIL: i32 = 75;

/// The exit codes by which shells and other launchers report that a signal killed a program: 128 plus the signal's
/// number.
const KILLED_MIN: i32 = 129;
const KILLED_MAX: i32 = 159;

/// Why a program that ran too long was stopped.
const TIME_UP: &str = "it ran out of time";

/// Runs a program per job: the payload on standard input, the outcome in the exit code.
///
/// | exit code | outcome |
/// |---|---|
/// | 0 | done; standard output is the result, as JSON if it parses, otherwise as text or base64; none is kept beyond 64 KiB |
/// | 65 | fatal: the job is buried at once (`EX_DATAERR`) |
/// | 75 | snoozed: the job runs again after `snooze`, and no attempt is spent (`EX_TEMPFAIL`) |
/// | other | failed: retried according to the type's policy |
/// | killed by a signal, or 129 to 159, which is how a shell reports a signal | the same, and unknown |
///
/// Unknown means that nobody knows whether the work was done. A step that must not run twice is then
/// [unknown](crate::job::StepState::Unknown); after any other failure it has failed.
///
/// [`ExecConfig::rules`] are applied first. They can give exit codes and the text on standard error other meanings.
///
/// The error consists of the line of standard error that says most, its first 768 and last 1280 bytes with their line breaks, and the
/// exit code. A program that cannot be started is an ordinary
/// failure, unless the worker lacked the resources: then the job is snoozed. A start that takes 10 s is killed, and unknown.
///
/// A line `::progress 40 rendering` on standard error reports the job's progress. All other lines go to the job's log
/// if the job keeps a record.
///
/// Standard input is a file in memory that holds the whole payload when the program starts. Whatever happens to the
/// worker, the program never mistakes a part of the payload for all of it.
///
/// The program's environment is what [`ExecConfig`] lists, with `STREAMFLEET_JOB_ID`, `STREAMFLEET_JOB_TYPE`,
/// `STREAMFLEET_JOB_QUEUE`, `STREAMFLEET_JOB_ATTEMPT`, `STREAMFLEET_JOB_FENCE`, `STREAMFLEET_JOB_ENCODING` (`json`,
/// `msgpack` or `raw`), `STREAMFLEET_PAYLOAD_BYTES` and, if the job has them, `STREAMFLEET_STEP`, `TRACEPARENT` and a
/// `STREAMFLEET_HEADER_…` per header. It inherits no open files, and is killed when the worker dies.
///
/// It runs in a session of its own, without a terminal, and in a process group of its own, which ends with the attempt: with
/// SIGTERM, and SIGKILL after `grace`, if the attempt is cut short; with SIGKILL if the program has exited and left something
/// running. A process that starts another session escapes this. A program that was stopped has failed, whatever its exit code:
/// many programs exit with 0 on SIGTERM without having done their work.
// No `Debug`: the environment may contain secrets.
pub struct Exec {
    config: ExecConfig,
    verdicts: Verdicts,
    setting: Setting,
}

impl Exec {
    /// Creates a handler that runs the configured program. The variables that it passes on from the worker's
    /// environment are read now, and its user is looked up.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if [`ExecConfig::validate`] finds a problem, the user is not known, or this process must not run programs as
    /// that user. Whether the program exists is only checked when
    /// it is started.
    pub fn new(config: ExecConfig) -> Result<Self, Error> {
        Error::unless_valid(config.validate())?;
        let setting = config.template().setting().map_err(Error::invalid)?;
        let verdicts = Verdicts::new(Kind::Exec, &config.rules)?;
        Ok(Self { config, verdicts, setting })
    }

    fn invocation(&self, context: &JobContext) -> Invocation {
        let mut invocation = self.config.template().invocation(&self.setting);
        for (name, value) in environment::of(context) {
            invocation.set(name, value);
        }
        invocation
    }

    /// Returns the error for a program that could not be started. A missing program is an ordinary failure: it shows in
    /// the metrics and the dead letters, and the retries leave time to fix the installation. It is not fatal, because
    /// the job is not at fault.
    fn not_started(&self, error: &io::Error) -> JobError {
        let program = &self.config.command[0];
        if let Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE) = error.raw_os_error() {
            tracing::warn!(program, %error, "not enough resources to start a program");
            return JobError::snooze(SHORT_OF_RESOURCES);
        }
        JobError::retry(self.config.template().not_started(error))
    }

    fn outcome(&self, end: End) -> Result<Value, JobError> {
        if let Some(why) = end.cut {
            let why = format!("stopped because {why} ({})", end.status);
            return Err(JobError::unknown(stopped_text(&why, &words(&end))));
        }
        let code = end.status.code();
        let answer = Answer { code: code.map(i64::from), succeeded: code == Some(0), text: &end.stderr.tail };
        let then = self.verdicts.verdict(answer).unwrap_or(match code {
            Some(0) => RuleAction::Done,
            Some(EX_DATAERR) => RuleAction::Fatal,
            Some(EX_TEMPFAIL) => RuleAction::Snooze(self.config.snooze),
            Some(KILLED_MIN..=KILLED_MAX) | None => RuleAction::Unknown,
            Some(_) => RuleAction::Retry,
        });
        let error = then.error(|| error_text(&end.status.to_string(), &words(&end)));
        error.map_or_else(|| Ok(output::result(&end.stdout)), Err)
    }

    /// Returns how much of standard error to keep. Rules may match text further up than an error message shows.
    fn kept(&self) -> usize {
        if self.verdicts.read_text() { TEXT_BYTES } else { Excerpt::BYTES }
    }
}

impl Handler for Exec {
    type Payload = RawPayload;
    type Output = Value;

    async fn run(&self, RawPayload(payload): RawPayload, context: JobContext) -> Result<Value, JobError> {
        let mut invocation = self.invocation(&context);
        invocation.set(environment::PAYLOAD_BYTES, payload.len().to_string());
        let child = Child::start(invocation, payload).await.map_err(|error| {
            context.child_ended(ChildEnding::NotStarted);
            self.not_started(&error)
        })?;
        let mut progress = ProgressReader::of(&context);
        let on_stderr = (self.kept(), |chunk: &[u8]| progress.push(chunk));
        let end = child.run(cut_short(&context), self.config.grace, on_stderr).await;
        let end = end.map_err(|error| JobError::unknown(format!("lost track of the program: {error}")))?;
        progress.end();
        if end.cut.is_none() {
            context.ended_by_itself();
        }
        context.child_ended(end.ending());
        self.outcome(end)
    }

    /// The program's grace, and a little more to reap it.
    fn grace(&self) -> Duration {
        const REAPING: Duration = Duration::from_secs(1);
        self.config.grace + REAPING
    }
}

impl End {
    fn ending(&self) -> ChildEnding {
        match (self.cut, self.status.code()) {
            (Some(TIME_UP), _) => ChildEnding::Timeout,
            (_, Some(0)) => ChildEnding::Exited,
            (_, Some(_)) => ChildEnding::Failed,
            (_, None) => ChildEnding::Signal,
        }
    }
}

/// Waits until the attempt must end, and returns why. The worker notices that it has timed out, and cancels it.
async fn cut_short(context: &JobContext) -> &'static str {
    context.cancellation().cancelled().await;
    if context.time_left().is_zero() { TIME_UP } else { "the attempt was cut short" }
}

/// What a program wrote, without the lines that report progress.
fn words(end: &End) -> String {
    end.stderr.text(progress::without_progress)
}

#[cfg(test)]
mod tests;
