//! A handler whose jobs run until they may end, which counts how many run at once, and a process that runs it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use streamfleet::job::{Encoding, Policy};
use streamfleet::{
    Fleet, FleetConfig, Handler, JobContext, JobError, Producer, Queue, RawPayload, Submission,
};
use tokio::sync::watch;

use harness::fleet::{Acts, Running, quick};

/// Runs until the gate is opened.
#[derive(Clone)]
pub(super) struct Slow {
    open: watch::Sender<bool>,
    account: Arc<Mutex<Account>>,
}

/// What ran so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    live: BTreeMap<String, usize>,
    /// The most attempts that ran at once.
    pub(super) most: usize,
    /// The most attempts that ran at once with the same tenant.
    pub(super) most_of_tenant: usize,
    /// How often each job ended well.
    pub(super) ended: BTreeMap<String, u32>,
}

impl Account {
    pub(super) fn live(&self) -> usize {
        self.live.values().sum()
    }
}

impl Slow {
    pub(super) fn closed() -> Self {
        Self { open: watch::Sender::new(false), account: Arc::default() }
    }

    pub(super) fn open(&self) {
        self.open.send_replace(true);
    }

    pub(super) fn account(&self) -> Account {
        self.account.lock().unwrap().clone()
    }

    fn start(&self, tenant: &str) {
        let mut account = self.account.lock().unwrap();
        let of_tenant = account.live.entry(tenant.to_owned()).or_default();
        *of_tenant += 1;
        let of_tenant = *of_tenant;
        account.most_of_tenant = account.most_of_tenant.max(of_tenant);
        account.most = account.most.max(account.live());
    }

    fn end(&self, tenant: &str, ended: Option<String>) {
        let mut account = self.account.lock().unwrap();
        *account.live.get_mut(tenant).unwrap() -= 1;
        if let Some(job) = ended {
            *account.ended.entry(job).or_default() += 1;
        }
    }
}

impl Handler for Slow {
    type Payload = RawPayload;
    type Output = Value;

    async fn run(&self, _payload: RawPayload, context: JobContext) -> Result<Value, JobError> {
        let tenant = context.header("tenant").unwrap_or("none").to_owned();
        self.start(&tenant);
        let mut open = self.open.subscribe();
        tokio::select! {
            _ = open.wait_for(|open| *open) => {}
            () = context.cancellation().cancelled() => {
                self.end(&tenant, None);
                return Err(JobError::retry("cut"));
            }
        }
        self.end(&tenant, Some(context.id().to_string()));
        Ok(Value::Null)
    }

    fn grace(&self) -> Duration {
        Duration::from_secs(2)
    }
}

/// Starts a process with the limited type `slow` and the type `quick`, in 64 slots.
pub(super) fn start(config: FleetConfig, policy: Policy, slow: &Slow, well: &Acts) -> Running {
    let builder = Fleet::builder(config).handler_with("slow", policy, slow.clone()).unwrap();
    Running::of(builder.handler_with("quick", quick(3), well.clone()).unwrap().build())
}

/// Returns a job of this type.
pub(super) fn job(job_type: &str) -> Submission {
    Submission::new(job_type).unwrap().payload("x", Encoding::Raw).unwrap()
}

/// Submits this many jobs of a type.
pub(super) async fn submit(queue: &Queue, job_type: &str, count: usize) {
    Producer::new(queue.clone()).submit_all((0..count).map(|_| job(job_type))).await.unwrap();
}
