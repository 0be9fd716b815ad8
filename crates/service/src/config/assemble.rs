//! Turns the configuration into a fleet's process.

use std::collections::{BTreeMap, BTreeSet};

use super::Effective;
use super::pools::Pools;
use super::problem::{Invalid, Problem, with_cause};
use super::sections::{Config, CronSection, TypeSection};
use super::steps::StepSection;
use crate::cron::{self, Entry, Schedule};
use crate::job::{CronName, Encoding, JobType, Policy, QueueName, StepName};
use streamfleet::handlers::{self, Exec, Noop};
use streamfleet::{Builder, Fleet, FleetConfig, Steps};

impl Config {
    /// Returns the part of the configuration that a fleet needs.
    pub fn fleet_config(&self) -> FleetConfig {
        let queues = self.queues.iter().map(|(name, section)| {
            let is_kept = self.history.as_ref().is_some_and(|history| history.needs_fields_of(name));
            (name.clone(), section.served.clone().journal_fields(is_kept))
        });
        let type_limits = self.types.iter().map(|(name, section)| (name.clone(), section.limits));
        let worker = self.worker.clone().archive(self.dead.clone()).type_limits(type_limits).queues(queues);
        FleetConfig::default().redis(self.redis.clone()).worker(worker).events(self.events.clone())
    }

    /// Returns the queues whose history a process with this configuration may write.
    pub fn history_queues(&self) -> Vec<QueueName> {
        let named = self.history.iter().flat_map(|history| &history.queues);
        let has = |queue: &&QueueName| self.history.as_ref().is_some_and(|history| history.has(queue));
        let queues: BTreeSet<&QueueName> = self.queues.keys().chain(named).filter(has).collect();
        queues.into_iter().cloned().collect()
    }

    /// Returns the types whose handlers run programs.
    pub fn programs(&self) -> Vec<JobType> {
        let runs = |section: &TypeSection| {
            section.handlers().any(|(_, handler)| matches!(handler, handlers::Config::Exec(_)))
        };
        let programs = self.types.iter().filter(|(_, section)| runs(section));
        programs.map(|(name, _)| name.clone()).collect()
    }
}

impl CronSection {
    /// Returns the recurring job that this section describes.
    pub(super) fn entry(&self, name: &CronName) -> Result<Entry, cron::Invalid> {
        let schedule = Schedule::new(&self.schedule, &self.timezone)?;
        let entry = Entry::new(name.as_str(), schedule, self.job_type.as_str())?
            .in_queue(self.queue.clone())
            .by_lane(self.lane)
            .when_missed(self.missed);
        let Some(payload) = &self.payload else { return Ok(entry) };
        let refused = |error: &dyn std::fmt::Display| cron::Invalid::Payload(error.to_string());
        let json = match payload.as_str() {
            Some(text) => text.to_owned(),
            None => payload.to_string(),
        };
        let value = || serde_json::from_str::<serde_json::Value>(&json);
        let bytes = match self.encoding {
            Encoding::Raw => json.into_bytes(),
            Encoding::Json => {
                value().map_err(|error| refused(&format_args!("is not JSON: {error}; see encoding")))?;
                json.into_bytes()
            }
            Encoding::Msgpack => {
                let value = value().map_err(|error| refused(&format_args!("is not JSON: {error}")))?;
                rmp_serde::to_vec_named(&value).map_err(|error| refused(&error))?
            }
        };
        entry.payload(&bytes, self.encoding)
    }
}

impl Effective {
    /// Returns a problem for each program of a handler that this machine does not have. A worker starts all the same:
    /// it notices when it starts the program, and the job fails.
    pub fn missing_programs(&self) -> Vec<Problem> {
        let of_handlers = self.config.placed_handlers().filter_map(|handler| {
            let reason = handler.config.missing_program()?;
            let kind = if matches!(handler.config, handlers::Config::Exec(_)) { "exec" } else { "pool" };
            let path = [handler.path, vec![kind.to_owned(), "command".to_owned()]].concat();
            Some((path, reason))
        });
        let of_pools = self.config.pools.iter().filter_map(|(name, pool)| {
            let path = ["pools", name.as_str(), "command"].map(str::to_owned).to_vec();
            Some((path, pool.missing_program()?))
        });
        let missing = of_handlers.chain(of_pools);
        missing.map(|(path, reason)| Problem::at(&path, reason, &self.tree)).collect()
    }

    /// Returns a builder for a fleet's process, with the handlers of all types and the recurring jobs.
    ///
    /// # Errors
    ///
    /// [`Invalid`] with the types that have no handler, and the handlers that cannot be created.
    pub fn fleet(&self) -> Result<Builder, Invalid> {
        let mut builder = Fleet::builder(self.config.fleet_config()).config_digest(self.digest());
        let (pools, mut problems) = Pools::of(self);
        for (name, section) in &self.config.types {
            if let Err(reason) = register(&mut builder, &pools, name, section) {
                let path = ["types".to_owned(), name.to_string()];
                problems.push(Problem::at(&path, reason, &self.tree));
            }
        }
        let (schemas, wrong) = self.read_schemas();
        builder = builder.schemas(schemas);
        problems.extend(wrong);
        for (name, section) in &self.config.cron {
            match section.entry(name) {
                Ok(entry) => builder = builder.cron(entry),
                Err(error) => {
                    let path = ["cron".to_owned(), name.to_string()];
                    problems.push(Problem::at(&path, error.to_string(), &self.tree));
                }
            }
        }
        Invalid::unless_none(problems).map(|()| builder)
    }
}

fn register(
    builder: &mut Builder,
    pools: &Pools,
    name: &JobType,
    section: &TypeSection,
) -> Result<(), String> {
    let (name, policy) = (name.clone(), section.policy.clone());
    if let Some(sections) = &section.steps {
        let most = section.concurrent_steps.unwrap_or(1);
        let steps = build_steps(builder, pools, (&name, &policy), (sections, most))?;
        builder.register_steps(name, policy, steps);
        return Ok(());
    }
    match section.handler.clone() {
        None => return Err(Problem::NO_HANDLER.to_owned()),
        Some(handlers::Config::Noop) => builder.register(name, policy, Noop),
        Some(handlers::Config::Exec(config)) => {
            builder.register(name, policy, Exec::new(config).map_err(|error| with_cause(&error))?);
        }
        Some(handlers::Config::Pool(choice)) => {
            let pool = pools.get(&choice, &name, None)?;
            builder.register_pool(name, policy, pool);
        }
        Some(handlers::Config::Http(config)) => {
            builder.register(name, policy, handlers::Http::open(config).map_err(|error| with_cause(&error))?);
        }
    }
    Ok(())
}

/// Builds the steps of a type, each with its handler.
fn build_steps(
    builder: &mut Builder,
    pools: &Pools,
    (job_type, policy): (&JobType, &Policy),
    (sections, at_once): (&BTreeMap<StepName, StepSection>, usize),
) -> Result<Steps, String> {
    let mut steps = Steps::builder().concurrent(at_once);
    for (name, section) in sections {
        let kind = section.kind.ok_or_else(|| format!("the step {name} has no kind"))?;
        let failed = |error: handlers::Error| format!("the step {name}: {}", with_cause(&error));
        let step = name.as_str();
        steps = match section.handler.clone() {
            None => return Err(format!("the step {name} has no handler")),
            Some(handlers::Config::Noop) => steps.step(step, kind, Noop),
            Some(handlers::Config::Exec(config)) => {
                steps.step(step, kind, Exec::new(config).map_err(failed)?)
            }
            Some(handlers::Config::Pool(choice)) => {
                let pool = pools.get(&choice, job_type, Some(step))?;
                builder.run_pool(pool);
                steps.step(step, kind, pool.serving(job_type, policy))
            }
            Some(handlers::Config::Http(config)) => {
                steps.step(step, kind, handlers::Http::open(config).map_err(failed)?)
            }
        };
        steps = steps.after(step, &section.after).limits(step, section.limits.clone());
    }
    steps.build().map_err(|error| error.to_string())
}
