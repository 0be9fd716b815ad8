//! All audits of a namespace as one list, newest first: what people did to queues, which queues they deleted, and what they did
//! about incidents.

use std::cmp::Reverse;
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::str::FromStr;

use futures_util::{StreamExt, stream};

use crate::alerts::incidents::Incidents;
use crate::client::error::Error;
use crate::inspect::audit::{DeletionLog, PastAction};
use crate::job::{EntryId, InvalidName, QueueName, Timestamp};
use crate::{Broker, Queue};

/// How many audits are read at once.
const AT_ONCE: usize = 8;

/// How many actions are read of an audit at once.
const READ: u64 = 500;

/// One of the audits; see the [example](Broker::search_audit).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuditSource {
    /// What people did to a queue.
    Queue(QueueName),
    /// Which queues people deleted.
    Deletions,
    /// What people did about incidents.
    Alerts,
}

impl fmt::Display for AuditSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(name) => name.fmt(out),
            // No queue has such a name.
            Self::Deletions => out.write_str("@deletions"),
            Self::Alerts => out.write_str("@alerts"),
        }
    }
}

impl FromStr for AuditSource {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        match text {
            "@deletions" => Ok(Self::Deletions),
            "@alerts" => Ok(Self::Alerts),
            name => name.parse().map(Self::Queue),
        }
    }
}

/// Where a page ended. As text, it is the entry of an action, and after a colon its audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditCursor {
    /// The last action that was looked at.
    pub entry: EntryId,
    /// Its audit. Actions of several audits may have the same entry. `None` if there is only one audit.
    pub source: Option<AuditSource>,
}

impl fmt::Display for AuditCursor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(out, "{}:{source}", self.entry),
            None => self.entry.fmt(out),
        }
    }
}

impl FromStr for AuditCursor {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        match text.split_once(':') {
            Some((entry, source)) => Ok(Self { entry: entry.parse()?, source: Some(source.parse()?) }),
            None => Ok(Self { entry: text.parse()?, source: None }),
        }
    }
}

/// Which actions to look at; see the [example](Broker::search_audit).
#[derive(Debug, Clone, Default)]
pub struct AuditSearch {
    /// The audits.
    pub sources: Vec<AuditSource>,
    /// No action before this time.
    pub since: Option<Timestamp>,
    /// Only actions before this time.
    pub until: Option<Timestamp>,
    /// Where an earlier page ended.
    pub after: Option<AuditCursor>,
    /// The most actions of the page.
    pub limit: u64,
    /// How many actions are looked at, at most.
    pub most: u64,
}

/// A page of actions, newest first; see the [example](Broker::search_audit).
#[derive(Debug, Default)]
pub struct AuditPage {
    /// The actions, each with its audit.
    pub actions: Vec<(AuditSource, PastAction)>,
    /// Where the next page begins; `None` if everything was looked at. A page may have few actions, or none, although there are
    /// more.
    pub next: Option<AuditCursor>,
    /// Audits that could not be read to their ends, and why.
    pub unread: Vec<(AuditSource, Error)>,
}

impl Broker {
    /// Looks through audits at once, newest action first, for those that fit.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(broker: streamfleet::Broker) -> Result<(), Box<dyn std::error::Error>> {
    /// use streamfleet::admin::{AuditSearch, AuditSource};
    ///
    /// let sources = vec![AuditSource::Queue("mail".parse()?), AuditSource::Deletions];
    /// let search = AuditSearch { sources, limit: 50, most: 10_000, ..AuditSearch::default() };
    /// let page = broker.search_audit(&search, |past| past.action.who == "ann@ops").await?;
    /// for (source, past) in page.actions {
    ///     println!("{source}: {} {}", past.at().as_ms(), past.action.what);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if no audit can be read.
    #[doc(hidden)]
    pub async fn search_audit(
        &self,
        search: &AuditSearch,
        fits: impl Fn(&PastAction) -> bool,
    ) -> Result<AuditPage, Error> {
        let mut page = AuditPage::default();
        let mut logs = self.open_audits(search, &mut page).await?;
        let (mut last, mut looked_at, mut calls) = (None, 0, HashSet::new());
        while looked_at < search.most && (page.actions.len() as u64) < search.limit {
            let Some(at) = newest(&logs) else { return Ok(page) };
            let log = &mut logs[at];
            let Some(past) = log.read.pop_front() else { return Ok(page) };
            looked_at += 1;
            last = Some(AuditCursor { entry: past.entry, source: Some(log.source.clone()) });
            // An action on several queues is noted at almost the same time in all of them. Only between two pages is it found again.
            let is_new = past.call.is_empty() || calls.insert(past.call.clone());
            if is_new && fits(&past) {
                page.actions.push((log.source.clone(), past));
            }
            let filled = if log.read.is_empty() { log.fill(READ, search.since).await } else { Ok(()) };
            if let Err(error) = filled {
                page.unread.push((logs.remove(at).source, error));
            }
        }
        if newest(&logs).is_some() {
            page.next = last;
        }
        Ok(page)
    }

    /// Reads the newest actions of each audit. Those that cannot be read are noted in the page.
    async fn open_audits(&self, search: &AuditSearch, page: &mut AuditPage) -> Result<Vec<Log>, Error> {
        let mut sources = search.sources.clone();
        sources.sort_unstable();
        sources.dedup();
        let opening = stream::iter(sources).map(|source| self.open_audit(source, search)).buffered(AT_ONCE);
        let opened: Vec<_> = opening.collect().await;
        let mut logs = Vec::new();
        for (source, log) in opened {
            match log {
                Ok(log) => logs.push(log),
                Err(error) => page.unread.push((source, error)),
            }
        }
        match page.unread.first() {
            Some((_, error)) if logs.is_empty() => Err(error.clone()),
            Some(_) | None => Ok(logs),
        }
    }

    async fn open_audit(
        &self,
        source: AuditSource,
        search: &AuditSearch,
    ) -> (AuditSource, Result<Log, Error>) {
        let origin = match &source {
            AuditSource::Queue(name) => Origin::Queue(self.queue(name.clone())),
            AuditSource::Deletions => Origin::Deletions(self.deletions()),
            AuditSource::Alerts => Origin::Alerts(Box::new(self.incidents())),
        };
        let before = search.before(&source);
        let mut log = Log { source: source.clone(), origin, before, read: VecDeque::new(), is_at_end: false };
        let filled = log.fill(search.limit.saturating_add(1).min(READ), search.since).await;
        (source, filled.map(|()| log))
    }
}

impl AuditSearch {
    /// Returns the entry before which an audit is read.
    fn before(&self, source: &AuditSource) -> Option<EntryId> {
        let until = self.until.map(|until| EntryId::new(until.as_ms(), 0));
        let after = self.after.as_ref().map(|AuditCursor { entry, source: last }| match last {
            // Of actions with the same entry, those of the first audit come first.
            Some(last) if source > last => EntryId::new(entry.ms, entry.seq.saturating_add(1)),
            Some(_) | None => *entry,
        });
        until.into_iter().chain(after).min()
    }
}

/// Where the actions of an audit are read.
enum Origin {
    Queue(Queue),
    Deletions(DeletionLog),
    Alerts(Box<Incidents>),
}

/// An audit that is being read.
struct Log {
    source: AuditSource,
    origin: Origin,
    before: Option<EntryId>,
    /// What was read and not looked at. It is empty only at the end.
    read: VecDeque<PastAction>,
    is_at_end: bool,
}

impl Log {
    /// Reads the next actions, unless that is the end.
    async fn fill(&mut self, count: u64, since: Option<Timestamp>) -> Result<(), Error> {
        if self.is_at_end {
            return Ok(());
        }
        let mut read = match &self.origin {
            Origin::Queue(queue) => {
                let recent = queue.audit().recent(self.before, count).await;
                recent.map_err(|error| queue.name_keys(error))
            }
            Origin::Deletions(deletions) => deletions.recent(self.before, count).await,
            Origin::Alerts(incidents) => incidents.audit(self.before, count).await,
        }?;
        self.is_at_end = (read.len() as u64) < count;
        self.before = read.last().map(|past| past.entry).or(self.before);
        if let Some(since) = since {
            let wanted = read.partition_point(|past| past.at() >= since);
            self.is_at_end |= wanted < read.len();
            read.truncate(wanted);
        }
        self.read = read.into();
        Ok(())
    }
}

/// Returns which audit has the newest action that was not looked at; `None` if all are at their ends.
fn newest(logs: &[Log]) -> Option<usize> {
    let heads = logs.iter().enumerate().filter_map(|(at, log)| Some((log.read.front()?.entry, Reverse(at))));
    heads.max().map(|(_, Reverse(at))| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str) -> AuditSource {
        AuditSource::Queue(name.parse().unwrap())
    }

    #[test]
    fn a_cursor_is_read_as_it_is_written() {
        for text in ["1700000000000-0", "1700000000000-3:mail", "5-0:@alerts", "5-0:@deletions"] {
            assert_eq!(text.parse::<AuditCursor>().unwrap().to_string(), text);
        }
        for text in ["", "mail", "5-0:", "5-0:@mail", "5:mail"] {
            assert!(text.parse::<AuditCursor>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_next_page_has_what_the_last_one_had_not() {
        let entry = EntryId::new(5, 1);
        let search = AuditSearch {
            after: Some(AuditCursor { entry, source: Some(queue("mail")) }),
            ..AuditSearch::default()
        };
        assert_eq!(search.before(&queue("default")), Some(entry), "it came first");
        assert_eq!(search.before(&queue("mail")), Some(entry));
        assert_eq!(search.before(&queue("sms")), Some(EntryId::new(5, 2)), "its action comes next");
        assert_eq!(search.before(&AuditSource::Alerts), Some(EntryId::new(5, 2)));
        let until = Timestamp::from_ms(3);
        let earlier = AuditSearch { until, ..search };
        assert_eq!(earlier.before(&queue("sms")), Some(EntryId::new(3, 0)));
        assert_eq!(AuditSearch::default().before(&queue("sms")), None);
    }
}
