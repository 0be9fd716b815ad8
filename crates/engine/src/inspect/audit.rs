//! The audit: what people did to a queue, when, and why. Its length is capped. It has filters and ids, never payloads.

use fred::types::{Key, Value};

use crate::client::error::Error;
use crate::client::link::entries;
use crate::client::script::{args, scripts};
use crate::client::{decode, keys};
use crate::job::{EntryId, Envelope, Lane, QueueName, Timestamp, cut, pack_texts};
use crate::{Broker, Entry, Link, Queue};

scripts! { AUDIT "audit" }

/// The most bytes of a filter or of ids in a note.
const MAX_TEXT_BYTES: usize = 4096;

/// The bytes in which a note says how many ids it leaves out.
const LEFT_OUT_BYTES: usize = 100;

/// The most bytes of the name of a person.
const MAX_WHO_BYTES: usize = 128;

/// The most bytes of a reason.
const MAX_WHY_BYTES: usize = 500;

/// What a person does to a queue, for its audit; see the [example](AuditLog).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Action {
    /// What is done, such as `dead replay`.
    pub what: String,
    /// Who does it.
    pub who: String,
    /// Why; may be empty.
    pub why: String,
    /// To what: a filter as it is typed, or ids; may be empty.
    pub target: String,
    /// How many jobs it concerns, if that is known.
    pub count: Option<u64>,
    /// How it ended; empty if it is only about to begin.
    pub outcome: String,
}

impl Action {
    /// Describes what somebody is about to do.
    pub fn new(what: impl Into<String>, who: impl Into<String>) -> Self {
        Self { what: what.into(), who: who.into(), ..Self::default() }
    }

    setters! {
        /// Sets why it is done.
        why: impl Into<String> => why.into();
        /// Sets what it is done to: a filter as it is typed, or ids.
        target: impl Into<String> => target.into();
        /// Sets how many jobs it concerns.
        count: impl Into<Option<u64>> => count.into();
        /// Sets how it ended.
        outcome: impl Into<String> => outcome.into();
    }

    /// Sets what it is done to: these ids, and how many they are. Of a long list, the note has the first ones, and says how
    /// many are left out.
    #[must_use]
    pub fn ids<T: std::fmt::Display>(self, ids: &[T]) -> Self {
        let mut target = String::new();
        for (nth, id) in ids.iter().enumerate() {
            let (id, gap) = (id.to_string(), if nth == 0 { "" } else { " " });
            if target.len() + gap.len() + id.len() > MAX_TEXT_BYTES - LEFT_OUT_BYTES {
                target.push_str(&format!("{gap}… (cut: the first {nth} of {} ids)", ids.len()));
                break;
            }
            target.push_str(gap);
            target.push_str(&id);
        }
        self.target(target).count(ids.len() as u64)
    }

    /// Returns the fields of its note, packed. Long texts are cut.
    pub(crate) fn pack(&self) -> Vec<u8> {
        let count = self.count.map(|count| count.to_string()).unwrap_or_default();
        let fields = [
            ("what", cut(self.what.clone(), MAX_WHO_BYTES)),
            ("who", cut(self.who.clone(), MAX_WHO_BYTES)),
            ("why", cut(self.why.clone(), MAX_WHY_BYTES)),
            ("target", cut(self.target.clone(), MAX_TEXT_BYTES)),
            ("count", count),
            ("outcome", cut(self.outcome.clone(), MAX_WHY_BYTES)),
        ];
        let known: Vec<_> = fields.iter().filter(|(_, value)| !value.is_empty()).collect();
        pack_texts(known.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]))
    }
}

/// What an action returned, and whether the audit has it; see the [example](crate::admin::DeadLetters::edit).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Noted<T> {
    /// What the action returned. It took place, also if it is not noted.
    pub value: T,
    /// Why it is not noted, as Redis says; `None` if it is.
    pub unnoted: Option<String>,
}

impl<T> Noted<T> {
    /// Reads why a script could not note an action: '' if it could.
    #[doc(hidden)]
    pub fn read(value: T, why: Option<&Value>) -> Self {
        Self { value, unnoted: why.map(decode::text).filter(|why| !why.is_empty()) }
    }

    /// Changes what the action returned.
    #[doc(hidden)]
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Noted<U> {
        Noted { value: change(self.value), unnoted: self.unnoted }
    }

    /// What an action returned that changed nothing, so that there is nothing to note.
    #[doc(hidden)]
    pub fn of_nothing(value: T) -> Self {
        Self { value, unnoted: None }
    }
}

/// What a person did; see the [example](AuditLog).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PastAction {
    /// The entry of the note. Later notes have greater ids.
    pub entry: EntryId,
    /// What was noted. Anybody with access to Redis may have written it.
    pub action: Action,
    /// The call that noted it. One action that is noted in several audits has the same in all of them.
    pub(super) call: String,
}

impl PastAction {
    /// When it was noted, by the server's clock.
    pub fn at(&self) -> Timestamp {
        Timestamp::from_ms(self.entry.ms).unwrap_or(Timestamp::MAX)
    }

    fn read(entry: Entry) -> Self {
        let fields: Envelope = entry.envelope.unwrap_or_default();
        let text = |name: &str| {
            String::from_utf8_lossy(fields.get(name.as_bytes()).unwrap_or_default()).into_owned()
        };
        let action = Action {
            what: text("what"),
            who: text("who"),
            why: text("why"),
            target: text("target"),
            count: text("count").parse().ok(),
            outcome: text("outcome"),
        };
        Self { entry: entry.id, action, call: text("call") }
    }
}

/// The audit of a queue. [`Queue::audit`] returns it.
///
/// ```no_run
/// # use streamfleet_engine as streamfleet;
/// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
/// use streamfleet::admin::Action;
///
/// let action = Action::new("purge", "ann@ops").why("the mail server is back").count(17);
/// queue.audit().note(&action).await?;
/// for past in queue.audit().recent(None, 100).await? {
///     println!("{} {} {}", past.at().as_ms(), past.action.who, past.action.what);
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy)]
pub struct AuditLog<'a> {
    queue: &'a Queue,
}

impl Queue {
    /// Gives access to the audit: what people did to this queue.
    pub fn audit(&self) -> AuditLog<'_> {
        AuditLog { queue: self }
    }
}

impl AuditLog<'_> {
    /// Notes an action. About the last 10,000 are kept.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn note(self, action: &Action) -> Result<(), Error> {
        note(self.queue.link(), &self.queue.keys.audit, (call_name(), action))
            .await
            .map_err(|error| self.queue.name_keys(error))
    }

    /// Notes an action that has taken place, and returns what it returned. If it cannot be noted, that says why: a full Redis must
    /// not keep anybody from cleaning it up.
    pub async fn noted<T>(self, action: &Action, value: T) -> Noted<T> {
        let unnoted = self.note(action).await.err().map(|error| error.to_string());
        Noted { value, unnoted }
    }

    /// Returns a page of the past actions, newest first, before the entry `before`.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn recent(self, before: Option<EntryId>, count: u64) -> Result<Vec<PastAction>, Error> {
        recent(self.queue.link(), &self.queue.keys.audit, before, count).await
    }
}

/// Which queues people deleted, when and why. Their own audit is gone with them. [`Broker::deletions`] returns it.
///
/// ```no_run
/// # use streamfleet_engine as streamfleet;
/// # async fn example(broker: streamfleet::Broker) -> Result<(), Box<dyn std::error::Error>> {
/// for past in broker.deletions().recent(None, 100).await? {
///     println!("{} {} {}", past.at().as_ms(), past.action.who, past.action.target);
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct DeletionLog {
    link: Link,
    key: Key,
}

impl Broker {
    /// Notes one action in the audits of several queues, and returns what it returned. A search through all audits finds it once. If it
    /// cannot be noted everywhere, that says why.
    #[doc(hidden)]
    pub async fn noted_in<T>(
        &self,
        queues: impl IntoIterator<Item = QueueName>,
        action: &Action,
        value: T,
    ) -> Noted<T> {
        let (call, mut unnoted) = (call_name(), None);
        for name in queues {
            let queue = self.queue(name);
            let noted = note(queue.link(), &queue.keys.audit, (call.clone(), action)).await;
            unnoted = unnoted.or(noted.err().map(|error| queue.name_keys(error).to_string()));
        }
        Noted { value, unnoted }
    }

    /// Gives access to the notes about queues that people deleted.
    pub fn deletions(&self) -> DeletionLog {
        let key = keys::deletions(self.namespace());
        DeletionLog { link: self.link_to(&key), key }
    }
}

impl DeletionLog {
    /// Notes that a queue is deleted. About the last 10,000 notes are kept.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn note(&self, action: &Action) -> Result<(), Error> {
        note(&self.link, &self.key, (call_name(), action)).await
    }

    /// Notes that a queue was deleted, and returns what that returned. If it cannot be noted, that says why.
    #[doc(hidden)]
    pub async fn noted<T>(&self, action: &Action, value: T) -> Noted<T> {
        let unnoted = self.note(action).await.err().map(|error| error.to_string());
        Noted { value, unnoted }
    }

    /// Returns a page of the notes, newest first, before the entry `before`.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn recent(&self, before: Option<EntryId>, count: u64) -> Result<Vec<PastAction>, Error> {
        recent(&self.link, &self.key, before, count).await
    }
}

/// Notes an action in this stream. If the answer is lost, the call is sent again, and is noted once.
async fn note(link: &Link, key: &Key, (call, action): (Value, &Action)) -> Result<(), Error> {
    let args = args![AUDIT; call, action = Value::Bytes(action.pack().into())];
    let answer = link.run_named(&AUDIT, vec![key.clone()], args.into()).await?;
    if answer.status == 1 { Ok(()) } else { Err(Error::contract("audit", answer)) }
}

/// Reads a page of this stream, newest first.
pub(crate) async fn recent(
    link: &Link,
    key: &Key,
    before: Option<EntryId>,
    count: u64,
) -> Result<Vec<PastAction>, Error> {
    let read = link.xrevrange(key, entries::before(before), count, Lane::Normal).await?;
    Ok(read.into_iter().map(PastAction::read).collect())
}

/// Draws a name for a call, by which a script recognizes it.
pub(crate) fn call_name() -> Value {
    format!("{:032x}", rand::random::<u128>()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_bounded_and_has_only_what_is_known() {
        let action = Action::new("dead drop", "a".repeat(1000)).target("x".repeat(100_000)).count(3);
        let packed = action.pack();
        assert!(packed.len() < 5000, "{}", packed.len());
        let text = String::from_utf8_lossy(&packed);
        assert!(text.contains("count") && !text.contains("why") && !text.contains("outcome"), "{text}");
    }

    #[test]
    fn a_long_list_of_ids_is_cut_between_two_and_says_so() {
        let ids: Vec<String> = (0..5000).map(|nth| format!("order-{nth:04}")).collect();
        let few = Action::new("dead drop", "ann").ids(&ids[..2]);
        assert_eq!((few.target.as_str(), few.count), ("order-0000 order-0001", Some(2)));
        let many = Action::new("dead drop", "ann").ids(&ids);
        let (kept, cut) = many.target.split_once(" … ").unwrap();
        let kept: Vec<_> = kept.split(' ').collect();
        assert_eq!(kept, &ids[..kept.len()]);
        assert_eq!(cut, format!("(cut: the first {} of 5000 ids)", kept.len()));
        assert_eq!(many.count, Some(5000));
        let packed = String::from_utf8_lossy(&many.pack()).into_owned();
        assert!(packed.contains("of 5000 ids)"), "it is not cut again");
        let long = Action::new("dead drop", "ann").ids(&["x".repeat(10_000)]);
        assert_eq!(long.target, "… (cut: the first 0 of 1 ids)");
    }
}
