//! The handler of the worker process: its payload says what it does.
//!
//! `ok` · `sleep <ms>` · `fail <n>` (fails n times) · `grow <MiB>` (keeps that memory, and takes 100 ms) · `fatal` · `panic` ·
//! `block <path>` (blocks its thread and ignores cancellation until the file exists) · `gate <folder>` (does what the file
//! `<job>@<entry>` says, once it exists)
//!
//! Jobs of the type `gift` are made of the steps `audit`, `charge` (once), `mail` (after it) and `render`. Each step does
//! what follows its name in the payload, as in `charge block <path>; render fail 1`, or else succeeds. The ledger names it
//! `<id>/<step>`.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use streamfleet::{Handler, JobContext, JobError, RawPayload};

use super::Program;
use crate::ledger::{Fence, How, Run, Writer};
use crate::payload::order_of_step;
use crate::wait::until;

/// Longer than any test.
const FOR_EVER: Duration = Duration::from_secs(3600);

/// Deliberate bugs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Sabotage {
    /// Settles a job before it runs.
    AcknowledgesBeforeRunning,
    /// Settles a failed job as if it were done.
    DropsFailures,
    /// Submits a finished job once more.
    RunsTwice,
    /// Buries a job and also retries it.
    BuriesAndRetries,
}

/// The handler.
pub(super) struct Obeys {
    writer: Writer,
    kept: Mutex<Vec<Vec<u8>>>,
    sabotage: Option<(Sabotage, Mutex<redis::Connection>)>,
}

impl Obeys {
    pub(super) fn new(writer: Writer, program: &Program) -> Self {
        let connect = || redis::Client::open(program.url.as_str()).unwrap().get_connection().unwrap();
        let kept = Mutex::default();
        Self { writer, kept, sabotage: program.sabotage.map(|sabotage| (sabotage, Mutex::new(connect()))) }
    }

    /// Misbehaves now, if this is the bug that the process carries.
    fn spoil(&self, bug: Sabotage, context: &JobContext, payload: &str) {
        let Some((sabotage, connection)) = &self.sabotage else { return };
        if *sabotage != bug || context.header("copy").is_some() {
            return;
        }
        let (stream, dead) = ("sf:{default}:jobs", "sf:{default}:dead");
        let (entry, id) = (context.fence().to_string(), context.id().to_string());
        let fields = ["*", "type", "test", "id", &id, "payload", payload, "h.copy", "yes"];
        let mut commands = redis::pipe();
        match bug {
            Sabotage::AcknowledgesBeforeRunning | Sabotage::DropsFailures => {
                commands.cmd("XACK").arg(&[stream, "fleet", &entry]).cmd("XDEL").arg(&[stream, &entry]);
            }
            Sabotage::RunsTwice => {
                commands.cmd("XADD").arg(stream).arg(&fields);
            }
            Sabotage::BuriesAndRetries => {
                commands.cmd("XADD").arg(dead).arg(&fields);
            }
        }
        commands.exec(&mut *connection.lock().unwrap()).unwrap();
    }
}

/// The handler of a whole job, or of each of its steps.
pub(super) struct Shared(pub(super) Arc<Obeys>);

impl Handler for Shared {
    type Payload = RawPayload;
    type Output = ();

    async fn run(&self, payload: RawPayload, context: JobContext) -> Result<(), JobError> {
        self.0.obey(payload, context).await
    }
}

impl Obeys {
    async fn obey(&self, payload: RawPayload, context: JobContext) -> Result<(), JobError> {
        let payload = String::from_utf8(payload.0.to_vec()).unwrap();
        let fence = Fence(context.fence().ms, context.fence().seq);
        let (mut job, attempt) = (context.id().to_string(), context.attempt());
        let mut payload = payload;
        if let Some(step) = context.step() {
            job = format!("{job}/{step}");
            payload = order_of_step(&payload, step.as_str()).to_owned();
        }
        let run = Run { job, attempt, fence, pid: std::process::id() };
        let entered = self.writer.enter(run);
        self.spoil(Sabotage::AcknowledgesBeforeRunning, &context, &payload);
        let (verb, rest) = payload.split_once(' ').unwrap_or((&payload, ""));
        match verb {
            "sleep" => tokio::time::sleep(Duration::from_millis(rest.parse().unwrap())).await,
            "fail" if attempt <= rest.parse().unwrap() => {
                entered.end(How::Failed);
                self.spoil(Sabotage::DropsFailures, &context, &payload);
                self.spoil(Sabotage::BuriesAndRetries, &context, &payload);
                return Err(JobError::retry("as ordered"));
            }
            "grow" => {
                // Written to, because the system would not allocate it otherwise.
                self.kept.lock().unwrap().push(vec![1; rest.parse::<usize>().unwrap() << 20]);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            "fatal" => {
                entered.end(How::Fatal);
                return Err(JobError::fatal("as ordered"));
            }
            "panic" => {
                entered.end(How::Failed);
                panic!("as ordered");
            }
            "gate" => {
                let gate = Path::new(rest).join(format!("{}@{}", context.id(), context.fence()));
                let word = loop {
                    if let Ok(word) = std::fs::read_to_string(&gate) {
                        break word;
                    }
                    if context.cancellation().is_cancelled() {
                        return Err(JobError::retry("cut short"));
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                };
                match word.as_str() {
                    "fail" => {
                        entered.end(How::Failed);
                        return Err(JobError::retry("as ordered"));
                    }
                    "fatal" => {
                        entered.end(How::Fatal);
                        return Err(JobError::fatal("as ordered"));
                    }
                    "snooze" => return Err(JobError::snooze(FOR_EVER)),
                    _ => {}
                }
            }
            "block" => {
                until("the file that ends the block", Duration::from_secs(60), || Path::new(rest).exists())
            }
            _ => {}
        }
        entered.end(How::Ok);
        self.spoil(Sabotage::RunsTwice, &context, &payload);
        Ok(())
    }
}
