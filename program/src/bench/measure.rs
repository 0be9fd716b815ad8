//! The measurements, except those of the [ways](super::ways). Each starts with an empty server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use streamfleet::dev_server::DevServer;
use streamfleet::job::Encoding;
use streamfleet::{Broker, Producer, Queue, RedisConfig, Submission};

use super::fleet::{Behavior, Crowd, MeasuringHandler, Running};
use super::ratio::{Ratio, median};
use super::raw::Raw;
use super::report::{Backlog, Enqueue, Latency, Memory};
use super::tally::{Goal, Tally};
use super::ways::Way;

/// How many handlers run at once if the jobs come one by one.
const FEW_SLOTS: usize = 64;

pub(super) const STREAM: &str = "sf:{default}:jobs";
const DEAD: &str = "sf:{default}:dead";

/// The submitter of a steady rate sends what is due after pauses of this length.
const TICK: Duration = Duration::from_micros(500);

/// A fleet has started when it has run this many jobs.
const WARM_UP: usize = 1000;

/// A private server, and the settings of the measurements.
pub(super) struct Bench {
    // Dropped before its folder.
    pub(super) server: DevServer,
    _folder: tempfile::TempDir,
    pub(super) raw: Raw,
    pub(super) jobs: usize,
    pub(super) rounds: usize,
    /// How many handlers of a way run at once, at most.
    pub(super) concurrency: usize,
    pub(super) payload: Vec<u8>,
}

impl Bench {
    /// Starts the server.
    pub(super) async fn start(jobs: usize, rounds: usize, concurrency: usize) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let server = DevServer::builder().arguments(["--appendonly", "no"]).start(folder.path()).await?;
        let raw = Raw::connect(&server)?;
        Ok(Self { server, _folder: folder, raw, jobs, rounds, concurrency, payload: vec![b'x'; 200] })
    }

    /// Returns the server's name and version.
    pub(super) async fn server(&self) -> Result<String> {
        let server = self.broker().await?.server().await?;
        let (name, version) = server.product().context("the server does not report its version")?;
        Ok(format!("{name} {version}"))
    }

    async fn broker(&self) -> Result<Broker> {
        Ok(Broker::connect(RedisConfig::default().url(self.server.url())).await?)
    }

    pub(super) async fn producer(&self) -> Result<Producer> {
        Ok(Producer::new(self.queue().await?))
    }

    pub(super) async fn queue(&self) -> Result<Queue> {
        Ok(self.broker().await?.queue(super::QUEUE.parse()?))
    }

    fn submissions(&self, count: usize) -> Result<impl Iterator<Item = Submission> + use<>> {
        Way::Plain.submissions(count, 1, &self.payload)
    }

    /// Empties the server, and creates the stream and the group that raw commands need.
    pub(super) fn reset(&mut self) -> Result<()> {
        self.raw.flush()?;
        self.raw.call(&[b"XGROUP", b"CREATE", STREAM.as_bytes(), b"fleet", b"0", b"MKSTREAM"])?;
        Ok(())
    }

    /// Bulk enqueue, compared with pipelined XADD.
    pub(super) async fn enqueue(&mut self) -> Result<Enqueue> {
        let producer = self.producer().await?;
        let (mut raw, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            self.reset()?;
            raw.push(per_s(self.jobs, self.raw.enqueue(STREAM, self.jobs, &self.payload)?));
            self.reset()?;
            let submissions = self.submissions(self.jobs)?;
            let begun = Instant::now();
            producer.submit_all(submissions).await?;
            ours.push(per_s(self.jobs, begun.elapsed()));
        }
        let ratio = Ratio::of(ours.iter().zip(&raw).map(|(ours, raw)| ours / raw));
        Ok(Enqueue { raw_per_s: median(raw), per_s: median(ours), ratio })
    }

    /// From XADD to the handler's start: at 500 jobs a second, and at half the rate at which plain jobs can come and go.
    pub(super) async fn latency(&mut self) -> Result<Latency> {
        self.reset()?;
        let added = per_s(self.jobs, self.raw.enqueue(STREAM, self.jobs, &self.payload)?);
        self.reset()?;
        let done = self.round(Way::Plain, Crowd::default()).await?.way.per_s;
        // Redis serves producers and workers one after the other.
        let most = 1.0 / (1.0 / added + 1.0 / done);
        let (mut few, mut half) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            few.push(self.delays(500.0, FEW_SLOTS).await?);
            half.push(self.delays(most / 2.0, Way::Plain.spec().slots).await?);
        }
        Ok(Latency::of(&few, most / 2.0, &half))
    }

    /// Submits jobs at a steady rate for five seconds to a fleet that runs, and returns their delays.
    async fn delays(&mut self, per_s: f64, slots: usize) -> Result<Delays> {
        self.reset()?;
        let jobs = (per_s * 5.0) as usize;
        let handler = MeasuringHandler::new(Behavior::TakeTime);
        let tally = Tally::new(Goal::Ended, WARM_UP + jobs);
        let running = Running::start(&self.server, (slots, Crowd::default()), &handler, &tally)?;
        let mut raw = Raw::connect(&self.server)?;
        let clock = handler.clone();
        // A separate thread, so that the submitter's pace does not depend on the measured runtime.
        let submitting = tokio::task::spawn_blocking(move || -> Result<()> {
            let first: Vec<_> = (0..WARM_UP).map(|_| clock.due(Duration::ZERO)).collect();
            raw.append(STREAM, &first)?;
            while clock.started() < WARM_UP {
                std::thread::park_timeout(TICK);
            }
            clock.start_over(jobs);
            let (begun, mut sent) = (Instant::now(), 0);
            while sent < jobs {
                let due = ((begun.elapsed().as_secs_f64() * per_s) as usize).min(jobs);
                let payloads: Vec<_> = (sent..due).map(|_| clock.due(Duration::ZERO)).collect();
                raw.append(STREAM, &payloads)?;
                sent = due;
                // Spinning would take the core that the worker needs.
                std::thread::park_timeout(TICK);
            }
            Ok(())
        });
        submitting.await??;
        tally.took().await?;
        running.stop().await;
        Ok(Delays { p50: handler.late_ms(0.5), p99: handler.late_ms(0.99) })
    }

    /// By how much the promotion of 200 jobs a second is late: the 99th percentile of each round, in milliseconds.
    pub(super) async fn promotion_late_p99_ms(&mut self) -> Result<Vec<f64>> {
        let mut late = Vec::new();
        for _ in 0..self.rounds {
            late.push(self.trickle_late_p99_ms().await?);
        }
        Ok(late)
    }

    async fn trickle_late_p99_ms(&mut self) -> Result<f64> {
        self.reset()?;
        let producer = self.producer().await?;
        let jobs = 1000;
        let handler = MeasuringHandler::new(Behavior::TakeTime);
        let tally = Tally::new(Goal::Ended, jobs);
        let running = Running::start(&self.server, (FEW_SLOTS, Crowd::default()), &handler, &tally)?;
        let mut tick = tokio::time::interval(Duration::from_millis(5));
        for nth in 0..jobs {
            tick.tick().await;
            let delay = Duration::from_millis(300 + (nth as u64 * 7919) % 1000);
            let submission = Submission::new(super::TYPE)?.payload(handler.due(delay), Encoding::Raw)?;
            producer.submit(submission.delay(delay)).await?;
        }
        tally.took().await?;
        running.stop().await;
        Ok(handler.late_ms(0.99))
    }

    /// The memory that jobs take in Redis.
    pub(super) async fn memory(&mut self) -> Result<Memory> {
        let jobs = 100_000;
        self.reset()?;
        let empty = self.raw.info("memory", "used_memory")?;
        self.raw.enqueue(STREAM, jobs, &self.payload)?;
        let raw = (self.raw.info("memory", "used_memory")? - empty) / jobs as f64;
        let producer = self.producer().await?;
        self.reset()?;
        let empty = self.raw.info("memory", "used_memory")?;
        producer.submit_all(self.submissions(jobs)?).await?;
        let ours = (self.raw.info("memory", "used_memory")? - empty) / jobs as f64;
        let mut ways = BTreeMap::new();
        for way in Way::value_variants() {
            self.reset()?;
            ways.insert(*way, self.round(*way, Crowd::default()).await?.memory);
        }
        Ok(Memory { raw_bytes_per_job: raw, bytes_per_job: ours, ratio: ours / raw, ways })
    }

    /// The ratios of plain jobs beside what may slow them down.
    pub(super) async fn backlog(&mut self) -> Result<Backlog> {
        self.reset()?;
        self.raw.enqueue(STREAM, 5_000_000, &self.payload)?;
        let waiting = self.drain_ratio(Crowd::default()).await?;
        self.reset()?;
        let producer = self.producer().await?;
        let hour = Duration::from_secs(3600);
        let delayed = self.submissions(1_000_000)?.map(move |submission| submission.delay(hour));
        producer.submit_all(delayed).await?;
        let delayed = self.drain_ratio(Crowd::default()).await?;
        self.reset()?;
        self.raw.enqueue(DEAD, 100_000, &self.payload)?;
        let dead = self.drain_ratio(Crowd::default()).await?;
        self.reset()?;
        let types = self.drain_ratio(Crowd { types: 1000, ..Crowd::default() }).await?;
        self.reset()?;
        let workers = self.drain_ratio(Crowd { workers: 64, ..Crowd::default() }).await?;
        self.raw.flush()?;
        Ok(Backlog {
            drain_ratio_5m: waiting,
            drain_ratio_1m_delayed: delayed,
            drain_ratio_100k_dead: dead,
            drain_ratio_1k_types: types,
            drain_ratio_64_workers: workers,
        })
    }

    /// The ratio of plain jobs in several rounds, on top of what is in Redis now.
    async fn drain_ratio(&mut self, crowd: Crowd) -> Result<Ratio> {
        let mut ratios = Vec::new();
        for _ in 0..self.rounds {
            ratios.push(self.round(Way::Plain, crowd).await?.ratio());
        }
        Ok(Ratio::of(ratios))
    }
}

/// From XADD to the handler's start in one round, in milliseconds.
pub(super) struct Delays {
    pub(super) p50: f64,
    pub(super) p99: f64,
}

pub(super) fn per_s(jobs: usize, took: Duration) -> f64 {
    jobs as f64 / took.as_secs_f64()
}
