//! Encodes the payloads of submissions, before anything is sent.

use bytes::Bytes;

use super::{Producer, Submission, SubmitError, UniqueMode};
use crate::codecs::{Codec, Codecs};
use crate::job::{Encoding, Envelope, JobId};

impl Producer {
    /// Compresses, encrypts or stores the payloads of all jobs apart. Give the same [`Codecs`] to their handlers. See the
    /// [example](Codecs).
    ///
    /// The payloads of jobs that [follow](Submission::then) stay as they are, and a payload is not encoded in place of another one.
    #[must_use]
    pub fn codecs(self, codecs: Codecs) -> Self {
        Self { codecs: Some(codecs), ..self }
    }

    /// Encodes the payloads of a batch.
    pub(super) async fn encode_payloads(&self, batch: &mut [Submission]) -> Result<(), SubmitError> {
        let Some(codecs) = &self.codecs else { return Ok(()) };
        for submission in batch {
            submission.encode(codecs).await?;
        }
        Ok(())
    }

    /// Refuses to replace the payload of a delayed job that was encoded: its header would not fit another one.
    pub(super) async fn check_replaceable(&self, job: &JobId) -> Result<(), SubmitError> {
        match self.queue.delayed().get(job).await? {
            Some(read) => check_plain(&read.fields),
            None => Ok(()),
        }
    }
}

/// Refuses another payload for a job with these fields, if its own was encoded.
pub(super) fn check_plain(fields: &Envelope) -> Result<(), SubmitError> {
    let Some(codec) = Codec::of(fields) else { return Ok(()) };
    let own = format!("that of the job has the header codec ({codec}), which would not fit another one");
    Err(SubmitError::Payload(format!("{own}: cancel the job, and submit it again")))
}

impl Submission {
    async fn encode(&mut self, codecs: &Codecs) -> Result<(), SubmitError> {
        let refused = |why: &str| Err(SubmitError::Payload(why.to_owned()));
        if self.last(Codec::FIELD).is_some() {
            return refused("the header codec belongs to codecs: leave it out, and encode a job once");
        }
        if self.unique.as_ref().is_some_and(|unique| unique.mode == UniqueMode::Debounce) {
            return refused(
                "a debounce replaces the payload of a job, and not its header: it does not work with codecs",
            );
        }
        let text = |value: &Bytes| String::from_utf8_lossy(value).into_owned();
        let named = self.last("encoding").map(text).and_then(|name| Encoding::parse(&name));
        let Ok(job_type) = self.last("type").map(text).unwrap_or_default().parse() else { return Ok(()) };
        let payload = self.last("payload").cloned().unwrap_or_default();
        let encoded = codecs.encode(&job_type, named.unwrap_or_default(), payload).await;
        let encoded = encoded.map_err(|error| SubmitError::Payload(error.to_string()))?;
        let Some((codec, payload)) = encoded else { return Ok(()) };
        let is_kept = |name: &Bytes| name != "payload" && name != "encoding";
        self.job.fields.retain(|(name, _)| is_kept(name));
        self.payload_bytes = payload.len();
        self.job.fields.push((Bytes::from_static(b"payload"), payload));
        self.job.fields.push((Bytes::from_static(b"encoding"), Bytes::from_static(b"raw")));
        self.job.fields.push((Bytes::from_static(Codec::FIELD.as_bytes()), codec.to_string().into()));
        self.bytes = self.job.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        Ok(())
    }

    /// Of several fields of one name, workers read the last.
    fn last(&self, field: &str) -> Option<&Bytes> {
        self.job.fields.iter().rev().find(|(name, _)| name == field).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::Keys;
    use crate::producer::UniqueScope;

    fn codecs() -> Codecs {
        Codecs::new().keys(Keys::new([("2026-11", [7; 32])]).unwrap())
    }

    fn names(submission: &Submission) -> Vec<String> {
        submission.job.fields.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect()
    }

    #[tokio::test]
    async fn a_payload_is_encoded_once_and_the_job_comes_back() {
        let mut submission =
            Submission::new("mail.send").unwrap().msgpack(&"ann").unwrap().header("tenant", "9").unwrap();
        submission.encode(&codecs()).await.unwrap();
        assert_eq!(names(&submission), ["type", "h.tenant", "payload", "encoding", "h.codec"]);
        let header = submission.last("h.codec").unwrap();
        assert_eq!(header, "msgpack aes-256-gcm;key=2026-11");
        let (text, payload) =
            (String::from_utf8_lossy(header).into_owned(), submission.last("payload").unwrap());
        let job_type = "mail.send".parse().unwrap();
        let back = codecs().decode(&job_type, &text, Encoding::Raw, payload.clone()).await.unwrap();
        assert_eq!(back, (Encoding::Msgpack, rmp_serde::to_vec_named(&"ann").unwrap().into()));
        assert_eq!(submission.payload_bytes(), payload.len());
        let again = submission.encode(&codecs()).await.unwrap_err().to_string();
        assert!(again.contains("encode a job once"), "{again}");
    }

    #[tokio::test]
    async fn a_debounce_is_refused() {
        let job = Submission::new("mail.send").unwrap();
        let mut job = job.unique("k".parse().unwrap(), UniqueScope::Waiting, UniqueMode::Debounce);
        let error = job.encode(&codecs()).await.unwrap_err().to_string();
        assert!(error.contains("does not work with codecs"), "{error}");
    }
}
