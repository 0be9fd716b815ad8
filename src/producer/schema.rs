//! Checks the payloads of submissions against the schemas of their types, before anything is sent.

use bytes::Bytes;

use super::{Producer, Submission, SubmitError};
use crate::broker::{DelayedEdit, DelayedJob};
use crate::job::{ChainedJob, Encoding, JobId, JobType};
use crate::schema::{Schemas, blocking};

/// A payload whose type has a schema.
#[derive(Clone)]
struct Candidate {
    schemas: Schemas,
    job_type: JobType,
    /// The id of its job, if it has one of its own.
    job: Option<JobId>,
    payload: Bytes,
    encoding: Encoding,
}

impl Candidate {
    fn check(&self) -> Result<(), SubmitError> {
        let Self { job_type, job, .. } = self.clone();
        let checked = self.schemas.check(&self.job_type, &self.payload, self.encoding);
        checked.map_err(|invalid| SubmitError::InvalidPayload { job_type, job, invalid })
    }
}

impl Producer {
    /// Refuses jobs whose payload does not fit the schema of its type, also where it replaces that of a delayed job, or is
    /// that of a job that follows another one. Other types take any payload. See the
    /// [example](crate::schema::Schemas).
    #[must_use]
    pub fn schemas(self, schemas: Schemas) -> Self {
        Self { schemas, ..self }
    }
}

impl Submission {
    /// Refuses a payload that does not fit the schema of the job's type, and the payloads of the jobs that
    /// [follow](Submission::then). [`Producer::schemas`] makes the same check before anything is sent. A large payload takes a
    /// while.
    ///
    /// # Errors
    ///
    /// [`SubmitError::InvalidPayload`].
    pub fn fits_schema(&self, schemas: &Schemas) -> Result<(), SubmitError> {
        self.candidates(schemas).iter().try_for_each(Candidate::check)
    }
}

impl Producer {
    /// Returns the error of the first payload that does not fit the schema of its type.
    pub(super) async fn check_payloads(&self, batch: &[Submission]) -> Result<(), SubmitError> {
        if self.schemas.is_empty() {
            return Ok(());
        }
        check(batch.iter().flat_map(|submission| submission.candidates(&self.schemas)).collect()).await
    }

    /// Checks a payload that replaces that of a delayed job. Returns false if there is no such job.
    pub(super) async fn check_new_payload(
        &self,
        job: &JobId,
        payload: &Bytes,
        encoding: Encoding,
    ) -> Result<bool, SubmitError> {
        if self.schemas.is_empty() {
            return Ok(true);
        }
        let Some(job_type) = self.queue.delayed_type(job).await? else { return Ok(false) };
        self.check_payload_of(job, job_type, (payload, encoding)).await.map(|()| true)
    }

    /// Checks the payload of a change, if it has one, against the type that the job had when it was read.
    pub(super) async fn check_amended(
        &self,
        read: &DelayedJob,
        edit: &DelayedEdit,
    ) -> Result<(), SubmitError> {
        let Some((payload, encoding)) = &edit.payload else { return Ok(()) };
        let name = read.fields.get(b"type").and_then(|name| std::str::from_utf8(name).ok());
        // A name that is no type has no schema.
        let Some(Ok(job_type)) = name.map(str::parse::<JobType>) else { return Ok(()) };
        self.check_payload_of(&read.id, job_type, (payload, *encoding)).await
    }

    async fn check_payload_of(
        &self,
        job: &JobId,
        job_type: JobType,
        (payload, encoding): (&Bytes, Encoding),
    ) -> Result<(), SubmitError> {
        if !self.schemas.has(&job_type) {
            return Ok(());
        }
        let (schemas, job, payload) = (self.schemas.clone(), Some(job.clone()), payload.clone());
        check(vec![Candidate { schemas, job_type, job, payload, encoding }]).await
    }
}

impl Submission {
    /// Returns its payload, and those of the jobs that follow it, if their types have schemas.
    fn candidates(&self, schemas: &Schemas) -> Vec<Candidate> {
        // Of several fields of one name, workers read the last.
        let field = |name: &str| {
            let found = self.job.fields.iter().rev().find(|(known, _)| known == name);
            found.map(|(_, value)| value)
        };
        let text = |name: &str| field(name).and_then(|value| std::str::from_utf8(value).ok());
        let candidate = |name: &str, payload: Bytes, encoding: Encoding| {
            let job_type: JobType = name.parse().ok()?;
            let (schemas, job) = (schemas.clone(), self.id.clone());
            schemas.has(&job_type).then_some(Candidate { schemas, job_type, job, payload, encoding })
        };
        let encoding = text("encoding").and_then(Encoding::parse).unwrap_or_default();
        let payload = field("payload").cloned().unwrap_or_default();
        let own = text("type").and_then(|name| candidate(name, payload, encoding));
        let links = field("then").and_then(|then| ChainedJob::list(then).ok()).unwrap_or_default();
        // One without a payload gets the facts about the job before it, which nobody knows yet.
        let following = links.iter().filter_map(|link| {
            let (name, payload) = link.parts();
            candidate(name, Bytes::copy_from_slice(payload?.as_bytes()), Encoding::Json)
        });
        own.into_iter().chain(following).collect()
    }
}

/// Returns the error of the first payload that does not fit.
async fn check(candidates: Vec<Candidate>) -> Result<(), SubmitError> {
    let bytes = candidates.iter().map(|candidate| candidate.payload.len()).sum();
    let first_error = move || candidates.iter().try_for_each(Candidate::check);
    blocking(bytes, first_error).await
}

#[cfg(test)]
#[cfg(feature = "schema")]
mod tests {
    use super::*;
    use crate::schema::Schema;

    fn schemas() -> Schemas {
        let schema =
            Schema::parse(br#"{"required": ["to"], "properties": {"to": {"type": "string"}}}"#).unwrap();
        Schemas::default().with("mail.send", schema).unwrap()
    }

    fn mail() -> Submission {
        Submission::new("mail.send").unwrap()
    }

    fn refused(submission: &Submission) -> String {
        submission.fits_schema(&schemas()).unwrap_err().to_string()
    }

    #[test]
    fn only_types_with_a_schema_are_checked() {
        let good = mail().json(&serde_json::json!({"to": "ann"})).unwrap();
        assert!(good.fits_schema(&schemas()).is_ok());
        let other = Submission::new("report").unwrap().payload("{", Encoding::Json).unwrap();
        assert!(other.fits_schema(&schemas()).is_ok());
        assert!(mail().fits_schema(&Schemas::default()).is_ok());
    }

    #[test]
    fn the_refusal_names_the_type_the_job_and_the_field() {
        let bad = mail().msgpack(&serde_json::json!({"to": 1})).unwrap();
        let wrong = r#"does not fit the schema of mail.send: /to: 1 is not of type "string""#;
        assert_eq!(refused(&bad), format!("the payload {wrong}"));
        let named = refused(&bad.id("order-7".parse().unwrap()));
        assert_eq!(named, format!("the payload of the job order-7 {wrong}"));
        assert!(refused(&mail().payload("{}", Encoding::Raw).unwrap()).contains("encoding is raw"));
    }

    #[test]
    fn the_payload_that_counts_and_those_of_following_jobs_are_checked() {
        let twice = mail().payload("{}", Encoding::Json).unwrap().payload(r#"{"to":"a"}"#, Encoding::Json);
        assert!(twice.unwrap().fits_schema(&schemas()).is_ok());
        let report = || Submission::new("report").unwrap();
        let link = |payload: Option<&str>| {
            ChainedJob::new(&"mail.send".parse().unwrap(), payload.map(str::to_owned)).unwrap()
        };
        let good = report().then(&[link(Some(r#"{"to":"ann"}"#)), link(None)]).unwrap();
        assert!(good.fits_schema(&schemas()).is_ok());
        assert!(refused(&report().then(&[link(Some("{}"))]).unwrap()).contains("/to: is required"));
    }
}
