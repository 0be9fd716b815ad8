//! A person who operates the queue in an audit: cancels jobs, fixes and replays dead ones, drops them, or decides about steps.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use streamfleet::job::{EntryId, GateName, JobId, Lane, StepName, StepState, Verdict};
use streamfleet::{Queue, RedisError};
use streamfleet_engine::admin::{Action, Cancellation, DeadLetter, DecideError};

use super::register::{Deed, Kind, Register, Reply, ToCancel};
use super::send::add;
use super::worker::KEPT;
use harness::clock::monotonic_ns;
use harness::fleet::queue;
use harness::process::Launch;
use harness::redis_server::RedisServer;
use harness::wait::pause_for;

const ROUND: Duration = Duration::from_millis(150);
/// How long a type is paused, and how many rounds later it is paused again.
const PAUSED: Duration = Duration::from_millis(1_500);
const ROUNDS_OF_A_PAUSE: u32 = 24;
/// How long a command may take; Redis may be away.
const COMMAND: Duration = Duration::from_secs(20);

pub(crate) struct Person {
    pub server: Arc<RedisServer>,
    pub register: Arc<Register>,
    /// The folder with a file for each fixed job.
    pub mended: PathBuf,
    /// Additional environment variables for commands.
    pub env: Vec<(String, String)>,
}

/// What remains to be done about a letter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    LookAgain,
}

impl Person {
    /// Works until it is asked to stop.
    pub(crate) fn live(&self, stop: &AtomicBool) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.unwrap().block_on(async {
            let queue = queue(&self.server).await;
            let (mut open, mut next) = (Vec::new(), None);
            let gated: GateName = "type:gated".parse().unwrap();
            let mut rounds = 0u32;
            while !stop.load(Ordering::SeqCst) {
                tokio::time::sleep(ROUND).await;
                rounds = rounds.wrapping_add(1);
                self.pause(&queue, &gated, rounds).await;
                self.cancel(&queue).await;
                // Redis may be away.
                self.read(&queue, &mut open, &mut next).await.ok();
            }
        });
    }

    /// Pauses a type now and then, and resumes it half of the time; otherwise, it resumes by itself.
    async fn pause(&self, queue: &Queue, gate: &GateName, round: u32) {
        // Redis may be away.
        match round % ROUNDS_OF_A_PAUSE {
            0 => drop(queue.gates().close(gate, "a person", "for a moment", Some(PAUSED)).await),
            5 if round % (2 * ROUNDS_OF_A_PAUSE) == 5 => drop(queue.gates().open(gate).await),
            _ => {}
        }
    }

    async fn cancel(&self, queue: &Queue) {
        let now = Instant::now();
        let due: Vec<ToCancel> = {
            let mut waiting = self.register.to_cancel.lock().unwrap();
            let (due, later) = waiting.drain(..).partition(|wish| wish.at <= now);
            *waiting = later;
            due
        };
        for ToCancel { at: _, id } in due {
            let asked = monotonic_ns();
            match queue.cancel(&id.parse().unwrap(), "a person", KEPT).await {
                Ok(answer @ (Cancellation::Done | Cancellation::Requested)) => {
                    let (is_done, answered) = (answer == Cancellation::Done, monotonic_ns());
                    self.register.did(Deed::Cancelled { id, is_done, asked, answered });
                }
                Ok(Cancellation::Ended(_)) => {}
                Ok(Cancellation::Unknown) => {
                    self.register.complain(format!("{id} was accepted, but cancelling it answered: unknown"));
                }
                Err(_away) => {
                    let at = now + 2 * ROUND;
                    self.register.to_cancel.lock().unwrap().push(ToCancel { at, id });
                }
            }
        }
    }

    async fn read(
        &self,
        queue: &Queue,
        open: &mut Vec<EntryId>,
        next: &mut Option<EntryId>,
    ) -> Result<(), RedisError> {
        for letter in queue.dead_letters().page(*next, 500).await? {
            *next = Some(EntryId::new(letter.entry.ms, letter.entry.seq + 1));
            open.push(letter.entry);
        }
        let mut left = Vec::new();
        for entry in open.drain(..) {
            let handled = match queue.dead_letters().get(entry).await {
                Ok(Some(letter)) => self.handle(queue, &letter).await,
                Ok(None) => Left::Nothing,
                Err(_away) => Left::LookAgain,
            };
            if handled == Left::LookAgain {
                left.push(entry);
            }
        }
        *open = left;
        Ok(())
    }

    async fn handle(&self, queue: &Queue, letter: &DeadLetter) -> Left {
        let (mark, id) = (mark_of(letter), letter.job());
        let own = id.to_string();
        let generation = if self.register.kind_of(&own).is_some() { own } else { mark.clone() };
        let reason = letter.text("dead_reason");
        match self.register.kind_of(&generation) {
            Some(Kind::Mended) if reason == "fatal" => {
                std::fs::write(self.mended.join(&mark), "").unwrap();
                self.replay(queue, letter, &generation, &mark).await
            }
            Some(Kind::Dropped) => {
                self.register.did(Deed::Dropped { generation });
                queue.dead_letters().drop(letter.entry, &id).await.map_or(Left::LookAgain, |_| Left::Nothing)
            }
            Some(Kind::Gift)
                if letter.text("payload").contains("mail mend") && reason != "needs_decision" =>
            {
                self.replay_and_drop(queue, letter, &generation, &mark).await
            }
            Some(Kind::Gift) if reason == "needs_decision" => {
                self.decide(queue, letter, &generation, &mark).await
            }
            _ => Left::Nothing,
        }
    }

    /// Replays a letter through the library, with the command line, with `XADD` and `XDEL`, or with `XADD` alone.
    async fn replay(&self, queue: &Queue, letter: &DeadLetter, generation: &str, mark: &str) -> Left {
        self.register.did(Deed::Replayed { generation: generation.to_owned() });
        if number(mark) % 9 == 3 {
            return self.replay_by_command(letter).await;
        }
        if number(mark).is_multiple_of(3) {
            return match queue.dead_letters().replay(letter.entry, &letter.job()).await {
                Ok(_entry) => Left::Nothing,
                Err(_away) => Left::LookAgain,
            };
        }
        let Some(fields) = self.entry_of(letter).await else { return Left::LookAgain };
        let (reply, _entry) = add(&self.server, lane_of(letter), fields).await;
        if reply != Reply::Accepted {
            return Left::LookAgain;
        }
        if number(mark) % 3 != 1 {
            return Left::Nothing;
        }
        self.register.did(Deed::Deleted { generation: generation.to_owned() });
        loop {
            let entry = letter.entry.to_string();
            let server = Arc::clone(&self.server);
            let deleting = tokio::task::spawn_blocking(move || {
                matches!(server.try_cmd(&["XDEL", "sf:{default}:dead", &entry]), Ok(redis::Value::Int(_)))
            });
            if deleting.await.unwrap() {
                return Left::Nothing;
            }
            tokio::time::sleep(ROUND).await;
        }
    }

    async fn replay_by_command(&self, letter: &DeadLetter) -> Left {
        let (url, entry) = (self.server.url(), letter.entry.to_string());
        let env = self.env.clone();
        let replaying = tokio::task::spawn_blocking(move || {
            let launch = Launch::new(&["--redis", &url, "dead", "replay", &entry, "--yes"]);
            let launch = env.iter().fold(launch, |launch, (name, value)| launch.env(name, value.as_str()));
            let process = launch.start();
            let (started, mut status) = (Instant::now(), None);
            while status.is_none() && started.elapsed() < COMMAND {
                pause_for(Duration::from_millis(20));
                status = process.exit_status();
            }
            status
        });
        // Exit code 4: the letter is gone.
        match replaying.await.unwrap().and_then(|status| status.code()) {
            Some(0 | 4) => Left::Nothing,
            _ => Left::LookAgain,
        }
    }

    /// Returns the fields of a letter as `XRANGE` does: large ones are in their own key. `None` if Redis is away.
    async fn entry_of(&self, letter: &DeadLetter) -> Option<Vec<(String, String)>> {
        let (server, entry) = (Arc::clone(&self.server), letter.entry.to_string());
        let reading = tokio::task::spawn_blocking(move || {
            let found = server.try_cmd(&["XRANGE", "sf:{default}:dead", &entry, &entry]);
            redis::from_redis_value::<Vec<(String, Vec<(String, String)>)>>(found.ok()?).ok()
        });
        Some(reading.await.unwrap()?.pop()?.1)
    }

    /// Replays by `XADD`, and drops the letter while the new generation may be running: the ledger of its steps must stay.
    async fn replay_and_drop(
        &self,
        queue: &Queue,
        letter: &DeadLetter,
        generation: &str,
        mark: &str,
    ) -> Left {
        let replayed = Deed::Replayed { generation: generation.to_owned() };
        if self.register.has_done(&replayed) {
            return Left::Nothing;
        }
        let Some(fields) = self.entry_of(letter).await else { return Left::LookAgain };
        std::fs::write(self.mended.join(mark), "").unwrap();
        self.register.did(replayed);
        let is_replayed = add(&self.server, lane_of(letter), fields).await.0 == Reply::Accepted;
        // If Redis did not answer, only a second generation shows that it has the new entry.
        if !is_replayed || queue.dead_letters().drop(letter.entry, &letter.job()).await.is_err() {
            self.register.did(Deed::Abandoned { letter: letter.entry.to_string() });
        }
        Left::Nothing
    }

    async fn decide(&self, queue: &Queue, letter: &DeadLetter, generation: &str, mark: &str) -> Left {
        let id: JobId = letter.job();
        let charge: StepName = "charge".parse().unwrap();
        let Ok(Some(steps)) = queue.steps().of(&id).await else { return Left::LookAgain };
        let state = steps.ledger.state(&charge);
        let again = Deed::RunAgain { id: id.to_string() };
        let verdict = match (number(mark) % 3, state) {
            // A decision was made through another letter of this id.
            (_, StepState::GivenUp) => return Left::Nothing,
            (_, StepState::Done | StepState::Pending) => {
                return self.replay_decided(queue, letter, generation).await;
            }
            (_, StepState::Started) => return Left::LookAgain,
            (0, _) if !self.register.has_done(&again) => Verdict::Run,
            (1, _) => Verdict::GiveUp,
            _ => Verdict::Done,
        };
        if verdict == Verdict::Run {
            self.register.did(again);
        }
        let action = Action::new("steps decide", "ann").why("the audit");
        match queue.steps().decide(&id, (&charge, verdict), None, &action, KEPT).await {
            Ok(_decided) => Left::Nothing,
            Err(DecideError::Redis(_) | DecideError::Refused { .. } | DecideError::Changed(_)) => {
                Left::LookAgain
            }
            Err(other) => {
                self.register.complain(format!("deciding about {id} failed: {other}"));
                Left::Nothing
            }
        }
    }

    async fn replay_decided(&self, queue: &Queue, letter: &DeadLetter, generation: &str) -> Left {
        self.register.did(Deed::Replayed { generation: generation.to_owned() });
        queue
            .dead_letters()
            .replay(letter.entry, &letter.job())
            .await
            .map_or(Left::LookAgain, |_| Left::Nothing)
    }
}

/// Returns the lane from which a letter came.
fn lane_of(letter: &DeadLetter) -> Lane {
    match letter.text("dead_origin").as_str() {
        "high" => Lane::High,
        "low" => Lane::Low,
        _ => Lane::Normal,
    }
}

/// Returns the mark of the submission, or the id of a job without one.
pub(crate) fn mark_of(letter: &DeadLetter) -> String {
    let payload = letter.text("payload");
    let marked = payload.trim_matches('"').strip_prefix('@').and_then(|rest| rest.split_once(' '));
    marked.map_or_else(|| letter.job().to_string(), |(mark, _orders)| mark.to_owned())
}

/// Returns a number made of the digits of a mark. What a person does with the job depends on nothing else.
pub(crate) fn number(mark: &str) -> usize {
    mark.chars().filter_map(|digit| digit.to_digit(10)).fold(0, |sum, digit| sum * 7 + digit as usize)
}
