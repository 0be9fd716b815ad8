//! The load of an audit: plain jobs in bulk and, among them, orders of every kind, spread over its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;
use streamfleet::{Broker, Producer};
use tokio::task::JoinSet;

use super::bulk::{Bulk, Carrier};
use super::options::Options;
use super::order::order;
use super::register::Register;
use super::send::Sender;
use harness::fleet::config;
use harness::redis_server::RedisServer;

const STEP: Duration = Duration::from_millis(50);
const UNDER_WAY: usize = 64;

/// Orders per second, if there are enough jobs for that. Each is one to five jobs.
const ORDERS_PER_SECOND: u64 = 20;

/// At least one in this many jobs is an order, and at most one in [`FEWEST_JOBS_PER_ORDER`].
const JOBS_PER_ORDER: u64 = 20;
const FEWEST_JOBS_PER_ORDER: u64 = 3;

/// No plain jobs are submitted while this many jobs are waiting.
const MOST_WAITING: u64 = 20_000;

/// How long after the end of the load an order is still sent again.
const LATE: Duration = Duration::from_secs(60);

/// Submits all jobs of an audit.
pub(crate) struct Load {
    pub server: Arc<RedisServer>,
    /// The address of a proxy, which suffers faults too.
    pub through: String,
    pub register: Arc<Register>,
    pub bulk: Arc<Bulk>,
    /// How many jobs were waiting when last counted.
    pub waiting: Arc<AtomicU64>,
    pub options: Options,
}

impl Load {
    /// Submits until all jobs are accepted and all requests are answered.
    pub(crate) fn run(&self) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.unwrap().block_on(self.submit());
    }

    async fn submit(&self) {
        let (started, length) = (Instant::now(), self.options.length);
        let sender = Arc::new(Sender {
            near: connect(&self.server.url()).await,
            far: connect(&self.through).await,
            server: Arc::clone(&self.server),
            register: Arc::clone(&self.register),
            give_up: started + length + LATE,
        });
        let carrier = Arc::new(Carrier::new(&self.server, connect(&self.through).await, &self.bulk));
        let mut random = StdRng::seed_from_u64(self.options.seed);
        let (mut ticks, mut under_way, mut ordered) = (tokio::time::interval(STEP), JoinSet::new(), 0);
        let orders = self.orders();
        while started.elapsed() < length || self.submitted() < self.options.jobs {
            ticks.tick().await;
            let share = (started.elapsed().as_secs_f64() / length.as_secs_f64()).min(1.0);
            while ordered < share_of(orders, share) {
                ordered += 1;
                let order = order(&mut random);
                let mark = format!("j{}", self.register.ordered(order.name));
                let sender = Arc::clone(&sender);
                under_way.spawn(async move { sender.send(mark, order).await });
            }
            let due = share_of(self.options.jobs, share).saturating_sub(self.submitted());
            if self.waiting.load(Ordering::SeqCst) < MOST_WAITING {
                for batch in self.bulk.take(due) {
                    let carrier = Arc::clone(&carrier);
                    under_way.spawn(async move { carrier.carry(batch).await });
                }
            }
            while under_way.len() > UNDER_WAY {
                under_way.join_next().await.unwrap().unwrap();
            }
            while let Some(sent) = under_way.try_join_next() {
                sent.unwrap();
            }
        }
        while let Some(sent) = under_way.join_next().await {
            sent.unwrap();
        }
    }

    fn orders(&self) -> u64 {
        let Options { jobs, length, .. } = self.options;
        let usual = ORDERS_PER_SECOND * length.as_secs();
        (jobs / JOBS_PER_ORDER).max(usual.min(jobs / FEWEST_JOBS_PER_ORDER))
    }

    /// Returns how many jobs are accepted, or under way in bulk.
    fn submitted(&self) -> u64 {
        self.register.accepted() + self.bulk.submitted()
    }
}

fn share_of(all: u64, share: f64) -> u64 {
    (all as f64 * share) as u64
}

async fn connect(url: &str) -> Producer {
    let broker = Broker::connect(config(url).redis).await.unwrap();
    Producer::new(broker.queue("default".parse().unwrap()))
}
