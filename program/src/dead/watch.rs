//! `dead watch`: how often jobs die of what, live. It reads only the counts of the groups.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::job::{DeadReason, QueueName, Timestamp};
use streamfleet::{Broker, Queue};
use streamfleet_engine::admin::{DeadGroup, DeadGroups};
use streamfleet_operations::dead::OTHER;

use crate::exit::Exit;
use crate::output::{self, Column, List, Repeat, View};
use crate::{Context, queues};

/// How `dead watch` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet dead watch --queue mail
  streamfleet dead watch --interval 10s -o json";

/// Over how long rates are measured.
const WINDOW: Duration = Duration::from_secs(60);

/// How many groups are shown.
const SHOWN: usize = 20;

/// The least time between two looks that are remembered. Each of them may have 10,000 groups.
const APART: Duration = Duration::from_secs(1);

/// The most looks that are remembered, even if the clock of the server steps.
const MAX_LOOKS: usize = 64;

/// The arguments of `dead watch`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// How often to look.
    #[arg(long, value_name = "INTERVAL", default_value = "2s", value_parser = Repeat::interval)]
    interval: Duration,
}

/// The groups in which jobs died, for JSON output.
type Page = List<Rate, Facts>;

/// What is known about all groups, for JSON output.
#[derive(Serialize)]
struct Facts {
    queue: String,
    /// How many dead letters the queue has.
    total: u64,
    /// Over how many seconds deaths are counted.
    seconds: f64,
}

/// How often jobs died, for JSON output.
#[derive(Serialize)]
struct Rate {
    group: String,
    /// How many died in this time.
    deaths: u64,
    per_minute: f64,
    /// How many letters the group has.
    count: u64,
    #[serde(rename = "type")]
    job_type: Option<String>,
    reason: Option<&'static str>,
    error: String,
}

/// How many had died in each group at some time.
struct Look {
    at: Timestamp,
    deaths: BTreeMap<String, u64>,
}

/// Shows the rates until interrupted.
pub(super) async fn run(
    args: Args,
    broker: &Broker,
    queue: QueueName,
    context: &Context,
) -> anyhow::Result<Exit> {
    let queue = broker.queue(queue);
    let mut looks = VecDeque::new();
    let look = async || {
        let now = queue.snapshot().await.context("failed to ask for the time")?.now;
        let dead = queue.dead_letters().groups().await.context("failed to read the groups")?;
        let page = page(&mut looks, dead, now, &queue);
        let names = |page: &Page| page.items.iter().map(|rate| rate.group.clone()).collect();
        queues::listing((&page, page.facts.total == 0), (broker, &queue), context, (names, show)).await
    };
    Repeat::every(args.interval).run(context.output, look).await
}

fn name(group: &DeadGroup) -> String {
    group.fingerprint.clone().unwrap_or_else(|| OTHER.to_owned())
}

/// Compares what is known now with the oldest look within the window.
fn page(looks: &mut VecDeque<Look>, dead: DeadGroups, now: Timestamp, queue: &Queue) -> Page {
    while looks.len() > 1 && (looks.len() >= MAX_LOOKS || now.since(looks[1].at) >= WINDOW) {
        looks.pop_front();
    }
    if looks.back().is_none_or(|last| now < last.at || now.since(last.at) >= APART) {
        let deaths = dead.groups.iter().map(|group| (name(group), group.deaths)).collect();
        looks.push_back(Look { at: now, deaths });
    }
    let first = &looks[0];
    let seconds = now.since(first.at).as_secs_f64();
    let mut rates: Vec<Rate> =
        dead.groups.into_iter().filter_map(|group| rate(group, first, seconds)).collect();
    rates.sort_by_key(|rate| std::cmp::Reverse(rate.deaths));
    rates.truncate(SHOWN);
    let facts = Facts { queue: queue.name().to_string(), total: dead.letters, seconds };
    Page { items: rates, next: None, facts, former: None }
}

/// How often jobs of a group have died since a look; `None` if none did.
fn rate(group: DeadGroup, since: &Look, seconds: f64) -> Option<Rate> {
    let deaths = died(&since.deaths, since.at, (name(&group).as_str(), group.deaths, group.first));
    (deaths > 0).then(|| Rate {
        group: name(&group),
        deaths,
        per_minute: if seconds > 0.0 { deaths as f64 * 60.0 / seconds } else { 0.0 },
        count: group.count,
        job_type: group.job_type.map(|name| name.to_string()),
        reason: group.reason.map(DeadReason::as_str),
        error: group.error,
    })
}

/// How many jobs of a group have died since a look. The group: its name, how many have died so far, and when the first did.
fn died(known: &BTreeMap<String, u64>, at: Timestamp, (name, deaths, first): (&str, u64, Timestamp)) -> u64 {
    // A group that was empty in the meantime counts from its beginning. One that only a recount has found since then says
    // nothing about when its jobs died.
    let before = if first >= at { 0 } else { known.get(name).copied().unwrap_or(deaths) };
    deaths.saturating_sub(before)
}

fn show(page: &Page) -> View {
    let Facts { queue, total, seconds } = &page.facts;
    let summary = format!("{total} dead letters of the queue {queue}; deaths in the last {seconds:.0} s");
    if page.items.is_empty() {
        return format!("{summary}: none").into();
    }
    let table = output::table_of(
        &page.items,
        &[
            (Column::id("group"), &|rate| rate.group.clone()),
            (Column::from("deaths"), &|rate| rate.deaths.to_string()),
            (Column::from("per min"), &|rate| format!("{:.1}", rate.per_minute)),
            (Column::wide("letters"), &|rate| rate.count.to_string()),
            (Column::from("type"), &|rate| rate.job_type.clone().unwrap_or_default()),
            (Column::from("reason"), &|rate| rate.reason.unwrap_or_default().to_owned()),
            (Column::from("error"), &|rate| rate.error.clone()),
        ],
    );
    View::from(table).then(summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms).unwrap()
    }

    #[test]
    fn deaths_are_counted_since_the_look_and_none_is_invented() {
        let known = BTreeMap::from([("a".to_owned(), 5)]);
        let died = |name, deaths, first| died(&known, at(1000), (name, deaths, at(first)));
        assert_eq!((died("a", 7, 10), died("a", 5, 10)), (2, 0));
        assert_eq!(died("b", 3, 1000), 3, "a new group");
        assert_eq!(died("a", 6, 2000), 6, "a group that was empty in the meantime");
        assert_eq!(died("b", 700, 10), 0, "a group that a recount has found");
        assert_eq!(died("a", 2, 10), 0, "a group with fewer deaths after a recount");
    }
}
