//! Making jobs of the delayed set due now, many of them in one script.

use fred::types::Value;

use crate::broker::client::decode;
use crate::broker::client::error::Error;
use crate::broker::client::script::scripts;
use crate::broker::{FoundJob, Queue, bytes};
use crate::job::{EntryId, Envelope, JobId, Lane};

scripts! { HASTEN "hasten" }

/// The most jobs of one script. Of each, it looks through the names in the ledger of its steps.
const MAX_JOBS: usize = 50;

/// What became of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hastened {
    Done,
    /// It is no longer in the delayed set, or was due already.
    Gone,
    /// Redis refused this one alone.
    Failed(String),
}

impl Queue {
    /// Makes jobs that a search found in the delayed set due now. Returns what became of each.
    pub(super) async fn hasten(
        &self,
        found: &[(FoundJob, Option<Envelope>)],
    ) -> Result<Vec<Hastened>, Error> {
        let mut all = Vec::with_capacity(found.len());
        for some in found.chunks(MAX_JOBS) {
            let (own, receipt) = (&self.keys, self.new_receipt());
            let mut keys = vec![own.delayed.clone(), own.wake.clone(), receipt.clone()];
            let mut args: Vec<Value> = Vec::with_capacity(2 * some.len());
            for (job, fields) in some {
                let named = |name: &[u8]| fields.as_ref().and_then(|fields| fields.get(name));
                let text = named(b"id").and_then(|id| std::str::from_utf8(id).ok()).unwrap_or(&job.id);
                // What has no valid id has no record either.
                let id = text.parse().unwrap_or_else(|_| JobId::derived(EntryId::new(0, 0), Lane::Normal));
                keys.extend([own.record(&id), own.ledger(&id)]);
                args.push(bytes(job.id.as_bytes()));
                args.push(bytes(named(b"life").or_else(|| named(b"created_ms")).unwrap_or_default()));
            }
            let answer = self.run_once(&HASTEN, receipt, (keys, args)).await?;
            if answer.rest.len() != some.len() {
                return Err(Error::contract("hasten", answer));
            }
            all.extend(answer.rest.iter().map(|told| match decode::text(told).as_str() {
                "done" => Hastened::Done,
                "gone" => Hastened::Gone,
                error => Hastened::Failed(error.to_owned()),
            }));
        }
        Ok(all)
    }
}
