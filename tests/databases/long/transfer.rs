//! A worker whose jobs are transfers between accounts: this same test program, started again.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::pool::PoolOptions;
use sqlx::{Connection as _, Executor as _, MySql, Pool, Postgres, Sqlite, Transaction};
use streamfleet::job::{Backoff, Policy};
use streamfleet::{Fleet, FleetConfig, Handler, Job, JobContext, JobError, Shutdown};
use streamfleet_sql::effects::{Key, OnceError, once};

use harness::process::{Launch, orders};

/// How many jobs a worker runs at once, and how many connections it has.
const CONCURRENCY: u32 = 8;

/// What a worker process gets from its environment.
#[derive(Serialize, Deserialize)]
pub(super) struct Bank {
    pub(super) redis: String,
    pub(super) database: String,
}

/// A job.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Transfer {
    pub(super) source: usize,
    pub(super) target: usize,
    pub(super) amount: i64,
}

impl Job for Transfer {
    const TYPE: &'static str = "transfer";
}

/// Serves with a handler for this database of sqlx.
macro_rules! serve {
    ($bank:expr, $database:ident, $begin:literal) => {{
        struct Teller(Pool<$database>);

        impl Handler for Teller {
            type Payload = Transfer;
            type Output = ();

            async fn run(&self, transfer: Transfer, context: JobContext) -> Result<(), JobError> {
                let (queue, job_id) = (context.queue().clone(), context.id().clone());
                let key = Key { queue, job_id, step: String::new() };
                let sql = transfer.sql(&key);
                let mut connection = self.0.acquire().await?;
                let mut transaction = connection.begin_with($begin).await?;
                let work = async |transaction: &mut Transaction<'_, $database>| {
                    (&mut **transaction).execute(sqlx::raw_sql(sqlx::AssertSqlSafe(sql))).await.map(drop)
                };
                let done: Result<_, OnceError<sqlx::Error>> =
                    once(&mut transaction, &key, context.fence(), work).await;
                done?;
                Ok(transaction.commit().await?)
            }
        }

        let pool = PoolOptions::new().max_connections(CONCURRENCY).acquire_timeout(Duration::from_secs(2));
        let pool = pool.connect_lazy(&$bank.database).unwrap();
        $bank.serve(Teller(pool)).await;
    }};
}

impl Bank {
    /// Returns the worker process to start.
    pub(super) fn launch(&self) -> Launch {
        Launch::this_program("long::transfer::worker_process_entry", self)
    }

    async fn run(self) {
        match self.database.split(':').next() {
            Some("mysql") => serve!(self, MySql, "BEGIN"),
            Some("postgres") => serve!(self, Postgres, "BEGIN"),
            Some("sqlite") => serve!(self, Sqlite, "BEGIN IMMEDIATE"),
            other => panic!("{other:?} is no database"),
        }
    }

    /// Runs jobs until the process ends. Neither an error of the database nor a kill ends a job for good.
    async fn serve(self, teller: impl Handler<Payload = Transfer>) {
        let mut config = FleetConfig::default();
        config.redis.url = self.redis.as_str().into();
        config.worker.lease = Duration::from_secs(1);
        for queue in config.worker.queues.values_mut() {
            queue.concurrency = CONCURRENCY as usize;
        }
        let backoff = Backoff::Fixed(Duration::from_millis(50));
        let policy = Policy::default().max_attempts(10_000).max_losses(10_000).backoff(backoff);
        let fleet = Fleet::builder(config).handler_with("transfer", policy, teller).unwrap().build();
        fleet.run(Shutdown::new()).await.unwrap();
    }
}

impl Transfer {
    fn sql(&self, key: &Key) -> String {
        let Self { source, target, amount } = self;
        let id = &key.job_id;
        format!(
            "UPDATE accounts SET balance = balance - {amount} WHERE id = {source}; \
             UPDATE accounts SET balance = balance + {amount} WHERE id = {target}; \
             INSERT INTO transfers (id) VALUES ('{id}')"
        )
    }
}

/// Becomes a worker if [`Bank::launch`] started this process; otherwise returns at once.
#[test]
fn worker_process_entry() {
    if let Some(bank) = orders::<Bank>() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.unwrap().block_on(bank.run());
    }
}
