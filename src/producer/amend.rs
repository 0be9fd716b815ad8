//! Changing a job that is in the delayed set, because it was submitted for later or waits for its retry.

use std::time::Duration;

use bytes::Bytes;

use super::codecs::check_plain;
use super::{Producer, SubmitError};
use crate::broker::{Amended, DelayedEdit, DelayedJob, Due};
use crate::job::{Encoding, JobId, Timestamp};

impl Producer {
    /// Changes when a delayed job or a retry is due. Its attempts stay counted.
    ///
    /// Returns when it is due now, or `None` if it is not in the delayed set.
    ///
    /// ```no_run
    /// # async fn example(producer: streamfleet::Producer) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// use streamfleet_engine::admin::Due;
    /// use streamfleet::job::JobId;
    ///
    /// let reminder: JobId = "reminder-17".parse()?;
    /// if producer.reschedule(&reminder, Due::In(Duration::from_secs(3600))).await?.is_none() {
    ///     println!("it is too late to change it");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`SubmitError::Broker`] if Redis refuses or does not answer. It is safe to send again.
    pub async fn reschedule(&self, job: &JobId, due: Due) -> Result<Option<Timestamp>, SubmitError> {
        Ok(self.queue.reschedule(job, due).await?)
    }

    /// Makes a delayed job due at once. Returns `None` if it is not in the delayed set.
    ///
    /// # Errors
    ///
    /// The errors of [`Producer::reschedule`].
    pub async fn run_now(&self, job: &JobId) -> Result<Option<Timestamp>, SubmitError> {
        self.reschedule(job, Due::In(Duration::ZERO)).await
    }

    /// Replaces the payload of a delayed job or a retry. All its other fields stay as they are.
    ///
    /// Returns when it is due, or `None` if it is not in the delayed set.
    ///
    /// # Errors
    ///
    /// [`SubmitError::TooLarge`] before anything is sent, [`SubmitError::InvalidPayload`] if the job's type has a schema that the
    /// payload does not fit, [`SubmitError::Payload`] if the present payload was encoded by codecs; otherwise as
    /// [`Producer::reschedule`].
    pub async fn edit(
        &self,
        job: &JobId,
        payload: impl Into<Bytes>,
        encoding: Encoding,
    ) -> Result<Option<Timestamp>, SubmitError> {
        let payload = payload.into();
        if payload.len() > self.max_payload {
            return Err(SubmitError::TooLarge { bytes: payload.len(), limit: self.max_payload });
        }
        self.check_replaceable(job).await?;
        if !self.check_new_payload(job, &payload, encoding).await? {
            return Ok(None);
        }
        Ok(self.queue.replace_payload(job, &payload, encoding).await?)
    }

    /// Changes when a delayed job or a retry is due, or its payload, or both in one step, if nobody has changed it since it was
    /// read. All its other fields stay as they are.
    ///
    /// ```no_run
    /// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// use streamfleet::Producer;
    /// use streamfleet_engine::admin::{Amended, DelayedEdit, Due};
    ///
    /// let Some(read) = queue.delayed().get(&"reminder-17".parse()?).await? else { return Ok(()) };
    /// let edit = DelayedEdit::default().due(Due::In(Duration::from_secs(3600)));
    /// match Producer::new(queue).amend(&read, &edit).await? {
    ///     Amended::Done(due) => println!("due in {:?}", due.since(read.due)),
    ///     Amended::Gone => println!("it is too late to change it"),
    ///     Amended::Changed => println!("somebody else changed it: read it again"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Producer::edit`].
    pub async fn amend(&self, read: &DelayedJob, edit: &DelayedEdit) -> Result<Amended, SubmitError> {
        if let Some((payload, _)) = &edit.payload
            && payload.len() > self.max_payload
        {
            return Err(SubmitError::TooLarge { bytes: payload.len(), limit: self.max_payload });
        }
        if edit.payload.is_some() {
            check_plain(&read.fields)?;
        }
        self.check_amended(read, edit).await?;
        Ok(self.queue.amend_as_read(read, edit).await?)
    }
}
