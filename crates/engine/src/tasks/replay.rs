//! A task that replays dead letters. One script replays letters and moves the cursor past them, so a process that dies neither skips
//! nor repeats any.

use super::advance::Advance;
use super::portion::{LETTERS_PER_CALL, fingerprint_of, portion};
use super::registry::{Tasks, noted};
use super::task::Task;
use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::inspect::audit::Action;
use crate::job::task::{ReplayCounts, ReplayRules, ReplayStep, TaskState, next_step};

scripts! { TASK_REPLAY "task_replay" }

/// About how many bytes of letters are read for one script.
const BYTES_PER_READ: usize = 1024 * 1024;

impl Tasks<'_> {
    /// Does what a replay is to do next.
    pub(super) async fn replay_step(
        self,
        task: &Task,
        rules: &ReplayRules,
        counts: &ReplayCounts,
    ) -> Result<Advance, Error> {
        let canary = &[TaskState::Canary][..];
        let running = &[TaskState::Canary, TaskState::Running][..];
        match next_step(task.state, rules, counts, task.is_read()) {
            ReplayStep::Rest => {
                let is_idle = task.state.is_over() || task.state == TaskState::Paused;
                Ok(if is_idle { Advance::Idle } else { Advance::Later })
            }
            ReplayStep::Replay(most) => self.replay(task, rules, most).await,
            ReplayStep::Release => {
                let state = (TaskState::Running, "");
                let released = self.set((task.word(), &task.id), canary, state, None).await;
                noted(&task.id, released, Advance::Again)
            }
            ReplayStep::Stop(why) => {
                let note = task.outcome(Action::new("campaign stopped", &task.who).why(&why));
                let state = (TaskState::Stopped, why.as_str());
                let stopped = self.set((task.word(), &task.id), running, state, Some(&note)).await;
                noted(&task.id, stopped, Advance::Stopped(why))
            }
            ReplayStep::Finish => self.finish(task).await,
        }
    }

    /// Replays the next letters that the rate allows, and reads no others. See `task_replay.lua`.
    async fn replay(self, task: &Task, rules: &ReplayRules, most: u64) -> Result<Advance, Error> {
        let (Some(last), cursor) = (task.last, task.letter()) else { return Ok(Advance::Idle) };
        let most = usize::try_from(most.min(task.allowed)).unwrap_or(usize::MAX).min(LETTERS_PER_CALL);
        if most == 0 {
            return Ok(Advance::Later);
        }
        let dead = self.queue.dead_letters();
        let page = dead.next_selected(&task.letters(), cursor, (most, BYTES_PER_READ)).await?;
        let letters = portion(&page.letters);
        let is_whole = letters.len() == page.letters.len();
        let to = match letters.last() {
            Some(letter) if !is_whole => letter.entry,
            Some(_) | None => page.next.unwrap_or(last),
        };
        let rest = if is_whole { page.read.saturating_sub(page.reads.iter().sum()) } else { 0 };
        let own = &self.queue.keys;
        let mut keys = vec![own.campaign(&task.id), own.dead.clone()];
        keys.extend(own.streams().clone());
        keys.extend(letters.iter().map(|letter| own.record(&letter.job())));
        if rules.all_steps {
            keys.extend(letters.iter().map(|letter| own.ledger(&letter.job())));
        }
        let mut args = Vec::from(args![TASK_REPLAY;
            id = task.id.as_str(),
            state = task.state.as_str(),
            cursor = cursor.to_string(),
            to = to.to_string(),
            per_second = rules.rate.map_or_else(String::new, |rate| rate.to_string()),
            most = most.to_string(),
            max_replays = rules.max_replays.to_string(),
            rest = rest.to_string(),
        ]);
        for (letter, read) in letters.iter().zip(&page.reads) {
            args.extend(args![TASK_REPLAY;
                letter = letter.entry.to_string(),
                fingerprint = fingerprint_of(letter),
                seen = read.to_string(),
            ]);
        }
        // If the answer is lost, the cursor says what was done.
        let answer = self.queue.run(&TASK_REPLAY, keys, args).await?;
        match (answer.status, answer.rest.get(1).and_then(decode::entry_id)) {
            (0, _) => Ok(Advance::Later),
            (1, Some(cursor)) if cursor == to => Ok(Advance::Again),
            (1, Some(_)) => Ok(Advance::Later),
            _ => Err(Error::contract("task_replay", answer)),
        }
    }
}
