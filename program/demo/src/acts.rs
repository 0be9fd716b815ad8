//! The acts of the demo: submit, work, kill, recover, bury, replay, and count.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result};
use streamfleet::job::{EntryId, JobId, Timestamp};
use streamfleet::{Broker, Queue};
use tokio::time::Instant;

use super::account::{Account, Balance, Reports};
use super::census::Census;
use super::command::{Command, Sender};
use super::endpoint::Endpoint;
use super::folder::Folder;
use super::plan::{self, Planned};
use super::screen::Screen;
use super::workers::Workers;
use super::{LEASE, letters};

/// How often the jobs are looked up.
const POLL_EVERY: Duration = Duration::from_millis(250);

/// By when all jobs must have ended.
const PATIENCE: Duration = Duration::from_secs(50);

/// The worker that is killed.
const VICTIM: usize = 1;

/// Everything that the acts share.
pub(super) struct Stage<'a> {
    pub(super) folder: &'a Folder,
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

impl Stage<'_> {
    /// Plays all acts. Returns true if no job was lost.
    pub(super) async fn play(mut self) -> Result<bool> {
        self.submit().await?;
        self.deadline = Instant::now() + PATIENCE;
        self.start_workers().await?;
        let third = self.submitted.len() / 3;
        let census = self.watch(None, |census| census.done().count() >= third).await?;
        let (killed_at, jobs) = self.kill().await?;
        let census = self.recover(census, killed_at, &jobs).await?;
        let census = self.watch(Some(census), |census| census.open() == 0).await?;
        self.screen.end();
        let ended =
            format!("every job has ended: {} done, {} dead", census.done().count(), census.snapshot.dead);
        self.screen.log(if census.open() == 0 {
            &ended
        } else {
            "time is up, but some jobs have not ended"
        })?;
        self.replay(census).await?;
        self.count().await
    }

    /// Submits the jobs before any worker runs: they wait in Redis.
    async fn submit(&mut self) -> Result<()> {
        let commands: Vec<_> = self.plan.iter().map(Planned::command).collect();
        let lines: String = commands.iter().map(|command| command.line() + "\n").collect();
        std::fs::write(self.folder.path.join("jobs.redis"), lines)?;
        let replies = self.sender.send(&commands).await?;
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
        self.screen.log(&format!("{count} jobs submitted by {by}, one XADD each ({file})"))?;
        let first = commands.first().map(Command::line).unwrap_or_default();
        self.screen.log(&format!("the first one: {first}"))
    }

    async fn start_workers(&mut self) -> Result<()> {
        for _ in 0..2 {
            self.workers.start()?;
        }
        self.workers.ready(&self.broker).await?;
        let names = self.workers.all().iter().map(|worker| format!("{} (pid {})", worker.name, worker.pid));
        let names = names.collect::<Vec<_>>().join(" and ");
        self.screen.log(&format!("{names} started, {} jobs at once each", super::CONCURRENCY))
    }

    /// Takes a census again and again, until the condition holds or the deadline passes.
    async fn watch(&mut self, mut last: Option<Census>, until: impl Fn(&Census) -> bool) -> Result<Census> {
        loop {
            let census = Census::take(&self.queue, &self.ids, last.take()).await?;
            self.screen.show(&census, self.workers.all())?;
            if until(&census) || Instant::now() > self.deadline {
                return Ok(census);
            }
            last = Some(census);
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    /// Kills a worker, and returns when it did that, and what the worker was running. Asks for the worker's jobs after
    /// it is gone: no other worker has started what Redis still attributes to it.
    async fn kill(&mut self) -> Result<(Timestamp, Vec<JobId>)> {
        let at = self.queue.snapshot().await?.now;
        self.workers.kill(VICTIM).await?;
        let census = Census::take(&self.queue, &self.ids, None).await?;
        let worker = &self.workers.all()[VICTIM];
        let jobs = census.running_on(&worker.consumer);
        self.screen.log(&format!(
            "{} killed with SIGKILL while it was running {} jobs",
            worker.name,
            jobs.len()
        ))?;
        let name = self.workers.start()?.name.clone();
        self.workers.ready(&self.broker).await?;
        self.screen.log(&format!("{name} started in its place"))?;
        Ok((at, jobs))
    }

    /// Waits until the killed worker's jobs were taken over, and until they have started again.
    async fn recover(&mut self, census: Census, killed_at: Timestamp, jobs: &[JobId]) -> Result<Census> {
        let restarts = |census: &Census| census.restarts(jobs, killed_at);
        let taken_over = |census: &Census| span(restarts(census).iter().map(|job| job.taken_over));
        let restarted = |census: &Census| span(restarts(census).iter().map(|job| job.restarted));
        let census = self.watch(Some(census), |census| taken_over(census).is_some()).await?;
        if let Some((_, last)) = taken_over(&census) {
            let (last, lease) = (last.as_secs_f64(), LEASE.as_secs());
            self.screen.log(&format!(
                "the other workers took over its jobs within {last:.1} s (the lease is {lease} s)"
            ))?;
        }
        let census = self.watch(Some(census), |census| restarted(census).is_some()).await?;
        let Some((first, last)) = restarted(&census) else {
            self.screen.log("its jobs have not all started again")?;
            return Ok(census);
        };
        let (first, last) = (first.as_secs_f64(), last.as_secs_f64());
        self.screen.log(&format!(
            "its jobs started again {first:.1} to {last:.1} s after the kill, as their turn came in the queue"
        ))?;
        Ok(census)
    }

    /// Fixes the cause of one dead letter, and replays it with a plain Redis command.
    async fn replay(&mut self, census: Census) -> Result<()> {
        let letters = letters::read(&self.queue).await?;
        self.screen.print(&format!("\nThe dead letters:\n{}", letters::table(&letters)))?;
        let Some(letter) = letters.iter().find(|letter| letter.job().to_string() == plan::REFUSED) else {
            return Ok(());
        };
        self.endpoint.mend();
        let command = letters::replay(letter)?;
        self.screen.print(&format!(
            "\nThe mailbox of {} has room again, so its dead letter is replayed with an XADD of all its fields\n\
             (`streamfleet dead replay` does the same for many of them):\n\n  {}\n",
            plan::REFUSED,
            command.shell(self.sender.port)
        ))?;
        self.sender.send(std::slice::from_ref(&command)).await?;
        let job = letter.job();
        self.deadline = self.deadline.max(Instant::now() + Duration::from_secs(5));
        let is_done = |census: &Census| census.done().any(|done| *done == job);
        let census = self.watch(Some(census), is_done).await?;
        self.screen.end();
        if is_done(&census) {
            self.screen.print("The job is done. Its dead letter was deleted when the replay began.\n")?;
        }
        Ok(())
    }

    /// Reads everything from Redis and the disk once more, and prints the account. Returns true if it holds.
    async fn count(self) -> Result<bool> {
        let census = Census::take(&self.queue, &self.ids, None).await?;
        let letters = letters::read(&self.queue).await?;
        let done: BTreeSet<_> = census.done().map(ToString::to_string).collect();
        let dead: Vec<_> = letters.iter().map(|letter| letter.job().to_string()).collect();
        let workers = self.workers.all().iter().map(|worker| {
            let killed = if worker.killed { " before it was killed" } else { "" };
            format!("{} finished {}{killed}", worker.name, census.done_by(&worker.consumer))
        });
        let account = Account {
            balance: Balance::of(&self.submitted, &done, &dead),
            dead: letters::by_reason(&letters),
            retries: census.retries(),
            workers: workers.collect(),
            reports: Reports::read(&self.folder.path, &self.plan, &done),
            notifications: self.endpoint.notifications(),
        };
        self.screen.print(&format!(
            "The account, from Redis and the disk, after {:.1} s:\n\n{}\n\n\
             reports  {}\nlogs     {}\nseed     {} (--seed repeats it)\n\
             Inspect what is left:  streamfleet dev --folder {}",
            self.screen.elapsed().as_secs_f64(),
            account.text(),
            self.folder.show("reports"),
            self.folder.show("logs"),
            self.seed,
            self.folder.show("redis")
        ))?;
        Ok(account.holds())
    }
}

/// Returns when something first and last happened; `None` until it has happened to every job.
fn span(times: impl Iterator<Item = Option<Duration>>) -> Option<(Duration, Duration)> {
    let times: Vec<_> = times.collect::<Option<_>>()?;
    let (first, last) = (times.iter().min().copied(), times.iter().max().copied());
    Some((first.unwrap_or_default(), last.unwrap_or_default()))
}
