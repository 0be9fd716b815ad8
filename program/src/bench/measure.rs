//! The measurements. Each starts with an empty server. Each ratio comes from rounds that alternate between raw commands
//! and streamfleet, so that a change in the machine's speed affects both.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use streamfleet::dev_server::DevServer;
use streamfleet::job::Encoding;
use streamfleet::{Broker, Producer, RedisConfig, Submission};

use super::fleet::{MeasuringHandler, Running};
use super::raw::{self, Raw};
use super::report::{Backlog, Drain, Enqueue, Latency, Memory, Promotion, Retry};

/// How many handlers run at once while draining; no-op jobs need no more.
const CONCURRENCY: usize = 4000;

const STREAM: &str = "sf:{default}:jobs";

/// A private server, and the settings of the measurements.
pub(super) struct Bench {
    // Dropped before its folder.
    server: DevServer,
    _folder: tempfile::TempDir,
    raw: Raw,
    jobs: usize,
    rounds: usize,
    payload: Vec<u8>,
}

impl Bench {
    /// Starts the server.
    pub(super) async fn start(jobs: usize, rounds: usize) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let server = DevServer::builder().arguments(["--appendonly", "no"]).start(folder.path()).await?;
        let raw = Raw::connect(&server)?;
        Ok(Self { server, _folder: folder, raw, jobs, rounds, payload: vec![b'x'; 200] })
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

    async fn producer(&self) -> Result<Producer> {
        Ok(Producer::new(self.broker().await?.queue(super::QUEUE.parse()?)))
    }

    fn submissions(&self, count: usize) -> Result<impl Iterator<Item = Submission> + use<>> {
        let one = Submission::new(super::TYPE)?.payload(self.payload.clone(), Encoding::Json)?;
        Ok(std::iter::repeat_n(one, count))
    }

    fn reset(&mut self) -> Result<()> {
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
        let ratio = median_ratio(&ours, &raw);
        Ok(Enqueue { raw_per_s: median(raw), per_s: median(ours), ratio })
    }

    /// No-op jobs in one worker process, compared with raw XREADGROUP + XACK + XDEL.
    pub(super) async fn drain(&mut self) -> Result<Drain> {
        let mut rounds = Vec::new();
        for _ in 0..self.rounds {
            self.reset()?;
            rounds.push(self.drain_round().await?);
        }
        let pick = |of: fn(&Round) -> f64| rounds.iter().map(of).collect::<Vec<_>>();
        Ok(Drain {
            raw_per_s: median(pick(|round| round.raw_per_s)),
            per_s: median(pick(|round| round.per_s)),
            ratio: median(pick(|round| round.per_s / round.raw_per_s)),
            raw_redis_us_per_job: median(pick(|round| round.raw_us)),
            redis_us_per_job: median(pick(|round| round.us)),
            redis_cpu_ratio: median(pick(|round| round.us / round.raw_us)),
            worker_us_per_job: median(pick(|round| round.worker_us)),
        })
    }

    /// One pair of drains, on top of what is in Redis now.
    async fn drain_round(&mut self) -> Result<Round> {
        self.raw.enqueue(STREAM, self.jobs, &self.payload)?;
        let cpu = self.raw.cpu()?;
        let took = raw::drain(&self.server, STREAM, self.jobs)?;
        let raw_us = (self.raw.cpu()? - cpu) * 1e6 / self.jobs as f64;
        // The two raw readers leave a few entries behind; they are drained with ours and not counted.
        self.raw.enqueue(STREAM, self.jobs, &self.payload)?;
        let handler = MeasuringHandler::counting();
        let (cpu, own) = (self.raw.cpu()?, own_cpu()?);
        let running = Running::start(&self.server, CONCURRENCY, &handler)?;
        // The raw connections were open before their time started, so our time starts with the first job too.
        handler.until(1).await?;
        let (begun, before) = (Instant::now(), handler.done());
        handler.until(self.jobs).await?;
        let ours = begun.elapsed().mul_f64(self.jobs as f64 / (self.jobs - before).max(1) as f64);
        let us = (self.raw.cpu()? - cpu) * 1e6 / self.jobs as f64;
        let worker_us = (own_cpu()? - own) * 1e6 / self.jobs as f64;
        running.stop().await;
        Ok(Round { raw_per_s: per_s(self.jobs, took), per_s: per_s(self.jobs, ours), raw_us, us, worker_us })
    }

    /// From XADD to the handler's start, at 500 jobs a second.
    pub(super) async fn latency(&mut self) -> Result<Latency> {
        self.reset()?;
        let handler = MeasuringHandler::timing();
        let running = Running::start(&self.server, 64, &handler)?;
        let mut raw = Raw::connect(&self.server)?;
        let jobs = 2500;
        let clock = handler.clone();
        // A separate thread, so that the submitter's pace does not depend on the measured runtime.
        let submitting = tokio::task::spawn_blocking(move || -> Result<()> {
            let begun = Instant::now();
            for nth in 0..jobs {
                let due = begun + Duration::from_millis(2) * nth;
                while Instant::now() < due {
                    std::thread::yield_now();
                }
                let payload = clock.due(Duration::ZERO);
                raw.call(&[
                    b"XADD",
                    STREAM.as_bytes(),
                    b"*",
                    b"type",
                    super::TYPE.as_bytes(),
                    b"payload",
                    &payload,
                ])?;
            }
            Ok(())
        });
        submitting.await??;
        handler.until(jobs as usize).await?;
        running.stop().await;
        Ok(Latency { p50: handler.late_ms(0.5), p99: handler.late_ms(0.99) })
    }

    /// 100,000 jobs due at once, and then 200 a second.
    pub(super) async fn promotion(&mut self) -> Result<Promotion> {
        self.reset()?;
        let producer = self.producer().await?;
        let jobs = 100_000;
        let submissions =
            self.submissions(jobs)?.map(|submission| submission.delay(Duration::from_millis(1)));
        producer.submit_all(submissions).await?;
        let handler = MeasuringHandler::counting();
        let begun = Instant::now();
        let running = Running::start(&self.server, CONCURRENCY, &handler)?;
        while self.raw.call(&[b"ZCARD", b"sf:{default}:delayed"])?.number() > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let promoted = begun.elapsed();
        handler.until(jobs).await?;
        running.stop().await;

        self.reset()?;
        let handler = MeasuringHandler::timing();
        let running = Running::start(&self.server, 64, &handler)?;
        let jobs = 1000;
        let mut tick = tokio::time::interval(Duration::from_millis(5));
        for nth in 0..jobs {
            tick.tick().await;
            let delay = Duration::from_millis(300 + (nth as u64 * 7919) % 1000);
            let submission = Submission::new(super::TYPE)?.payload(handler.due(delay), Encoding::Raw)?;
            producer.submit(submission.delay(delay)).await?;
        }
        handler.until(jobs).await?;
        running.stop().await;
        Ok(Promotion { per_s: per_s(100_000, promoted), late_p99_ms: handler.late_ms(0.99) })
    }

    /// The memory that a waiting job takes in Redis.
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
        Ok(Memory { raw_bytes_per_job: raw, bytes_per_job: ours, ratio: ours / raw })
    }

    /// Jobs that fail once and then succeed.
    pub(super) async fn retry(&mut self) -> Result<Retry> {
        let jobs = 20_000;
        self.reset()?;
        self.raw.enqueue(STREAM, jobs, &self.payload)?;
        let handler = MeasuringHandler::failing_first();
        let begun = Instant::now();
        let running = Running::start(&self.server, CONCURRENCY, &handler)?;
        handler.until(jobs).await?;
        let took = begun.elapsed();
        running.stop().await;
        Ok(Retry { per_s: per_s(jobs, took) })
    }

    /// The drain ratio with two million jobs waiting, and with one million delayed.
    pub(super) async fn backlog(&mut self) -> Result<Backlog> {
        self.reset()?;
        self.raw.enqueue(STREAM, 2_000_000, &self.payload)?;
        let waiting = self.drain_rounds().await?;
        self.reset()?;
        let producer = self.producer().await?;
        let hour = Duration::from_secs(3600);
        let delayed = self.submissions(1_000_000)?.map(move |submission| submission.delay(hour));
        producer.submit_all(delayed).await?;
        let delayed = self.drain_rounds().await?;
        self.raw.flush()?;
        Ok(Backlog { drain_ratio_2m: waiting, drain_ratio_1m_delayed: delayed })
    }

    /// The median ratio of several pairs of drains, on top of what is in Redis now.
    async fn drain_rounds(&mut self) -> Result<f64> {
        let mut ratios = Vec::new();
        for _ in 0..self.rounds {
            let round = self.drain_round().await?;
            ratios.push(round.per_s / round.raw_per_s);
        }
        Ok(median(ratios))
    }
}

struct Round {
    raw_per_s: f64,
    per_s: f64,
    raw_us: f64,
    us: f64,
    worker_us: f64,
}

/// Returns the CPU time that this process has used, in seconds.
fn own_cpu() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("failed to read /proc/self/stat")?;
    // The name, in parentheses, may contain spaces; the times are the 12th and 13th fields after it. See proc_pid_stat(5).
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    Ok((ticks(11) + ticks(12)) / rustix::param::clock_ticks_per_second() as f64)
}

fn per_s(jobs: usize, took: Duration) -> f64 {
    jobs as f64 / took.as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The median of the ratios of each round: the machine's speed affects both figures of a round.
fn median_ratio(ours: &[f64], raw: &[f64]) -> f64 {
    median(ours.iter().zip(raw).map(|(ours, raw)| ours / raw).collect())
}
