//! The terms of a job: its id, when it runs, how often and how long, and what follows. Each way to submit a job names them in its
//! own words.

use std::time::Duration;

use serde_json::Value;
use streamfleet::job::{Envelope, State, Timestamp};
use streamfleet_engine::admin::Status;

use crate::times::rfc3339;

/// The fields of the wire contract that are terms, but the id and the time.
const FIELDS: [&str; 8] =
    ["max_attempts", "timeout_ms", "expires_at_ms", "tracking", "on_success", "on_failure", "then", "batch"];

/// When a job runs.
#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    At(Timestamp),
    In(Duration),
}

/// The terms of a job.
#[derive(Debug, Clone, Default)]
pub(super) struct Terms {
    pub(super) id: Option<String>,
    /// `None` for now.
    pub(super) when: Option<When>,
    /// Fields of the wire contract, with their values.
    pub(super) fields: Vec<(&'static str, String)>,
}

impl Terms {
    /// The terms of a job with these fields.
    pub(super) fn of(status: &Status, fields: &Envelope) -> Self {
        let due = status.due.filter(|_| status.state == State::Scheduled);
        let id = Some(status.id.to_string()).filter(|_| status.id.is_own());
        Self { id, when: due.map(When::At), fields: Self::fields(fields) }
    }

    /// The fields of an envelope that are terms.
    pub(super) fn fields(fields: &Envelope) -> Vec<(&'static str, String)> {
        let value = |name: &'static str| {
            let value = std::str::from_utf8(fields.get(name.as_bytes())?).ok()?;
            Some((name, value.to_owned()))
        };
        FIELDS.into_iter().filter_map(value).collect()
    }

    /// The fields of an entry.
    pub(super) fn wire(&self) -> Vec<(String, String)> {
        let when = self.when.map(|when| match when {
            When::At(time) => ("run_at_ms", time.as_ms().to_string()),
            When::In(delay) => ("delay_ms", delay.as_millis().to_string()),
        });
        let id = self.id.clone().map(|id| ("id", id));
        let all = id.into_iter().chain(when).chain(self.fields.iter().cloned());
        all.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The options of the command line, with their values; `None` if it has none for one of the terms.
    pub(super) fn options(&self) -> Option<Vec<(&'static str, String)>> {
        let when = self.when.map(|when| match when {
            When::At(time) => ("--at", rfc3339(time)),
            When::In(delay) => ("--delay", format!("{}ms", delay.as_millis())),
        });
        let mut options: Vec<_> = self.id.clone().map(|id| ("--id", id)).into_iter().chain(when).collect();
        for (name, value) in &self.fields {
            options.push(match *name {
                "max_attempts" => ("--max-attempts", number(value)?.to_string()),
                "timeout_ms" => ("--timeout", format!("{}ms", number(value)?)),
                "expires_at_ms" => ("--expires-at", rfc3339(Timestamp::from_ms(number(value)?)?)),
                "tracking" if value == "all" => ("--track", String::new()),
                "on_success" => ("--on-success", value.clone()),
                "on_failure" => ("--on-failure", value.clone()),
                "then" => ("--then", value.clone()),
                _ => return None,
            });
        }
        Some(options)
    }

    /// The members of a body for the API; `None` if it has none for one of the terms.
    pub(super) fn members(&self) -> Option<Vec<(&'static str, Value)>> {
        let when = self.when.map(|when| match when {
            When::At(time) => ("at", Value::from(rfc3339(time))),
            When::In(delay) => ("delay", Value::from(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX))),
        });
        let id = self.id.clone().map(|id| ("id", Value::from(id)));
        let mut members: Vec<_> = id.into_iter().chain(when).collect();
        for (name, value) in &self.fields {
            members.push(match *name {
                "max_attempts" => ("max_attempts", number(value)?.into()),
                "timeout_ms" => ("timeout", number(value)?.into()),
                "expires_at_ms" => ("expires_at", rfc3339(Timestamp::from_ms(number(value)?)?).into()),
                "tracking" if value == "all" => ("track", true.into()),
                "on_success" => ("on_success", value.as_str().into()),
                "on_failure" => ("on_failure", value.as_str().into()),
                "then" => ("then", serde_json::from_str(value).ok()?),
                _ => return None,
            });
        }
        Some(members)
    }
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn terms(fields: &[(&'static str, &str)]) -> Terms {
        let fields = fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Terms { id: Some("order-7".to_owned()), when: Timestamp::from_ms(1000).map(When::At), fields }
    }

    #[test]
    fn every_way_to_submit_a_job_has_all_its_terms() {
        let chain = r#"[{"type":"b"}]"#;
        let terms = terms(&[
            ("max_attempts", "3"),
            ("timeout_ms", "1500"),
            ("expires_at_ms", "2000"),
            ("tracking", "all"),
            ("on_success", "c"),
            ("on_failure", "d"),
            ("then", chain),
        ]);
        let wire: Vec<(String, String)> = terms.wire();
        let names: Vec<&str> = wire.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names[..2], ["id", "run_at_ms"]);
        assert_eq!(names[2..], FIELDS[..7]);
        let options = terms.options().unwrap();
        assert_eq!(options.len(), wire.len());
        assert!(options.contains(&("--timeout", "1500ms".to_owned())), "{options:?}");
        assert!(options.contains(&("--expires-at", "1970-01-01T00:00:02.000Z".to_owned())), "{options:?}");
        let members = terms.members().unwrap();
        assert_eq!(members.len(), wire.len());
        assert!(members.contains(&("then", json!([{"type": "b"}]))), "{members:?}");
    }

    #[test]
    fn a_way_that_lacks_a_term_is_not_offered() {
        for (name, value) in
            [("batch", "b-1"), ("tracking", "none"), ("timeout_ms", "soon"), ("expires_at_ms", "-1")]
        {
            let terms = terms(&[(name, value)]);
            assert!(terms.options().is_none() && terms.members().is_none(), "{name}");
            assert!(terms.wire().contains(&(name.to_owned(), value.to_owned())), "{name}");
        }
    }
}
