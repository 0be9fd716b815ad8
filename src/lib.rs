//! Background jobs on Redis Streams, run by a fleet of identical workers.
//!
//! A job is one entry of a stream. Any language can submit it with `XADD`, as `docs/wire.md` describes. This library
//! runs jobs and submits them from Rust. The `streamfleet` program is a command line around it.
//!
//! ```no_run
//! use streamfleet::{Fleet, FleetConfig, Handler, Job, JobContext, JobError, Producer, Shutdown};
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Mail {
//!     to: String,
//! }
//!
//! impl Job for Mail {
//!     const TYPE: &str = "mail.send";
//! }
//!
//! struct SendMail;
//!
//! impl Handler for SendMail {
//!     type Payload = Mail;
//!     type Output = ();
//!
//!     async fn run(&self, mail: Mail, context: JobContext) -> Result<(), JobError> {
//!         if !mail.to.contains('@') {
//!             return Err(JobError::fatal("not an address")); // dead at once
//!         }
//!         println!("attempt {} of {}: to {}", context.attempt(), context.id(), mail.to);
//!         Ok(())
//!     }
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let config = FleetConfig::default(); // redis://127.0.0.1:6379, the queue `default`
//!
//! let producer = Producer::connect(config.redis.clone(), "default").await?;
//! let mail = Mail { to: "ann@example.com".to_owned() };
//! let id = producer.enqueue(&mail).await?;
//! println!("submitted {id}");
//!
//! let shutdown = Shutdown::new(); // call `shutdown.request()` from anywhere to stop the fleet gracefully
//! let fleet = Fleet::builder(config).handler(SendMail).build();
//! fleet.run(shutdown).await?;
//! # Ok(())
//! # }
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`job`] | the domain: ids, policies, outcomes, and the rules that connect them |
//! | [`cron`] | recurring jobs and their schedules |
//! | [`producer`] | submitting jobs |
//! | [`worker`] | [`Handler`] and the view it has of its job |
//! | [`handlers`] | the built-in handlers: a program or an HTTP POST per job |
//! | [`event`] | the events that a process emits |
//! | [`codecs`] | payloads that are compressed, encrypted or stored apart |
//! | [`hooks`] | notifications about jobs: hooks inside the process, a stream for other processes |
//! | [`traces`] | spans of attempts (feature `otlp`) |
//! | `schema` | checks of payloads against JSON Schemas (feature `schema`) |
//! | [`dev_server`] | a private Redis for development and tests |
//! | `testing` | for your own tests: a single handler inline, or a fleet on a private Redis (feature `testing`) |
//!
//! No feature is on by default. The feature `http` adds the handler that POSTs a job to a URL.
//!
//! Two more crates build on this one. `streamfleet-service` makes a process of its own of a fleet: the configuration file, logs,
//! metrics, probes, signals, alerts. `streamfleet_engine::admin` inspects and repairs queues: jobs, dead letters, recurring
//! jobs, workers, servers.
//!
//! [`Broker`] is a connection to one Redis, and [`Queue`] is one of its queues. [`Fleet`] assembles a process,
//! [`Shutdown`] stops it, [`Reload`] replaces the programs of its pools, [`Probe`] reports its health, and [`Autoscale`] reports its load.

// On docs.rs, each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[macro_use]
extern crate streamfleet_domain;

mod autoscale;
mod batcher;
#[doc(hidden)]
pub mod chore;
pub mod codecs;
pub mod cron;
pub mod dev_server;
pub mod event;
mod fleet;
pub mod handlers;
mod health;
pub mod hooks;
#[cfg(feature = "http")]
#[doc(hidden)]
pub mod http_client;
pub mod job;
#[doc(hidden)]
pub mod leadership;
mod maintenance;
#[doc(hidden)]
pub mod nudges;
#[doc(hidden)]
pub mod otlp;
pub mod producer;
mod recycle;
mod reload;
pub mod schema;
mod shutdown;
mod statistics;
#[cfg(feature = "testing")]
pub mod testing;
pub mod traces;
mod wakeup;
pub mod worker;

use streamfleet_engine as broker;
#[doc(hidden)]
pub use streamfleet_engine::sabotage;
#[cfg(feature = "http")]
use streamfleet_engine::tls;

pub use autoscale::{Autoscale, NoBacklog};
pub use broker::{
    Broker, Class as ErrorClass, Config as RedisConfig, Error as RedisError, Queue, Tls as RedisTls,
};
pub use fleet::{Builder, Config as FleetConfig, Fleet};
pub use health::Probe;
pub use job::Job;
pub use producer::{
    Accepted, Durability, Ended, Enqueue, Producer, Submission, SubmitError, Submitted, UniqueMode,
    UniqueScope, WaitError,
};
pub use reload::Reload;
pub use shutdown::Shutdown;
pub use worker::{
    Handled, Handler, JobContext, JobError, Middleware, Next, Payload, RawPayload, Steps, StepsBuilder,
};
