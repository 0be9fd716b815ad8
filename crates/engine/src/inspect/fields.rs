//! All fields of a job, wherever it is.

use crate::Queue;
use crate::client::error::Error;
use crate::inspect::status::Status;
use crate::job::Envelope;

impl Queue {
    /// Returns all fields of a job, as they are now, with its [`Status`]: from its entry, the delayed set, or its dead letter.
    /// `None` if the job has ended otherwise, or has moved since.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
    /// use streamfleet::job::JobId;
    ///
    /// let id: JobId = "invoice-17".parse()?;
    /// let Some(status) = queue.status(&id).await? else { return Ok(()) };
    /// let fields = queue.fields(&status).await?.unwrap_or_default();
    /// let payload = fields.get(b"payload").unwrap_or_default();
    /// println!("{id} has a payload of {} bytes", payload.len());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn fields(&self, status: &Status) -> Result<Option<Envelope>, Error> {
        if let Some(entry) = status.entry {
            return self.whole_entry(status.stream, status.waitlist.as_deref(), entry).await;
        }
        if status.due.is_some() {
            let (parked, _) = self.location(&status.id).await?;
            let Some((mut fields, _)) = parked else { return Ok(None) };
            self.restore_fields(&self.link, &mut fields).await?;
            return Ok(Some(fields));
        }
        let Some(letter) = status.dead else { return Ok(None) };
        Ok(self.dead_letters().get(letter).await?.map(|letter| letter.fields))
    }
}
