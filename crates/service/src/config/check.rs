//! The bounds of the values, and the rules between them.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::limits::LimitsSection;
use super::sections::{Config, CronSection, DeadSection, EventsSection, TypeSection, WorkerSection};
use super::{nearest, objectives, schemas, steps};
use crate::alerts;
use crate::cron::{Expression, Invalid, Zone};
use crate::job::format_duration;
use crate::job::{CronName, JobSpec, JobType, KeyLimit, PoolName, Rules};
use streamfleet::handlers::{self, PoolChoice};
use streamfleet::producer::MAX_PAYLOAD_BYTES;

/// A key's path and what is wrong with it.
type Wrong = (Vec<String>, String);

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const LEASE: RangeInclusive<Duration> = Duration::from_millis(500)..=HOUR;
/// A dead letter must be kept long enough for somebody to inspect it.
const DEAD_RETENTION: RangeInclusive<Duration> =
    Duration::from_secs(60)..=Duration::from_secs(10 * 365 * 24 * 3600);
const RETENTION: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(365 * 24 * 3600);
const CONCURRENCY: RangeInclusive<usize> = 1..=100_000;
const EVENTS: RangeInclusive<u64> = 1..=10_000_000;
/// `h.` and the longest name of a header.
const LIMIT_KEY_BYTES: usize = 130;
const PREFETCH_MAX: usize = 100_000;
/// Smaller files of an archive would be very many.
const ROTATE_SIZE_LEAST: u64 = 1024 * 1024;
/// A worker uses about this much memory before its first job.
const RSS_LEAST: u64 = 16 * 1024 * 1024;

/// Returns everything that is wrong.
pub(super) fn run(config: &Config) -> Vec<Wrong> {
    let mut wrong: Vec<Wrong> = listed(&[], config.redis.validate()).collect();
    wrong.extend(worker(&config.worker));
    if config.queues.is_empty() {
        wrong.push((path(&["queues"]), "names no queue; a worker would have nothing to do".to_owned()));
    }
    for (name, queue) in &config.queues {
        if !CONCURRENCY.contains(&queue.concurrency) {
            let reason = format!("is {}, but must be between 1 and {}", queue.concurrency, CONCURRENCY.end());
            wrong.push((path(&["queues", name.as_str(), "concurrency"]), reason));
        }
        let at = ["queues", name.as_str(), "retention"];
        wrong.extend(queue.retention.and_then(|retention| within(retention, RETENTION, &at)));
        let at = ["queues", name.as_str(), "dead_retention"];
        wrong.extend(queue.dead_retention.and_then(|retention| within(retention, DEAD_RETENTION, &at)));
        for (key, most) in [("max_depth", queue.max_depth), ("dead_max", queue.dead_max)] {
            if most == Some(0) {
                let reason = "is 0, but must be at least 1; leave it out for no limit".to_owned();
                wrong.push((path(&["queues", name.as_str(), key]), reason));
            }
        }
        let at = path(&["queues", name.as_str(), "limits"]);
        wrong.extend(limits(&at, &queue.limits));
        if queue.keys.len() > Rules::MAX_FIELDS {
            let reason =
                format!("has {} keys, but must have at most {}", queue.keys.len(), Rules::MAX_FIELDS);
            wrong.push((path(&["queues", name.as_str(), "keys"]), reason));
        }
        for (key, section) in &queue.keys {
            wrong.extend(limits(&path(&["queues", name.as_str(), "keys", &key.to_string()]), section));
        }
        if let Err((key, reason)) = queue.fair() {
            wrong.push((path(&["queues", name.as_str(), key]), reason));
        }
        if queue.max_payload > MAX_PAYLOAD_BYTES {
            let reason = format!("is {}, but must be at most {MAX_PAYLOAD_BYTES}", queue.max_payload);
            wrong.push((path(&["queues", name.as_str(), "max_payload"]), reason));
        }
    }
    for (name, queue) in &config.queues {
        let at = |key| path(&["queues", name.as_str(), "objectives", key]);
        wrong.extend(objectives::check(&queue.objectives).into_iter().map(|(key, reason)| (at(key), reason)));
    }
    for (name, pool) in &config.pools {
        // Its keys are relative to a handler.
        let own = |problem: String| problem.strip_prefix("pool.").map(str::to_owned).unwrap_or(problem);
        wrong.extend(listed(&["pools", name.as_str()], pool.validate().into_iter().map(own)));
    }
    wrong.extend(unknown_pools(config));
    wrong.extend(twofold_pools(config));
    for (name, section) in &config.types {
        wrong.extend(job_type(&path(&["types", name.as_str()]), section));
        wrong.extend(callbacks(name, section));
        wrong.extend(process_limits(name, section));
        wrong.extend(super::errors::check(name, section));
        let unsupported = schemas::unsupported(section);
        wrong.extend(unsupported.map(|reason| (path(&["types", name.as_str(), schemas::KEY]), reason)));
    }
    for (name, section) in &config.cron {
        wrong.extend(recurring(name, section));
    }
    wrong.extend(dead(&config.dead));
    wrong.extend(events(&config.events));
    wrong.extend(listed(&["alerts"], config.alerts.iter().flat_map(alerts::Config::validate)));
    wrong.extend(listed(&["telemetry"], config.telemetry.validate()));
    wrong.extend(
        super::console::check(&config.console).map(|(key, reason)| (path(&["console", key]), reason)),
    );
    wrong
}

fn limits(at: &[String], section: &LimitsSection) -> Vec<Wrong> {
    section.check().into_iter().map(|(key, reason)| ([at, &path(&[key])].concat(), reason)).collect()
}

fn worker(section: &WorkerSection) -> Vec<Wrong> {
    let WorkerSection { lease, drain_timeout, prefetch, retention, unroutable_after, .. } = section;
    let WorkerSection { max_jobs, max_lifetime, max_rss, .. } = section;
    let year = DAY * 365;
    let mut wrong = Vec::new();
    wrong.extend(within(*lease, LEASE, &["worker", "lease"]));
    wrong.extend(within(*drain_timeout, Duration::ZERO..=HOUR, &["worker", "drain_timeout"]));
    wrong.extend(within(*retention, RETENTION, &["worker", "retention"]));
    wrong.extend(within(*unroutable_after, Duration::ZERO..=year, &["worker", "unroutable_after"]));
    if *prefetch > PREFETCH_MAX {
        let reason = format!("is {prefetch}, but must be at most {PREFETCH_MAX}");
        wrong.push((path(&["worker", "prefetch"]), reason));
    }
    if *max_jobs == Some(0) {
        wrong.push((path(&["worker", "max_jobs"]), "is 0, but must be at least 1".to_owned()));
    }
    let lifetimes = Duration::from_secs(1)..=year;
    wrong.extend(max_lifetime.and_then(|most| within(most, lifetimes, &["worker", "max_lifetime"])));
    if max_rss.is_some_and(|most| most < RSS_LEAST) {
        wrong.push((path(&["worker", "max_rss"]), "must be at least 16MiB".to_owned()));
    }
    wrong
}

fn dead(section: &DeadSection) -> Vec<Wrong> {
    let DeadSection { archive, rotate_size, rotate_after } = section;
    let ages = Duration::from_secs(60)..=*RETENTION.end();
    let mut wrong: Vec<Wrong> = within(*rotate_after, ages, &["dead", "rotate_after"]).into_iter().collect();
    if *rotate_size < ROTATE_SIZE_LEAST {
        wrong.push((path(&["dead", "rotate_size"]), "must be at least 1MiB".to_owned()));
    }
    if archive.as_ref().is_some_and(|folder| folder.as_os_str().is_empty()) {
        wrong.push((path(&["dead", "archive"]), "is empty, but must be a folder".to_owned()));
    }
    wrong
}

fn events(section: &EventsSection) -> Vec<Wrong> {
    let EventsSection { publish: _, max_length, queue_length_every } = section;
    let every = within(*queue_length_every, Duration::from_secs(1)..=HOUR, &["events", "queue_length_every"]);
    let mut wrong: Vec<Wrong> = every.into_iter().collect();
    if !EVENTS.contains(max_length) {
        let reason = format!("is {max_length}, but must be between {} and {}", EVENTS.start(), EVENTS.end());
        wrong.push((path(&["events", "max_length"]), reason));
    }
    wrong
}

fn job_type(at: &[String], section: &TypeSection) -> Vec<Wrong> {
    let TypeSection { handler, timeout, max_attempts, max_losses, backoff, jitter, .. } = section;
    let key = |key: &str| [at, &path(&[key])].concat();
    let mut wrong: Vec<Wrong> = Vec::new();
    let timeouts = Duration::from_millis(1)..=JobSpec::LONGEST_TIMEOUT;
    wrong.extend(within(*timeout, timeouts, &[]).map(|(_, reason)| (key("timeout"), reason)));
    for (name, count) in [("max_attempts", max_attempts), ("max_losses", max_losses)] {
        if *count == 0 {
            wrong.push((key(name), "is 0, but must be at least 1".to_owned()));
        }
    }
    if !(0.0..=1.0).contains(jitter) {
        wrong.push((key("jitter"), format!("is {jitter}, but must be between 0 and 1")));
    }
    wrong.extend(backoff.validate().err().map(|reason| (key("backoff"), reason)));
    wrong.extend(limits(&key("limits"), &section.limits));
    if let Some(of_steps) = &section.steps {
        if handler.is_some() {
            let reason = "the type has both a handler and steps, but may have only one of them";
            wrong.push((key("steps"), reason.to_owned()));
        }
        let below = |(key, reason): Wrong| ([at, &key].concat(), reason);
        wrong.extend(steps::check(of_steps, *timeout).into_iter().map(below));
    }
    let at: Vec<&str> = at.iter().map(String::as_str).chain(["handler"]).collect();
    wrong.extend(listed(&at, handler.iter().flat_map(|handler| handler.validate())));
    wrong
}

/// Handlers that name a pool that is not there.
fn unknown_pools(config: &Config) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    for handler in config.placed_handlers() {
        let handlers::Config::Pool(PoolChoice::Named(name)) = handler.config else { continue };
        if !config.pools.contains_key(name) {
            let known = config.pools.keys().map(PoolName::as_str);
            let reason = match nearest(name.as_str(), known) {
                Some(near) => format!("there is no pool {name}; did you mean {near:?}?"),
                None => format!("there is no pool {name}: add [pools.{name}] with its command"),
            };
            wrong.push(([handler.path, path(&["pool"])].concat(), reason));
        }
    }
    wrong
}

/// Pools of types and steps whose names other pools have too: one of them would run the jobs of both.
fn twofold_pools(config: &Config) -> Vec<Wrong> {
    let (mut known, mut wrong) = (config.pools.keys().cloned().collect::<BTreeSet<_>>(), Vec::new());
    for handler in config.placed_handlers() {
        let Some((name, Some(_))) = handler.pool() else { continue };
        if known.contains(&name) {
            let reason =
                format!("has the name of another pool, {name}: describe it in [pools] under another name");
            wrong.push(([handler.path, path(&["pool"])].concat(), reason));
        }
        known.insert(name);
    }
    wrong
}

/// A job that follows a job of its own type would be followed by a third one, and so on.
fn callbacks(name: &JobType, section: &TypeSection) -> Vec<Wrong> {
    let named = [("on_success", &section.on_success), ("on_failure", &section.on_failure)];
    let own = named.into_iter().filter(|(_, callback)| callback.as_ref() == Some(name));
    let wrong = |(key, _)| {
        let reason = "is the type itself, so its jobs would follow each other without end; name another type";
        (path(&["types", name.as_str(), key]), reason.to_owned())
    };
    own.map(wrong).collect()
}

fn process_limits(name: &JobType, section: &TypeSection) -> Vec<Wrong> {
    let TypeSection { concurrency, limit_key, concurrency_per_key, .. } = section;
    let wrong = |key: &str, reason: String| (path(&["types", name.as_str(), key]), reason);
    let mut problems = Vec::new();
    for (key, most) in [("concurrency", concurrency), ("concurrency_per_key", concurrency_per_key)] {
        if let Some(most) = most.filter(|most| !CONCURRENCY.contains(most)) {
            problems.push(wrong(key, format!("is {most}, but must be between 1 and {}", CONCURRENCY.end())));
        }
    }
    match (limit_key, concurrency_per_key) {
        (Some(_), None) => {
            let reason = "has no effect without concurrency_per_key, the most attempts per key";
            problems.push(wrong("limit_key", reason.to_owned()));
        }
        (None, Some(_)) => {
            let reason = "needs limit_key, the field that has the key, such as \"h.tenant\" for a header";
            problems.push(wrong("concurrency_per_key", reason.to_owned()));
        }
        (Some(_), Some(_)) | (None, None) => {}
    }
    problems.extend(limit_key.as_ref().and_then(|key| Some(wrong("limit_key", wrong_field(key)?))));
    problems
}

/// Returns why a field cannot be the key of a limit, if it cannot.
fn wrong_field(key: &str) -> Option<String> {
    if let Some(problem) = KeyLimit::problem_of(key) {
        return Some(format!("is {key:?}, but {problem}"));
    }
    let fits = (1..=LIMIT_KEY_BYTES).contains(&key.len());
    (!fits).then(|| format!("is {key:?}, but must be a field of 1 to {LIMIT_KEY_BYTES} bytes"))
}

fn recurring(name: &CronName, section: &CronSection) -> Vec<Wrong> {
    let wrong = |key: &str, reason: String| (path(&["cron", name.as_str(), key]), reason);
    let mut problems = Vec::new();
    if let Err(error) = section.schedule.parse::<Expression>() {
        problems.push(wrong("schedule", error.to_string()));
    }
    if let Err(error) = section.timezone.parse::<Zone>() {
        problems.push(wrong("timezone", error.to_string()));
    }
    if problems.is_empty()
        && let Err(error) = section.entry(name)
    {
        let key = if matches!(error, Invalid::Payload(_)) { "payload" } else { "schedule" };
        problems.push(wrong(key, error.to_string()));
    }
    problems
}

fn within(value: Duration, allowed: RangeInclusive<Duration>, at: &[&str]) -> Option<Wrong> {
    if allowed.contains(&value) {
        return None;
    }
    let (least, most) = (format_duration(*allowed.start()), format_duration(*allowed.end()));
    Some((path(at), format!("is {}, but must be between {least} and {most}", format_duration(value))))
}

/// Places problems that a component reports as `its.own.key: reason` below the key `at`.
fn listed(at: &[&str], problems: impl IntoIterator<Item = String>) -> impl Iterator<Item = Wrong> {
    let at = path(at);
    problems.into_iter().map(move |problem| match problem.split_once(": ") {
        Some((key, reason)) => {
            (at.iter().cloned().chain(key.split('.').map(str::to_owned)).collect(), reason.to_owned())
        }
        None => (at.clone(), problem),
    })
}

fn path(keys: &[&str]) -> Vec<String> {
    keys.iter().map(ToString::to_string).collect()
}
