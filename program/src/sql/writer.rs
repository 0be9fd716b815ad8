//! Writes the journal of one queue to the database. An end is deleted from the journal only after the database has committed it, and the
//! database takes it only once, so it may be written twice, by two processes even.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use streamfleet::chore::Chore;
use streamfleet::event::Events;
use streamfleet::job::EntryId;
use streamfleet::{Broker, Queue, RedisError};
use streamfleet_engine::job::doubled;
use streamfleet_engine::{EndedJob, JournalFields, MAX_ENDS};
use streamfleet_service::config::{HistorySection, Payloads};
use streamfleet_sql::history::{Day, Ended, Poison, partitions, write};
use streamfleet_sql::{Error, LazyDatabase};
use tokio_util::sync::CancellationToken;

use super::ended::row;
use super::journal_report::Report;
use super::spill::{self, Spill};
use super::worker_versions::WorkerVersions;
use crate::output::counted;

/// How often an empty journal is read.
const POLL: Duration = Duration::from_millis(500);

/// How long the lease lasts without renewal. A statement may take longer: then another process writes the same, which changes nothing.
const LEASE: Duration = Duration::from_secs(5);

/// How often Redis is told that the queue has a journal, and how large it may be.
const KEEP: Duration = Duration::from_secs(60);

/// How often partitions are made and dropped, and how soon again after an error.
const UPKEEP: Duration = Duration::from_secs(3600);
const UPKEEP_AFTER_ERROR: Duration = Duration::from_secs(60);

/// A page of the journal that has this many bytes is followed by another one at once.
const FULL_BYTES: usize = 1 << 20;

/// The pauses after an error of the database.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// Writes one queue's journal.
pub(super) struct Writer {
    pub(super) broker: Broker,
    pub(super) queue: Queue,
    /// The writers of a process share it.
    pub(super) database: Arc<LazyDatabase>,
    pub(super) config: Arc<HistorySection>,
    /// What tells this process apart.
    pub(super) own: String,
    pub(super) events: Events,
}

/// What a turn has led to.
enum Turn {
    /// There may be more.
    More,
    /// Everything is written.
    Idle,
    /// The database did not take it.
    Failed(Error),
}

impl Writer {
    /// Writes while this process has the lease, until it is stopped.
    pub(super) async fn run(self, stop: CancellationToken) {
        let mut chore = Chore::every(POLL, &self.events, &stop);
        let mut writing = Writing::new(&self);
        let mut kept: Option<Instant> = None;
        while chore.tick().await {
            if kept.is_none_or(|at| at.elapsed() >= KEEP) && chore.note(self.keep().await).is_some() {
                kept = Some(Instant::now());
            }
            let is_writer = chore.note(self.queue.lead_journal(&self.own, LEASE).await) == Some(true);
            chore.note(writing.look(is_writer).await);
            if !is_writer {
                chore.next_about(LEASE / 5);
                continue;
            }
            if writing.is_waiting() {
                // The database may be away for long, and the journal fills up in a moment.
                writing.make_room().await;
                continue;
            }
            match chore.note(writing.turn().await) {
                Some(Turn::More) => chore.next_in(Duration::ZERO),
                Some(Turn::Idle) | None => {}
                Some(Turn::Failed(error)) => {
                    writing.failed(&error).await;
                    chore.note(writing.report.note(Some(error.to_string())).await);
                }
            }
        }
        if let Err(error) = self.queue.lead_journal(&self.own, Duration::ZERO).await {
            tracing::debug!(%error, "failed to release the lease of the history's writer; it will expire");
        }
    }

    async fn keep(&self) -> Result<(), RedisError> {
        let fields = match self.config.payloads {
            _ if !self.config.keys.is_empty() => JournalFields::All,
            Payloads::None => JournalFields::None,
            Payloads::Failed => JournalFields::Failed,
            Payloads::All => JournalFields::All,
        };
        self.queue.keep_journal(self.config.journal_size, fields).await
    }
}

/// The state of a writer.
struct Writing<'a> {
    writer: &'a Writer,
    report: Report<'a>,
    versions: WorkerVersions,
    spill: Option<Spill>,
    /// Whether there may be files that the database does not have. An earlier process may have left some.
    has_spilled: bool,
    /// Up to where this pass through the journal has come.
    after: Option<EntryId>,
    /// Ends that the database refuses. They stay in the journal, and the next process tries them again.
    refused: HashSet<EntryId>,
    /// When partitions are made and dropped again.
    upkeep_at: Instant,
    /// How often in a row the database has failed, and when it is tried again.
    failures: u32,
    retry_at: Option<Instant>,
    /// Whether the last spill failed, which has been reported.
    cannot_spill: bool,
    /// What is wrong with the partitions, if anything is.
    misplaced: Option<String>,
}

impl<'a> Writing<'a> {
    fn new(writer: &'a Writer) -> Self {
        let folder = writer.config.spill.clone();
        let spill = folder.map(|folder| Spill::new(folder, writer.queue.name().clone()));
        Self {
            writer,
            report: Report::new(&writer.queue, &writer.events),
            versions: WorkerVersions::default(),
            has_spilled: spill.is_some(),
            spill,
            after: None,
            refused: HashSet::new(),
            upkeep_at: Instant::now(),
            failures: 0,
            retry_at: None,
            cannot_spill: false,
            misplaced: None,
        }
    }

    async fn look(&mut self, is_writer: bool) -> Result<(), RedisError> {
        self.report.look(self.spill.as_ref(), is_writer).await
    }

    /// Writes one page of the journal.
    async fn turn(&mut self) -> Result<Turn, RedisError> {
        let Writer { queue, .. } = self.writer;
        // First, so that rows find their partitions. A journal may never be empty.
        self.keep_up().await;
        let mut ends = queue.read_journal(self.after).await?;
        let Some(last) = ends.last().map(|end| end.entry) else {
            self.after = None;
            let unloaded = self.load_spilled().await;
            self.note(unloaded).await?;
            return Ok(Turn::Idle);
        };
        let bytes: usize = ends.iter().map(bytes_of).sum();
        let is_full = ends.len() >= MAX_ENDS / 2 || bytes >= FULL_BYTES;
        ends.retain(|end| !self.refused.contains(&end.entry));
        let refused = match self.write(&ends).await? {
            Ok(refused) => refused,
            Err(error) => return Ok(Turn::Failed(error)),
        };
        self.succeeded();
        ends.retain(|end| !refused.contains(&end.entry));
        queue.forget_ends(&ends).await?;
        self.refused.extend(refused);
        self.after = Some(last);
        let unloaded = if is_full { None } else { self.load_spilled().await };
        self.note(unloaded).await?;
        Ok(if is_full { Turn::More } else { Turn::Idle })
    }

    /// Tells Redis what is wrong, if anything is, beginning with why files cannot be written.
    async fn note(&mut self, unloaded: Option<String>) -> Result<(), RedisError> {
        let why = unloaded.or_else(|| self.refusal()).or_else(|| self.misplaced.clone());
        self.report.note(why).await
    }

    /// Writes ends. Returns those that the database refuses, whatever is done.
    async fn write(&mut self, ends: &[EndedJob]) -> Result<Result<Vec<EntryId>, Error>, RedisError> {
        let Writer { broker, queue, config, .. } = self.writer;
        if ends.is_empty() {
            return Ok(Ok(Vec::new()));
        }
        let database = match self.writer.database.get().await {
            Ok(database) => database,
            Err(error) => return Ok(Err(error)),
        };
        self.versions.learn(broker, ends.iter().map(|end| end.worker.as_str())).await?;
        let rows: Vec<_> =
            ends.iter().map(|end| (end.entry, row(queue.name(), end, config, &self.versions))).collect();
        let (entries, rows): (Vec<EntryId>, Vec<Ended>) =
            rows.into_iter().filter_map(|(entry, row)| Some((entry, row?))).unzip();
        let written = match write(database, &rows).await {
            Ok(written) => written,
            Err(error) => return Ok(Err(error)),
        };
        self.report.written(rows.len() - written.poison.len());
        let refused = written.poison.iter().map(|poison| {
            let Poison { at, error, .. } = poison;
            self.report.failed(error);
            tracing::error!(queue = %queue.name(), job = %rows[*at].id, %error, "the database refuses a job of the history");
            entries[*at]
        });
        Ok(Ok(refused.collect()))
    }

    fn succeeded(&mut self) {
        if self.failures > 0 {
            tracing::info!(queue = %self.writer.queue.name(), "the history is written again");
            self.failures = 0;
        }
    }

    /// Why the database does not have all that the journal had. What it says about a row may quote that, so only the log has it.
    fn refusal(&self) -> Option<String> {
        let refused = self.refused.len();
        (refused > 0).then(|| {
            format!(
                "the database refuses {}: the log of this process says why",
                counted(refused as u64, "end", "ends")
            )
        })
    }

    /// Reports an error of the database, and decides when to try again.
    async fn failed(&mut self, error: &Error) {
        self.report.failed(error);
        if self.failures == 0 {
            let name = self.writer.queue.name();
            tracing::error!(queue = %name, %error, "the history cannot be written; its journal grows");
        }
        let [first, longest] = PAUSES;
        let pause = doubled(first, self.failures, longest);
        self.failures = self.failures.saturating_add(1);
        (self.after, self.retry_at) = (None, Some(Instant::now() + pause));
        self.make_room().await;
    }

    /// Whether the database has failed, and is not tried again yet.
    fn is_waiting(&self) -> bool {
        self.retry_at.is_some_and(|at| Instant::now() < at)
    }

    /// Spills what the journal has if it is half full.
    async fn make_room(&mut self) {
        let spilled = self.spill().await;
        if let (Err(error), false) = (&spilled, self.cannot_spill) {
            let name = self.writer.queue.name();
            tracing::error!(queue = %name, %error, "the journal of the history is half full, and cannot be spilled");
        }
        self.cannot_spill = spilled.is_err();
    }

    /// Moves the oldest half of a journal that is half full to a file.
    async fn spill(&mut self) -> io::Result<()> {
        let (Some(spill), queue) = (&self.spill, &self.writer.queue) else { return Ok(()) };
        let mut moved = 0_u64;
        while queue.journal_figures().await.map_err(io::Error::other)?.bytes
            > self.writer.config.journal_size / 2
        {
            let ends = queue.read_journal(None).await.map_err(io::Error::other)?;
            if ends.is_empty() {
                break;
            }
            spill.append(&ends).await?;
            self.has_spilled = true;
            queue.forget_ends(&ends).await.map_err(io::Error::other)?;
            moved += ends.len() as u64;
        }
        if moved > 0 {
            tracing::warn!(queue = %queue.name(), moved, "ends of the history were moved to files, because the journal was half full");
        }
        Ok(())
    }

    /// Writes what was spilled. What fails is tried again later. Returns why the files cannot be written.
    async fn load_spilled(&mut self) -> Option<String> {
        if !self.has_spilled {
            return None;
        }
        let error = match self.load().await {
            Ok(()) => {
                self.has_spilled = false;
                return None;
            }
            Err(error) => error,
        };
        let name = self.writer.queue.name();
        tracing::warn!(queue = %name, %error, "files of the history cannot be written to the database yet");
        self.report.failed(&error);
        Some(error.to_string())
    }

    /// Makes and drops partitions now and then. They are made a week ahead, so somebody has days to repair what keeps them from being made,
    /// until rows go to the catch-all.
    async fn keep_up(&mut self) {
        if Instant::now() < self.upkeep_at {
            return;
        }
        let (pause, misplaced) = match self.keep_partitions().await {
            Ok((true, misplaced)) => (Duration::ZERO, misplaced),
            Ok((false, misplaced)) => (UPKEEP, misplaced),
            Err(error) => {
                self.report.failed(&error);
                let why = format!("the partitions of the history cannot be kept: {error}");
                tracing::warn!(why, "trying again in a minute");
                (UPKEEP_AFTER_ERROR, Some(why))
            }
        };
        self.misplaced = misplaced;
        self.upkeep_at = Instant::now() + pause;
    }

    /// Returns whether more is too old than one call removes, and what is wrong with the catch-all, if anything is.
    async fn keep_partitions(&self) -> Result<(bool, Option<String>), Error> {
        let Writer { config, queue, .. } = self.writer;
        let database = self.writer.database.get().await?;
        let now = queue.clock().await.map_err(|error| Error::Input(error.to_string()))?;
        partitions::prepare(database, Day::of_ms(now.as_ms())).await?;
        let misplaced = misplaced(partitions::unplaced(database).await?);
        let Some(retention) = config.retention else { return Ok((false, misplaced)) };
        let first = Day::of_ms(now.as_ms().saturating_sub(millis(retention)));
        let removed = partitions::retain(database, first).await?;
        if removed.partitions > 0 || removed.rows > 0 {
            let (partitions, rows) = (removed.partitions, removed.rows);
            tracing::info!(partitions, rows, "what is older than the retention of the history was removed");
        }
        Ok((removed.is_more, misplaced))
    }

    /// Writes the ends that were spilled into files of this process.
    async fn load(&mut self) -> Result<(), Error> {
        let Some(spill) = &self.spill else { return Ok(()) };
        let unreadable = |error: io::Error| Error::Input(format!("history.spill: {error}"));
        let files = spill.take_files().map_err(unreadable)?;
        for path in files {
            let mut parts = spill::parts(&path, MAX_ENDS).map_err(unreadable)?;
            let mut written = 0;
            for part in &mut parts {
                let part = part.map_err(unreadable)?;
                let done = self.write(&part).await.map_err(|error| Error::Input(error.to_string()))?;
                done?;
                written += part.len();
            }
            std::fs::remove_file(&path).map_err(unreadable)?;
            let (file, broken) = (path.display().to_string(), parts.broken);
            tracing::info!(file, written, broken, "a file of the history was written to the database");
        }
        Ok(())
    }
}

/// Says that the catch-all has jobs, if it has.
fn misplaced(jobs: u64) -> Option<String> {
    let more = if jobs >= partitions::MOST_COUNTED { "+" } else { "" };
    (jobs > 0).then(|| {
        format!("jobs in the catch-all, without a partition of their day: {jobs}{more}; docs/sql.md says how to move them")
    })
}

/// How much an end takes of the bytes that are read at once.
fn bytes_of(end: &EndedJob) -> usize {
    end.weight + end.fields.as_ref().map_or(0, |(fields, _)| fields.size())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
