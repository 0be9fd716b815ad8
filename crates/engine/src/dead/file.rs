//! Filing jobs that ended elsewhere as dead letters: in another queue, or long ago, so that only the history still has them.

use fred::types::{Key, Value};
use ring::digest::{SHA256, digest};

use crate::attempt::args::{flatten, text};
use crate::attempt::bury::is_of_fleet;
use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::dead::letter::DeadLetters;
use crate::job::{
    DeadReason, EntryId, Envelope, Generation, JobId, JobSpec, JobType, Lane, Timestamp, fingerprint,
};
use crate::{Queue, bytes};

scripts! { FILE "file" }

/// The most letters that one script writes.
const MAX_LETTERS_PER_CALL: usize = 50;

/// The most bytes of fields that one script writes, unless a single letter has more.
const MAX_BYTES_PER_CALL: usize = 256 * 1024;

/// The most fields that one script writes, unless a single letter has more.
const MAX_FIELDS_PER_CALL: usize = 2000;

/// A job that ended elsewhere; see [`DeadLetters::file`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departed {
    /// Its id. If a job with this id is known, it is left alone.
    pub id: JobId,
    /// The life that ended; `None` if this queue never knew it.
    pub life: Option<Generation>,
    /// Its type.
    pub job_type: JobType,
    /// The lane to which a replay brings it.
    pub lane: Lane,
    /// Its fields, as an `XADD` of the job has them. What the fleet says about a job in its entry is left out, except for the states of
    /// its steps (`dead_steps`).
    pub fields: Envelope,
    /// Why it is dead.
    pub reason: DeadReason,
    /// The error that it ended with.
    pub error: String,
    /// How often it failed.
    pub attempts: u32,
    /// When it was created.
    pub created: Timestamp,
    /// When it ended.
    pub died: Timestamp,
    /// The group of its letter: up to 64 letters and digits. `None` for the group of its error.
    pub group: Option<String>,
}

/// What became of a job to be filed; see [`DeadLetters::file`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filed {
    /// It is this dead letter.
    As(EntryId),
    /// A job with its id is known: it waits, runs, is due later, or has ended here. Nothing was changed.
    Exists,
    /// It cannot be a dead letter, for this reason.
    Refused(String),
}

impl DeadLetters<'_> {
    /// Writes a dead letter for each of these jobs, in this order, and returns what became of them. A replay runs them as if they
    /// had died here. A job is filed once: if an answer is lost and the call is made again, the job exists.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
    /// use streamfleet::admin::{Departed, Filed};
    /// use streamfleet::job::{DeadReason, Envelope, Lane, Timestamp};
    ///
    /// let fields: [(&[u8], &[u8]); 2] = [(b"type", b"mail.send"), (b"payload", br#"{"to":"ann@example.com"}"#)];
    /// let died = Timestamp::from_ms(1_764_547_200_000).ok_or("no instant")?;
    /// let mail = Departed {
    ///     id: "old-queue-7".parse()?,
    ///     life: None,
    ///     job_type: "mail.send".parse()?,
    ///     lane: Lane::Normal,
    ///     fields: Envelope::new(fields.into_iter()),
    ///     reason: DeadReason::Exhausted,
    ///     error: "connection refused".to_owned(),
    ///     attempts: 3,
    ///     created: died,
    ///     died,
    ///     group: None,
    /// };
    /// if let [Filed::As(letter)] = queue.dead_letters().file(&[mail]).await?[..] {
    ///     println!("it is the dead letter {letter}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses. Jobs before the one that failed may have been filed.
    pub async fn file(self, departed: &[Departed]) -> Result<Vec<Filed>, Error> {
        let (mut filed, mut call) = (Vec::with_capacity(departed.len()), Call::of(self.queue));
        for job in departed {
            let letter = match letter_of(job) {
                Ok(letter) => letter,
                Err(why) => {
                    call.send(&mut filed).await?;
                    filed.push(Filed::Refused(why));
                    continue;
                }
            };
            if !call.has_room(&letter) {
                call.send(&mut filed).await?;
            }
            call.add(job, letter).await?;
        }
        call.send(&mut filed).await?;
        Ok(filed)
    }
}

/// A call of the script, with the letters that it is to write.
struct Call<'a> {
    queue: &'a Queue,
    keys: Vec<Key>,
    args: Vec<Value>,
    letters: usize,
    bytes: usize,
    fields: usize,
}

impl<'a> Call<'a> {
    fn of(queue: &'a Queue) -> Self {
        let keys = vec![queue.keys.dead.clone(), queue.keys.delayed.clone()];
        Self { queue, keys, args: Vec::new(), letters: 0, bytes: 0, fields: 0 }
    }

    fn has_room(&self, letter: &Envelope) -> bool {
        let is_within = self.letters < MAX_LETTERS_PER_CALL
            && self.bytes + letter.size().min(Envelope::LARGE_BYTES) <= MAX_BYTES_PER_CALL
            && self.fields + letter.len() <= MAX_FIELDS_PER_CALL;
        self.letters == 0 || is_within
    }

    async fn add(&mut self, job: &Departed, letter: Envelope) -> Result<(), Error> {
        let generation = generation_of(job);
        let new = self.queue.offload_large(letter, &generation).await?;
        let computed = || fingerprint(job.job_type.as_str(), job.reason, &job.error);
        self.args.extend(args![FILE;
            id = text(&job.id),
            generation = text(&generation),
            lane = job.lane.as_str(),
            job_type = job.job_type.as_str(),
            created_ms = job.created.as_ms().to_string(),
            died_ms = job.died.as_ms().to_string(),
            reason = job.reason.as_str(),
            error_text = bytes(job.error.as_bytes()),
            fingerprint = job.group.clone().unwrap_or_else(computed),
            count = (2 * new.envelope.len()).to_string(),
        ]);
        flatten(&new.envelope, &mut self.args);
        self.keys.extend([self.queue.keys.record(&job.id), new.offloaded]);
        self.letters += 1;
        self.bytes += new.envelope.size();
        self.fields += new.envelope.len();
        Ok(())
    }

    /// Sends what was added, and adds what became of it to `filed`. See `file.lua`.
    async fn send(&mut self, filed: &mut Vec<Filed>) -> Result<(), Error> {
        if self.letters == 0 {
            return Ok(());
        }
        let call = std::mem::replace(self, Self::of(self.queue));
        let answer = call.queue.run(&FILE, call.keys, call.args).await?;
        match &answer.rest[..] {
            [Value::Array(outcomes)] if outcomes.len() == call.letters => {
                for outcome in outcomes {
                    filed.push(read(outcome).ok_or_else(|| Error::contract("file", outcome))?);
                }
                Ok(())
            }
            _ => Err(Error::contract("file", answer)),
        }
    }
}

fn read(outcome: &Value) -> Option<Filed> {
    let outcome_text = decode::text(outcome);
    match outcome_text.strip_prefix('!') {
        Some(why) => Some(Filed::Refused(why.to_owned())),
        None if outcome_text.is_empty() => Some(Filed::Exists),
        None => outcome_text.parse().ok().map(Filed::As),
    }
}

/// The life that ended. One that this queue never knew is named by the id, so that filing the job again names it likewise.
fn generation_of(job: &Departed) -> Generation {
    let named = || {
        let digest = digest(&SHA256, job.id.to_string().as_bytes());
        let digits: String = digest.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("filed-{digits}").parse().expect("letters, digits and a hyphen are a valid token")
    };
    job.life.clone().unwrap_or_else(named)
}

/// The fields of a job's letter without its fingerprint and its group, which the script adds; or why it cannot be a letter.
fn letter_of(job: &Departed) -> Result<Envelope, String> {
    let is_replaced = |name: &[u8]| {
        let is_of_replay = matches!(name, b"replays" | b"replay_of" | b"offloaded" | b"trace_link");
        // A replay must know which steps are done.
        let is_of_letter = name.starts_with(b"dead_") && name != b"dead_steps";
        is_of_fleet(name) || is_of_replay || is_of_letter || matches!(name, b"id" | b"type")
    };
    let [id, lane] = [job.id.to_string(), job.lane.as_str().to_owned()];
    let [created, died] = [job.created, job.died].map(|instant| instant.as_ms().to_string());
    let (life, attempts) = (generation_of(job).to_string(), job.attempts.to_string());
    let own = job
        .fields
        .edited(is_replaced, &[(b"id", id.as_bytes()), (b"type", job.job_type.as_str().as_bytes())]);
    if own.len() > Envelope::MAX_FIELDS {
        return Err(format!("it has {} fields, but at most {} are allowed", own.len(), Envelope::MAX_FIELDS));
    }
    JobSpec::parse(&own, EntryId::new(job.created.as_ms(), 0), job.lane)
        .map_err(|malformed| malformed.to_string())?;
    let dead: [(&[u8], &[u8]); 8] = [
        (b"dead_reason", job.reason.as_str().as_bytes()),
        (b"dead_error", job.error.as_bytes()),
        (b"dead_attempts", attempts.as_bytes()),
        (b"dead_at_ms", died.as_bytes()),
        (b"dead_first_failed_ms", died.as_bytes()),
        (b"dead_created_ms", created.as_bytes()),
        (b"dead_origin", lane.as_bytes()),
        (b"dead_life", life.as_bytes()),
    ];
    Ok(own.edited(|_| false, &dead))
}
