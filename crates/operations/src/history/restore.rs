//! Bringing ended jobs back from the history, as dead letters: they are replayed, dropped and edited like any others. Each is filed once,
//! however often this is asked for, so whatever dies in between, the same call again does the rest.

use std::collections::BTreeMap;

use serde::Serialize;
use streamfleet::Queue;
use streamfleet_engine::admin::{Action, Filed, LetterLimits, Noted};
use streamfleet_engine::drawn_call;
use streamfleet_sql::Database;
use streamfleet_sql::history::questions::{self, Row};

use super::departed::{Kept, departed};
use super::walk::Walk;
use super::{Wanted, asked};
use crate::control::outcome;
use crate::{Actor, Control, Error, HISTORY_RESTORE, counted};

/// The most jobs that are looked at.
const MOST: u64 = 100_000;

/// The most errors of a report.
const MAX_ERRORS: usize = 5;

/// How many hexadecimal digits the name of a group has.
const GROUP_DIGITS: usize = 16;

/// Which jobs come back, and how.
#[derive(Debug, Clone)]
pub struct Restore {
    /// Which jobs; at least one state.
    pub wanted: Wanted,
    /// The `next` of an earlier report, to go on where it ended.
    pub after: Option<String>,
    /// The most jobs that are looked at: 1 to 100,000.
    pub limit: u64,
    /// The group that the dead letters join: that of an earlier report, or a new one.
    pub group: Option<String>,
    /// How many dead letters the queue keeps.
    pub limits: LetterLimits,
}

impl Restore {
    /// Refuses what nobody can have meant.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] that names what cannot be used.
    pub fn check(&self) -> Result<(), Error> {
        if self.wanted.states.is_empty() {
            return Err(Error::invalid(
                "filter/state",
                "say which ends are meant: dead, for jobs to replay, or done or cancelled, for jobs to run again",
            ));
        }
        if !(1..=MOST).contains(&self.limit) {
            return Err(Error::invalid("limit", format!("it must be a number from 1 to {MOST}")));
        }
        let is_group = |group: &String| {
            group.len() == GROUP_DIGITS && group.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        if self.group.as_ref().is_some_and(|group| !is_group(group)) {
            let why = format!("it must have {GROUP_DIGITS} hexadecimal digits, as an earlier report has it");
            return Err(Error::invalid("group", why));
        }
        Ok(())
    }
}

/// What has come back.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct Restored {
    /// The queue.
    pub queue: String,
    /// The group of the dead letters.
    pub group: String,
    /// How many jobs of the history were looked at.
    pub looked: u64,
    /// How many are dead letters now.
    pub filed: u64,
    /// How many were left alone, by the reason: `no_payload`, `masked` or `too_large` if the history does not have their fields;
    /// `unreadable`; `ended_later` if the job has ended again since; `exists` if Redis knows a job with the id.
    pub kept: BTreeMap<&'static str, u64>,
    /// What is wrong with some of the unreadable ones.
    pub errors: Vec<String>,
    /// The value of `after` that goes on; null if nothing is left.
    pub next: Option<String>,
    /// True if it was stopped before its end.
    pub interrupted: bool,
    /// What ended it early.
    #[serde(skip)]
    pub failure: Option<Error>,
}

/// Files ended jobs as dead letters of one group, the latest end first. Dead jobs keep their ids; those that were done or cancelled become
/// new jobs, whose ids follow from the lives that they repeat. What Redis knows is left alone. The audit has a note before the first job is
/// filed, so that it also knows of a restore that was killed, and one at the end, if any was filed. If something ends it early, the report
/// says what was done, and why it ended.
///
/// # Errors
///
/// [`Error::Invalid`] if no state is wanted, or the filter, the limit, the cursor or the group cannot be used.
pub async fn restore(
    database: &Database,
    queue: &Queue,
    actor: &Actor,
    input: Restore,
    control: Control<'_>,
) -> Result<Noted<Restored>, Error> {
    let mut walk = Walk::begin(database, queue.name(), &input)?;
    let group = input.group.unwrap_or_else(new_group);
    let action = actor.action(&HISTORY_RESTORE).target(format!("--into {group} {}", input.wanted));
    let restored = Restored { queue: queue.name().to_string(), group, ..Restored::default() };
    let start = Some(action.clone().outcome("started"));
    let mut filing = Filing { queue, actor, limits: input.limits, start, restored };
    let failure = filing.all(&mut walk, control).await.err();
    let restored = Restored { failure, ..filing.restored };
    if restored.filed == 0 && !restored.failure.as_ref().is_some_and(Error::may_have_run) {
        return Ok(Noted::of_nothing(restored));
    }
    let outcome = outcome(restored.failure.as_ref(), restored.interrupted);
    Ok(queue.audit().noted(&action.count(restored.filed).outcome(outcome), restored).await)
}

/// Draws the name of a group.
pub fn new_group() -> String {
    let mut drawn = drawn_call();
    drawn.truncate(GROUP_DIGITS);
    drawn
}

/// Files the jobs of pages.
struct Filing<'a> {
    queue: &'a Queue,
    actor: &'a Actor,
    limits: LetterLimits,
    /// What the audit gets before the first job is filed.
    start: Option<Action>,
    restored: Restored,
}

impl Filing<'_> {
    async fn all(&mut self, walk: &mut Walk<'_>, control: Control<'_>) -> Result<(), Error> {
        loop {
            // Whatever happens to a page, the next call may begin with it.
            self.restored.next = walk.after.as_ref().map(ToString::to_string);
            self.restored.interrupted = !walk.is_over && control.stop.is_requested();
            if self.restored.interrupted {
                return Ok(());
            }
            let Some(rows) = walk.next_page().await? else { return Ok(()) };
            let looked = rows.len() as u64;
            let rows = walk.sort_out(rows, &mut self.restored.kept).await?;
            self.must_have_room(rows.len() as u64).await?;
            if let Some(start) = self.start.take_if(|_| !rows.is_empty()) {
                let noted = self.queue.audit().note(&start).await;
                noted.map_err(Error::redis("the audit cannot note the restore, so nothing was restored"))?;
            }
            self.page(walk.database, &rows).await?;
            self.restored.looked += looked;
            (control.progress)(self.restored.looked);
        }
    }

    /// Files the jobs of a page, a portion of their fields at a time.
    async fn page(&mut self, database: &Database, rows: &[Row]) -> Result<(), Error> {
        let mut rest = rows;
        while !rest.is_empty() {
            let bodies = questions::bodies(database, rest).await.map_err(asked)?;
            let (these, others) = rest.split_at(bodies.len());
            rest = others;
            let mut letters = Vec::new();
            for (row, body) in these.iter().zip(bodies) {
                match departed(row, body, self.actor, &self.restored.group) {
                    Ok(letter) => letters.push(letter),
                    Err(why) => self.keep(why),
                }
            }
            let filed = self.queue.dead_letters().file(&letters).await;
            let filed = filed.map_err(Error::unsure("jobs may or may not be dead letters again"))?;
            for (letter, filed) in letters.iter().zip(filed) {
                match filed {
                    Filed::As(_) => self.restored.filed += 1,
                    Filed::Exists => self.keep(Kept::Exists),
                    Filed::Refused(why) => {
                        self.keep(Kept::Unreadable);
                        if self.restored.errors.len() < MAX_ERRORS {
                            self.restored.errors.push(format!("{}: {why}", letter.id));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, why: Kept) {
        *self.restored.kept.entry(why.as_str()).or_default() += 1;
    }

    /// Refuses letters for which the leader of the queue would drop others.
    async fn must_have_room(&self, letters: u64) -> Result<(), Error> {
        let Some(most) = self.limits.most.filter(|_| letters > 0) else { return Ok(()) };
        let snapshot = self.queue.snapshot().await;
        let dead = snapshot.map_err(Error::redis("failed to count the dead letters"))?.dead;
        if dead + letters <= most {
            return Ok(());
        }
        Err(Error::Conflict(format!(
            "the queue {} has {} and keeps {most} (`dead_max`), so {more} more would push out others: raise `dead_max`, drop some, or \
             restore fewer at a time",
            self.queue.name(),
            counted(dead, "dead letter", "dead letters"),
            more = letters,
        )))
    }
}
