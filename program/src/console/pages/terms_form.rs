//! The terms of a job as a form has them.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::Deserialize;
use streamfleet::job::{ChainedJob, Envelope, JobId, Timestamp, Tracking, format_duration};
use streamfleet::{Submission, SubmitError};

use super::form::Field;
use super::frame::Frame;
use super::terms::{Terms, When};
use crate::console::api::check_own_id;
use crate::console::problem::Problem;
use crate::times;

/// The terms, as somebody typed them. Empty texts are terms that nobody set.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TermsForm {
    id: String,
    /// A duration or an instant; empty for now.
    due: String,
    track: String,
    max_attempts: String,
    timeout: String,
    expires_at: String,
    on_success: String,
    on_failure: String,
    /// Jobs as JSON.
    then: String,
}

/// What the texts mean.
struct Read {
    id: Option<JobId>,
    when: Option<When>,
    max_attempts: Option<NonZeroU32>,
    timeout: Option<Duration>,
    expires_at: Option<Timestamp>,
    then: Option<Vec<ChainedJob>>,
}

/// A text, unless it is empty.
fn some(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.is_empty())
}

impl TermsForm {
    /// The terms of another job like one with these fields. It gets an id and a time of its own, and does not expire when that
    /// one does.
    pub(super) fn like(fields: &Envelope) -> Self {
        let mut form = Self::default();
        for (name, value) in Terms::fields(fields) {
            match name {
                "max_attempts" => form.max_attempts = value,
                "timeout_ms" => {
                    let time = value.parse().map(Duration::from_millis);
                    form.timeout = time.map(format_duration).unwrap_or_default();
                }
                "tracking" if value == "all" => "yes".clone_into(&mut form.track),
                "on_success" => form.on_success = value,
                "on_failure" => form.on_failure = value,
                "then" => form.then = value,
                _ => {}
            }
        }
        form
    }

    /// The fields of the form.
    pub(super) fn fields(&self, frame: &Frame) -> Vec<Field> {
        let line = |name, key: &str, value: &str| Field::line(frame, name, key).value(value);
        vec![
            line("due", "submit.due", &self.due).hint(frame, "act.due_hint"),
            line("id", "submit.id", &self.id).hint(frame, "submit.id_hint"),
            line("max_attempts", "submit.max_attempts", &self.max_attempts).hint(frame, "submit.of_type"),
            line("timeout", "submit.timeout", &self.timeout).hint(frame, "submit.of_type"),
            line("expires_at", "submit.expires_at", &self.expires_at).hint(frame, "submit.expires_hint"),
            line("on_success", "submit.on_success", &self.on_success),
            line("on_failure", "submit.on_failure", &self.on_failure),
            Field::area(frame, "then", "submit.then").value(&self.then).hint(frame, "submit.then_hint"),
            Field::check(frame, "track", "submit.track").value(if self.track.is_empty() {
                ""
            } else {
                "yes"
            }),
        ]
    }

    fn read(&self) -> Result<Read, Problem> {
        let wrong = |name: &str, why: String| Problem::field(format!("body.{name}"), why);
        let id = some(&self.id).map(str::parse::<JobId>).transpose();
        let id = id.map_err(|error| wrong("id", error.to_string()))?;
        if id.as_ref().is_some_and(|id| !id.is_own()) {
            return Err(wrong("id", "an id must not look like the id of a stream entry".to_owned()));
        }
        check_own_id(id.as_ref(), "body.id")?;
        let when = some(&self.due).map(|due| match times::duration(due) {
            Ok(delay) => Ok(When::In(delay)),
            Err(_) => times::instant(due).map(When::At),
        });
        let attempts = some(&self.max_attempts).map(str::parse::<NonZeroU32>).transpose();
        let then = some(&self.then).map(|text| ChainedJob::list(text.as_bytes())).transpose();
        Ok(Read {
            id,
            when: when.transpose().map_err(|why| wrong("due", why))?,
            max_attempts: attempts
                .map_err(|_| wrong("max_attempts", "expected a number of at least 1".to_owned()))?,
            timeout: some(&self.timeout)
                .map(times::duration)
                .transpose()
                .map_err(|why| wrong("timeout", why))?,
            expires_at: some(&self.expires_at)
                .map(times::instant)
                .transpose()
                .map_err(|why| wrong("expires_at", why))?,
            then: then.map_err(|error| wrong("then", error.to_string()))?,
        })
    }

    /// The terms for commands.
    pub(super) fn terms(&self) -> Result<Terms, Problem> {
        let Read { id, when, max_attempts, timeout, expires_at, then: _ } = self.read()?;
        let text = |text: &str| some(text).map(str::to_owned);
        let fields = [
            ("max_attempts", max_attempts.map(|attempts| attempts.to_string())),
            ("timeout_ms", timeout.map(|timeout| timeout.as_millis().to_string())),
            ("expires_at_ms", expires_at.map(|time| time.as_ms().to_string())),
            ("tracking", some(&self.track).map(|_| Tracking::All.as_str().to_owned())),
            ("on_success", text(&self.on_success)),
            ("on_failure", text(&self.on_failure)),
            ("then", text(&self.then)),
        ];
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
        Ok(Terms { id: id.map(|id| id.to_string()), when, fields: fields.collect() })
    }

    /// A submission with these terms. `refused` says what is wrong with one.
    pub(super) fn apply(
        &self,
        mut submission: Submission,
        refused: impl Fn(SubmitError) -> Problem,
    ) -> Result<Submission, Problem> {
        let Read { id, when, max_attempts, timeout, expires_at, then } = self.read()?;
        submission = id.into_iter().fold(submission, Submission::id);
        submission = match when {
            None => submission,
            Some(When::In(delay)) => submission.delay(delay),
            Some(When::At(time)) => submission.at(time),
        };
        submission = max_attempts.into_iter().fold(submission, Submission::max_attempts);
        submission = timeout.into_iter().fold(submission, Submission::timeout);
        submission = expires_at.into_iter().fold(submission, Submission::expires_at);
        if let Some(job_type) = some(&self.on_success) {
            submission = submission.on_success(job_type).map_err(&refused)?;
        }
        if let Some(job_type) = some(&self.on_failure) {
            submission = submission.on_failure(job_type).map_err(&refused)?;
        }
        if let Some(then) = then {
            submission = submission.then(&then).map_err(&refused)?;
        }
        Ok(if self.track.is_empty() { submission } else { submission.tracking(Tracking::All) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terms_of_a_job_come_back_as_they_were() {
        let fields: [(&[u8], &[u8]); 5] = [
            (b"type", b"mail.send"),
            (b"max_attempts", b"3"),
            (b"timeout_ms", b"90000"),
            (b"tracking", b"all"),
            (b"then", br#"[{"type":"b"}]"#),
        ];
        let terms = TermsForm::like(&Envelope::new(fields.into_iter())).terms().unwrap();
        let wire = terms.wire().into_iter().map(|(name, value)| format!("{name}={value}"));
        let wire: Vec<String> = wire.collect();
        assert_eq!(wire, ["max_attempts=3", "timeout_ms=90000", "tracking=all", r#"then=[{"type":"b"}]"#]);
    }

    #[test]
    fn a_wrong_term_is_named() {
        let wrong = |form: TermsForm| form.terms().unwrap_err().detail().to_owned();
        let form = TermsForm { max_attempts: "0".to_owned(), ..TermsForm::default() };
        assert!(wrong(form).contains("max_attempts"));
        let form = TermsForm { timeout: "soon".to_owned(), ..TermsForm::default() };
        assert!(wrong(form).contains("timeout"));
        let form = TermsForm { then: "{".to_owned(), ..TermsForm::default() };
        assert!(wrong(form).contains("then"));
        let form = TermsForm { id: "1-0".to_owned(), ..TermsForm::default() };
        assert!(wrong(form).contains("stream entry"));
        let form = TermsForm { id: format!("key-{}", "0f".repeat(20)), ..TermsForm::default() };
        assert!(wrong(form).contains("Idempotency-Key"));
    }
}
