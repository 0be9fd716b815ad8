//! The bounds of the values, and the rules between them. Each component checks its own.

use std::collections::BTreeSet;

use super::database::{HistorySection, OutboxSection};
use super::sections::{Config, CronSection, QueueSection, TypeSection};
use super::{errors, nearest, schemas, steps};
use crate::alerts;
use crate::cron::{Expression, Invalid, Zone};
use crate::job::{CronName, JobType, OutOfBounds, Plan, PoolName};
use streamfleet::handlers::{self, PoolChoice};
use streamfleet::producer::MAX_PAYLOAD_BYTES;

/// Returns everything that is wrong.
pub(super) fn run(config: &Config) -> Vec<OutOfBounds> {
    let mut wrong = listed(&[], config.redis.validate());
    wrong.extend(config.fleet_config().check());
    for (name, section) in &config.queues {
        wrong.extend(below(queue(section), &["queues", name.as_str()]));
    }
    for (name, pool) in &config.pools {
        // Its keys are relative to a handler.
        let own = |problem: String| problem.strip_prefix("pool.").map(str::to_owned).unwrap_or(problem);
        wrong.extend(listed(&["pools", name.as_str()], pool.validate().into_iter().map(own)));
    }
    wrong.extend(unknown_pools(config));
    wrong.extend(twofold_pools(config));
    for (name, section) in &config.types {
        wrong.extend(below(job_type(name, section), &["types", name.as_str()]));
    }
    for (name, section) in &config.cron {
        wrong.extend(below(recurring(name, section), &["cron", name.as_str()]));
    }
    wrong.extend(listed(&["alerts"], config.alerts.iter().flat_map(alerts::Config::validate)));
    wrong.extend(listed(&["telemetry"], config.telemetry.validate()));
    wrong.extend(below(config.console.check(), &["console"]));
    wrong.extend(below(config.history.iter().flat_map(HistorySection::check).collect(), &["history"]));
    wrong.extend(below(config.outbox.iter().flat_map(OutboxSection::check).collect(), &["outbox"]));
    wrong
}

/// Moves problems below these keys.
fn below(wrong: Vec<OutOfBounds>, keys: &[&str]) -> impl Iterator<Item = OutOfBounds> {
    wrong.into_iter().map(move |wrong| wrong.below(keys))
}

/// What is wrong with a queue's keys, except those of the worker.
fn queue(section: &QueueSection) -> Vec<OutOfBounds> {
    let QueueSection { served: _, max_payload, objectives } = section;
    let large = format!("is {max_payload}, but must be at most {MAX_PAYLOAD_BYTES}");
    let large = (*max_payload > MAX_PAYLOAD_BYTES).then(|| OutOfBounds::new("max_payload", large));
    let objectives = objectives.check().into_iter().map(|wrong| wrong.below(&["objectives"]));
    objectives.chain(large).collect()
}

fn job_type(name: &JobType, section: &TypeSection) -> Vec<OutOfBounds> {
    let TypeSection { handler, steps, concurrent_steps, policy, .. } = section;
    let mut wrong = policy.check();
    // A job that follows a job of its own type would be followed by a third one, and so on.
    let callbacks = [("on_success", &policy.on_success), ("on_failure", &policy.on_failure)];
    let own = callbacks.into_iter().filter(|(_, callback)| callback.as_ref() == Some(name));
    let reason = "is the type itself, so its jobs would follow each other without end; name another type";
    wrong.extend(own.map(|(key, _)| OutOfBounds::new(key, reason)));
    wrong.extend(errors::useless(section));
    wrong.extend(schemas::unsupported(section).map(|reason| OutOfBounds::new(schemas::KEY, reason)));
    let most = Plan::MAX_STEPS;
    wrong.extend(concurrent_steps.filter(|count| !(1..=most).contains(count)).map(|count| {
        OutOfBounds::new("concurrent_steps", format!("is {count}, but must be between 1 and {most}"))
    }));
    if concurrent_steps.is_some() && steps.is_none() {
        wrong.push(OutOfBounds::new("concurrent_steps", "is for a type with steps, and this one has none"));
    }
    if let Some(of_steps) = steps {
        let reason = "the type has both a handler and steps, but may have only one of them";
        wrong.extend(handler.is_some().then(|| OutOfBounds::new("steps", reason)));
        wrong.extend(steps::check(of_steps, policy.timeout));
    }
    wrong.extend(listed(&["handler"], handler.iter().flat_map(handlers::Config::validate)));
    wrong
}

/// Handlers that name a pool that is not there.
fn unknown_pools(config: &Config) -> Vec<OutOfBounds> {
    let mut wrong = Vec::new();
    for handler in config.placed_handlers() {
        let handlers::Config::Pool(PoolChoice::Named(name)) = handler.config else { continue };
        if !config.pools.contains_key(name) {
            let known = config.pools.keys().map(PoolName::as_str);
            let reason = match nearest(name.as_str(), known) {
                Some(near) => format!("there is no pool {name}; did you mean {near:?}?"),
                None => format!("there is no pool {name}: add [pools.{name}] with its command"),
            };
            wrong.push(OutOfBounds::at([handler.path, vec!["pool".to_owned()]].concat(), reason));
        }
    }
    wrong
}

/// Pools of types and steps whose names other pools have too: one of them would run the jobs of both.
fn twofold_pools(config: &Config) -> Vec<OutOfBounds> {
    let (mut known, mut wrong) = (config.pools.keys().cloned().collect::<BTreeSet<_>>(), Vec::new());
    for handler in config.placed_handlers() {
        let Some((name, Some(_))) = handler.pool() else { continue };
        if known.contains(&name) {
            let reason =
                format!("has the name of another pool, {name}: describe it in [pools] under another name");
            wrong.push(OutOfBounds::at([handler.path, vec!["pool".to_owned()]].concat(), reason));
        }
        known.insert(name);
    }
    wrong
}

fn recurring(name: &CronName, section: &CronSection) -> Vec<OutOfBounds> {
    let schedule = section.schedule.parse::<Expression>().err().map(|error| error.to_string());
    let timezone = section.timezone.parse::<Zone>().err().map(|error| error.to_string());
    let parts = [("schedule", schedule), ("timezone", timezone)].into_iter();
    let mut wrong: Vec<_> = parts.filter_map(|(key, why)| Some(OutOfBounds::new(key, why?))).collect();
    if wrong.is_empty()
        && let Err(error) = section.entry(name)
    {
        let key = if matches!(error, Invalid::Payload(_)) { "payload" } else { "schedule" };
        wrong.push(OutOfBounds::new(key, error.to_string()));
    }
    wrong
}

/// Places problems that a component reports as `its.own.key: reason` below the key `at`.
pub(super) fn listed(at: &[&str], problems: impl IntoIterator<Item = String>) -> Vec<OutOfBounds> {
    let placed = problems.into_iter().map(|problem| {
        let (key, reason) = problem.split_once(": ").unwrap_or(("", &problem));
        let keys = key.split('.').filter(|key| !key.is_empty());
        OutOfBounds::at(at.iter().copied().chain(keys).map(str::to_owned).collect(), reason)
    });
    placed.collect()
}
