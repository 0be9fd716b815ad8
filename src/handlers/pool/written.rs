//! The lines that the worker writes to a program. Pure.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;

use super::PoolConfig;
use super::message::PROTOCOL;
use super::payload::Body;
use crate::JobContext;
use crate::handlers::attempt;
use crate::job::{Encoding, EntryId, JobId, Lane, StepKind, TraceState};

/// About what a job's line has besides its payload and its headers.
const HEAD_BYTES: usize = 384;

/// Returns the first line of the worker.
pub(super) fn hello(pool: &str, config: &PoolConfig) -> Vec<u8> {
    let mut line = serde_json::json!({
        "type": "hello",
        "protocol": PROTOCOL,
        "streamfleet": env!("CARGO_PKG_VERSION"),
        "pool": pool,
        "inflight": config.inflight,
        "ahead": config.ahead,
        "max_line": config.max_line,
    })
    .to_string()
    .into_bytes();
    line.push(b'\n');
    line
}

/// Appends the line that asks a program to end an attempt soon.
pub(super) fn cancel(line: &mut Vec<u8>, reference: u64, reason: &str) {
    let value = serde_json::json!({ "type": "cancel", "ref": reference.to_string(), "reason": reason });
    line.extend_from_slice(value.to_string().as_bytes());
    line.push(b'\n');
}

/// Appends the line of one attempt, which is written now. `max_attempts` is that of the type; a job may have its own.
pub(super) fn job(
    line: &mut Vec<u8>,
    (context, payload): (&JobContext, &[u8]),
    (reference, max_attempts): (u64, u32),
    now: Instant,
) {
    let (job, left) = (context.job(), context.time_left_at(now));
    line.reserve(HEAD_BYTES + payload.len());
    let mut head = Head(line);
    head.plain("{\"type\":\"job\",\"ref\":\"").json(&reference);
    // Neither types nor queues contain what JSON escapes.
    head.plain("\",\"job_type\":\"").plain(context.job_type().as_str());
    head.plain("\",\"id\":").id(context.id());
    head.plain(",\"queue\":\"").plain(context.queue().as_str());
    head.plain("\",\"attempt\":").json(&context.attempt());
    head.plain(",\"max_attempts\":").json(&job.max_attempts.unwrap_or(max_attempts));
    head.plain(",\"timeout_ms\":").json(&u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
    head.plain(",\"created_ms\":").json(&job.created.as_ms());
    head.plain(",\"fence\":\"").entry(context.fence());
    head.plain("\",\"redelivered\":").json(&context.is_redelivered());
    head.plain(",\"encoding\":\"").plain(context.encoding().as_str()).plain("\"");
    if let Some(step) = context.step() {
        let kind = if context.is_once() { StepKind::Once } else { StepKind::Auto };
        head.plain(",\"step\":").json(step.as_str());
        head.plain(",\"step_kind\":\"").plain(kind.as_str()).plain("\"");
        head.results(context);
    }
    if let Some(traceparent) = attempt::traceparent(context) {
        head.plain(",\"traceparent\":").json(traceparent);
    }
    head.plain(",\"headers\":").headers(context);
    Body::of(payload, context.encoding()).append_to(line);
    line.extend_from_slice(b"}\n");
}

/// A job's line up to its payload, which is written piece by piece: a part of each job's cost.
struct Head<'a>(&'a mut Vec<u8>);

impl Head<'_> {
    fn plain(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    fn json(&mut self, value: &(impl Serialize + ?Sized)) -> &mut Self {
        serde_json::to_writer(&mut *self.0, value).expect("texts and numbers can be written as JSON");
        self
    }

    fn entry(&mut self, entry: EntryId) -> &mut Self {
        self.json(&entry.ms).plain("-").json(&entry.seq)
    }

    fn id(&mut self, id: &JobId) {
        match id.origin() {
            Some((entry, Lane::Normal)) => self.plain("\"").entry(entry).plain("\""),
            Some(_) | None => self.json(&id.to_string()),
        };
    }

    /// The results of the steps before this one. What is not JSON, which no worker writes, is left out.
    fn results(&mut self, context: &JobContext) {
        let mut before = ",\"results\":{";
        for (step, result) in context.results_before() {
            let Body::Json(json) = Body::of(result, Encoding::Json) else { continue };
            self.plain(before).json(step.as_str()).plain(":").0.extend_from_slice(&json);
            before = ",";
        }
        if before == "," {
            self.plain("}");
        }
    }

    /// If there are several headers of one name, the first one counts. A `tracestate` that breaks the standard is left out.
    fn headers(&mut self, context: &JobContext) {
        let mut headers = BTreeMap::new();
        for (name, value) in context.headers() {
            headers.entry(name).or_insert(value);
        }
        let state = headers.get(TraceState::HEADER).map(|state| TraceState::parse(state.as_bytes()));
        if state == Some(None) {
            headers.remove(TraceState::HEADER);
        }
        self.json(&headers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handlers::fixture::context;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn line_of(context: &JobContext, payload: &[u8], reference: u64, max_attempts: u32) -> Vec<u8> {
        let mut line = Vec::new();
        job(&mut line, (context, payload), (reference, max_attempts), Instant::now());
        line
    }

    #[test]
    fn a_job_is_one_line_with_its_facts() {
        let context = context(&[("id", "a"), ("attempt", "2"), ("h.tenant", "9"), ("h.tenant", "second")]);
        let line = line_of(&context, b"{\"a\":\n1}", 17, 5);
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        let read: Value = serde_json::from_slice(&line).unwrap();
        for (key, want) in [
            ("type", json!("job")),
            ("ref", json!("17")),
            ("id", json!("a")),
            ("job_type", json!("report")),
            ("queue", json!("mail")),
            ("attempt", json!(3)),
            ("max_attempts", json!(5)),
            ("encoding", json!("json")),
            ("headers", json!({"tenant": "9"})),
            ("payload", json!({"a": 1})),
        ] {
            assert_eq!(read[key], want, "{key}");
        }
        let left = read["timeout_ms"].as_u64().unwrap();
        assert!((1..=20_000).contains(&left), "{left}");
    }

    #[test]
    fn a_tracestate_that_breaks_the_standard_is_no_header() {
        let headers = |state: &str| {
            let line = line_of(&context(&[("h.tracestate", state), ("h.x", "1")]), b"{}", 1, 1);
            serde_json::from_slice::<Value>(&line).unwrap()["headers"].clone()
        };
        assert_eq!(headers("a=1"), json!({"tracestate": "a=1", "x": "1"}));
        assert_eq!(headers("a"), json!({"x": "1"}));
    }

    #[test]
    fn a_step_gets_the_results_of_the_steps_that_it_comes_after() {
        let context = context(&[("id", "a")]);
        let results =
            [("charge", "{\n\"receipt\": 18446744073709551616}"), ("other", "1"), ("odd", "not JSON")];
        let context = context.with_step_after("mail", &results, &["charge", "odd", "missing"]);
        let line = line_of(&context, b"{}", 1, 1);
        assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
        let text = String::from_utf8(line).unwrap();
        assert!(
            text.contains(
                r#""step":"mail","step_kind":"auto","results":{"charge":{ "receipt": 18446744073709551616}},"#
            ),
            "{text}"
        );
        let alone = context.with_step_after("mail", &results, &[]);
        assert!(!String::from_utf8(line_of(&alone, b"{}", 1, 1)).unwrap().contains("results"));
    }

    #[test]
    fn ids_and_fences_are_written_as_they_are_shown() {
        for context in [context(&[]), context(&[("id", "a\"b\"")])] {
            let read: Value = serde_json::from_slice(&line_of(&context, b"", 1, 1)).unwrap();
            assert_eq!(read["id"], json!(context.id().to_string()));
            assert_eq!(read["fence"], json!(context.fence().to_string()));
        }
        for lane in Lane::ALL {
            let (id, mut text) = (JobId::derived(EntryId::new(1700, 3), lane), Vec::new());
            Head(&mut text).id(&id);
            assert_eq!(text, json!(id.to_string()).to_string().into_bytes());
        }
    }

    #[test]
    fn the_worker_writes_one_line_each() {
        let mut asked = Vec::new();
        cancel(&mut asked, 17, "timeout");
        let hello = hello("php", &PoolConfig::new(["php"]).inflight(2).ahead(7));
        let read: Value = serde_json::from_slice(&hello).unwrap();
        assert_eq!(
            (&read["inflight"], &read["ahead"], &read["max_line"]),
            (&json!(2), &json!(7), &json!(16 << 20))
        );
        for line in [hello, asked] {
            assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
            assert!(serde_json::from_slice::<Value>(&line).is_ok());
        }
    }

    proptest! {
        #[test]
        fn any_payload_and_header_make_one_line_that_can_be_read(payload: Vec<u8>, header: String) {
            let line = line_of(&context(&[("h.x", &header)]), &payload, 1, 1);
            prop_assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
            let read: Value = serde_json::from_slice(&line).unwrap();
            prop_assert_eq!(&read["headers"]["x"], &json!(header));
        }
    }
}
