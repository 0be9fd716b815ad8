//! Making jobs of the delayed set due now, many of them in one script.

use std::collections::VecDeque;

use super::fence::Fence;
use super::outcome::Outcome;
use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::job::{EntryId, Envelope, JobId, Lane};
use crate::{FoundJob, Queue, bytes};

scripts! { RUN_NOW "run_now" }

/// The most jobs of one script. If they have many steps, it leaves some of them for another call.
const MAX_JOBS: usize = 50;

/// A job and its fields, and where it stands among those to make due.
type Numbered<'a> = (usize, &'a (FoundJob, Option<Envelope>));

impl Queue {
    /// Makes jobs that a search found in the delayed set due now, and marks them. Returns what became of each; `None` if the task is
    /// not on this page.
    pub(super) async fn run_now(
        &self,
        mark: &str,
        fence: &Fence,
        found: &[(FoundJob, Option<Envelope>)],
    ) -> Result<Option<Vec<Outcome>>, Error> {
        let mut all = vec![Outcome::Gone; found.len()];
        let mut waiting: VecDeque<_> = found.iter().enumerate().collect();
        while !waiting.is_empty() {
            let some: Vec<_> = waiting.drain(..waiting.len().min(MAX_JOBS)).collect();
            let Some(reply) = self.run_some_now(mark, fence, &some).await? else { return Ok(None) };
            let mut later = Vec::new();
            for ((nth, job), reply) in some.into_iter().zip(reply) {
                match reply {
                    Some(reply) => all[nth] = reply,
                    None => later.push((nth, job)),
                }
            }
            // They were next, and are again.
            later.into_iter().rev().for_each(|job| waiting.push_front(job));
        }
        Ok(Some(all))
    }

    /// Runs the script. Returns what became of each job, or nothing for those that it left for another call; `None` if the task is not
    /// on this page.
    async fn run_some_now(
        &self,
        mark: &str,
        fence: &Fence,
        some: &[Numbered<'_>],
    ) -> Result<Option<Vec<Option<Outcome>>>, Error> {
        let (own, receipt) = (&self.keys, self.new_receipt());
        let mut keys = vec![own.delayed.clone(), own.delayed_fields.clone(), own.wake.clone()];
        keys.extend([receipt.clone(), fence.task.clone()]);
        let mut args = Vec::from(args![RUN_NOW; mark, page = fence.page()]);
        for (_, (job, fields)) in some {
            let named = |name: &[u8]| fields.as_ref().and_then(|fields| fields.get(name));
            let text = named(b"id").and_then(|id| std::str::from_utf8(id).ok()).unwrap_or(&job.id);
            // What has no valid id has no record either.
            let id = text.parse().unwrap_or_else(|_| JobId::derived(EntryId::new(0, 0), Lane::Normal));
            keys.extend([own.record(&id), own.ledger(&id)]);
            let generation = bytes(named(b"life").or_else(|| named(b"created_ms")).unwrap_or_default());
            args.extend(args![RUN_NOW; member = bytes(job.id.as_bytes()), generation]);
        }
        let answer = self.run_once(&RUN_NOW, receipt, (keys, args)).await?;
        if answer.status == 0 {
            return Ok(None);
        }
        let reply: Vec<_> = answer.rest.iter().map(|reply| Outcome::read(&decode::text(reply))).collect();
        let is_stuck = reply.first().is_some_and(Option::is_none);
        if reply.len() != some.len() || is_stuck {
            return Err(Error::contract("run_now", answer));
        }
        Ok(Some(reply))
    }
}
