//! The live workers, as they report themselves, and consumers whose worker is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use streamfleet::Queue;
use streamfleet::job::{Lane, QueueName, Timestamp};
use streamfleet_engine::admin::WorkerInfo;

use super::frame::Frame;
use super::list::{Asked, Narrow};
use super::section::Section;
use super::table::{Cell, Table};
use super::target;
use crate::console::access::Role;
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;
use crate::times::short;

/// How many queues are read at once.
const AT_ONCE: usize = 8;

/// The most workers of a page.
const MOST: usize = 100;

/// The most consumers without a worker.
const MAX_STALE: usize = 50;

/// The most queues, or types, of a worker, and the most letters that they take.
const MAX_NAMES: usize = 10;
const MAX_LETTERS: usize = 240;

/// The most differences between workers.
const MAX_DIFFERENCES: usize = 20;

#[derive(Template)]
#[template(path = "workers.html")]
struct Workers<'a> {
    frame: &'a Frame,
    narrow: Narrow,
    summary: String,
    live: Table,
    next: Option<String>,
    stale: Table,
    /// How many more consumers there are, in words.
    more_stale: Option<String>,
    remarks: Vec<String>,
}

/// A consumer whose worker is gone.
struct Stale {
    consumer: String,
    queue: QueueName,
    pending: u64,
    idle: Duration,
}

/// Shows the page.
pub(super) async fn show(
    State(site): State<Site>,
    frame: Frame,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    // The groups are read first: a worker that stops in between is then in neither list, rather than in the wrong one.
    let mut queues = target::visible(&site, &frame).await?;
    let here = Link::to(&["workers"]);
    let narrow = Narrow::new(&frame, &here)
        .queue(&frame, &asked, &queues)
        .field(&frame, &asked, ("worker", "column.worker"))
        .field(&frame, &asked, ("type", "column.type"))
        .field(&frame, &asked, ("version", "column.version"));
    asked.retain_queues(&mut queues);
    let reading = stream::iter(queues).map(consumers).buffered(AT_ONCE);
    let read: Vec<_> = reading.collect().await;
    let known = site.known().await?;
    let mut workers: Vec<&WorkerInfo> = known
        .workers
        .iter()
        .filter(|worker| is_visible(&frame, worker) && is_wanted(&frame, &asked, worker))
        .collect();
    let live: BTreeSet<&str> = known.workers.iter().map(|worker| worker.consumer.as_str()).collect();
    let (mut gone, mut remarks) = (Vec::new(), Vec::new());
    for (stale, errors) in read {
        gone.extend(stale.into_iter().filter(|stale| !live.contains(stale.consumer.as_str())));
        remarks.extend(errors);
    }
    remarks.extend(known.missing.iter().cloned());
    let mut different = differing(&frame, &workers);
    let more = different.len().saturating_sub(MAX_DIFFERENCES) as u64;
    different.truncate(MAX_DIFFERENCES);
    remarks.extend(different);
    remarks.extend((more > 0).then(|| frame.number_of("workers.more_differences", more)));
    gone.retain(|stale| asked.fits("worker", &stale.consumer));
    let more_stale = gone.len().saturating_sub(MAX_STALE) as u64;
    gone.truncate(MAX_STALE);
    let count = |name: &str| workers.iter().map(|worker| number(worker, name)).fold(0, u64::saturating_add);
    let (running, slots) = (count("running").to_string(), count("slots").to_string());
    let workers_shown = workers.len().to_string();
    let values = [("workers", &*workers_shown), ("running", &*running), ("slots", &*slots)];
    let summary = frame.fill("workers.summary", &values);
    let next = asked.cut(&mut workers, MOST)?;
    let page = Workers {
        summary,
        live: table(&frame, &workers),
        next: narrow.next(here, next),
        narrow,
        stale: stale_table(&frame, &gone),
        more_stale: (more_stale > 0).then(|| frame.number_of("workers.more_stale", more_stale)),
        remarks,
        frame: &frame,
    };
    Ok(frame.page(frame.t("nav.workers"), Some(Section::Workers), &page))
}

/// The consumers of a queue with their pending entries, and why some could not be listed.
async fn consumers(queue: Queue) -> (Vec<Stale>, Vec<String>) {
    let (mut members, mut errors): (BTreeMap<String, (u64, Duration)>, _) = (BTreeMap::new(), Vec::new());
    for lane in Lane::ALL {
        match queue.consumers(lane).await {
            Ok(consumers) => {
                for consumer in consumers {
                    let (pending, idle) = members.entry(consumer.name).or_insert((0, Duration::MAX));
                    *pending += consumer.pending;
                    *idle = consumer.idle.min(*idle);
                }
            }
            Err(error) => errors.push(format!("{} {lane}: {}", queue.name(), queue.with_keys(&error))),
        }
    }
    let stale = members.into_iter().map(|(consumer, (pending, idle))| Stale {
        consumer,
        queue: queue.name().clone(),
        pending,
        idle,
    });
    (stale.collect(), errors)
}

fn fact<'a>(worker: &'a WorkerInfo, name: &str) -> &'a str {
    worker.facts.get(name).map_or("", String::as_str)
}

fn number(worker: &WorkerInfo, name: &str) -> u64 {
    fact(worker, name).parse().unwrap_or(0)
}

fn list<'a>(worker: &'a WorkerInfo, name: &str) -> impl Iterator<Item = &'a str> {
    fact(worker, name).split(',').filter(|item| !item.is_empty())
}

/// How many of these workers serve a queue, but those that stop or drain.
pub(super) fn serving(workers: &[WorkerInfo], queue: &QueueName) -> u64 {
    let serves = |worker: &&WorkerInfo| {
        !matches!(fact(worker, "state"), "draining" | "drained")
            && list(worker, "queues").any(|name| name == queue.as_str())
    };
    workers.iter().filter(serves).count() as u64
}

/// Whether somebody sees one of the queues of a worker.
fn is_visible(frame: &Frame, worker: &WorkerInfo) -> bool {
    list(worker, "queues").any(|name| name.parse().is_ok_and(|name| frame.may(Role::Viewer, &name)))
}

/// Whether the address asks for a worker.
fn is_wanted(frame: &Frame, asked: &Asked, worker: &WorkerInfo) -> bool {
    let has = |parameter: &str, name: &str| {
        asked.get(parameter).is_none_or(|value| list(worker, name).any(|item| item == value))
    };
    let may_see = |name: &str| name.parse().is_ok_and(|name| frame.may(Role::Viewer, &name));
    asked.get("queue").is_none_or(may_see)
        && has("queue", "queues")
        && has("type", "types")
        && asked.fits("worker", &worker.consumer)
        && asked.fits("version", fact(worker, "version"))
}

/// The first of these names, and how many more there are.
fn some<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let (names, mut letters) = (names.collect::<Vec<&str>>(), 0);
    let fits = |name: &&&str| {
        letters += name.chars().count() + 2;
        letters <= MAX_LETTERS
    };
    let shown: Vec<&str> = names.iter().take(MAX_NAMES).take_while(fits).copied().collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} +{more}", shown.join(", ")),
    }
}

/// When a worker started, as far as its last sign of life tells.
fn started(worker: &WorkerInfo) -> Option<(Timestamp, Timestamp)> {
    let now = Timestamp::from_ms(fact(worker, "beat_ms").parse().ok()?)?;
    let up_ms: u64 = fact(worker, "up_ms").parse().ok()?;
    Some((Timestamp::from_ms(now.as_ms().checked_sub(up_ms)?)?, now))
}

fn table(frame: &Frame, workers: &[&WorkerInfo]) -> Table {
    let columns = [
        ("column.worker", ""),
        ("column.state", "short"),
        ("column.running_slots", "number"),
        ("column.queues", ""),
        ("column.types", "clip"),
        ("column.version", "short"),
        ("column.config", "short"),
        ("column.started", "short"),
    ];
    let mut table = Table::new(frame, "nav.workers", &columns).or(frame.t("workers.none"));
    for worker in workers {
        let state = match fact(worker, "state") {
            "draining" => Cell::like(frame.t("worker.draining"), "state retrying"),
            "drained" => Cell::like(frame.t("worker.drained"), "state scheduled"),
            _ => Cell::like(frame.t("worker.running"), "state done"),
        };
        let asked = worker.drain().map(|drain| format!("{}: {}", drain.by, frame.written(&drain.why)));
        let state = state.under(asked.unwrap_or_default());
        let queues = list(worker, "queues")
            .filter(|name| name.parse().is_ok_and(|name| frame.may(Role::Viewer, &name)));
        let running = Link::to(&["running"]).with("worker", &worker.consumer);
        let slots = format!("{} / {}", number(worker, "running"), number(worker, "slots"));
        table.add([
            Cell::like(&worker.consumer, "mono"),
            state,
            Cell::link(slots, &running),
            Cell::text(some(queues)),
            Cell::text(some(list(worker, "types"))),
            Cell::text(fact(worker, "version")),
            Cell::like(known(fact(worker, "config")), "mono"),
            started(worker).map_or_else(|| Cell::text("–"), |(at, now)| Cell::time(frame, at, now)),
        ]);
    }
    table
}

fn stale_table(frame: &Frame, gone: &[Stale]) -> Table {
    let columns = [
        ("column.worker", ""),
        ("column.queue", "short"),
        ("column.pending", "number"),
        ("column.silent", "short"),
    ];
    let mut table = Table::new(frame, "workers.stale", &columns).or(frame.t("workers.no_stale"));
    for stale in gone {
        let queue = stale.queue.as_str();
        table.add([
            Cell::like(&stale.consumer, "mono"),
            Cell::link(queue, &Link::queue(queue, &[])),
            Cell::number(stale.pending),
            Cell::text(short(stale.idle)),
        ]);
    }
    table
}

/// A fact, or a dash if the worker does not report it.
fn known(fact: &str) -> &str {
    if fact.is_empty() { "–" } else { fact }
}

/// What differs between workers that serve the same queue: their versions, their configurations, or the types that they know.
fn differing(frame: &Frame, workers: &[&WorkerInfo]) -> Vec<String> {
    let mut queues: BTreeMap<&str, Vec<&WorkerInfo>> = BTreeMap::new();
    for worker in workers {
        for queue in list(worker, "queues")
            .filter(|name| name.parse().is_ok_and(|name| frame.may(Role::Viewer, &name)))
        {
            queues.entry(queue).or_default().push(worker);
        }
    }
    let mut remarks = Vec::new();
    for (queue, workers) in queues {
        for (name, key) in
            [("version", "workers.versions"), ("config", "workers.configs"), ("types", "workers.types")]
        {
            // Workers of older versions do not report their configurations, and their versions differ.
            let values = workers.iter().map(|worker| fact(worker, name)).filter(|value| !value.is_empty());
            let values: BTreeSet<&str> = values.collect();
            if values.len() > 1 {
                remarks.push(frame.fill(key, &[("queue", queue), ("count", &values.len().to_string())]));
            }
        }
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_types_are_counted() {
        let names: Vec<String> = (0..MAX_NAMES + 2).map(|nth| format!("t{nth}")).collect();
        assert!(some(names.iter().map(String::as_str)).ends_with("t9 +2"));
        assert_eq!(some(["a", "b"].into_iter()), "a, b");
        assert_eq!(
            some([&*"a".repeat(128), &*"b".repeat(128)].into_iter()),
            format!("{} +1", "a".repeat(128))
        );
    }
}
