//! Editing dead letters: another payload, type or setting, so that a replay can succeed. The fields of a stream's entry never
//! change, so the edited letter is a new one, which says what it was before.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use fred::interfaces::KeysInterface;
use fred::types::Value;
use serde_json::{Map, Value as Json, json};

use crate::attempt::args::flatten;
use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::dead::letter::{DeadLetter, DeadLetters, is_group};
use crate::inspect::audit::{Action, Noted};
use crate::job::patch::{Patch, PatchError};
use crate::job::payload::is_readable;
use crate::job::{
    Codec, DeadReason, Encoding, EntryId, Envelope, Generation, JobSpec, JobType, Lane, Malformed, State,
    cut, fingerprint,
};
use crate::submit::offload::ScriptFields;
use crate::{bytes, millis};

scripts! { EDIT "edit" }

/// How long a queue remembers which letter took the place of an edited one.
pub(crate) const PLACE_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// How often in a row a letter can be edited and still be found by its first id.
const MAX_EDITS_FOLLOWED: u32 = 20;

/// The most bytes of a payload.
const MAX_PAYLOAD_BYTES: usize = 8 * 1024 * 1024;

/// The most bytes of what a letter says about the time before it was edited. A longer field would be offloaded.
const MAX_BEFORE_BYTES: usize = 15_000;

/// The most bytes of a former value: a longer one cannot be restored.
const MAX_FORMER_BYTES: usize = 8000;

/// The field that says what a letter was before.
const BEFORE: &str = "dead_before";

/// What to change in a dead letter; see the [example](DeadLetters::edit).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LetterEdit {
    /// Another payload, in the encoding that the letter has.
    pub payload: Option<Bytes>,
    /// Changes of single values in the payload.
    pub patches: Vec<Patch>,
    /// Another type.
    pub job_type: Option<JobType>,
    /// Other values of fields: headers (`h.<name>`), `max_attempts`, `timeout_ms` or `tracking`.
    pub fields: Vec<(String, String)>,
    /// Whether all edits before are taken back first; see [`LetterEdit::undo`].
    pub is_undo: bool,
    /// Whether values that the letter already has are written as well, instead of [`EditError::Unchanged`]; see
    /// [`LetterEdit::blind`].
    #[doc(hidden)]
    pub is_blind: bool,
}

/// Why a dead letter was not edited; see the [example](DeadLetters::edit).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// Nothing would change.
    #[error("the dead letter already is like this")]
    Unchanged,
    /// Nobody has edited it.
    #[error("nobody has edited the dead letter: there is nothing to take back")]
    NotEdited,
    /// It does not keep all that it was before it was edited.
    #[error("the dead letter does not keep what it was before: the former {0} is too long (about {max} bytes)", max = MAX_FORMER_BYTES)]
    NotKept(String),
    /// It no longer exists. With the state of its job, if a record has it.
    #[error("the dead letter is gone")]
    Gone(Option<State>),
    /// Somebody else edited it: this letter took its place.
    #[error("somebody else edited it meanwhile: it is now the dead letter {0}")]
    Edited(EntryId),
    /// Its large fields are gone.
    #[error("the key with the large fields of the dead letter is gone")]
    Lost,
    /// It has all its fields packed in one.
    #[error("the dead letter has its fields packed in the field raw: submit the job again instead")]
    Packed,
    /// The field is not one that can be changed.
    #[error(
        "the field {0:?} cannot be changed: only headers (h.NAME), max_attempts, timeout_ms and tracking can"
    )]
    Field(String),
    /// The payload cannot be changed in this way.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// The payload does not have the encoding that the letter names, or is nested deeper than workers read.
    #[error(
        "the new payload is not valid {0}, which is the encoding of the dead letter, or is nested too deep"
    )]
    Encoding(&'static str),
    /// The payload was encoded by its producer.
    #[error(
        "the payload is {0}, so neither it nor its header {header} can be edited, and of an encrypted one not the type: submit the \
             job again with the package of its producer, and drop this dead letter",
        header = Codec::HEADER
    )]
    Encoded(String),
    /// The payload is too large.
    #[error("the new payload has {0} bytes, but at most {max} are allowed", max = MAX_PAYLOAD_BYTES)]
    TooLarge(usize),
    /// The letter would not be a job.
    #[error("the edited dead letter would not be a job: {0}")]
    Malformed(Malformed),
    /// Redis does not answer or refuses.
    #[error(transparent)]
    Redis(#[from] Error),
}

impl LetterEdit {
    setters! {
        /// Sets the payload.
        payload: impl Into<Bytes> => Some(payload.into());
        /// Sets the type.
        job_type: JobType => Some(job_type);
    }

    /// Adds a change of one value in the payload.
    #[must_use]
    pub fn patch(mut self, patch: Patch) -> Self {
        self.patches.push(patch);
        self
    }

    /// Adds another value of a field: of a header (`h.<name>`), `max_attempts`, `timeout_ms` or `tracking`.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.fields.push((name.into(), value.into()));
        self
    }

    /// Takes back all edits: every field that was edited gets the value again that it had before the first edit.
    #[must_use]
    pub fn undo(mut self) -> Self {
        self.is_undo = true;
        self
    }

    /// Also writes the values that the letter already has, so that no answer tells somebody who may not see them that they
    /// were guessed.
    #[doc(hidden)]
    #[must_use]
    pub fn blind(mut self) -> Self {
        self.is_blind = true;
        self
    }

    /// Returns the fields that change, with their new values.
    fn changes(&self, letter: &Envelope) -> Result<Vec<Change>, EditError> {
        self.check_codec(letter)?;
        let mut changes = if self.is_undo { original(letter)? } else { Vec::new() };
        for (name, value) in &self.fields {
            let is_header = name.strip_prefix("h.").is_some_and(|name| !name.is_empty());
            if !is_header && !matches!(name.as_str(), "max_attempts" | "timeout_ms" | "tracking") {
                return Err(EditError::Field(name.clone()));
            }
            // The last value counts.
            changes.retain(|(known, _)| known != name);
            changes.push((name.clone(), Some(Bytes::from(value.clone()))));
        }
        if let Some(job_type) = &self.job_type {
            changes.push(("type".to_owned(), Some(Bytes::from(job_type.to_string()))));
        }
        if self.payload.is_some() || !self.patches.is_empty() {
            changes.push(("payload".to_owned(), Some(self.new_payload(letter)?)));
        }
        changes.retain(|(name, value)| self.is_blind || letter.get(name.as_bytes()) != value.as_deref());
        if changes.is_empty() { Err(EditError::Unchanged) } else { Ok(changes) }
    }

    /// Refuses what would not fit a payload that was encoded: nobody here can encode another one, and a ciphertext is bound to its
    /// type and header.
    fn check_codec(&self, letter: &Envelope) -> Result<(), EditError> {
        let Some(codec) = Codec::of(letter) else { return Ok(()) };
        let is_payload = self.payload.is_some() || !self.patches.is_empty();
        let is_header = self.fields.iter().any(|(name, _)| name == Codec::FIELD);
        let is_bound = codec.key.is_some() && self.job_type.is_some();
        if !is_payload && !is_header && !is_bound {
            return Ok(());
        }
        Err(EditError::Encoded(match (codec.key, codec.claim) {
            (Some(key), _) => format!("encrypted with the key {key}"),
            (None, Some(_)) => "stored apart".to_owned(),
            (None, None) => "compressed".to_owned(),
        }))
    }

    fn new_payload(&self, letter: &Envelope) -> Result<Bytes, EditError> {
        let encoding = letter
            .get(b"encoding")
            .map_or(Some(Encoding::Json), |name| std::str::from_utf8(name).ok().and_then(Encoding::parse));
        let encoding = encoding.unwrap_or(Encoding::Raw);
        let present = || Bytes::copy_from_slice(letter.get(b"payload").unwrap_or_default());
        let mut payload = self.payload.clone().unwrap_or_else(present);
        for patch in &self.patches {
            payload = patch.apply(&payload, encoding)?.into();
        }
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(EditError::TooLarge(payload.len()));
        }
        if !is_readable(&payload, encoding) {
            return Err(EditError::Encoding(encoding.as_str()));
        }
        Ok(payload)
    }
}

impl LetterEdit {
    /// Returns the job that a replay of the edited letter would run, without changing anything; for instance to check its
    /// payload.
    ///
    /// # Errors
    ///
    /// [`EditError`] if [`DeadLetters::edit`] would refuse the edit without asking Redis.
    pub fn job(&self, letter: &DeadLetter) -> Result<JobSpec, EditError> {
        edited_job(letter, self).map(|(_, job)| job)
    }

    /// Returns true if the edit may change the payload, or the type that determines its schema.
    pub fn changes_payload(&self) -> bool {
        self.payload.is_some() || !self.patches.is_empty() || self.job_type.is_some() || self.is_undo
    }
}

impl DeadLetters<'_> {
    /// Changes a dead letter, and returns the id of the letter that takes its place. A replay runs the job with the new
    /// fields. `action` says who does it and why; it is noted in the audit with the letter's id.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
    /// use streamfleet::admin::{Action, LetterEdit};
    ///
    /// let ann = Action::new("dead edit", "ann").why("the customer moved");
    /// let edit = LetterEdit::default().patch("payload.to=bob@example.com".parse()?);
    /// for letter in queue.dead_letters().recent(None, 10).await? {
    ///     let edited = queue.dead_letters().edit(&letter, &edit, &ann).await?;
    ///     if let Some(why) = &edited.unnoted {
    ///         eprintln!("the audit does not know of it: {why}");
    ///     }
    ///     queue.dead_letters().replay(edited.value, &letter.job()).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`EditError`] if the letter is not as it was read, the edited one would not be a job, or Redis does not answer.
    pub async fn edit(
        self,
        letter: &DeadLetter,
        edit: &LetterEdit,
        action: &Action,
    ) -> Result<Noted<EntryId>, EditError> {
        let (fields, job) = edited_job(letter, edit)?;
        let generation =
            letter.text("dead_life").parse().unwrap_or_else(|_| Generation::of_entry(letter.entry, job.lane));
        let new = self.queue.offload_large(fields, &generation).await?;
        let answer = self.call_edit(letter, new, action).await?;
        match (answer.status, answer.rest.first()) {
            (1, Some(edited)) => {
                let edited = decode::entry_id(edited).ok_or_else(|| Error::contract("edit", edited))?;
                Ok(Noted::read(edited, answer.rest.get(1)))
            }
            (0, state) => Err(match self.edited(letter.entry).await? {
                Some(edited) => EditError::Edited(edited),
                None => EditError::Gone(state.and_then(|state| decode::text(state).parse().ok())),
            }),
            _ => Err(Error::contract("edit", answer).into()),
        }
    }

    /// Sends the fields of the new letter. See `edit.lua`.
    async fn call_edit(
        self,
        letter: &DeadLetter,
        new: ScriptFields,
        action: &Action,
    ) -> Result<crate::Answer, Error> {
        let (own, job) = (&self.queue.keys, letter.job());
        let call = format!("{:032x}", rand::random::<u128>());
        let (offloaded, _) = self.light_parts(letter.entry).await?;
        let keys = vec![
            own.dead.clone(),
            own.record(&job),
            own.audit.clone(),
            own.edited(letter.entry),
            offloaded,
            new.offloaded,
        ];
        let (job_type, error) = (new.envelope.get(b"type").unwrap_or_default(), letter.text("dead_error"));
        let reason = DeadReason::named(&letter.text("dead_reason"));
        // A letter that somebody wrote by hand has none.
        let known = Some(letter.text("dead_fingerprint")).filter(|known| is_group(known.as_bytes()));
        let fingerprint = known.unwrap_or_else(|| {
            fingerprint(&letter.text("type"), reason.unwrap_or(DeadReason::Malformed), &error)
        });
        let action = action.clone().target(format!("{} of {job}", letter.entry)).count(1);
        let mut args = Vec::from(args![EDIT;
            letter = letter.entry.to_string(),
            call,
            kept_ms = millis(PLACE_RETENTION),
            fingerprint,
            died_ms = letter.died().as_ms().to_string(),
            job_type = bytes(job_type),
            reason = reason.map_or("-", DeadReason::as_str),
            error_text = bytes(error.as_bytes()),
            action = Value::Bytes(action.pack().into()),
        ]);
        flatten(&new.envelope, &mut args);
        self.queue.run_named(&EDIT, keys, args).await
    }

    /// Returns the letter that took the place of this one, which somebody edited in the last 30 days; `None` if nobody did.
    /// It may have been replayed or dropped since.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn edited(self, letter: EntryId) -> Result<Option<EntryId>, Error> {
        let (mut last, mut found) = (letter, None);
        for _ in 0..MAX_EDITS_FOLLOWED {
            let client = self.queue.link.client();
            let get = client.get::<Value, _>(self.queue.keys.edited(last));
            let place = decode::text(&self.queue.link.ask("get", get).await?);
            let Some(next) = place.split(' ').next().and_then(|id| id.parse().ok()) else { break };
            (last, found) = (next, Some(next));
        }
        Ok(found)
    }
}

/// Returns the fields of the edited letter, and the job that they describe.
fn edited_job(letter: &DeadLetter, edit: &LetterEdit) -> Result<(Envelope, JobSpec), EditError> {
    if letter.fields.get(b"raw").is_some() {
        return Err(EditError::Packed);
    }
    if !letter.fields.is_whole() {
        return Err(EditError::Lost);
    }
    let changes = edit.changes(&letter.fields)?;
    let lane = letter.text("dead_origin").parse().unwrap_or(Lane::Normal);
    let fields = edited_fields(letter, &changes);
    let job = JobSpec::parse(&fields, letter.entry, lane).map_err(EditError::Malformed)?;
    Ok((fields, job))
}

/// A field, and its new value; `None` if the letter is to have none.
type Change = (String, Option<Bytes>);

/// The fields of a letter with these changes, in their order, and with what it was before.
fn edited_fields(letter: &DeadLetter, changes: &[Change]) -> Envelope {
    let before = before(letter, changes);
    let changed = |name: &[u8]| changes.iter().find(|(own, _)| own.as_bytes() == name);
    // The script adds the fingerprint and the group. The large fields get a key of their own again.
    let stays = |name: &[u8]| {
        !matches!(name, b"offloaded" | b"dead_fingerprint" | b"dead_group") && name != BEFORE.as_bytes()
    };
    let kept = letter.fields.fields().filter(|(name, _)| stays(name));
    let kept = kept.filter_map(|(name, value)| match changed(name) {
        Some((_, new)) => new.as_deref().map(|new| (name, new)),
        None => Some((name, value)),
    });
    let is_new = |name: &str| letter.fields.get(name.as_bytes()).is_none();
    let added = changes.iter().filter(|(name, _)| is_new(name));
    let added = added.filter_map(|(name, value)| Some((name.as_bytes(), value.as_deref()?)));
    let all: Vec<(&[u8], &[u8])> =
        added.chain(kept).chain([(BEFORE.as_bytes(), before.as_bytes())]).collect();
    Envelope::new(all.into_iter())
}

/// What a letter says that stays dead for another reason, after these steps: for `decide.lua`.
pub(crate) fn restated(letter: &DeadLetter, reason: DeadReason, steps: &str) -> [Value; 7] {
    let (job_type, error) = (letter.text("type"), letter.text("dead_error"));
    let change = ("dead_reason".to_owned(), Some(Bytes::from_static(reason.as_str().as_bytes())));
    args![DECIDE;
        fingerprint = fingerprint(&job_type, reason, &error),
        died_ms = letter.died().as_ms().to_string(),
        job_type,
        death_reason = reason.as_str(),
        error_text = error,
        dead_steps = steps,
        before = before(letter, &[change]),
    ]
}

/// What the letter was before: a JSON array with an object for each edit, the first one first. If it would be too long, those
/// in the middle are left out, and the first one also says what these were the first to change. Then the former values are left out.
fn before(letter: &DeadLetter, changes: &[Change]) -> String {
    let mut edits: Vec<Json> = serde_json::from_str(&letter.text(BEFORE)).unwrap_or_default();
    let mut fields = Map::new();
    for (name, _) in changes {
        let former = letter.fields.get(name.as_bytes()).map_or(Json::Null, former);
        fields.insert(cut(name.clone(), MAX_FORMER_BYTES), former);
    }
    edits.push(json!({ "letter": letter.entry.to_string(), "fields": fields }));
    let text = |edits: &[Json]| serde_json::to_string(edits).expect("JSON values can be written");
    while text(&edits).len() > MAX_BEFORE_BYTES && edits.len() > 2 {
        let left_out = edits.remove(1);
        let fields = left_out["fields"].as_object();
        let Some(first) = fields_of(&mut edits[0]).filter(|_| fields.is_some()) else {
            // Nobody knows any more what it was the first to change.
            edits[0] = too_long(&edits[0]);
            continue;
        };
        for (name, former) in fields.into_iter().flatten() {
            first.entry(name.as_str()).or_insert_with(|| former.clone());
        }
    }
    if text(&edits).len() > MAX_BEFORE_BYTES && edits.len() == 2 {
        // What the first edit has changed, too, is not needed to take back both.
        let known = edits[0]["fields"].clone();
        if let Some(fields) = fields_of(&mut edits[1]) {
            fields.retain(|name, _| known.get(name.as_str()).is_none());
        }
    }
    for edit in (0..edits.len()).rev() {
        if text(&edits).len() > MAX_BEFORE_BYTES {
            edits[edit] = too_long(&edits[edit]);
        }
    }
    text(&edits)
}

/// The former values of an edit, if it has them.
fn fields_of(edit: &mut Json) -> Option<&mut Map<String, Json>> {
    edit.get_mut("fields")?.as_object_mut()
}

/// An edit without the former values.
fn too_long(edit: &Json) -> Json {
    json!({ "letter": edit["letter"], "too_long": true })
}

/// The values that the edited fields of a letter had before the first edit. A person's decision about a step has changed none.
fn original(letter: &Envelope) -> Result<Vec<Change>, EditError> {
    let before = letter.get(BEFORE.as_bytes()).and_then(|before| serde_json::from_slice(before).ok());
    let edits: Vec<Json> = before.unwrap_or_default();
    let mut changes: Vec<Change> = Vec::new();
    for edit in &edits {
        let fields = edit["fields"].as_object();
        let Some(fields) = fields else { return Err(EditError::NotKept("value of a field".to_owned())) };
        for (name, former) in fields.iter().filter(|(name, _)| !name.starts_with("dead_")) {
            if changes.iter().all(|(known, _)| known != name) {
                let value = restored(former).ok_or_else(|| EditError::NotKept(name.clone()))?;
                changes.push((name.clone(), value));
            }
        }
    }
    if changes.is_empty() { Err(EditError::NotEdited) } else { Ok(changes) }
}

/// Reads back what [`former`] wrote: `Some(None)` if there was no value. `None` if it is not whole.
fn restored(former: &Json) -> Option<Option<Bytes>> {
    if former.is_null() {
        return Some(None);
    }
    if let Some(text) = former.as_str() {
        return Some(Some(Bytes::from(text.to_owned())));
    }
    let bytes = BASE64_STANDARD.decode(former["base64"].as_str()?).ok()?;
    let is_whole = former["bytes"].as_u64() == Some(bytes.len() as u64);
    is_whole.then(|| Some(Bytes::from(bytes)))
}

/// A former value: its text, or its bytes in base64. A long one is cut.
fn former(value: &[u8]) -> Json {
    const ENCODED_BYTES: usize = MAX_FORMER_BYTES / 4 * 3;
    match std::str::from_utf8(value) {
        Ok(text) if text.len() <= MAX_FORMER_BYTES => json!(text),
        Ok(text) => json!({ "text": cut(text.to_owned(), MAX_FORMER_BYTES), "bytes": text.len() }),
        Err(_) => {
            let shown = &value[..value.len().min(ENCODED_BYTES)];
            json!({ "base64": BASE64_STANDARD.encode(shown), "bytes": value.len() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn letter(payload: &[u8]) -> DeadLetter {
        let fields: [(&[u8], &[u8]); 6] = [
            (b"type", b"mail"),
            (b"payload", payload),
            (b"h.tenant", b"9"),
            (b"dead_error", b"no"),
            (b"dead_fingerprint", b"00ff"),
            (b"dead_group", b"00ff"),
        ];
        DeadLetter { entry: EntryId::new(7, 0), fields: Envelope::new(fields.into_iter()) }
    }

    fn edited(letter: &DeadLetter, edit: &LetterEdit) -> Result<DeadLetter, EditError> {
        let fields = edited_fields(letter, &edit.changes(&letter.fields)?);
        Ok(DeadLetter { entry: EntryId::new(letter.entry.ms + 1, 0), fields })
    }

    #[test]
    fn an_edited_letter_has_the_new_values_in_their_old_places() {
        let edit = LetterEdit::default().patch("payload.to=bob".parse().unwrap());
        let edit =
            edit.job_type("mail.send".parse().unwrap()).field("h.tenant", "8").field("max_attempts", "3");
        let after = edited(&letter(br#"{"to": "ann"}"#), &edit).unwrap();
        let names: Vec<_> =
            after.fields.fields().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect();
        assert_eq!(names, ["max_attempts", "type", "payload", "h.tenant", "dead_error", "dead_before"]);
        assert_eq!(
            (after.text("payload"), after.text("type")),
            (r#"{"to": "bob"}"#.into(), "mail.send".into())
        );
        let before: Json = serde_json::from_str(&after.text("dead_before")).unwrap();
        let fields =
            json!({"payload": r#"{"to": "ann"}"#, "type": "mail", "h.tenant": "9", "max_attempts": null});
        assert_eq!(before, json!([{"letter": "7-0", "fields": fields}]));
    }

    #[test]
    fn what_is_not_a_change_or_not_allowed_is_refused() {
        let letter = letter(b"{}");
        let refused = |edit: LetterEdit| edit.changes(&letter.fields).unwrap_err().to_string();
        assert!(refused(LetterEdit::default()).contains("already"));
        assert!(refused(LetterEdit::default().job_type("mail".parse().unwrap())).contains("already"));
        for name in ["id", "life", "dead_life", "h.", "batch"] {
            assert!(refused(LetterEdit::default().field(name, "1")).contains("cannot be changed"), "{name}");
        }
        assert!(refused(LetterEdit::default().payload("{")).contains("not valid json"));
        assert!(
            refused(LetterEdit::default().payload("[".repeat(200) + &"]".repeat(200))).contains("too deep")
        );
    }

    #[test]
    fn of_a_payload_that_was_encoded_only_what_does_not_belong_to_it_is_edited() {
        let with = |header: &str| {
            let fields = [("type", "mail"), ("payload", "x"), ("encoding", "raw"), ("h.codec", header)];
            Envelope::new(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())))
        };
        let job_type = || "mail.send".parse().unwrap();
        let claim = format!("json claim;sha256={}", "0".repeat(64));
        for (header, what) in [
            ("json aes-256-gcm;key=a", "encrypted with the key a"),
            ("json gzip", "compressed"),
            (&*claim, "stored apart"),
        ] {
            let refused = |edit: LetterEdit| edit.changes(&with(header)).unwrap_err().to_string();
            let edit = LetterEdit::default;
            for edit in [
                edit().payload("{}"),
                edit().patch("payload.a=1".parse().unwrap()),
                edit().field("h.codec", "x"),
            ] {
                assert!(refused(edit).contains(&format!("the payload is {what}, so neither")));
            }
            assert!(edit().field("h.tenant", "9").changes(&with(header)).is_ok());
            let typed = edit().job_type(job_type()).changes(&with(header));
            assert_eq!(typed.is_ok(), !header.contains("aes"), "{header}");
        }
    }

    #[test]
    fn a_blind_edit_leaves_the_same_traces_whether_its_values_are_new_or_not() {
        let letter = letter(br#"{"pin": 1}"#);
        let traces = |pin: &str| {
            let edit = LetterEdit::default().patch(format!("payload.pin={pin}").parse().unwrap());
            edited(&letter, &edit.blind().field("h.tenant", "9")).map(|letter| letter.text("dead_before"))
        };
        assert_eq!(traces("1").unwrap(), traces("2").unwrap());
    }

    #[test]
    fn of_several_values_of_a_field_the_last_one_counts() {
        let edit = LetterEdit::default().field("h.tenant", "1").field("h.x", "1");
        let edit = edit.field("h.tenant", "2").field("h.x", "2");
        let after = edited(&letter(b"{}"), &edit).unwrap();
        let headers: Vec<_> = after.fields.fields().filter(|(name, _)| name.starts_with(b"h.")).collect();
        assert_eq!(headers, [(&b"h.x"[..], &b"2"[..]), (&b"h.tenant"[..], &b"2"[..])]);
    }

    #[test]
    fn all_edits_are_taken_back_at_once() {
        let first = letter(br#"{"to": "ann"}"#);
        let edit = LetterEdit::default().payload("[]").field("h.tenant", "8").field("max_attempts", "3");
        let mut now = edited(&first, &edit).unwrap();
        for payload in ["[1]", "[2]"] {
            now = edited(&now, &LetterEdit::default().payload(payload)).unwrap();
        }
        let undone = edited(&now, &LetterEdit::default().undo()).unwrap();
        for name in ["type", "payload", "h.tenant", "max_attempts"] {
            assert_eq!(undone.fields.get(name.as_bytes()), first.fields.get(name.as_bytes()), "{name}");
        }
        assert!(matches!(edited(&undone, &LetterEdit::default().undo()), Err(EditError::Unchanged)));
        assert!(matches!(edited(&first, &LetterEdit::default().undo()), Err(EditError::NotEdited)));
        let strange = [(&b"dead_before"[..], &b"[1, {}]"[..])];
        let strange = DeadLetter { fields: first.fields.edited(|_| false, &strange), ..first };
        assert!(matches!(edited(&strange, &LetterEdit::default().undo()), Err(EditError::NotKept(_))));
    }

    #[test]
    fn a_value_of_some_kilobytes_is_kept_however_often_it_is_edited() {
        let text = |c: char| format!("\"{}\"", c.to_string().repeat(7000));
        let first = letter(text('a').as_bytes());
        let mut now = first;
        for c in ['b', 'c', 'd', 'e'] {
            now = edited(&now, &LetterEdit::default().payload(text(c))).unwrap();
            assert!(now.text("dead_before").len() <= MAX_BEFORE_BYTES);
        }
        let undone = edited(&now, &LetterEdit::default().undo()).unwrap();
        assert_eq!(undone.text("payload"), text('a'));
        let long = letter(format!("\"{}\"", "a".repeat(MAX_FORMER_BYTES)).as_bytes());
        let now = edited(&long, &LetterEdit::default().payload("1")).unwrap();
        let refused = edited(&now, &LetterEdit::default().undo());
        assert!(matches!(refused, Err(EditError::NotKept(name)) if name == "payload"));
    }

    proptest! {
        #[test]
        fn a_letter_keeps_a_bounded_part_of_what_it_was(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 1..8),
        ) {
            let mut current = letter(b"{}");
            let raw: [(&[u8], &[u8]); 1] = [(b"encoding", b"raw")];
            current.fields = current.fields.edited(|_| false, &raw);
            for payload in payloads {
                let Ok(next) = edited(&current, &LetterEdit::default().payload(payload)) else { continue };
                let before: Vec<Json> = serde_json::from_str(&next.text("dead_before")).unwrap();
                prop_assert!(next.text("dead_before").len() <= MAX_BEFORE_BYTES);
                prop_assert_eq!(&before[0]["letter"], "7-0");
                prop_assert_eq!(&before[before.len() - 1]["letter"], &current.entry.to_string());
                current = next;
            }
        }
    }
}
