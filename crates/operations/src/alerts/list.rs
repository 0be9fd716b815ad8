//! The incidents, and who has got which message about them.

use std::collections::BTreeMap;

use serde::Serialize;
use streamfleet::job::{EntryId, Timestamp};
use streamfleet_engine::admin::{
    Acknowledgment, Incident, IncidentId, IncidentState, Incidents, KnownIncident, PastIncident,
};

use crate::times::rfc3339;
use crate::{Error, List};

/// How many incidents that are over are looked through. Redis keeps about as many.
const KEPT: u64 = 1000;

/// Which incidents are listed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// List the open ones, which are all on the first page.
    pub open: bool,
    /// List at most this many that are over.
    pub past: Option<u64>,
    /// List those that were over before this entry.
    pub after: Option<EntryId>,
}

/// The incidents that were found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Found {
    /// The open ones, oldest first; at most 500.
    pub open: Vec<KnownIncident>,
    /// Those that are over, newest first.
    pub past: Vec<PastIncident>,
    /// After which entry the next page of those begins.
    pub next: Option<EntryId>,
    /// How many open ones another version wrote.
    pub unreadable: usize,
    /// The time of the server's clock.
    pub now: Timestamp,
}

/// A page of incidents.
pub type IncidentPage = List<ListedIncident, IncidentFacts>;

/// What is known about all incidents.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct IncidentFacts {
    /// How many are open.
    pub open: usize,
    /// How many open ones another version wrote.
    #[serde(skip)]
    pub unreadable: usize,
    /// The time of the server's clock.
    #[serde(skip)]
    pub now: Timestamp,
}

/// One incident.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Incident)]
#[non_exhaustive]
pub struct ListedIncident {
    /// Its id.
    pub id: String,
    /// `open` or `resolved`.
    pub state: &'static str,
    /// What is wrong.
    pub kind: &'static str,
    /// The queue that it is about.
    pub queue: Option<String>,
    /// What it is about: a group, a type, a campaign, a letter, a server; may be empty.
    pub key: String,
    /// The type that it is about; may be empty.
    #[serde(rename = "type")]
    pub job_type: String,
    /// What is wrong, in words.
    pub detail: String,
    /// How many jobs it concerns.
    pub count: u64,
    /// A job that shows it.
    pub example_job: Option<String>,
    /// The error of that job.
    pub example_error: Option<String>,
    /// Since when it has been so.
    pub since: String,
    /// Since when it has been so, in milliseconds since 1970.
    pub since_ms: u64,
    /// When it opened, in milliseconds since 1970.
    pub opened_ms: Option<u64>,
    /// When it was resolved, in milliseconds since 1970.
    pub resolved_ms: Option<u64>,
    /// The command that shows more.
    pub command: String,
    /// How many messages each sink should have got.
    pub messages: u32,
    /// The number of the last message that each sink has taken.
    pub sinks: BTreeMap<String, u32>,
    /// The number of the last message that each sink has not taken, of those that have not taken a later one.
    pub given_up: BTreeMap<String, u32>,
    /// Who does not want to be reminded.
    pub acknowledged: Option<IncidentAcknowledged>,
}

/// Who does not want to be reminded.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct IncidentAcknowledged {
    /// Until when no reminder is sent.
    pub until: String,
    /// Until when no reminder is sent, in milliseconds since 1970.
    pub until_ms: u64,
    /// Who acknowledged it.
    pub who: String,
    /// Why.
    pub why: String,
}

/// Lists the incidents that may be shown. A page of those that are over may thus have fewer than it was asked for.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn list(
    incidents: &Incidents,
    wanted: Wanted,
    is_shown: impl Fn(&Incident) -> bool,
) -> Result<IncidentPage, Error> {
    let Found { open, past, next, unreadable, now } = find(incidents, wanted, is_shown).await?;
    let facts = IncidentFacts { open: open.len(), unreadable, now };
    let past = past.into_iter().map(|past| ListedIncident::of(past.incident));
    let items = open.into_iter().map(ListedIncident::from).chain(past).collect();
    Ok(IncidentPage { items, next: next.map(|entry| entry.to_string()), facts, former: None })
}

/// Shows one incident that may be shown, also if it is over: a link in a message must still work then.
///
/// # Errors
///
/// [`Error::NotFound`] if there is none, or it may not be shown; [`Error::Redis`].
pub async fn show(
    incidents: &Incidents,
    id: &IncidentId,
    is_shown: impl Fn(&Incident) -> bool,
) -> Result<ListedIncident, Error> {
    let is_it = |incident: &Incident| incident.id == *id && is_shown(incident);
    let wanted = Wanted { open: true, past: Some(KEPT), after: None };
    let Found { open, past, .. } = find(incidents, wanted, is_it).await?;
    let past = past.into_iter().map(|past| ListedIncident::of(past.incident));
    let mut found = open.into_iter().map(ListedIncident::from).chain(past);
    let none = || format!("there is no incident {id}; about the last {KEPT} that are over are kept");
    found.next().ok_or_else(|| Error::NotFound(none()))
}

/// Reads what [`list`] lists.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn find(
    incidents: &Incidents,
    wanted: Wanted,
    is_shown: impl Fn(&Incident) -> bool,
) -> Result<Found, Error> {
    let failed = || Error::redis("failed to read the incidents");
    let known = incidents.open().await.map_err(failed())?;
    let (mut open, unreadable, now) = (known.incidents, known.unreadable, known.now);
    open.retain(|known| {
        wanted.open && known.incident.state == IncidentState::Open && is_shown(&known.incident)
    });
    let (mut past, mut next) = (Vec::new(), None);
    if let Some(limit) = wanted.past {
        past = incidents.past(wanted.after, limit).await.map_err(failed())?;
        next = past.last().filter(|_| past.len() as u64 == limit).map(|past| past.entry);
        past.retain(|past| is_shown(&past.incident));
    }
    Ok(Found { open, past, next, unreadable, now })
}

impl From<KnownIncident> for ListedIncident {
    fn from(known: KnownIncident) -> Self {
        let sinks = known.deliveries.iter().map(|(sink, delivery)| (sink.to_string(), delivery.handed));
        let sinks = sinks.collect();
        let refused = known.deliveries.iter().filter(|(_, delivery)| delivery.given_up > delivery.handed);
        let given_up = refused.map(|(sink, delivery)| (sink.to_string(), delivery.given_up)).collect();
        let acknowledged = known.acknowledged.map(IncidentAcknowledged::from);
        Self { sinks, given_up, acknowledged, ..Self::of(known.incident) }
    }
}

impl ListedIncident {
    fn of(incident: Incident) -> Self {
        let example = incident.example.clone();
        Self {
            id: incident.id.to_string(),
            state: incident.state.as_str(),
            kind: incident.kind.as_str(),
            queue: incident.queue.as_ref().map(ToString::to_string),
            command: incident.command(),
            since: rfc3339(incident.since),
            since_ms: incident.since.as_ms(),
            opened_ms: incident.opened.map(Timestamp::as_ms),
            resolved_ms: incident.resolved.map(Timestamp::as_ms),
            messages: incident.notices,
            count: incident.count,
            key: incident.key,
            job_type: incident.job_type,
            detail: incident.detail,
            example_job: example.as_ref().map(|example| example.job.clone()),
            example_error: example.map(|example| example.error),
            sinks: BTreeMap::new(),
            given_up: BTreeMap::new(),
            acknowledged: None,
        }
    }
}

impl From<Acknowledgment> for IncidentAcknowledged {
    fn from(by: Acknowledgment) -> Self {
        let (until, until_ms) = (rfc3339(by.until), by.until.as_ms());
        Self { until, until_ms, who: by.who, why: by.why }
    }
}
