//! What ties a job to others: the lock that keeps it unique, the batch it belongs to, and the jobs that follow its end.
//! Most jobs have no ties, so a [`JobSpec`] keeps them behind one pointer.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::hand_over::HandOver;
use super::task::CampaignTag;
use super::{DeadReason, Envelope, JobSpec, JobType, Malformed, Policy, QueueName, TraceContext, TraceState};

text!(
    /// A key that only one live job may have: while a job with this key lives, another one is not accepted.
    UniqueKey(Box<str>), "unique key",
    |text| (1..=128).contains(&text.len()) && !text.chars().any(char::is_control),
    "a unique key must have 1 to 128 bytes of UTF-8 without control characters"
);
text!(
    /// The name of a batch of jobs. When all of them have succeeded, one more job follows.
    BatchId(Box<str>), "batch",
    |text| (1..=100).contains(&text.len()) && !text.chars().any(|c| c.is_control() || c.is_whitespace()),
    "a batch's name must have 1 to 100 bytes of UTF-8 without white space or control characters"
);

/// What ties a job to others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FollowUps {
    /// Whether the job's id is accepted only once, so that its record stays as long as the id is remembered.
    pub once: bool,
    /// The key of the lock that the job holds while it lives.
    pub unique: Option<UniqueKey>,
    /// Whether the job releases the lock when its first attempt starts.
    pub unique_waiting: bool,
    /// The batch that the job belongs to.
    pub batch: Option<BatchId>,
    /// The type of the job that follows its success.
    pub on_success: Option<JobType>,
    /// The type of the job that follows its death.
    pub on_failure: Option<JobType>,
    /// The jobs that follow its success, one after another.
    pub then: Vec<ChainedJob>,
    /// The campaign that replayed it.
    #[doc(hidden)]
    pub campaign: Option<CampaignTag>,
}

/// One job of a chain, as written in the field `then`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ChainedJob {
    /// The type of the job.
    #[serde(rename = "type")]
    job_type: String,
    /// What the handler gets. Without a payload, it gets the facts about the previous job, as [`FollowUps`] callbacks do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    /// The type of the job that follows its death.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    on_failure: Option<String>,
    /// The queue that it goes to, and with it those after it; otherwise that of the job before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue: Option<QueueName>,
}

impl PartialEq for ChainedJob {
    fn eq(&self, other: &Self) -> bool {
        let raw = |link: &Self| link.payload.as_ref().map(|payload| payload.get().to_owned());
        (&self.job_type, &self.on_failure, &self.queue) == (&other.job_type, &other.on_failure, &other.queue)
            && raw(self) == raw(other)
    }
}

/// The trace that the jobs which follow another one belong to.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, Default)]
pub struct CarriedTrace<'a> {
    /// A `traceparent`.
    pub parent: Option<&'a [u8]>,
    /// What belongs to it.
    pub state: Option<&'a str>,
}

impl<'a> CarriedTrace<'a> {
    /// Returns the trace of the attempt that ended, if it had a span; otherwise what the job itself carries, unchanged.
    pub fn of(envelope: &'a Envelope, attempt: Option<&'a TraceContext>) -> Self {
        let parent = attempt.map(|trace| trace.as_str().as_bytes()).or_else(|| envelope.get(b"traceparent"));
        Self { parent, state: TraceState::carried(envelope) }
    }

    fn fields(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        let state = self.state.map(|state| (TraceState::FIELD, state.as_bytes()));
        self.parent.map(|parent| ("traceparent", parent)).into_iter().chain(state)
    }
}

/// How a job ended.
#[derive(Debug, Clone, Copy)]
pub enum End<'a> {
    /// It succeeded, perhaps with a result.
    Done(Option<&'a Bytes>),
    /// It went to the dead stream.
    Dead(DeadReason, &'a str),
    /// A person cancelled it, or its handler dropped it.
    Cancelled,
}

/// What a callback's payload says about the job that ended.
#[derive(Serialize)]
struct Facts<'a> {
    id: String,
    #[serde(rename = "type")]
    job_type: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

impl ChainedJob {
    /// Creates a job of this type with this JSON as its payload. Without a payload, it gets the facts about the previous job.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the payload is not JSON.
    pub fn new(job_type: &JobType, payload: Option<String>) -> Result<Self, Malformed> {
        let payload = payload.map(RawValue::from_string).transpose();
        let payload =
            payload.map_err(|error| Malformed::new(format!("a payload in then is not JSON: {error}")))?;
        Ok(Self { job_type: job_type.to_string(), payload, on_failure: None, queue: None })
    }

    /// Sends it, and the jobs after it that name no queue themselves, to this queue. By default, a job goes to the queue of
    /// the job before it.
    #[must_use]
    pub fn queue(self, queue: &QueueName) -> Self {
        Self { queue: Some(queue.clone()), ..self }
    }
}

impl ChainedJob {
    /// Reads the jobs of a chain from the value of the field `then`, a JSON array.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the value is not such an array, one of its items is not a job, or there are more than
    /// [`FollowUps::MAX_CHAIN`] jobs.
    pub fn list(json: &[u8]) -> Result<Vec<Self>, Malformed> {
        chain(json)
    }
}

impl ChainedJob {
    /// Returns its type, and its payload as JSON if it has one of its own.
    #[doc(hidden)]
    pub fn parts(&self) -> (&str, Option<&str>) {
        (&self.job_type, self.payload.as_deref().map(RawValue::get))
    }

    /// Returns the queue that it names.
    #[doc(hidden)]
    pub fn other_queue(&self) -> Option<&QueueName> {
        self.queue.as_ref()
    }

    pub(super) fn failure(&self) -> Option<&str> {
        self.on_failure.as_deref()
    }
}

impl FollowUps {
    /// The most jobs that a chain may have after its first.
    pub const MAX_CHAIN: usize = 64;

    /// The largest size in bytes of a chain as JSON, payloads included: the script that ends the job carries it.
    pub const MAX_CHAIN_BYTES: usize = 64 * 1024;

    /// Returns the key of the lock that the start of the first attempt releases.
    pub fn freed_at_start(&self) -> Option<&UniqueKey> {
        self.unique.as_ref().filter(|_| self.unique_waiting)
    }

    /// Returns true if the job's id is accepted only once, and the job has no other ties.
    #[doc(hidden)]
    pub fn is_only_once(&self) -> bool {
        *self == Self { once: true, ..Self::default() }
    }

    /// Returns true if the job has no ties.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the jobs that follow this end, ready to be appended. They belong to `trace`.
    pub fn follow(&self, job: &JobSpec, trace: CarriedTrace<'_>, end: End<'_>) -> Vec<Envelope> {
        let facts = Facts::of(job, end).json();
        let call = |job_type: &JobType| follower(job_type.as_str(), &facts, job, trace, &[]);
        match end {
            End::Done(_) => {
                let next = self.then.split_first().map(|(next, rest)| {
                    let payload = next.payload.as_ref().map_or(facts.as_str(), |payload| payload.get());
                    if let Some(queue) = &next.queue {
                        let order = HandOver::text(
                            queue.as_str(),
                            next,
                            payload,
                            (job.id.to_string().as_str(), rest),
                        );
                        return follower(HandOver::TYPE, &order, job, trace, &[("tracking", Some("all"))]);
                    }
                    let rest = chain_text(rest);
                    let further = [("then", (!rest.is_empty()).then_some(rest.as_str()))];
                    let failure = [("on_failure", next.on_failure.as_deref())];
                    let more: Vec<_> = further.into_iter().chain(failure).collect();
                    follower(&next.job_type, payload, job, trace, &more)
                });
                self.on_success.iter().map(call).chain(next).collect()
            }
            End::Dead(..) => self.on_failure.iter().map(call).collect(),
            End::Cancelled => Vec::new(),
        }
    }
}

/// Returns the job that follows this end because the job's type names it, ready to be appended. A job that names one for
/// such an end itself is followed by that one instead.
pub fn callback_of_type(
    job: &JobSpec,
    policy: &Policy,
    trace: CarriedTrace<'_>,
    end: End<'_>,
) -> Option<Envelope> {
    let own = job.follow_ups.as_deref();
    let (own, of_type) = match end {
        End::Done(_) => (own.and_then(|own| own.on_success.as_ref()), policy.on_success.as_ref()),
        End::Dead(..) => (own.and_then(|own| own.on_failure.as_ref()), policy.on_failure.as_ref()),
        End::Cancelled => (None, None),
    };
    // A type that follows itself would never come to an end.
    let of_type = of_type.filter(|of_type| own.is_none() && **of_type != job.job_type)?;
    Some(follower(of_type.as_str(), &Facts::of(job, end).json(), job, trace, &[]))
}

impl<'a> Facts<'a> {
    fn of(job: &'a JobSpec, end: End<'a>) -> Self {
        let mut facts = Self {
            id: job.id.to_string(),
            job_type: job.job_type.as_str(),
            state: "done",
            result: None,
            reason: None,
            error: None,
        };
        match end {
            End::Done(result) => facts.result = result.and_then(|result| json(result)),
            End::Dead(reason, error) => {
                (facts.state, facts.reason, facts.error) = ("dead", Some(reason.as_str()), Some(error));
            }
            End::Cancelled => facts.state = "cancelled",
        }
        facts
    }

    fn json(&self) -> String {
        serde_json::to_string(self).expect("texts and JSON can be written as JSON")
    }
}

/// Returns a result as JSON; a result that is not JSON becomes a JSON string.
fn json(result: &[u8]) -> Option<Box<RawValue>> {
    let text = String::from_utf8_lossy(result);
    let text = RawValue::from_string(text.clone().into_owned());
    let quoted = || serde_json::value::to_raw_value(&String::from_utf8_lossy(result)).ok();
    text.ok().or_else(quoted)
}

fn chain_text(links: &[ChainedJob]) -> String {
    if links.is_empty() {
        String::new()
    } else {
        serde_json::to_string(links).expect("links can be written as JSON")
    }
}

/// Builds the fields of a job that follows another.
fn follower(
    job_type: &str,
    payload: &str,
    job: &JobSpec,
    trace: CarriedTrace<'_>,
    more: &[(&str, Option<&str>)],
) -> Envelope {
    let parent = job.id.to_string();
    let own = [("type", job_type.as_bytes()), ("payload", payload.as_bytes()), ("parent", parent.as_bytes())];
    let more = more.iter().filter_map(|(name, value)| Some((*name, (*value)?.as_bytes())));
    let fields: Vec<_> = own.into_iter().chain(more).chain(trace.fields()).collect();
    Envelope::new(fields.iter().map(|(name, value)| (name.as_bytes(), *value)))
}

/// Reads the field `then`: a JSON array of jobs, as in `[{"type":"mail.send"}]`.
pub(super) fn chain(value: &[u8]) -> Result<Vec<ChainedJob>, Malformed> {
    let wrong = |why: String| Malformed::new(format!("the field then is invalid: {why}"));
    if value.len() > FollowUps::MAX_CHAIN_BYTES {
        return Err(wrong(format!(
            "{} bytes, but at most {} are allowed",
            value.len(),
            FollowUps::MAX_CHAIN_BYTES
        )));
    }
    let links: Vec<ChainedJob> = serde_json::from_slice(value)
        .map_err(|error| wrong(format!("it must be a JSON array of jobs with a type: {error}")))?;
    if links.len() > FollowUps::MAX_CHAIN {
        return Err(wrong(format!("{} jobs, but at most {} are allowed", links.len(), FollowUps::MAX_CHAIN)));
    }
    for link in &links {
        for name in std::iter::once(&link.job_type).chain(&link.on_failure) {
            name.parse::<JobType>().map_err(|error| wrong(error.to_string()))?;
        }
        if link.job_type == HandOver::TYPE {
            return Err(wrong(format!("the type {} is reserved; name a queue instead", HandOver::TYPE)));
        }
    }
    Ok(links)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{EntryId, Lane};

    fn parsed(fields: &[(&str, &str)]) -> Result<(JobSpec, Envelope), Malformed> {
        let head = [("type", "gift.send"), ("id", "g7")];
        let all = head.iter().chain(fields).map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let envelope = Envelope::new(all);
        Ok((JobSpec::parse(&envelope, EntryId::new(9, 0), Lane::Normal)?, envelope))
    }

    fn followers(fields: &[(&str, &str)], end: End<'_>) -> Vec<Vec<(String, String)>> {
        let (job, envelope) = parsed(fields).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let follow_ups = job.follow_ups.as_ref().unwrap();
        let fields = |envelope: Envelope| {
            envelope.fields().map(|(name, value)| (text(name), text(value))).collect::<Vec<_>>()
        };
        follow_ups.follow(&job, CarriedTrace::of(&envelope, None), end).into_iter().map(fields).collect()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn a_plain_job_has_no_follow_ups() {
        assert_eq!(parsed(&[]).unwrap().0.follow_ups, None);
    }

    #[test]
    fn success_calls_with_the_result_and_failure_with_the_error() {
        let both = [("on_success", "mail.ok"), ("on_failure", "mail.no"), ("traceparent", "00-1-2-01")];
        let done = followers(&both, End::Done(Some(&Bytes::from_static(b"{\"n\":18446744073709551616}"))));
        assert_eq!(
            done,
            [[
                pair("type", "mail.ok"),
                pair(
                    "payload",
                    r#"{"id":"g7","type":"gift.send","state":"done","result":{"n":18446744073709551616}}"#
                ),
                pair("parent", "g7"),
                pair("traceparent", "00-1-2-01"),
            ]]
        );
        let dead = followers(&both, End::Dead(DeadReason::Fatal, "no \"such\" gift"));
        let payload =
            r#"{"id":"g7","type":"gift.send","state":"dead","reason":"fatal","error":"no \"such\" gift"}"#;
        assert_eq!(dead[0][..2], [pair("type", "mail.no"), pair("payload", payload)]);
        assert!(followers(&both, End::Cancelled).is_empty());
    }

    #[test]
    fn a_result_that_is_not_json_is_passed_on_as_text() {
        let done = followers(&[("on_success", "a")], End::Done(Some(&Bytes::from_static(b"4 files\n"))));
        assert!(done[0][1].1.contains(r#""result":"4 files\n""#), "{done:?}");
    }

    #[test]
    fn a_chain_gets_shorter_by_one_and_keeps_its_payloads() {
        let then = r#"[{"type":"b","payload":{"x":1.50}},{"type":"c","on_failure":"d"}]"#;
        let done = followers(&[("then", then)], End::Done(None));
        assert_eq!(done[0][..2], [pair("type", "b"), pair("payload", r#"{"x":1.50}"#)]);
        assert_eq!(done[0][3], pair("then", r#"[{"type":"c","on_failure":"d"}]"#));
        let last = followers(&[("then", r#"[{"type":"c","on_failure":"d"}]"#)], End::Done(None));
        assert!(last[0].contains(&pair("on_failure", "d")), "{last:?}");
        assert!(!last[0].iter().any(|(name, _)| name == "then"));
    }

    #[test]
    fn a_job_of_a_chain_that_names_a_queue_is_handed_over_with_the_rest() {
        let then = r#"[{"type":"b","payload":{"x":1.50},"queue":"mail","on_failure":"d"},{"type":"c"}]"#;
        let done = followers(&[("then", then)], End::Done(None));
        let order = r#"{"queue":"mail","type":"b","payload":{"x":1.50},"then":[{"type":"c"}],"on_failure":"d","parent":"g7"}"#;
        assert_eq!(done[0][..2], [pair("type", "streamfleet.handover"), pair("payload", order)]);
        assert!(done[0].contains(&pair("tracking", "all")) && done.len() == 1, "{done:?}");
        let facts = followers(&[("then", r#"[{"type":"b","queue":"mail"}]"#)], End::Done(None));
        let payload = r#""payload":{"id":"g7","type":"gift.send","state":"done"}"#;
        assert!(facts[0][1].1.contains(payload), "{facts:?}");
    }

    #[test]
    fn a_follower_gets_the_trace_and_its_state_if_they_keep_the_standard() {
        const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let state = |parent: &str, state: &str| {
            let fields = [("then", r#"[{"type":"b"}]"#), ("traceparent", parent), ("h.tracestate", state)];
            let (job, envelope) = parsed(&fields).unwrap();
            let attempt = TraceContext::parse(PARENT.replace("b7ad", "c8be").as_bytes());
            let next = job.follow_ups.as_ref().unwrap();
            let next = next.follow(&job, CarriedTrace::of(&envelope, attempt.as_ref()), End::Done(None));
            let text =
                |name: &[u8]| next[0].get(name).map(|value| String::from_utf8(value.to_vec()).unwrap());
            (text(b"traceparent").unwrap().contains("-c8be"), text(b"h.tracestate"))
        };
        assert_eq!(state(PARENT, "a=1"), (true, Some("a=1".to_owned())));
        assert_eq!(state(PARENT, "a"), (true, None));
        assert_eq!(state("00-1", "a=1"), (true, None), "the state of a trace that nobody has");
    }

    /// Returns the type of the job that follows the end of a job because its type names it.
    fn of_type(fields: &[(&str, &str)], policy: &Policy, end: End<'_>) -> Option<String> {
        let job = parsed(fields).unwrap().0;
        let envelope = callback_of_type(&job, policy, CarriedTrace::default(), end)?;
        Some(String::from_utf8(envelope.get(b"type").unwrap().to_vec()).unwrap())
    }

    #[test]
    fn a_type_names_followers_for_jobs_that_name_none_themselves() {
        let policy = Policy::default();
        let policy = policy.on_success("mail.ok".parse::<JobType>().unwrap());
        let policy = policy.on_failure("mail.no".parse::<JobType>().unwrap());
        let dead = End::Dead(DeadReason::Fatal, "no");
        assert_eq!(of_type(&[], &policy, End::Done(None)).as_deref(), Some("mail.ok"));
        assert_eq!(of_type(&[], &policy, dead).as_deref(), Some("mail.no"));
        assert_eq!(of_type(&[], &policy, End::Cancelled), None);
        assert_eq!(of_type(&[("on_success", "own")], &policy, End::Done(None)), None);
        assert_eq!(of_type(&[("on_success", "own")], &policy, dead).as_deref(), Some("mail.no"));
        assert_eq!(of_type(&[], &Policy::default(), dead), None);
    }

    #[test]
    fn a_type_never_follows_itself() {
        let policy = Policy::default().on_failure("gift.send".parse::<JobType>().unwrap());
        assert_eq!(of_type(&[], &policy, End::Dead(DeadReason::Fatal, "no")), None);
    }

    #[test]
    fn broken_follow_ups_are_malformed_and_name_their_field() {
        let long = format!("[{}]", vec![r#"{"type":"a"}"#; 65].join(","));
        for (name, value) in [
            ("on_success", "Mail"),
            ("on_failure", ""),
            ("then", "{}"),
            ("then", r#"[{"type":"A"}]"#),
            ("then", r#"[{"type":"a","paylod":1}]"#),
            ("then", r#"[{"type":"a","queue":"No Queue"}]"#),
            ("then", r#"[{"type":"streamfleet.handover","payload":{"queue":"mail"}}]"#),
            ("then", long.as_str()),
            ("batch", ""),
            ("unique", "a\nb"),
        ] {
            let error = parsed(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(name), "{name}={value}: {error}");
        }
    }
}
