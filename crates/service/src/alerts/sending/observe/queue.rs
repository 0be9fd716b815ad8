//! What is wrong with one queue: its backlog, its workers, its types, its campaigns, and whether it is paused. The dead letters
//! are in `letters`, and its history in `history`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{QueueCheck, jobs};
use crate::broker::{Error, Extras, PoolDown, QueueSnapshot, Task};
use crate::job::incident::{IncidentExample, IncidentKind, OTHERS, Observation};
use crate::job::task::TaskState;
use crate::job::{Timestamp, format_duration};

/// The most types that are looked at.
const MAX_TYPES: usize = 100;

/// Pending entries that are silent for longer than this would be looked at, which is not needed here.
const NO_LEASE: Duration = Duration::from_secs(24 * 3600);

/// How long a campaign that has stopped itself is worth a reminder.
const CAMPAIGN_FOR: Duration = Duration::from_secs(24 * 3600);

/// The most campaigns that one check reads.
const MAX_CAMPAIGNS: usize = 20;

/// What one key of a wrong type makes unknown.
enum Part {
    Types,
    Pools,
    Letters,
    Campaigns,
    History,
}

impl QueueCheck<'_> {
    /// Checks the queue, part by part. Of a part about which Redis does not tell everything, nothing is known; the others count.
    /// Returns the first error.
    pub(super) async fn run(&mut self) -> Result<(), Error> {
        let extras = Extras { oldest: true, ticks: false, survey: Some(NO_LEASE) };
        let snapshot = self.queue.snapshot_with(extras).await?;
        let now = snapshot.now;
        if snapshot.unread.is_empty() {
            self.check_backlog(&snapshot);
            self.check_pause(&snapshot);
        }
        let mut outcome = Ok(());
        for part in [Part::Types, Part::Pools, Part::Letters, Part::Campaigns, Part::History] {
            let before = (self.checked.clone(), self.seen);
            let checked = match part {
                Part::Types => self.check_types(&snapshot).await,
                Part::Pools => self.check_pools(now).await,
                Part::Letters => self.check_letters(&snapshot).await,
                Part::Campaigns => self.check_campaigns(&snapshot).await,
                Part::History => self.check_history(now).await,
            };
            if checked.is_err() {
                (self.checked, self.seen) = before;
                outcome = outcome.and(checked);
            }
        }
        if outcome.is_ok() {
            self.seen.checked = Some(now);
        }
        outcome
    }

    pub(super) fn cover(&mut self, kind: IncidentKind) {
        self.checked.covered.insert((kind, Some(self.queue.name().clone())));
    }

    pub(super) fn observation(&self, kind: IncidentKind, since: Timestamp) -> Observation {
        Observation::new(kind, Some(self.queue.name()), since)
    }

    pub(super) fn add(&mut self, seen: Observation) {
        self.checked.observations.push(seen);
    }

    /// Something is news if it is not older than this: since the last check, or at least for as long as a cause counts as new.
    pub(super) fn news_since(&self, now: Timestamp) -> Timestamp {
        let recent = now.before(self.config.quiet_after);
        self.seen.checked.map_or(recent, |checked| checked.min(recent))
    }

    fn check_backlog(&mut self, snapshot: &QueueSnapshot) {
        let is_closed = snapshot.closed_since.is_some();
        let waiting = snapshot.waiting() + u64::from(snapshot.overdue() > Duration::from_secs(60));
        self.cover(IncidentKind::NoWorker);
        let has_workers = snapshot.members.is_some_and(|members| members.live > 0);
        if !has_workers && waiting > 0 && !is_closed {
            let seen = self.observation(IncidentKind::NoWorker, snapshot.now).count(snapshot.waiting());
            self.add(seen.detail(&format!("{} waiting, and no worker is live", jobs(snapshot.waiting()))));
            // Why they wait is known; that they wait is no news.
            return;
        }
        self.cover(IncidentKind::Backlog);
        let allowed = self.watched.latencies.get(self.queue.name()).copied().unwrap_or(self.watched.latency);
        let oldest = snapshot.oldest_waiting().filter(|oldest| *oldest > allowed && !is_closed);
        if let Some(oldest) = oldest {
            let since = snapshot.now.before(oldest);
            let (oldest, allowed) = (whole_seconds(oldest), format_duration(allowed));
            let detail = format!("the oldest job has waited for {oldest}; the objective is {allowed}");
            let seen =
                self.observation(IncidentKind::Backlog, since).count(snapshot.waiting()).detail(&detail);
            self.add(seen);
        }
    }

    fn check_pause(&mut self, snapshot: &QueueSnapshot) {
        self.cover(IncidentKind::QueuePaused);
        let Some(since) = snapshot.closed_since else { return };
        let paused = snapshot.now.since(since);
        if paused >= self.config.paused_for {
            let detail = format!("the queue has been paused for {}", whole_seconds(paused));
            let seen = self.observation(IncidentKind::QueuePaused, since).count(snapshot.waiting());
            self.add(seen.detail(&detail));
        }
    }

    /// Finds pools because of which types of the queue run nowhere, as the queue's leader has noted them.
    async fn check_pools(&mut self, now: Timestamp) -> Result<(), Error> {
        let pools = self.queue.pools_down().await?;
        self.cover(IncidentKind::PoolDown);
        for PoolDown { pool, types, why, .. } in pools {
            let detail = match &types[..] {
                [one] => {
                    format!("no program of the pool {pool} can start or keeps running; {one} waits for it")
                }
                all => format!(
                    "no program of the pool {pool} can start or keeps running; {} types wait for it",
                    all.len()
                ),
            };
            let seen = self.observation(IncidentKind::PoolDown, now).key(&pool).detail(&detail);
            let job_type = types.first().filter(|_| types.len() == 1).map_or("", String::as_str);
            let why = why.lines().next().unwrap_or_default();
            self.add(seen.example(job_type, IncidentExample::new("", why)));
        }
        Ok(())
    }

    async fn check_types(&mut self, snapshot: &QueueSnapshot) -> Result<(), Error> {
        let types = match snapshot.in_unknown_rooms + snapshot.in_rooms {
            0 => Vec::new(),
            _ => self.queue.unknown_types(MAX_TYPES).await?,
        };
        self.cover(IncidentKind::UnservedType);
        for unknown in types {
            let Some(unserved) = unknown.unserved_for.filter(|_| unknown.jobs > 0) else { continue };
            let since = snapshot.now.before(unserved);
            let name = unknown.job_type.as_str();
            let detail = format!(
                "{} of the type {name} waiting, and no live worker knows the type",
                jobs(unknown.jobs)
            );
            let seen = self.observation(IncidentKind::UnservedType, since);
            let seen = seen.key(name).count(unknown.jobs).detail(&detail);
            self.add(Observation { job_type: name.to_owned(), ..seen });
        }
        Ok(())
    }

    /// Finds campaigns that have stopped themselves, as long as there are letters for them to replay.
    async fn check_campaigns(&mut self, snapshot: &QueueSnapshot) -> Result<(), Error> {
        let known = self.queue.tasks().known().await?.into_iter().filter(|task| task.is_replay);
        let ids: BTreeMap<String, bool> = known.map(|task| (task.id, task.is_active)).collect();
        self.memory.campaigns.retain(|id| ids.contains_key(id));
        let is_active = ids.values().any(|is_active| *is_active);
        let over =
            ids.into_iter().filter(|(id, is_active)| !is_active && !self.memory.campaigns.contains(id));
        let over: Vec<String> = over.map(|(id, _)| id).collect();
        if over.len() <= MAX_CAMPAIGNS {
            self.cover(IncidentKind::CampaignStopped);
        }
        let news_since = self.news_since(snapshot.now);
        for id in over.into_iter().take(MAX_CAMPAIGNS) {
            let found = match self.queue.tasks().get(&id).await {
                // One of another version is not ours to judge.
                Err(error) if error.kind() == "contract" => None,
                found => found?,
            };
            let is_known = self.known.iter().any(|incident| {
                incident.kind == IncidentKind::CampaignStopped
                    && (incident.key == id || incident.key == OTHERS)
            });
            let stopped = found.filter(|campaign| {
                let age = snapshot.now.since(campaign.changed);
                let is_news = campaign.changed > news_since || is_known;
                stopped_itself(campaign) && is_news && age < CAMPAIGN_FOR && !is_active && snapshot.dead > 0
            });
            match stopped {
                Some(campaign) => {
                    let detail = format!("the campaign {id} stopped itself: {}", campaign.state_why);
                    let seen = self.observation(IncidentKind::CampaignStopped, campaign.changed);
                    let died = campaign.replay.map_or(0, |counts| counts.died);
                    self.add(seen.key(&id).count(died).detail(&detail));
                }
                // A campaign that runs now decides about the letters; those of others are the past.
                None => {
                    self.memory.campaigns.insert(id);
                }
            }
        }
        Ok(())
    }
}

/// Whether nobody has stopped a campaign but the campaign itself.
fn stopped_itself(campaign: &Task) -> bool {
    campaign.state == TaskState::Stopped && !campaign.state_why.starts_with("stopped by ")
}

fn whole_seconds(time: Duration) -> String {
    format_duration(Duration::from_secs(time.as_secs()))
}
