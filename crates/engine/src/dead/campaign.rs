//! Campaigns: bulk replays that the fleet carries out at a limited rate, and that stop themselves. Redis holds all of their
//! state. One script replays letters and moves the cursor past them, so a process that dies neither skips nor repeats any.

mod portion;

use std::collections::BTreeMap;
use std::time::Duration;

use fred::types::Value;
use portion::{LETTERS_PER_CALL, fingerprint_of, portion};
use serde::{Deserialize, Serialize};

use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::dead::selection::Selection;
use crate::inspect::audit::{Action, Noted, call_name};
use crate::job::campaign::{CampaignCounts, CampaignRules, CampaignState, CampaignStep, allowed, next_step};
use crate::job::filter::Filter;
use crate::job::{EntryId, Envelope, Timestamp, cut};
use crate::{Queue, bytes, millis};

scripts! {
    CAMPAIGNS "campaigns", CAMPAIGN_PUT "campaign_put", CAMPAIGN_READ "campaign_read",
    CAMPAIGN_REPLAY "campaign_replay", CAMPAIGN_SET "campaign_set",
}

/// The most campaigns of a queue that are known at a time. Those that are over make room for new ones.
const MAX_CAMPAIGNS: i64 = 200;

/// The most bytes of what is kept about why a campaign is paused or stopped.
const MAX_WHY_BYTES: usize = 500;

/// How long a campaign that is over is kept.
const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// About how many bytes of letters are read for one script.
const BYTES_PER_READ: usize = 1024 * 1024;

/// What a campaign is to do, as Redis holds it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Stored {
    filter: Filter,
    who: String,
    why: String,
    planned: Option<u64>,
    total: u64,
    last: String,
    now_ms: u64,
    rules: CampaignRules,
}

impl Stored {
    /// Returns it as JSON, if it can be read back.
    fn pack(&self) -> Result<Vec<u8>, serde_json::Error> {
        let packed = serde_json::to_vec(self)?;
        serde_json::from_slice::<Self>(&packed)?;
        Ok(packed)
    }
}

/// A campaign; see the [example](Campaigns).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Campaign {
    /// Its id: 8 hexadecimal digits.
    pub id: String,
    /// Where it is.
    pub state: CampaignState,
    /// Why it is there, if it was stopped or paused.
    pub why: String,
    /// The letters that it replays.
    pub selection: Selection,
    /// How many letters matched when it began, if they were counted.
    pub planned: Option<u64>,
    /// How it goes about them.
    pub rules: CampaignRules,
    /// How its jobs have ended so far.
    pub counts: CampaignCounts,
    /// The last letter that it has dealt with.
    pub cursor: EntryId,
    /// Who began it.
    pub who: String,
    /// When it began.
    pub created: Timestamp,
    /// When its state last changed.
    pub changed: Timestamp,
    /// How many letters its rate allows by now.
    allowed: u64,
}

/// What a step of a campaign led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advance {
    /// There may be more to do at once.
    Again,
    /// There is more to do later.
    Later,
    /// It replays nothing until a person resumes it, or ever again.
    Idle,
    /// It has stopped itself, for this reason.
    Stopped(String),
}

impl Campaign {
    /// Returns true if it has come to the end of its letters.
    pub fn is_read(&self) -> bool {
        self.selection.last.is_none_or(|last| self.cursor >= last)
    }

    /// Adds to a note what became of its jobs so far.
    fn outcome(&self, action: Action) -> Action {
        let CampaignCounts { replayed, succeeded, died, died_otherwise, needs_decision, cancelled, skipped } =
            self.counts;
        let alive = self.counts.alive();
        action.count(replayed).outcome(format!(
            "{replayed} replayed: {succeeded} succeeded, {died} died of the same error, {died_otherwise} of another, \
             {needs_decision} need a decision, {cancelled} cancelled, {alive} still running; {skipped} skipped"
        ))
    }

    fn read(id: &str, fields: &Envelope, now_ms: u64) -> Option<Self> {
        let text = |name: &str| {
            String::from_utf8_lossy(fields.get(name.as_bytes()).unwrap_or_default()).into_owned()
        };
        let number = |name: &str| text(name).parse::<u64>().unwrap_or(0);
        let stored: Stored = serde_json::from_slice(fields.get(b"plan")?).ok()?;
        let state = text("state");
        Some(Self {
            id: id.to_owned(),
            state: CampaignState::ALL.into_iter().find(|known| known.as_str() == state)?,
            why: text("why"),
            selection: Selection {
                filter: stored.filter,
                last: Some(stored.last.parse().ok()?),
                total: stored.total,
                now: decode::timestamp(stored.now_ms),
            },
            planned: stored.planned,
            rules: stored.rules,
            counts: CampaignCounts {
                replayed: number("replayed"),
                succeeded: number("succeeded"),
                died: number("died"),
                died_otherwise: number("died_otherwise"),
                needs_decision: number("needs_decision"),
                cancelled: number("cancelled"),
                skipped: number("skipped"),
            },
            cursor: text("cursor").parse().ok()?,
            who: stored.who,
            created: decode::timestamp(number("created_ms")),
            changed: decode::timestamp(number("changed_ms")),
            allowed: allowed(text("due_ms").parse().ok(), now_ms, stored.rules.rate),
        })
    }
}

/// Why a campaign does not begin or change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CampaignError {
    /// There is no letter to replay.
    #[error("there are no dead letters to replay")]
    NoLetters,
    /// There are too many campaigns that are not over.
    #[error("the queue already has {max} campaigns that are not over", max = MAX_CAMPAIGNS)]
    TooMany,
    /// Its rules have a number that is no rate or no share.
    #[error("a campaign cannot follow these rules: {0}")]
    Rules(&'static str),
    /// Its selection cannot be stored.
    #[error("the plan of the campaign cannot be stored: {0}")]
    Plan(String),
    /// There is none with this id.
    #[error("there is no such campaign")]
    Unknown,
    /// It is in a state that does not allow this.
    #[error("the campaign is {}", .0.as_str())]
    State(CampaignState),
    /// Redis does not answer or refuses.
    #[error(transparent)]
    Redis(#[from] Error),
}

/// The campaigns of a queue: bulk replays of dead letters that the fleet carries out. [`Queue::campaigns`] returns it.
///
/// ```no_run
/// # use streamfleet_engine as streamfleet;
/// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
/// use streamfleet::admin::{Action, CampaignRules, Filter};
///
/// let selection = queue.dead_letters().select(Filter::new().job_type("mail.*")?).await?;
/// let rules = CampaignRules::default().rate(50.0).canary(5).stop_at(5.0);
/// let ann = Action::new("campaign", "ann").why("the mail server is back");
/// let id = queue.campaigns().start(&selection, rules, &ann).await?.value;
/// let campaign = queue.campaigns().get(&id).await?.ok_or("it was just begun")?;
/// println!("{} of {} replayed", campaign.counts.replayed, campaign.selection.total);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy)]
pub struct Campaigns<'a> {
    queue: &'a Queue,
}

impl Queue {
    /// Gives access to the campaigns.
    pub fn campaigns(&self) -> Campaigns<'_> {
        Campaigns { queue: self }
    }
}

impl Campaigns<'_> {
    /// Begins a campaign, and returns its id. The fleet carries it out; `action` says who wants it and why, and how many
    /// letters match, if that is known.
    ///
    /// # Errors
    ///
    /// [`CampaignError`] if there are no letters or too many campaigns, its rules or its filter are unusable, or Redis does
    /// not answer.
    pub async fn start(
        self,
        selection: &Selection,
        rules: CampaignRules,
        action: &Action,
    ) -> Result<Noted<String>, CampaignError> {
        let last = selection.last.ok_or(CampaignError::NoLetters)?;
        rules.check().map_err(CampaignError::Rules)?;
        let id = format!("{:08x}", rand::random::<u32>());
        let plan = Stored {
            filter: selection.filter.clone(),
            who: action.who.clone(),
            why: action.why.clone(),
            planned: action.count,
            total: selection.total,
            last: last.to_string(),
            now_ms: selection.now.as_ms(),
            rules,
        };
        let plan = plan.pack().map_err(|error| CampaignError::Plan(error.to_string()))?;
        let state = if rules.canary > 0 { CampaignState::Canary } else { CampaignState::Running };
        let action = action.clone().outcome(format!("campaign {id}"));
        let own = &self.queue.keys;
        let keys = vec![own.campaigns.clone(), own.campaign(&id), own.audit.clone()];
        let args = Vec::from(args![CAMPAIGN_PUT;
            id = id.as_str(),
            state = state.as_str(),
            plan = Value::Bytes(plan.into()),
            most = MAX_CAMPAIGNS,
            call = call_name(),
            action = Value::Bytes(action.pack().into()),
        ]);
        let answer = self.queue.run_named(&CAMPAIGN_PUT, keys, args).await?;
        match answer.status {
            0 => Err(CampaignError::TooMany),
            1 => Ok(Noted::read(id, answer.rest.first())),
            _ => Err(Error::contract("campaign_put", answer).into()),
        }
    }

    /// Returns the ids of all campaigns that are known, each with whether it may still replay.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn ids(self) -> Result<BTreeMap<String, bool>, Error> {
        let keys = vec![self.queue.keys.campaigns.clone()];
        let answer = self.queue.run(&CAMPAIGNS, keys, vec![]).await?;
        let Some(Value::Array(pairs)) = answer.rest.first() else {
            return Err(Error::contract("campaigns", answer));
        };
        let pairs =
            pairs.chunks_exact(2).map(|pair| (decode::text(&pair[0]), decode::text(&pair[1]) == "active"));
        Ok(pairs.collect())
    }

    /// Returns one campaign; `None` if there is none with this id, or it was over 30 days ago.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses, or this version cannot read the campaign.
    pub async fn get(self, id: &str) -> Result<Option<Campaign>, Error> {
        let answer = self.queue.run(&CAMPAIGN_READ, vec![self.queue.keys.campaign(id)], vec![]).await?;
        let (Some(Value::Array(fields)), Some(now)) = (answer.rest.first(), answer.rest.get(1)) else {
            return Err(Error::contract("campaign_read", answer));
        };
        let Some(now_ms) = decode::number(now) else {
            return Err(Error::contract("campaign_read", answer));
        };
        if fields.is_empty() {
            return Ok(None);
        }
        let found = Campaign::read(id, &decode::envelope(fields), now_ms);
        let unreadable = || Error::contract("campaign_read", "a campaign that this version cannot read");
        found.map(Some).ok_or_else(unreadable)
    }

    /// Pauses a campaign. Jobs that it has replayed go on.
    ///
    /// # Errors
    ///
    /// [`CampaignError`] if it is unknown or over, or Redis does not answer.
    pub async fn pause(self, id: &str, action: &Action) -> Result<Noted<()>, CampaignError> {
        let from = [CampaignState::Canary, CampaignState::Running];
        self.set(id, &from, (CampaignState::Paused, &reason("paused", action)), Some(action)).await
    }

    /// Continues a campaign that was paused.
    ///
    /// # Errors
    ///
    /// [`CampaignError`] if it is unknown or not paused, or Redis does not answer.
    pub async fn resume(self, id: &str, action: &Action) -> Result<Noted<()>, CampaignError> {
        let campaign = self.get(id).await?.ok_or(CampaignError::Unknown)?;
        let is_tried = campaign.counts.succeeded >= campaign.rules.canary;
        let to = if is_tried { CampaignState::Running } else { CampaignState::Canary };
        self.set(id, &[CampaignState::Paused], (to, ""), Some(action)).await
    }

    /// Stops a campaign for good. Jobs that it has replayed go on.
    ///
    /// # Errors
    ///
    /// [`CampaignError`] if it is unknown or over, or Redis does not answer.
    pub async fn stop(self, id: &str, action: &Action) -> Result<Noted<()>, CampaignError> {
        let from = [CampaignState::Canary, CampaignState::Running, CampaignState::Paused];
        // One that cannot be read can be stopped all the same.
        let found = self.get(id).await.ok().flatten();
        let noted = found.map_or_else(|| action.clone(), |found| found.outcome(action.clone()));
        self.set(id, &from, (CampaignState::Stopped, &reason("stopped", action)), Some(&noted)).await
    }

    async fn set(
        self,
        id: &str,
        from: &[CampaignState],
        (to, why): (CampaignState, &str),
        action: Option<&Action>,
    ) -> Result<Noted<()>, CampaignError> {
        let own = &self.queue.keys;
        let keys = vec![own.campaigns.clone(), own.campaign(id), own.audit.clone()];
        let from: Vec<&str> = from.iter().map(|state| state.as_str()).collect();
        let note = action.map(|action| action.clone().target(format!("campaign {id}")).pack());
        let args = Vec::from(args![CAMPAIGN_SET;
            id,
            from = from.join(" "),
            to = to.as_str(),
            why = bytes(why.as_bytes()),
            is_over = if to.is_over() { "1" } else { "0" },
            keep_ms = millis(RETENTION),
            call = call_name(),
            action = bytes(&note.unwrap_or_default()),
        ]);
        let answer = self.queue.run_named(&CAMPAIGN_SET, keys, args).await?;
        let found = answer.rest.first().map(decode::text).unwrap_or_default();
        let found = CampaignState::ALL.into_iter().find(|state| state.as_str() == found);
        match (answer.status, found) {
            (1, _) => Ok(Noted::read((), answer.rest.first())),
            // An earlier call did it, whose answer was lost.
            (0, Some(found)) if found == to => Ok(Noted::read((), None)),
            (0, Some(found)) => Err(CampaignError::State(found)),
            (0, None) => Err(CampaignError::Unknown),
            _ => Err(Error::contract("campaign_set", answer).into()),
        }
    }

    /// Does what a campaign is to do next. Also returns how its jobs had ended before.
    #[doc(hidden)]
    pub async fn advance(self, id: &str) -> Result<(Advance, CampaignCounts), Error> {
        let Some(campaign) = self.get(id).await? else {
            return Ok((Advance::Idle, CampaignCounts::default()));
        };
        Ok((self.take_step(&campaign).await?, campaign.counts))
    }

    async fn take_step(self, campaign: &Campaign) -> Result<Advance, Error> {
        let id = &campaign.id;
        let (canary, running) =
            (&[CampaignState::Canary][..], &[CampaignState::Canary, CampaignState::Running][..]);
        let moved = match next_step(campaign.state, &campaign.rules, &campaign.counts, campaign.is_read()) {
            CampaignStep::Rest => {
                let is_idle = campaign.state.is_over() || campaign.state == CampaignState::Paused;
                return Ok(if is_idle { Advance::Idle } else { Advance::Later });
            }
            CampaignStep::Replay(most) => return self.replay(campaign, most).await,
            CampaignStep::Release => {
                let released = self.set(id, canary, (CampaignState::Running, ""), None).await;
                released.map(|noted| (noted, Advance::Again))
            }
            CampaignStep::Stop(why) => {
                let note = campaign.outcome(Action::new("campaign stopped", &campaign.who).why(&why));
                let stopped = self.set(id, running, (CampaignState::Stopped, &why), Some(&note)).await;
                stopped.map(|noted| (noted, Advance::Stopped(why)))
            }
            CampaignStep::Finish => {
                let note = campaign.outcome(Action::new("campaign done", &campaign.who));
                let done = self.set(id, running, (CampaignState::Done, ""), Some(&note)).await;
                done.map(|noted| (noted, Advance::Again))
            }
        };
        match moved {
            Ok((Noted { unnoted, .. }, led_to)) => {
                if let Some(why) = unnoted {
                    tracing::warn!(campaign = id, why, "the end of a campaign is not noted in the audit");
                }
                Ok(led_to)
            }
            Err(CampaignError::Redis(error)) => Err(error),
            // A person was faster.
            Err(
                CampaignError::NoLetters
                | CampaignError::TooMany
                | CampaignError::Rules(_)
                | CampaignError::Plan(_)
                | CampaignError::Unknown
                | CampaignError::State(_),
            ) => Ok(Advance::Later),
        }
    }

    /// Replays the next letters that the rate allows, and reads no others. See `campaign_replay.lua`.
    async fn replay(self, campaign: &Campaign, most: u64) -> Result<Advance, Error> {
        let Some(last) = campaign.selection.last else { return Ok(Advance::Idle) };
        let most = usize::try_from(most.min(campaign.allowed)).unwrap_or(usize::MAX).min(LETTERS_PER_CALL);
        if most == 0 {
            return Ok(Advance::Later);
        }
        let dead = self.queue.dead_letters();
        let page = dead.next_selected(&campaign.selection, campaign.cursor, (most, BYTES_PER_READ)).await?;
        let letters = portion(&page.letters);
        let is_whole = letters.len() == page.letters.len();
        let to = match letters.last() {
            Some(letter) if !is_whole => letter.entry,
            Some(_) | None => page.next.unwrap_or(last),
        };
        let own = &self.queue.keys;
        let mut keys = vec![own.campaign(&campaign.id), own.dead.clone()];
        keys.extend(own.streams().clone());
        keys.extend(letters.iter().map(|letter| own.record(&letter.job())));
        let mut args = Vec::from(args![CAMPAIGN_REPLAY;
            id = campaign.id.as_str(),
            state = campaign.state.as_str(),
            cursor = campaign.cursor.to_string(),
            to = to.to_string(),
            per_second = campaign.rules.rate.to_string(),
            most = most.to_string(),
            max_replays = campaign.rules.max_replays.to_string(),
        ]);
        for letter in letters {
            let fingerprint = fingerprint_of(letter);
            args.extend(args![CAMPAIGN_REPLAY; letter = letter.entry.to_string(), fingerprint]);
        }
        // If the answer is lost, the cursor says what was done.
        let answer = self.queue.run(&CAMPAIGN_REPLAY, keys, args).await?;
        match (answer.status, answer.rest.get(1).and_then(decode::entry_id)) {
            (0, _) => Ok(Advance::Later),
            (1, Some(cursor)) if cursor == to => Ok(Advance::Again),
            (1, Some(_)) => Ok(Advance::Later),
            _ => Err(Error::contract("campaign_replay", answer)),
        }
    }
}

/// Who paused or stopped a campaign, and why.
fn reason(what: &str, action: &Action) -> String {
    let why = if action.why.is_empty() { String::new() } else { format!(": {}", action.why) };
    cut(format!("{what} by {}{why}", action.who), MAX_WHY_BYTES)
}
