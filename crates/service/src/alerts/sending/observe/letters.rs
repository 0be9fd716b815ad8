//! What is wrong with the dead letters of a queue: new causes of death, many deaths, decisions that wait for a person, and dead
//! jobs of types that ask for an incident for each.

use std::time::Instant;

use super::{QueueCheck, jobs};
use crate::broker::{DeadGroup, DeadLetter, DeadLetters, Error, QueueSnapshot};
use crate::job::incident::{Incident, IncidentExample, IncidentKind, OTHERS, Observation};
use crate::job::{DeadReason, EntryId, JobId, JobType, State, Timestamp};

/// The most groups that one check distinguishes.
const MAX_GROUPS: usize = 50;

/// How many letters are read at once, …
const LETTERS: u64 = 200;

/// … and how often in one check.
const PAGES: usize = 10;

impl QueueCheck<'_> {
    pub(super) async fn check_letters(&mut self, snapshot: &QueueSnapshot) -> Result<(), Error> {
        let groups = match snapshot.dead {
            0 => Vec::new(),
            _ => self.queue.dead_letters().groups().await?.groups,
        };
        self.check_decisions(&groups, snapshot.now).await?;
        let others: Vec<&DeadGroup> = groups.iter().filter(|group| !self.is_told_otherwise(group)).collect();
        self.check_new_groups(&others, snapshot.now).await?;
        self.check_rate(&groups, snapshot.now).await?;
        self.check_each(snapshot).await
    }

    /// Whether each of these deaths has an incident of another kind.
    fn is_told_otherwise(&self, group: &DeadGroup) -> bool {
        let is_each = group.job_type.as_ref().is_some_and(|job_type| self.watched.each.contains(job_type));
        is_each || group.reason == Some(DeadReason::NeedsDecision)
    }

    async fn check_decisions(&mut self, groups: &[DeadGroup], now: Timestamp) -> Result<(), Error> {
        self.cover(IncidentKind::NeedsDecision);
        let undecided: Vec<_> =
            groups.iter().filter(|group| group.reason == Some(DeadReason::NeedsDecision)).collect();
        let count: u64 = undecided.iter().map(|group| group.count).sum();
        let Some(first) = undecided.iter().min_by_key(|group| group.first).filter(|_| count > 0) else {
            return Ok(());
        };
        let detail = match count {
            1 => "1 dead job waits until a person decides about one of its steps".to_owned(),
            _ => format!("{count} dead jobs wait until a person decides about one of their steps"),
        };
        let seen = self.observation(IncidentKind::NeedsDecision, first.first.min(now));
        let seen = self.with_example(seen.count(count).detail(&detail), first).await?;
        self.add(seen);
        Ok(())
    }

    async fn check_new_groups(&mut self, groups: &[&DeadGroup], now: Timestamp) -> Result<(), Error> {
        self.cover(IncidentKind::DeadGroup);
        let news_since = self.news_since(now);
        let mut found: Vec<&DeadGroup> =
            groups.iter().copied().filter(|group| self.is_alarming(group, news_since, now)).collect();
        found.sort_by_key(|group| (!self.has_incident(group), std::cmp::Reverse(group.deaths)));
        for (nth, group) in found.into_iter().enumerate() {
            let Some(name) = &group.fingerprint else { continue };
            let key = if nth < MAX_GROUPS { name } else { OTHERS };
            let of = group.job_type.as_ref().map_or_else(String::new, |name| format!(" of the type {name}"));
            let detail = format!("{}{of} died of one cause", jobs(group.deaths.max(group.count)));
            let seen = self
                .observation(IncidentKind::DeadGroup, group.first)
                .key(key)
                .count(group.deaths.max(group.count));
            let seen = self.with_example(seen.detail(&detail), group).await?;
            self.add(seen);
        }
        Ok(())
    }

    /// A group alarms if it is new, until it is empty, or a person has acknowledged its incident and no job has died of its cause
    /// for a while. What has only come to it by a decision is no death.
    fn is_alarming(&self, group: &DeadGroup, news_since: Timestamp, now: Timestamp) -> bool {
        let is_new = group.first > news_since;
        let is_quiet = now.since(group.last) >= self.config.quiet_after;
        group.count.min(group.deaths) > 0
            && group.fingerprint.is_some()
            && (is_new || self.has_incident(group) || self.is_among_others(group))
            && !(is_quiet && has_one(&self.acknowledged, group))
    }

    fn has_incident(&self, group: &DeadGroup) -> bool {
        has_one(&self.known, group)
    }

    /// Whether the incident for all groups without one of their own is about this group, too.
    fn is_among_others(&self, group: &DeadGroup) -> bool {
        let mut groups = self.known.iter().filter(|incident| incident.kind == IncidentKind::DeadGroup);
        groups.any(|others| others.key == OTHERS && group.first >= others.since)
    }

    /// Counts the deaths of causes that have no incident: those that are old.
    async fn check_rate(&mut self, groups: &[DeadGroup], now: Timestamp) -> Result<(), Error> {
        let news_since = self.news_since(now);
        let figures = groups.iter().map(|group| {
            let is_new = group.fingerprint.is_some() && group.first > news_since;
            let counts = !(self.is_told_otherwise(group) || self.has_incident(group) || is_new);
            (group.fingerprint.clone().unwrap_or_else(|| OTHERS.to_owned()), group.deaths, counts)
        });
        let figures: Vec<_> = figures.collect();
        let (at, window) = (Instant::now(), self.config.dead_window);
        let grown = self.memory.deaths.note(at, figures);
        let rate = self.memory.deaths.rate(at, window);
        let is_much = rate.per_minute >= self.config.dead_per_minute;
        // Somebody who has just begun to look does not know that it is over.
        if rate.is_whole || is_much {
            self.cover(IncidentKind::DeadRate);
        }
        if is_much {
            let minutes = window.as_secs_f64() / 60.0;
            let detail =
                format!("{} died within {minutes:.0} minutes, of causes that are not new", jobs(rate.deaths));
            let seen = self.observation(IncidentKind::DeadRate, now).count(rate.deaths).detail(&detail);
            let most = groups.iter().find(|group| group.fingerprint.is_some() && group.fingerprint == grown);
            let seen = match most {
                Some(group) => self.with_example(seen, group).await?,
                None => seen,
            };
            self.add(seen);
        }
        Ok(())
    }

    /// Adds the last job of a group to what is seen, unless an incident has an example that is still dead.
    async fn with_example(&self, seen: Observation, group: &DeadGroup) -> Result<Observation, Error> {
        let job_type = group.job_type.as_ref().map_or("", JobType::as_str);
        let is_about = |incident: &&&Incident| incident.is_about(seen.kind, seen.queue.as_ref(), &seen.key);
        let known = self.known.iter().find(is_about);
        let has_example = match known {
            Some(known) => !self.is_over(known.example.as_ref()).await?,
            None => false,
        };
        if seen.key == OTHERS || has_example {
            return Ok(seen.example(job_type, IncidentExample::new("", &group.error)));
        }
        let mut job = String::new();
        if let Some(entry) = group.sample {
            let letters = self.queue.dead_letters().bare();
            job = letters.get(entry).await?.map(|letter| letter.job().to_string()).unwrap_or_default();
        }
        Ok(seen.example(job_type, IncidentExample::new(&job, &group.error)))
    }

    /// Whether the job of an example is no longer dead.
    async fn is_over(&self, example: Option<&IncidentExample>) -> Result<bool, Error> {
        let job = example.and_then(|example| example.job_id()?.parse::<JobId>().ok());
        let Some(job) = job else { return Ok(false) };
        let status = self.queue.status_without_log(&job).await?;
        Ok(status.is_some_and(|status| status.state != State::Dead))
    }

    /// Finds dead jobs of types that ask for an incident for each: those that are still dead, and new ones.
    async fn check_each(&mut self, snapshot: &QueueSnapshot) -> Result<(), Error> {
        let now = snapshot.now;
        let queue = self.queue.clone();
        let letters = queue.dead_letters().bare();
        self.check_known(letters, now).await?;
        if self.watched.each.is_empty() {
            self.seen.letter = None;
        } else {
            self.check_later(letters, now).await?;
        }
        if self.memory.others.is_some_and(|last| now.since(last) < self.config.quiet_after) {
            let seen = self.observation(IncidentKind::DeadJob, now).key(OTHERS);
            let detail =
                format!("{}, beyond those with an incident of their own", IncidentKind::DeadJob.title());
            self.add(Observation { adds: true, ..seen.detail(&detail) });
        }
        self.cover(IncidentKind::DeadJob);
        Ok(())
    }

    /// Looks whether the letters that have an incident are still there.
    async fn check_known(&mut self, letters: DeadLetters<'_>, now: Timestamp) -> Result<(), Error> {
        let known: Vec<(String, Observation)> = self
            .known
            .iter()
            .filter(|incident| incident.kind == IncidentKind::DeadJob)
            .map(|incident| {
                let seen = self.observation(IncidentKind::DeadJob, incident.since).key(&incident.key);
                let seen = Observation { adds: true, job_type: incident.job_type.clone(), ..seen };
                (incident.key.clone(), seen.detail(&incident.detail))
            })
            .collect();
        for (key, seen) in known {
            if key == OTHERS {
                self.memory.others.get_or_insert(now);
                continue;
            }
            let Ok(entry) = key.parse::<EntryId>() else { continue };
            if letters.get(entry).await?.is_some() {
                self.add(seen);
            }
        }
        Ok(())
    }

    /// Reads the letters that are later than those that were looked at.
    async fn check_later(&mut self, letters: DeadLetters<'_>, now: Timestamp) -> Result<(), Error> {
        let mut after = self.seen.letter.unwrap_or_else(|| EntryId::new(self.news_since(now).as_ms(), 0));
        for _ in 0..PAGES {
            let page = letters.later(Some(after), LETTERS).await?;
            let Some(last) = page.last() else { break };
            after = last.entry;
            for letter in &page {
                let job_type = letter.text("type").parse::<JobType>().ok();
                // A letter that somebody has edited is a new entry, but no new death.
                let is_edited = letter.fields.get(b"dead_before").is_some();
                if !is_edited && job_type.as_ref().is_some_and(|name| self.watched.each.contains(name)) {
                    self.add_dead_job(letter, now);
                }
            }
        }
        self.seen.letter = Some(after);
        Ok(())
    }

    fn add_dead_job(&mut self, letter: &DeadLetter, now: Timestamp) {
        let (job, job_type) = (letter.job().to_string(), letter.text("type"));
        let of_kind = |seen: &&Observation| seen.kind == IncidentKind::DeadJob;
        let known = self.checked.observations.iter().filter(of_kind).count();
        if known >= IncidentKind::DeadJob.most_per_queue() {
            self.memory.others = Some(now);
        }
        let key = if known < MAX_GROUPS { letter.entry.to_string() } else { OTHERS.to_owned() };
        let detail = format!("the job {job} of the type {job_type} died");
        let seen = self.observation(IncidentKind::DeadJob, letter.died()).key(&key).count(1).detail(&detail);
        let seen = seen.example(&job_type, IncidentExample::new(&job, &letter.text("dead_error")));
        let seen = Observation { adds: true, ..seen };
        // Beyond the bound, only the number matters.
        let others =
            self.checked.observations.iter_mut().find(|seen| of_kind(&&**seen) && seen.key == OTHERS);
        match others {
            Some(others) if key == OTHERS => others.count = others.count.saturating_add(1),
            Some(_) | None => self.add(seen),
        }
    }
}

/// Whether one of these incidents is about a group of dead letters.
fn has_one(incidents: &[&Incident], group: &DeadGroup) -> bool {
    let of_group = |incident: &&Incident| {
        incident.kind == IncidentKind::DeadGroup && Some(&incident.key) == group.fingerprint.as_ref()
    };
    incidents.iter().any(of_group)
}
