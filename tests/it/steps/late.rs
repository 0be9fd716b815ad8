//! Workers that are frozen in the middle of a `once` step and resume after it has become unknown: what they report then
//! counts, unless a person has already decided.

use std::time::Duration;

use streamfleet::job::{JobId, State, StepState, Verdict};

use super::scene::Scene;
use crate::harness::fleet::until_state;
use crate::harness::ledger::{Ledger, Record};
use crate::harness::process::Worker;
use crate::harness::wait::{until, until_async};
use crate::program::Program;

const SOON: Duration = Duration::from_secs(20);

struct Zombie {
    scene: Scene,
    dir: tempfile::TempDir,
    frozen: Worker,
    helper: Worker,
    job: JobId,
}

impl Zombie {
    /// Returns a worker that is frozen in the middle of `charge`, and whose job another worker has buried.
    async fn asleep(more: &str) -> Self {
        let scene = Scene::new().await;
        let dir = tempfile::tempdir().unwrap();
        let ledger = dir.path().join("ledger");
        std::fs::create_dir(&ledger).unwrap();
        let program = Program { retention_ms: 60_000, ..Program::new(&scene.server.url(), &ledger) };
        let frozen = program.launch().start();
        let order = format!("charge block {}{more}", dir.path().join("end").display());
        scene.server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "gift", "id", "j", "payload", &order]);
        let charged = |record: &Record| matches!(record, Record::Start { run, .. } if run.job == "j/charge");
        until("charge to begin", SOON, || Ledger::new(&ledger).read().iter().any(charged));
        frozen.freeze();
        let helper = program.launch().start();
        let job: JobId = "j".parse().unwrap();
        assert_eq!(scene.reason(&job).await, "needs_decision");
        assert_eq!(scene.state_of(&job, "charge").await, StepState::Unknown);
        Self { scene, dir, frozen, helper, job }
    }

    fn wake(&self) {
        std::fs::write(self.dir.path().join("end"), "").unwrap();
        self.frozen.thaw();
    }

    fn starts(&self, step: &str) -> usize {
        let named =
            |record: &Record| matches!(record, Record::Start { run, .. } if run.job == format!("j/{step}"));
        Ledger::new(&self.dir.path().join("ledger")).read().iter().filter(|record| named(record)).count()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombies_late_report_counts_and_its_job_continues() {
    let zombie = Zombie::asleep("").await;
    zombie.wake();
    until_state(&zombie.scene.queue, &zombie.job, State::Done).await;
    let charge = zombie.scene.step(&zombie.job, "charge").await;
    assert_eq!((charge.state, charge.attempts), (StepState::Done, 1));
    assert_eq!((zombie.starts("charge"), zombie.starts("mail")), (1, 1));
    assert_eq!(zombie.scene.queue.snapshot().await.unwrap().dead, 0);
    drop(zombie.helper);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombies_report_after_a_decision_changes_nothing() {
    let zombie = Zombie::asleep("").await;
    let scene = &zombie.scene;
    scene.decide(&zombie.job, "charge", Verdict::GiveUp).await.unwrap();
    let before = scene.seen(&zombie.job).await.ledger;
    zombie.wake();
    let ended = |record: &Record| matches!(record, Record::End { run, .. } if run.job == "j/charge");
    until_async("charge to end", SOON, async || {
        Ledger::new(&zombie.dir.path().join("ledger")).read().iter().any(ended)
    })
    .await;
    // It reports before it stops.
    zombie.frozen.term();
    zombie.frozen.wait_exit(SOON);
    assert_eq!(scene.seen(&zombie.job).await.ledger, before);
    assert_eq!(scene.reason(&zombie.job).await, "needs_decision");
    assert_eq!(zombie.starts("mail"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombies_late_report_renews_no_attempts_of_exhausted_steps() {
    let zombie = Zombie::asleep("; render fatal").await;
    zombie.wake();
    zombie.scene.until_step(&zombie.job, "charge", StepState::Done).await;
    zombie.frozen.term();
    zombie.frozen.wait_exit(SOON);
    assert_eq!(zombie.scene.reason(&zombie.job).await, "needs_decision");
    assert_eq!((zombie.starts("render"), zombie.starts("mail")), (1, 0));
}
