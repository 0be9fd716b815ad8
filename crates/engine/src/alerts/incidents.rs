//! The incidents of a namespace: list and acknowledge them, and, for the process that sends, write them down.

use std::collections::BTreeMap;
use std::time::Duration;

use fred::types::Value;
use serde::{Deserialize, Serialize};

use super::stored;
use crate::client::decode::{self, timestamp};
use crate::client::error::Error;
use crate::client::keys::AlertKeys;
use crate::client::link::entries;
use crate::client::script::{Answer, args, scripts};
use crate::inspect::audit::{Action, Noted, PastAction, call_name, recent};
use crate::job::incident::delivery::Delivery;
use crate::job::incident::{Incident, IncidentId, IncidentState};
use crate::job::{EntryId, Envelope, Lane, QueueName, SinkName, Timestamp, cut};
use crate::{Broker, Link, bytes, millis};

scripts! {
    INCIDENTS "incidents", INCIDENT_ACK "incident_ack", INCIDENT_PUT "incident_put",
    INCIDENT_TOLD "incident_told",
}

/// The most incidents that Redis holds as open. Those who check keep fewer; this bounds what several versions do together.
const MAX_OPEN: i64 = 500;

/// About how many past incidents are kept.
const KEPT: i64 = 1000;

/// The most changes that one script writes.
const CHANGES_PER_CALL: usize = 50;

/// The longest time for which an incident is acknowledged at once.
const LONGEST_ACK: Duration = Duration::from_secs(30 * 24 * 3600);

/// The most bytes of who acknowledged an incident, and of why.
const MAX_BY_BYTES: usize = 500;

/// An incident, and what people and sinks know of it; see the [example](Incidents).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownIncident {
    /// The incident.
    pub incident: Incident,
    /// Until when nobody is reminded of it, and who decided that.
    pub acknowledged: Option<Acknowledgment>,
    /// What each sink has got, as far as it has got or refused anything.
    pub deliveries: BTreeMap<SinkName, Delivery>,
}

/// That a person knows of an incident; see the [example](Incidents).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Acknowledgment {
    /// Until when nobody is reminded of it.
    pub until: Timestamp,
    /// Who acknowledged it.
    pub who: String,
    /// Why; may be empty.
    pub why: String,
}

/// Who acknowledged an incident, as Redis holds it.
#[derive(Serialize, Deserialize)]
struct By {
    who: String,
    #[serde(default)]
    why: String,
}

/// The incidents that are not over; see the [example](Incidents).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenIncidents {
    /// The time of the server's clock.
    pub now: Timestamp,
    /// The incidents, oldest first. Those that are [pending](IncidentState::Pending) open if they last.
    pub incidents: Vec<KnownIncident>,
    /// How many cannot be read, because another version wrote them.
    pub unreadable: usize,
    /// Up to when each queue has been checked, and what else its checks must remember.
    #[doc(hidden)]
    pub seen: BTreeMap<QueueName, String>,
}

/// An incident that is over; see the [example](Incidents).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PastIncident {
    /// Its entry. Later ones have greater ids.
    pub entry: EntryId,
    /// The incident.
    pub incident: Incident,
}

/// A change that a check leads to.
#[derive(Debug, Clone)]
pub enum IncidentChange {
    /// Write it down.
    Put(Box<Incident>),
    /// It is over.
    End(Box<Incident>),
    /// It never opened.
    Forget(IncidentId),
    /// What the checks of a queue must remember; `None` if the queue is gone.
    Seen(QueueName, Option<String>),
}

/// The incidents of a namespace. [`Broker::incidents`] returns it.
///
/// ```no_run
/// # use streamfleet_engine as streamfleet;
/// # async fn example(broker: streamfleet::Broker) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use streamfleet::admin::Action;
///
/// let ann = Action::new("alerts ack", "ann").why("the mail server is being repaired");
/// for known in broker.incidents().open().await?.incidents {
///     let incident = &known.incident;
///     println!("{} {}: {}", incident.id, incident.kind, incident.detail);
///     broker.incidents().acknowledge(&incident.id, Duration::from_secs(7200), &ann).await?;
/// }
/// for past in broker.incidents().past(None, 100).await? {
///     println!("{} was resolved", past.incident.id);
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Incidents {
    link: Link,
    keys: AlertKeys,
}

impl Broker {
    /// Gives access to the incidents of this namespace.
    pub fn incidents(&self) -> Incidents {
        self.incidents_of("alerts")
    }

    /// Gives access to the incidents of this namespace in the keys of another hash tag.
    pub(crate) fn incidents_of(&self, tag: &str) -> Incidents {
        let keys = AlertKeys::new(self.namespace(), tag);
        Incidents { link: self.link_to(&keys.open), keys }
    }
}

impl Incidents {
    /// Returns the incidents that are not over, at most 500.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn open(&self) -> Result<OpenIncidents, Error> {
        let own = &self.keys;
        let keys = [&own.open, &own.acks, &own.told, &own.seen].map(Clone::clone).to_vec();
        let answer = self.link.run(&INCIDENTS, keys, vec![]).await?;
        read(&answer).ok_or_else(|| Error::contract("incidents", answer))
    }

    /// Returns a page of the incidents that are over, newest first, before the entry `before`. About the last 1000 are kept.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn past(&self, before: Option<EntryId>, count: u64) -> Result<Vec<PastIncident>, Error> {
        let entries =
            self.link.xrevrange(&self.keys.past, entries::before(before), count, Lane::Normal).await?;
        let read = |fields: &Envelope| stored::unpack(std::str::from_utf8(fields.get(b"incident")?).ok()?);
        let past = entries.into_iter().filter_map(|entry| {
            Some(PastIncident { entry: entry.id, incident: read(entry.envelope.as_ref()?)? })
        });
        Ok(past.collect())
    }

    /// Keeps everybody from being reminded of an incident, for this long: at most 30 days; zero to be reminded again. `action`
    /// says who wants it and why. Returns until when; `None` if there is no such incident, or it is over.
    ///
    /// Messages that an incident has opened or is resolved are sent all the same.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn acknowledge(
        &self,
        id: &IncidentId,
        length: Duration,
        action: &Action,
    ) -> Result<Option<Noted<Timestamp>>, Error> {
        let own = &self.keys;
        let keys = vec![own.open.clone(), own.acks.clone(), own.audit.clone()];
        let by =
            By { who: cut(action.who.clone(), MAX_BY_BYTES), why: cut(action.why.clone(), MAX_BY_BYTES) };
        let by = serde_json::to_vec(&by).expect("two texts are valid JSON");
        let note = action.clone().target(format!("incident {id}"));
        let args = Vec::from(args![INCIDENT_ACK;
            id = id.as_str(),
            for_ms = millis(length.min(LONGEST_ACK)),
            by = bytes(&by),
            call = call_name(),
            action = Value::Bytes(note.pack().into()),
        ]);
        let answer = self.link.run_named(&INCIDENT_ACK, keys, args).await?;
        match (answer.status, answer.rest.first().and_then(decode::number)) {
            (0, _) => Ok(None),
            (1, Some(until)) => Ok(Some(Noted::read(timestamp(until), answer.rest.get(1)))),
            _ => Err(Error::contract("incident_ack", answer)),
        }
    }

    /// Returns a page of what people did about incidents, newest first, before the entry `before`.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn audit(&self, before: Option<EntryId>, count: u64) -> Result<Vec<PastAction>, Error> {
        recent(&self.link, &self.keys.audit, before, count).await
    }

    /// Takes or renews the lease of the process that sends; zero gives it up. Returns whether this process has it.
    #[doc(hidden)]
    pub async fn lead(&self, own: &str, lease: Duration) -> Result<bool, Error> {
        self.link.take_lease(&self.keys.sender, own, lease).await
    }

    /// Writes down what a check has led to. Returns how many incidents did not fit; `None` if another process sends.
    #[doc(hidden)]
    pub async fn put(&self, own: &str, changes: &[IncidentChange]) -> Result<Option<u64>, Error> {
        let keys = &self.keys;
        let keys = [&keys.sender, &keys.open, &keys.past, &keys.told, &keys.acks, &keys.seen];
        let mut left_out = 0;
        for some in changes.chunks(CHANGES_PER_CALL) {
            let mut args = Vec::from(args![INCIDENT_PUT; own, most = MAX_OPEN, keep = KEPT]);
            args.extend(some.iter().flat_map(fields));
            let answer = self.link.run_named(&INCIDENT_PUT, keys.map(Clone::clone).to_vec(), args).await?;
            match (answer.status, answer.rest.first().and_then(decode::number)) {
                (1, Some(count)) => left_out += count,
                (0, _) => return Ok(None),
                _ => return Err(Error::contract("incident_put", answer)),
            }
        }
        Ok(Some(left_out))
    }

    /// Notes what a sink has got.
    #[doc(hidden)]
    pub async fn note_deliveries(
        &self,
        sink: &SinkName,
        deliveries: &[(IncidentId, Delivery)],
    ) -> Result<(), Error> {
        let keys = [&self.keys.open, &self.keys.told];
        for some in deliveries.chunks(CHANGES_PER_CALL) {
            let args = some.iter().flat_map(|(id, delivery)| {
                let (handed, given_up) = (i64::from(delivery.handed), i64::from(delivery.given_up));
                args![INCIDENT_TOLD; field = format!("{id} {sink}"), handed, given_up]
            });
            self.link.run_named(&INCIDENT_TOLD, keys.map(Clone::clone).to_vec(), args.collect()).await?;
        }
        Ok(())
    }

    /// The keys, for a rehearsal to delete.
    #[doc(hidden)]
    pub fn keys(&self) -> Vec<fred::types::Key> {
        let AlertKeys { sender, open, past, told, acks, seen, audit } = self.keys.clone();
        vec![sender, open, past, told, acks, seen, audit]
    }
}

/// The arguments of `incident_put` for a change.
fn fields(change: &IncidentChange) -> [Value; 3] {
    let (what, name, value) = match change {
        IncidentChange::Put(incident) => ("put", incident.id.as_str().to_owned(), stored::pack(incident)),
        IncidentChange::End(incident) => ("end", incident.id.as_str().to_owned(), stored::pack(incident)),
        IncidentChange::Forget(id) => ("end", id.as_str().to_owned(), String::new()),
        IncidentChange::Seen(queue, seen) => ("seen", queue.to_string(), seen.clone().unwrap_or_default()),
    };
    args![INCIDENT_PUT; what, name, value]
}

fn read(answer: &Answer) -> Option<OpenIncidents> {
    let [Value::Array(open), Value::Array(acks), Value::Array(told), Value::Array(seen)] = &answer.rest[..]
    else {
        return None;
    };
    let now = timestamp(u64::try_from(answer.status).ok()?);
    let texts = |flat: &[Value]| -> Vec<(String, String)> {
        flat.chunks_exact(2).map(|pair| (decode::text(&pair[0]), decode::text(&pair[1]))).collect()
    };
    let acks: BTreeMap<String, String> = texts(acks).into_iter().collect();
    let mut deliveries: BTreeMap<String, BTreeMap<SinkName, Delivery>> = BTreeMap::new();
    for (name, numbers) in texts(told) {
        if let Some((id, sink, delivery)) = read_delivery(&name, &numbers) {
            deliveries.entry(id).or_default().insert(sink, delivery);
        }
    }
    let mut found = OpenIncidents { now, ..OpenIncidents::default() };
    for (id, text) in texts(open) {
        let Some(incident) = stored::unpack(&text).filter(|incident| incident.id.as_str() == id) else {
            found.unreadable += 1;
            continue;
        };
        let acknowledged = acks.get(&id).and_then(|text| read_ack(text)).filter(|ack| ack.until > now);
        let deliveries = deliveries.remove(&id).unwrap_or_default();
        found.incidents.push(KnownIncident { incident, acknowledged, deliveries });
    }
    found.incidents.sort_by(|one, other| {
        let key = |known: &KnownIncident| (known.incident.since, known.incident.id.clone());
        key(one).cmp(&key(other))
    });
    found.seen =
        texts(seen).into_iter().filter_map(|(queue, seen)| Some((queue.parse().ok()?, seen))).collect();
    Some(found)
}

fn read_delivery(name: &str, numbers: &str) -> Option<(String, SinkName, Delivery)> {
    let ((id, sink), (handed, given_up)) = (name.split_once(' ')?, numbers.split_once(' ')?);
    let delivery = Delivery { handed: handed.parse().ok()?, given_up: given_up.parse().ok()? };
    Some((id.to_owned(), sink.parse().ok()?, delivery))
}

fn read_ack(text: &str) -> Option<Acknowledgment> {
    let (until, by) = text.split_once(' ')?;
    let By { who, why } = serde_json::from_str(by).ok()?;
    Some(Acknowledgment { until: timestamp(until.parse().ok()?), who, why })
}

impl KnownIncident {
    /// An incident that nobody knows yet.
    #[doc(hidden)]
    pub fn new(incident: Incident) -> Self {
        Self { incident, acknowledged: None, deliveries: BTreeMap::new() }
    }

    /// Returns true if it is open, and nobody has said that they know of it.
    pub fn needs_a_person(&self) -> bool {
        self.incident.state == IncidentState::Open && self.acknowledged.is_none()
    }
}
