//! The acts of the demo: submit, work, kill, recover, bury, replay, and count.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result};
use streamfleet::job::{EntryId, JobId, Timestamp};
use streamfleet::{Broker, Queue};
use tokio::time::Instant;

use super::account::{Account, Balance, Kill, Replay, Reports, Share};
use super::census::{self, Census, Comeback};
use super::command::{Command, Sender, Target};
use super::endpoint::Endpoint;
use super::folder::Folder;
use super::plan::{self, Planned};
use super::screen::Screen;
use super::workers::Workers;
use super::{LEASE, letters};

/// How often the jobs are looked up.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// By when all jobs must have ended.
const PATIENCE: Duration = Duration::from_secs(50);

/// The worker that is killed.
const VICTIM: usize = 1;

/// Everything that the acts share.
pub(super) struct Stage<'a> {
    pub(super) folder: &'a Folder,
    pub(super) target: Target,
    pub(super) broker: Broker,
    pub(super) queue: Queue,
    pub(super) endpoint: Endpoint,
    pub(super) sender: Sender,
    pub(super) seed: u64,
    pub(super) plan: Vec<Planned>,
    pub(super) screen: Screen,
    pub(super) workers: &'a mut Workers,
    /// The ids of all entries that are jobs; set by `submit`.
    pub(super) ids: Vec<JobId>,
    /// The ids of all entries; set by `submit`.
    pub(super) submitted: BTreeSet<String>,
    pub(super) deadline: Instant,
}

/// The worker that was killed.
struct Killed {
    at: Timestamp,
    jobs: Vec<JobId>,
    taken_over: Option<Span>,
    restarted: Option<Span>,
}

/// How long after the kill something first and last happened.
#[derive(Clone, Copy)]
struct Span {
    first: Duration,
    last: Duration,
}

impl Span {
    /// Returns `None` until it has happened to every job.
    fn of(times: Vec<Option<Duration>>) -> Option<Self> {
        let times: Vec<_> = times.into_iter().collect::<Option<_>>()?;
        let (first, last) = (times.iter().min().copied(), times.iter().max().copied());
        Some(Self { first: first.unwrap_or_default(), last: last.unwrap_or_default() })
    }
}

impl Stage<'_> {
    /// Plays all acts.
    pub(super) async fn play(mut self) -> Result<Account> {
        self.submit().await?;
        self.deadline = Instant::now() + PATIENCE;
        self.start_workers().await?;
        let third = self.submitted.len() as u64 / 3;
        let census = self.watch(None, |census| census.done() >= third).await?;
        let mut killed = self.kill().await?;
        let census = self.watch(Some(census), |census| killed.note(census).taken_over.is_some()).await?;
        self.tell_taken_over(&killed)?;
        let census = self.watch(Some(census), |census| killed.note(census).restarted.is_some()).await?;
        self.tell_restarted(&killed)?;
        let census = self.watch(Some(census), |census| census.open() == 0).await?;
        self.screen.end();
        let ended = format!("every job has ended: {} done, {} dead", census.done(), census.depths.dead);
        self.screen.say(if census.open() == 0 {
            &ended
        } else {
            "time is up, but some jobs have not ended"
        })?;
        let replay = self.replay(census).await?;
        self.count(&killed, replay).await
    }

    /// Submits the jobs before any worker runs: they wait in Redis.
    async fn submit(&mut self) -> Result<()> {
        let namespace = self.broker.namespace();
        let command = |job: &Planned| job.command(namespace, self.queue.name());
        let commands: Vec<_> = self.plan.iter().map(command).collect();
        let lines: String = commands.iter().map(|command| command.line() + "\n").collect();
        std::fs::write(self.folder.path.join("jobs.redis"), lines)?;
        let replies = self.sender.send(&self.target, &commands).await?;
        for (job, reply) in self.plan.iter().zip(replies) {
            let entry: EntryId = reply.parse().with_context(|| format!("redis refused a job: {reply}"))?;
            match &job.id {
                Some(id) => self.ids.push(id.parse()?),
                // Known by its entry only.
                None => drop(self.submitted.insert(JobId::derived(entry, job.lane).to_string())),
            }
        }
        self.submitted.extend(self.ids.iter().map(ToString::to_string));
        let (count, by, file) = (commands.len(), self.sender.name(), self.folder.show("jobs.redis"));
        self.screen.say(&format!("{count} jobs submitted by {by}, one XADD each ({file})"))?;
        let first = commands.first().map(Command::line).unwrap_or_default();
        self.screen.say(&format!("the first one: {first}"))
    }

    async fn start_workers(&mut self) -> Result<()> {
        for _ in 0..2 {
            self.workers.start()?;
        }
        self.workers.ready(&self.broker).await?;
        let names = self.workers.all().iter().map(|worker| format!("{} (pid {})", worker.name, worker.pid));
        let names = names.collect::<Vec<_>>().join(" and ");
        self.screen.say(&format!("{names} started, {} jobs at once each", super::CONCURRENCY))
    }

    /// Takes a census again and again, until the condition holds or the deadline passes.
    async fn watch(
        &mut self,
        mut last: Option<Census>,
        mut until: impl FnMut(&Census) -> bool,
    ) -> Result<Census> {
        loop {
            let census =
                Census::take(&self.queue, &self.ids, self.submitted.len() as u64, last.take()).await?;
            self.screen.show(&census, self.workers.all())?;
            if until(&census) || Instant::now() > self.deadline {
                return Ok(census);
            }
            last = Some(census);
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Asks for the worker's jobs after it is gone: no other worker has started what Redis still attributes to it.
    async fn kill(&mut self) -> Result<Killed> {
        let at = self.queue.snapshot().await?.now;
        self.workers.kill(VICTIM).await?;
        let census = Census::take(&self.queue, &self.ids, self.submitted.len() as u64, None).await?;
        let worker = &self.workers.all()[VICTIM];
        let jobs = census.running_on(&worker.consumer);
        self.screen.say(&format!(
            "{} killed with SIGKILL while it was running {} jobs",
            worker.name,
            jobs.len()
        ))?;
        let name = self.workers.start()?.name.clone();
        self.workers.ready(&self.broker).await?;
        self.screen.say(&format!("{name} started in its place"))?;
        Ok(Killed { at, jobs, taken_over: None, restarted: None })
    }

    fn tell_taken_over(&self, killed: &Killed) -> Result<()> {
        let Some(Span { last, .. }) = killed.taken_over else { return Ok(()) };
        let (last, lease) = (last.as_secs_f64(), LEASE.as_secs());
        self.screen
            .say(&format!("the other workers took over its jobs within {last:.1} s (the lease is {lease} s)"))
    }

    fn tell_restarted(&self, killed: &Killed) -> Result<()> {
        let Some(Span { first, last }) = killed.restarted else {
            return self.screen.say("its jobs have not all started again");
        };
        let (first, last) = (first.as_secs_f64(), last.as_secs_f64());
        self.screen.say(&format!(
            "its jobs started again {first:.1} to {last:.1} s after the kill, as their turn came in the queue"
        ))
    }

    /// Fixes the cause of one dead letter, and replays it with a plain Redis command.
    async fn replay(&mut self, census: Census) -> Result<Option<Replay>> {
        let letters = census::letters(&self.queue).await?;
        self.screen.print(&format!("\nThe dead letters:\n{}", letters::table(&letters)))?;
        let Some(letter) = letters.iter().find(|letter| letter.job().to_string() == plan::REFUSED) else {
            return Ok(None);
        };
        self.endpoint.mend();
        let (xadd, xdel) = (letters::replay(letter)?, letters::delete(letter));
        self.screen.print(&format!(
            "\nThe mailbox of {} has room again, so its letter is replayed with an XADD of the letter's own fields\n\
             (workers ignore the dead_* fields; `streamfleet dead replay` does the same for many letters):\n\n  {}\n",
            plan::REFUSED,
            xadd.shell(self.target.port)
        ))?;
        self.sender.send(&self.target, std::slice::from_ref(&xadd)).await?;
        let job = letter.job();
        self.deadline = self.deadline.max(Instant::now() + Duration::from_secs(5));
        let census =
            self.watch(Some(census), |census| census.recorded_done().any(|done| *done == job)).await?;
        self.screen.end();
        let done = census.recorded_done().any(|done| *done == job);
        if done {
            // The job is done: a letter left behind would count it twice, and somebody might replay it again.
            self.sender.send(&self.target, std::slice::from_ref(&xdel)).await?;
            self.screen.print(&format!(
                "The job is done. Its letter is deleted, so that nobody replays it again:\n\n  {}\n",
                xdel.shell(self.target.port)
            ))?;
        }
        let (job, letter, command) =
            (job.to_string(), letter.entry.to_string(), xadd.shell(self.target.port));
        Ok(Some(Replay { job, letter, command, done }))
    }

    /// Reads everything from Redis and the disk once more.
    async fn count(self, killed: &Killed, replay: Option<Replay>) -> Result<Account> {
        let census = Census::take(&self.queue, &self.ids, self.submitted.len() as u64, None).await?;
        let letters = census::letters(&self.queue).await?;
        let done: BTreeSet<_> = census.recorded_done().map(ToString::to_string).collect();
        let dead: Vec<_> = letters.iter().map(|letter| letter.job().to_string()).collect();
        let balance = Balance::of(&self.submitted, &done, &dead);
        let reports = Reports::look(&self.folder.path, &self.plan, &done);
        let share = |worker: &super::workers::Worker| {
            let share = census.share(&worker.consumer);
            Share { worker: worker.name.clone(), pid: worker.pid, done: share.done, failed: share.failed }
        };
        let workers = self.workers.all();
        Ok(Account {
            holds: balance.holds() && reports.missing.is_empty(),
            dead_by_reason: letters::by_reason(&letters),
            retries: census.retries(),
            notifications: self.endpoint.notifications(),
            killed: killed.told(&workers[VICTIM]),
            workers: workers.iter().map(share).collect(),
            sent_by: self.sender.name(),
            seed: self.seed,
            took_ms: u64::try_from(self.screen.elapsed().as_millis()).unwrap_or(u64::MAX),
            output: self.folder.shown.display().to_string(),
            balance,
            reports,
            replay,
        })
    }
}

impl Killed {
    /// Records what happened to the worker's jobs, once it has happened to all of them.
    fn note(&mut self, census: &Census) -> &Self {
        let (mut taken_over, mut restarted) = (Vec::new(), Vec::new());
        for job in &self.jobs {
            match census.comeback(job, self.at) {
                Comeback::Held => return self,
                Comeback::Over => {}
                Comeback::TakenOver { after } => {
                    taken_over.push(Some(after));
                    restarted.push(None);
                }
                Comeback::Restarted { taken_over: before, after } => {
                    taken_over.push(Some(before));
                    restarted.push(Some(after));
                }
            }
        }
        self.taken_over = Span::of(taken_over);
        self.restarted = Span::of(restarted);
        self
    }

    fn told(&self, worker: &super::workers::Worker) -> Kill {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Kill {
            worker: worker.name.clone(),
            pid: worker.pid,
            jobs: self.jobs.iter().map(ToString::to_string).collect(),
            taken_over_ms: self.taken_over.map(|span| ms(span.last)),
            first_restart_ms: self.restarted.map(|span| ms(span.first)),
            last_restart_ms: self.restarted.map(|span| ms(span.last)),
        }
    }
}
