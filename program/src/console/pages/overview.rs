//! The overview: what needs a person, then a tile for each queue, then Redis.

use std::time::Duration;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use streamfleet::job::QueueName;
use streamfleet::{Queue, RedisError};
use streamfleet_engine::admin::{Backlog, Cause, QueueSnapshot, Server, WorkerInfo};
use streamfleet_operations::outlook::EmptyIn;

use super::chart::{Chart, Minute};
use super::frame::{Frame, bytes, grouped};
use super::needs::{Need, Troubles};
use super::section::Section;
use super::table::{Cell, Table};
use super::workers::serving;
use super::{needs, samples, target};
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;
use crate::times::short;

/// How many queues are read at once.
const AT_ONCE: usize = 16;

/// The most queues of one page.
const MOST: usize = 60;

/// The most of them that have a tile with charts. The others have a row.
const TILES: usize = 16;

/// The most lines about what needs a person.
const MAX_NEEDS: usize = 60;

/// Where the page begins.
#[derive(Debug, Deserialize)]
pub(super) struct Wanted {
    /// After this queue.
    after: Option<String>,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview<'a> {
    frame: &'a Frame,
    needs: Vec<Need>,
    /// How many further lines there would be, in words.
    more_needs: Option<String>,
    tiles: Vec<Tile>,
    /// The queues without a tile.
    others: Option<Table>,
    /// Where the next page is.
    next: Option<String>,
    servers: Vec<ServerFacts>,
}

/// One queue.
struct Tile {
    name: String,
    link: String,
    /// Each figure: the key of its name, its value, where it leads, and its class.
    figures: Vec<Figure>,
    /// Each fact: the key of its name, the text, and its class.
    facts: Vec<(&'static str, String, &'static str)>,
    chart: Option<Chart>,
    /// How many jobs waited, over the same time.
    spark: Option<Chart>,
    paused: Option<String>,
    error: Option<String>,
}

/// A figure with what it counts.
pub(super) struct Figure {
    pub(super) key: &'static str,
    pub(super) value: String,
    pub(super) link: String,
    pub(super) class: &'static str,
}

/// What is known about one server.
struct ServerFacts {
    name: String,
    facts: Vec<(&'static str, String)>,
    warnings: Vec<String>,
}

/// What was read of a queue.
struct Look {
    queue: Queue,
    read: Result<Read, RedisError>,
}

struct Read {
    snapshot: QueueSnapshot,
    /// What is known about the waiting jobs; `None` if that cannot be read.
    backlog: Option<Backlog>,
    troubles: Troubles,
    minutes: Vec<Minute>,
}

/// Shows the page.
pub(super) async fn show(
    State(site): State<Site>,
    frame: Frame,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Problem> {
    let mut queues = target::visible(&site, &frame).await?;
    if let Some(after) = &wanted.after {
        queues.retain(|queue| queue.name().as_str() > after.as_str());
    }
    let next = (queues.len() > MOST).then(|| {
        queues.truncate(MOST);
        queues.last().map(|last| Link::to(&[]).with("after", last.name().as_str()).to_string())
    });
    let looking = stream::iter(queues).map(look).buffered(AT_ONCE);
    let (mut looks, servers, mut needs): (Vec<Look>, _, _) =
        tokio::join!(looking.collect(), site.broker().servers(), needs::of_incidents(&frame, &site));
    let known = site.known().await?;
    needs.extend(looks.iter().flat_map(|one| one.needs(&frame, &known.workers)));
    needs.extend(known.missing.iter().map(|text| Need { text: text.clone(), link: None }));
    let more_needs = needs.len().saturating_sub(MAX_NEEDS) as u64;
    let more_needs = (more_needs > 0).then(|| frame.number_of("overview.more_needs", more_needs));
    needs.truncate(MAX_NEEDS);
    let others = looks.split_off(looks.len().min(TILES));
    let others = (!others.is_empty()).then(|| table(&frame, &others));
    let tiles = looks.into_iter().map(|look| look.tile(&frame, &site)).collect();
    let servers = servers.map(|listed| listed.found).unwrap_or_default();
    let servers = servers.iter().map(|server| facts(server, &frame)).collect();
    let page = Overview { frame: &frame, needs, more_needs, tiles, others, next: next.flatten(), servers };
    Ok(frame.page(frame.t("nav.overview"), Some(Section::Overview), &page))
}

async fn look(queue: Queue) -> Look {
    let read = async {
        let snapshot = queue.snapshot().await?;
        let (troubles, minutes, backlog) = tokio::join!(
            Troubles::read(&queue, &snapshot),
            samples::last_hour(&queue),
            queue.backlog(&snapshot)
        );
        Ok(Read { snapshot, backlog: backlog.ok(), troubles, minutes })
    };
    let read = read.await;
    Look { queue, read }
}

impl Look {
    /// What needs a person, with the workers of now.
    fn needs(&self, frame: &Frame, workers: &[WorkerInfo]) -> Vec<Need> {
        let Ok(read) = &self.read else { return Vec::new() };
        let name = self.queue.name();
        needs::of_queue(frame, name.as_str(), (&read.snapshot, &read.troubles), serving(workers, name))
    }

    fn tile(self, frame: &Frame, site: &Site) -> Tile {
        let name = self.queue.name();
        let blank = Tile {
            name: name.to_string(),
            link: Link::queue(name.as_str(), &[]).to_string(),
            figures: Vec::new(),
            facts: Vec::new(),
            chart: None,
            spark: None,
            paused: None,
            error: None,
        };
        let read = match self.read {
            Ok(read) => read,
            Err(error) => return Tile { error: Some(self.queue.with_keys(&error)), ..blank },
        };
        let Read { snapshot, backlog, minutes, .. } = read;
        let oldest = snapshot.oldest_waiting();
        let objective = objective(site, name);
        let mut facts = Vec::new();
        if let Some(oldest) = oldest {
            let values = [("time", &*short(oldest)), ("objective", &*short(objective))];
            let class = if oldest > objective { "late" } else { "" };
            facts.push(("tile.oldest", frame.fill("tile.oldest_of", &values), class));
        }
        facts.extend(outlook(frame, backlog.as_ref()).into_iter().map(|(key, text)| (key, text, "")));
        Tile {
            figures: figures(name.as_str(), &snapshot),
            facts,
            chart: Chart::flow(frame, &minutes),
            spark: Chart::sparkline(frame, &minutes),
            paused: snapshot.closed_since.map(|since| frame.distance(since, snapshot.now)),
            ..blank
        }
    }
}

/// When a queue is empty, and the worst cause for which its jobs wait, if any do: the keys of the names, and the texts.
pub(super) fn outlook(frame: &Frame, backlog: Option<&Backlog>) -> Vec<(&'static str, String)> {
    let Some(backlog) = backlog else { return Vec::new() };
    let mut facts = Vec::new();
    if backlog.waiting > 0 {
        facts.push(("tile.empty_in", EmptyIn::from(backlog.time_to_empty()).shown()));
    }
    if let Some(cause) = backlog.causes().first() {
        let text = cause.to_string();
        // What a program wrote may be about a job.
        let quotes = matches!(cause, Cause::PoolDown { .. }) && !frame.sees_payloads();
        let text = if quotes { text.split(": ").next().unwrap_or_default() } else { &text };
        facts.push(("tile.cause", frame.about(&frame.written(text)).into_owned()));
    }
    facts
}

/// Queues as rows: the same figures as in their tiles.
fn table(frame: &Frame, looks: &[Look]) -> Table {
    let columns = [
        ("column.queue", ""),
        ("state.waiting", "number"),
        ("state.running", "number"),
        ("state.delayed", "number"),
        ("state.dead", "number"),
        ("tile.oldest", "short"),
    ];
    let mut table = Table::new(frame, "overview.others", &columns);
    for look in looks {
        let name = look.queue.name().as_str();
        let mut cells = vec![Cell::link(name, &Link::queue(name, &[]))];
        match &look.read {
            Ok(Read { snapshot, .. }) => {
                let figures = figures(name, snapshot);
                cells.extend(figures.into_iter().map(|figure| Cell::to(figure.value, figure.link)));
                cells.push(Cell::lasting(snapshot.oldest_waiting()));
            }
            Err(error) => {
                cells[0] = Cell::link(name, &Link::queue(name, &[])).under(look.queue.with_keys(error))
            }
        }
        table.add(cells);
    }
    table
}

/// How long a job of a queue may wait by its objective.
pub(super) fn objective(site: &Site, name: &QueueName) -> Duration {
    let section = site.effective().config.queues.get(name).cloned().unwrap_or_default();
    section.objectives.latency
}

/// How many jobs of a queue are in which state. Each figure leads to its jobs.
pub(super) fn figures(name: &str, snapshot: &QueueSnapshot) -> Vec<Figure> {
    let tab = |tab: &str| Link::queue(name, &[]).with("tab", tab).to_string();
    let figure = |key, value, link, class| Figure { key, value: grouped(value), link, class };
    vec![
        figure("state.waiting", snapshot.waiting(), tab("waiting"), "waiting"),
        figure("state.running", snapshot.running(), tab("running"), "running"),
        figure("state.delayed", snapshot.delayed, tab("delayed"), "scheduled"),
        figure("state.dead", snapshot.dead, Link::queue(name, &["dead"]).to_string(), "dead"),
    ]
}

/// The key of how a server keeps its data. Only its configuration says whether it takes snapshots, but it says that it has taken
/// one.
fn persistence(server: &Server) -> &'static str {
    let fact = |name: &str| server.fact(name).unwrap_or_default();
    match (fact("aof_enabled"), fact("rdb_saves")) {
        ("1", _) => "redis.aof",
        (_, "0") => "redis.unsaved",
        _ => "redis.snapshots",
    }
}

/// What is worth knowing about a server.
fn facts(server: &Server, frame: &Frame) -> ServerFacts {
    let fact = |name: &str| server.fact(name).unwrap_or_default();
    let number = |name: &str| fact(name).parse::<u64>().ok();
    let (product, version) = server.product().unwrap_or(("Redis", ""));
    let mut facts = Vec::new();
    if let Some(used) = number("used_memory") {
        let most = number("maxmemory").filter(|most| *most > 0);
        let most = most.map_or_else(|| frame.t("redis.no_limit").to_owned(), bytes);
        facts.push(("redis.memory", frame.fill("redis.used_of", &[("used", &bytes(used)), ("most", &most)])));
    }
    facts.push(("redis.persistence", frame.t(persistence(server)).to_owned()));
    if let Some(clients) = number("connected_clients") {
        facts.push(("redis.clients", grouped(clients)));
    }
    if let Some(seconds) = number("uptime_in_seconds") {
        facts.push(("redis.uptime", short(Duration::from_secs(seconds))));
    }
    let mut warnings = Vec::new();
    let policy = fact("maxmemory_policy");
    if number("maxmemory").is_some_and(|most| most > 0) && !policy.is_empty() && policy != "noeviction" {
        warnings.push(frame.fill("redis.evicts", &[("policy", policy)]));
    }
    for (name, key) in
        [("aof_last_write_status", "redis.aof_failed"), ("rdb_last_bgsave_status", "redis.rdb_failed")]
    {
        if !fact(name).is_empty() && fact(name) != "ok" {
            warnings.push(frame.t(key).to_owned());
        }
    }
    let name = server.node.clone().map_or_else(String::new, |node| format!(" {node}"));
    ServerFacts { name: format!("{product} {version}{name}"), facts, warnings }
}
