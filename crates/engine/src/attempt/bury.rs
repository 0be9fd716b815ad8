//! Burying: the contents of a dead letter, and the script that writes it.

use fred::types::{Key, Value};

use crate::attempt::applied::Applied;
use crate::attempt::args::{flag, flatten, letter_of, text};
use crate::attempt::call::{JobsCall, only};
use crate::attempt::followup::FollowUpArgs;
use crate::attempt::taken::{AttemptSummary, TakenJob, edited};
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::job::task::CampaignTag;
use crate::job::{
    Burial, ConsumerName, DeadReason, End, EntryId, Envelope, Generation, JobId, Lane, TraceContext,
    fingerprint,
};
use crate::submit::offload::ScriptFields;
use crate::{Entry, Queue, bytes, millis};

scripts! { BURY "bury" }

/// The fields of an entry with a time set by its producer, and the field of its letter that keeps it.
const TIMES: [([&[u8]; 2], &[u8]); 2] = [
    ([b"delay_ms", b"was_delay_ms"], b"dead_delay_ms"),
    ([b"run_at_ms", b"was_run_at_ms"], b"dead_run_at_ms"),
];

/// What is buried: a job, or bytes that are not a job.
pub(crate) struct Letter<'a> {
    entry: EntryId,
    /// Its own lane.
    own_lane: Lane,
    id: JobId,
    job_type: &'a str,
    created_ms: u64,
    envelope: &'a Envelope,
    trace: Option<&'a TraceContext>,
    generation: Generation,
    root: Option<Generation>,
    /// Identifies the letter whose fields these are; see `bury.lua`.
    former: [Value; 2],
    follow_up: FollowUpArgs,
    /// The key of the entry's offloaded fields.
    offloaded: Key,
}

impl<'a> Letter<'a> {
    /// The letter of a job.
    pub(crate) fn of(
        TakenJob { job, envelope, trace }: TakenJob<'a>,
        follow_up: FollowUpArgs,
        offloaded: Key,
    ) -> Self {
        Self {
            entry: job.entry,
            own_lane: job.own_lane,
            id: job.id.clone(),
            job_type: job.job_type.as_str(),
            created_ms: job.created.as_ms(),
            envelope,
            trace,
            generation: job.generation.clone(),
            root: Some(job.root()).filter(|root| **root != job.generation).cloned(),
            former: letter_of(job),
            follow_up,
            offloaded,
        }
    }

    /// Returns the original fields, so that an `XADD` of them is a replay: counters reset, identity kept. An entry with
    /// more fields than a script can append keeps them packed in one field. Bytes that are not a job get `dead_job`
    /// instead of `id`, so that their record can be found.
    fn fields(&self) -> Envelope {
        let id = self.id.to_string();
        let campaign = self.envelope.get(b"campaign").and_then(CampaignTag::read);
        let campaign = campaign.map(|tag| (tag.id, tag.count.to_string()));
        let campaigns = campaign.as_ref().map_or_else(Vec::new, |(id, count)| {
            vec![
                (b"dead_campaign".as_slice(), id.as_bytes()),
                (b"dead_campaigns".as_slice(), count.as_bytes()),
            ]
        });
        let broken: Vec<_> =
            [(b"dead_job".as_slice(), id.as_bytes())].into_iter().chain(campaigns.iter().copied()).collect();
        if self.envelope.len() > Envelope::MAX_FIELDS + Envelope::FLEET_FIELDS {
            let packed = self.envelope.edited(|name| name == b"campaign", &[]).pack(self.own_lane);
            let raw: Vec<_> = [(b"raw".as_slice(), packed.as_slice())].into_iter().chain(broken).collect();
            return Envelope::new(raw.into_iter());
        }
        let fleet = |name: &[u8]| is_of_fleet(name) || name.starts_with(b"dead_");
        let mut add: Vec<(&[u8], &[u8])> = match self.envelope.get(b"id") {
            _ if self.job_type.is_empty() => broken,
            Some(_) => Vec::new(),
            None => vec![(b"id", id.as_bytes())],
        };
        if self.job_type.is_empty() {
            let fleet = |name: &[u8]| name == b"campaign" || name.starts_with(b"dead_");
            return edited(self.envelope, self.trace, fleet, &add);
        }
        // The producer's time and the start of the generation are kept for readers: a replay has a time of its own.
        let created = self.created_ms.to_string();
        add.push((b"dead_created_ms", created.as_bytes()));
        add.extend(campaigns);
        for (names, kept) in TIMES {
            add.extend(names.iter().find_map(|name| Some((kept, self.envelope.get(name)?))));
        }
        edited(self.envelope, self.trace, fleet, &add)
    }
}

/// Whether the fleet writes this field into the entry of a job, about where the job is and what became of its attempts. A letter does not
/// have it: a replay begins without.
pub(crate) fn is_of_fleet(name: &[u8]) -> bool {
    matches!(
        name,
        b"attempt" | b"lost" | b"created_ms" | b"life" | b"lane" | b"root" | b"delay_ms" | b"run_at_ms"
    ) || matches!(name, b"was_delay_ms" | b"was_run_at_ms" | b"unroutable_ms" | b"campaign")
}

impl Queue {
    /// Buries an entry that is not a job, with its bytes. Returns its id, or `None` if another process settled it.
    #[doc(hidden)]
    pub async fn bury_malformed(
        &self,
        consumer: &ConsumerName,
        entry: &Entry,
        why: &str,
        ran: &AttemptSummary<'_>,
    ) -> Result<Option<JobId>, Error> {
        let empty = Envelope::default();
        let given = entry.envelope.as_ref().unwrap_or(&empty);
        let text = |name: &[u8]| given.get(name).and_then(|value| std::str::from_utf8(value).ok());
        // The fleet has written a generation into entries of jobs that it knows: those that a script accepted or moved.
        let named = text(b"life").and_then(|generation| generation.parse::<Generation>().ok());
        let known = named.clone().and_then(|generation| Some((text(b"id")?.parse().ok()?, generation)));
        let (id, generation) = known.unwrap_or_else(|| {
            (JobId::derived(entry.id, entry.lane), Generation::of_entry(entry.id, entry.lane))
        });
        // `share.lua` names a job without an id by its first entry. What it adds is not its producer's.
        let is_added = |name: &[u8]| matches!(name, b"id" | b"life" | b"created_ms" | b"lane");
        let was_shared = text(b"id").is_some() && text(b"id") == text(b"life");
        let envelope = &given.edited(|name| was_shared && is_added(name), &[]);
        let end = End::Dead(DeadReason::Malformed, why);
        let letter = Letter {
            entry: entry.id,
            own_lane: entry.lane,
            id: id.clone(),
            job_type: "",
            created_ms: entry.id.ms,
            envelope,
            trace: None,
            follow_up: FollowUpArgs::of_malformed(
                &self.keys,
                envelope,
                named.as_ref().unwrap_or(&generation),
                end,
            ),
            generation,
            root: None,
            former: ["".into(), "".into()],
            // Any key that the entry names is gone.
            offloaded: self.keys.offloaded(""),
        };
        let burial = Burial { reason: DeadReason::Malformed, error: why.to_owned(), attempts: 0 };
        let mut call = self.burial_call(consumer, entry.lane);
        self.add_burial(&mut call, (letter, false), &burial, ran).await?;
        let applied = Applied::of(only("bury", self.run_each(call).await?)?)?;
        Ok((applied == Applied::Moved).then_some(id))
    }

    /// Begins a call that moves attempts of one lane to the dead stream. See `bury.lua`.
    pub(crate) fn burial_call(&self, consumer: &ConsumerName, lane: Lane) -> JobsCall {
        self.settling_call(&BURY, consumer, lane, &[&self.keys.cancels, &self.keys.dead])
    }

    /// Adds an attempt to such a call.
    pub(crate) async fn add_burial(
        &self,
        call: &mut JobsCall,
        (letter, is_repeated): (Letter<'_>, bool),
        burial: &Burial,
        ran: &AttemptSummary<'_>,
    ) -> Result<(), Error> {
        let ScriptFields { envelope: fields, offloaded } =
            self.offload_large(letter.fields(), &letter.generation).await?;
        let FollowUpArgs { keys: [lock, batch], ends } = letter.follow_up;
        let (record, ledger) = (self.keys.record(&letter.id), self.keys.ledger(&letter.id));
        let [letter_generation, letter_ms] = letter.former;
        let mut args = Vec::from(args![BURY;
            id = text(&letter.id),
            is_repeated = flag(is_repeated),
            reason = burial.reason.as_str(),
            error_text = bytes(burial.error.as_bytes()),
            failures = i64::from(burial.attempts),
            elapsed_ms = millis(ran.elapsed),
            outcome = ran.outcome,
            worker = ran.worker,
            job_type = letter.job_type,
            created_ms = letter.created_ms.cast_signed(),
            fingerprint = fingerprint(letter.job_type, burial.reason, &burial.error),
            ends,
            root = letter.root.as_ref().map_or_else(|| "".into(), text),
            letter_generation,
            letter_ms,
            told_steps = letter.envelope.get(b"dead_steps").map_or_else(|| "".into(), bytes),
            origin = letter.own_lane.as_str(),
        ]);
        flatten(&fields, &mut args);
        call.add(
            (letter.entry, &letter.generation),
            [record, lock, batch, ledger, letter.offloaded, offloaded],
            args,
        );
        Ok(())
    }
}
