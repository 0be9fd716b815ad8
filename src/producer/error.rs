//! Why a job was not submitted.

use super::MAX_PAYLOAD_BYTES;
use crate::broker;
use crate::job::{InvalidName, JobId};

/// Why a job was not submitted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The payload cannot be written in its encoding.
    #[error("the payload cannot be encoded: {0}")]
    Payload(String),
    /// The payload is too large.
    #[error("the payload has {bytes} bytes, but at most {MAX_PAYLOAD_BYTES} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// A header's name or value is not usable.
    #[error("the header {0:?} is refused: a name has 1 to 128 bytes, a value at most 8192")]
    Header(String),
    /// A name is not valid.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// A job of this id waits in the delayed set. It stays as it is; the others of its batch were accepted.
    #[error("a job with the id {id} is scheduled already; it was left as it is")]
    AlreadyScheduled {
        /// The id.
        id: JobId,
    },
    /// Too many jobs follow each other.
    #[error("{links} jobs shall follow one after the other, but at most {} may", crate::job::Ties::MAX_CHAIN)]
    Chain {
        /// How many.
        links: usize,
    },
    /// A batch does not take these jobs.
    #[error("the batch {batch} is refused: {why}")]
    Batch {
        /// The batch.
        batch: crate::job::BatchId,
        /// Why.
        why: &'static str,
    },
    /// Redis refused, or did not answer. After [`broker::Error::Unknown`] the job may have been accepted.
    #[error(transparent)]
    Broker(#[from] broker::Error),
}
