//! A worker process in the middle of a step, and the scene around it.

use std::fs;
use std::time::Duration;

use streamfleet::job::JobId;
use tempfile::TempDir;

use harness::ledger::{Ledger, Record};
use harness::process::Worker;
use harness::program::Program;
use harness::steps::Scene;
use harness::wait::until;

const SOON: Duration = Duration::from_secs(20);

/// A worker that runs a step of the job `j`. The step lasts until [`Halfway::let_end`].
pub(super) struct Halfway {
    pub(super) scene: Scene,
    pub(super) job: JobId,
    pub(super) worker: Worker,
    program: Program,
    dir: TempDir,
}

impl Halfway {
    /// Submits the job, with orders for `more` steps, and waits until this step has begun.
    pub(super) async fn of(step: &str, more: &str) -> Self {
        let (scene, dir) = (Scene::new().await, tempfile::tempdir().unwrap());
        let ledger = dir.path().join("ledger");
        fs::create_dir(&ledger).unwrap();
        let program = Program { retention_ms: 60_000, ..Program::new(&scene.server.url(), &ledger) };
        let order = format!("{step} block {}{more}", dir.path().join("end").display());
        scene.server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "gift", "id", "j", "payload", &order]);
        let worker = program.launch().start();
        let halfway = Self { scene, job: "j".parse().unwrap(), worker, program, dir };
        until("the step to begin", SOON, || halfway.starts(step) == 1);
        halfway
    }

    /// Starts another worker.
    pub(super) fn another(&self) -> Worker {
        self.program.launch().start()
    }

    /// Lets the step end, now or when it runs again. If its worker is frozen, it continues.
    pub(super) fn let_end(&self) {
        fs::write(self.dir.path().join("end"), "").unwrap();
        self.worker.thaw();
    }

    /// Returns what the workers have recorded.
    pub(super) fn records(&self) -> Vec<Record> {
        Ledger::new(&self.dir.path().join("ledger")).read()
    }

    /// Returns how often a step's handler was called.
    pub(super) fn starts(&self, step: &str) -> usize {
        let name = format!("j/{step}");
        let named = |record: &&Record| matches!(record, Record::Start { run, .. } if run.job == name);
        self.records().iter().filter(named).count()
    }
}
