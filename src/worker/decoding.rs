//! Decodes the payloads of jobs that codecs have encoded, so that neither handlers nor middleware see a difference.

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::JobError;
use super::handler::JobContext;
use super::middleware::{Handled, Next};
use super::registry::ErasedMiddleware;
use crate::codecs::{Codec, Codecs, visible};
use crate::job::{Encoding, Envelope, JobSpec};
use crate::schema::blocking;

/// What a handler gets in place of the payload that its job has.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) payload: Bytes,
    pub(super) encoding: Encoding,
}

/// The outermost middleware of a fleet with codecs.
pub(super) struct Decoding(pub(super) Codecs);

impl ErasedMiddleware for Decoding {
    fn call<'a>(&'a self, context: &'a JobContext, next: Next<'a>) -> BoxFuture<'a, Handled> {
        Box::pin(async move {
            let Some(header) = context.header(Codec::HEADER) else { return next.run().await };
            let JobSpec { job_type, encoding, payload, .. } = context.job();
            let decoded = self.0.decode(job_type, header, *encoding, payload.clone()).await;
            // A key or an object may arrive with the next deployment, so no such job is dead at once.
            let (encoding, payload) =
                decoded.map_err(|error| JobError::retry(format!("CodecError: {error}")))?;
            let context = context.clone().decoded(Decoded { payload, encoding });
            next.with(&context).run().await
        })
    }
}

/// The payload that has to fit the schema of its type, and its encoding. An error says why nobody can look into it; `None` that its
/// attempt will find out.
pub(super) async fn to_check(
    codecs: Option<&Codecs>,
    job: &JobSpec,
    fields: &Envelope,
) -> Option<Result<(Encoding, Bytes), String>> {
    let header = fields.get(Codec::FIELD.as_bytes()).and_then(|header| std::str::from_utf8(header).ok());
    match (codecs, header) {
        (Some(codecs), Some(header)) => {
            codecs.decode(&job.job_type, header, job.encoding, job.payload.clone()).await.ok().map(Ok)
        }
        (_, Some(_)) => {
            let (fields, plain) = (fields.clone(), (job.encoding, job.payload.clone()));
            Some(blocking(usize::MAX, move || visible(&fields, MOST_CHECKED)).await.unwrap_or(Ok(plain)))
        }
        (_, None) => Some(Ok((job.encoding, job.payload.clone()))),
    }
}

/// The most bytes of a payload that was compressed, which a worker without codecs decompresses to check it.
const MOST_CHECKED: usize = 64 * 1024 * 1024;
