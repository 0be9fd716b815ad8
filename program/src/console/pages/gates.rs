//! Gates: what may not start now, by whom and why. Pausing, resuming and limiting.

use std::time::Duration;

use askama::Template;
use axum::Form as Body;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use streamfleet::Queue;
use streamfleet::job::{GateName, Limits, QueueName, Rate, Rule, Timestamp};
use streamfleet_engine::admin::GateStatus;
use streamfleet_operations::Actor;
use streamfleet_operations::gates::{self, Pause, Standing};

use super::action::Done;
use super::criteria::at_gate;
use super::form::{Field, Form, reason};
use super::frame::{Frame, lead_to};
use super::list::{Asked, Narrow};
use super::section::Section;
use super::table::{Cell, Table};
use super::target;
use crate::console::access::{Person, Role};
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;
use crate::times;

/// How many queues are read at once.
const AT_ONCE: usize = 16;

/// The most gates of a page.
const MOST: usize = 100;

/// The most queues that a page offers to pause.
const MAX_QUEUES: usize = 50;

#[derive(Template)]
#[template(path = "gates.html")]
struct Gates<'a> {
    frame: &'a Frame,
    narrow: Narrow,
    table: Table,
    errors: Vec<String>,
    next: Option<String>,
    /// The queues that somebody may pause, and how many more there are, in words.
    queues: Vec<String>,
    more_queues: Option<String>,
}

/// Shows the gates of all queues, or of one.
pub(super) async fn show(
    State(site): State<Site>,
    frame: Frame,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let mut queues = target::visible(&site, &frame).await?;
    let here = Link::to(&["gates"]);
    let narrow = Narrow::new(&frame, &here).queue(&frame, &asked, &queues).field(
        &frame,
        &asked,
        ("gate", "column.gate"),
    );
    asked.retain_queues(&mut queues);
    let may = queues.iter().filter(|queue| frame.may(Role::Operator, queue.name()));
    let mut may: Vec<String> = may.map(|queue| queue.name().to_string()).collect();
    let more_queues = may.len().saturating_sub(MAX_QUEUES) as u64;
    may.truncate(MAX_QUEUES);
    let reading = stream::iter(queues).map(|queue| async move {
        let read = async { tokio::try_join!(queue.clock(), async { queue.gates().list().await }) };
        let read = read.await.map_err(|error| format!("{}: {}", queue.name(), queue.with_keys(&error)));
        (queue.name().clone(), read)
    });
    let read: Vec<_> = reading.buffered(AT_ONCE).collect().await;
    let (mut found, mut errors, mut now) = (Vec::new(), Vec::new(), Timestamp::default());
    for (name, read) in read {
        match read {
            Ok((clock, gates)) => {
                now = now.max(clock);
                // A value that somebody may not see cannot be searched either.
                let fits = |gate: &GateStatus| asked.fits("gate", &frame.about(gate.rule.gate.as_str()));
                let gates = gates.into_iter().filter(fits);
                found.extend(gates.map(|gate| (name.clone(), gate)));
            }
            Err(error) => errors.push(error),
        }
    }
    let next = asked.cut(&mut found, MOST)?;
    let page = Gates {
        table: table(&frame, found.iter().map(|(name, gate)| (name, gate)), now),
        next: narrow.next(here, next),
        narrow,
        errors,
        queues: may,
        more_queues: (more_queues > 0).then(|| frame.number_of("gates.more_queues", more_queues)),
        frame: &frame,
    };
    Ok(frame.page(frame.t("nav.gates"), Some(Section::Gates), &page))
}

/// The gates of queues as a table.
pub(super) fn table<'a>(
    frame: &Frame,
    gates: impl IntoIterator<Item = (&'a QueueName, &'a GateStatus)>,
    now: Timestamp,
) -> Table {
    let columns = [
        ("column.gate", "clip"),
        ("column.queue", "short"),
        ("column.state", "short"),
        ("column.limits", ""),
        ("column.held", "number"),
        ("state.waiting", "number"),
        ("column.change", "short"),
    ];
    let mut table = Table::new(frame, "nav.gates", &columns).or(frame.t("gates.none"));
    for (queue, gate) in gates {
        table.add(row(frame, queue, gate, now));
    }
    table
}

fn row(frame: &Frame, queue: &QueueName, gate: &GateStatus, now: Timestamp) -> Vec<Cell> {
    let (name, rule) = (gate.rule.gate.as_str(), &gate.rule);
    let link = |action: &str| Link::queue(queue.as_str(), &["gates", action]).with("gate", name);
    let shown = frame.about(name);
    // A link to the gate of a value has the value in it.
    let is_secret = shown != name;
    let waiting = at_gate(frame, queue, &rule.gate);
    let change = if !frame.may(Role::Operator, queue) || is_secret {
        Cell::text("–")
    } else if rule.closed.is_some() && !gate.inherited {
        Cell::link(frame.t("action.resume"), &link("resume"))
    } else {
        Cell::link(frame.t("action.limit"), &link("limit"))
    };
    vec![
        Cell::like(shown, "mono"),
        Cell::link(queue.as_str(), &Link::queue(queue.as_str(), &[])),
        standing(frame, gate, now),
        Cell::text(limits(frame, &rule.limits())).under(source(frame, rule)),
        Cell::number(gate.held),
        waiting.map_or_else(|| Cell::number(gate.waiting), |link| Cell::counted(gate.waiting, &link)),
        change,
    ]
}

/// Whether jobs pass, and if not, why and until when.
fn standing(frame: &Frame, gate: &GateStatus, now: Timestamp) -> Cell {
    match Standing::of(&gate.rule, gate.tripped_until, now) {
        Standing::Ignored => Cell::like(frame.t("gate.ignored"), "state cancelled"),
        Standing::Unreadable => Cell::like(frame.t("gate.unreadable"), "state dead"),
        Standing::Paused { by, reason, until, .. } => {
            let until = until.map(|until| frame.fill("gate.until", &[("time", &frame.distance(until, now))]));
            let why = [Some(by), Some(frame.written(&reason).into_owned()), until].into_iter().flatten();
            let why: Vec<String> = why.filter(|text| !text.is_empty()).collect();
            Cell::like(frame.t("gate.paused"), "state retrying").under(why.join("\n"))
        }
        Standing::Tripped(until) => {
            Cell::like(frame.t("gate.tripped"), "state dead").under(frame.distance(until, now))
        }
        Standing::Open => Cell::like(frame.t("gate.open"), "state done"),
    }
}

/// Limits as people read them.
fn limits(frame: &Frame, limits: &Limits) -> String {
    let concurrency = limits.concurrency.map(|jobs| frame.number_of("gate.at_once", jobs.into()));
    let rate = limits.rate.map(|rate| rate.to_string());
    let breaker = limits.breaker.map(|breaker| frame.fill("gate.breaker", &[("rule", &breaker.to_string())]));
    let all: Vec<String> = [concurrency, rate, breaker].into_iter().flatten().collect();
    if all.is_empty() { "–".to_owned() } else { all.join(", ") }
}

fn source(frame: &Frame, rule: &Rule) -> &'static str {
    match (rule.set, rule.configured) {
        (Some(_), _) => frame.t("gate.set"),
        (None, Some(_)) => frame.t("gate.configured"),
        (None, None) => "",
    }
}

/// Which gate an action is about.
#[derive(Debug, Deserialize)]
pub(super) struct Which {
    gate: Option<String>,
}

/// What the form of an action says.
#[derive(Debug, Deserialize)]
pub(super) struct Order {
    gate: String,
    #[serde(default)]
    reason: String,
    /// For how long a gate is closed.
    #[serde(default, rename = "for")]
    time: String,
    #[serde(default)]
    concurrency: String,
    #[serde(default)]
    rate: String,
}

/// Asks before an action.
pub(super) async fn ask(
    State(site): State<Site>,
    frame: Frame,
    Path((name, action)): Path<(String, String)>,
    Query(which): Query<Which>,
) -> Result<Response, Problem> {
    let queue = target::queue(&site, &name)?;
    let gate = which.gate.unwrap_or_else(|| "queue".to_owned());
    let back = Link::to(&["gates"]).with("queue", &name);
    let to = Link::queue(&name, &["gates", &action]);
    let values = [("gate", &*gate), ("queue", &*name)];
    let field =
        Field::line(&frame, "gate", "column.gate").value(&gate).hint(&frame, "gate.name_hint").required();
    let form = |title: &str| Form::new(&frame, frame.fill(title, &values), (&to, &back)).field(field.clone());
    let snapshot = queue.snapshot().await;
    let snapshot = snapshot.map_err(|error| target::redis("the queue could not be read", &queue, &error))?;
    let counts = frame.number_of("gate.waiting_now", snapshot.waiting());
    let form = match action.as_str() {
        "pause" => form("gate.pause_title")
            .line(frame.t("gate.pause_line"))
            .line(counts)
            .field(Field::line(&frame, "for", "gate.for").hint(&frame, "gate.for_hint"))
            .button("action.pause"),
        "resume" => {
            form("gate.resume_title").line(frame.t("gate.resume_line")).line(counts).button("action.resume")
        }
        "limit" => {
            let now = current(&queue, &gate).await?;
            let concurrency = now.concurrency.map(|jobs| jobs.to_string()).unwrap_or_default();
            let rate = now.rate.map(|rate| rate.to_string()).unwrap_or_default();
            form("gate.limit_title")
                .line(frame.t("gate.limit_line"))
                .line(counts)
                .field(Field::line(&frame, "concurrency", "gate.concurrency").value(concurrency))
                .field(Field::line(&frame, "rate", "gate.rate").value(rate).hint(&frame, "gate.rate_hint"))
                .button("action.limit")
        }
        _ => return Err(Problem::not_found("no gate has such an action")),
    };
    Ok(form.field(Field::reason(&frame)).page(Section::Gates))
}

/// Does it.
pub(super) async fn act(
    State(site): State<Site>,
    frame: Frame,
    person: Person,
    Path((name, action)): Path<(String, String)>,
    Body(order): Body<Order>,
) -> Result<Response, Problem> {
    let queue = target::queue(&site, &name)?;
    let gate: GateName =
        order.gate.trim().parse().map_err(|error| Problem::field("body.gate", format!("{error}")))?;
    let actor = Actor::new(person.name(), &reason(&order.reason));
    let (what, unnoted) = match action.as_str() {
        "pause" => {
            let time = Some(order.time.trim()).filter(|text| !text.is_empty()).map(times::duration);
            let time: Option<Duration> = time.transpose().map_err(|why| Problem::field("body.for", why))?;
            let input = Pause { gate: gate.clone(), time, is_sure: true };
            ("gate.is_paused", gates::pause(&queue, &actor, &input).await?.unnoted)
        }
        "resume" => {
            let resumed = gates::resume(&queue, &actor, &gate).await?;
            (if resumed.value.changed { "gate.is_open" } else { "gate.was_open" }, resumed.unnoted)
        }
        "limit" => {
            let limits = order.limits(current(&queue, &order.gate).await?)?;
            let changed = if limits.is_empty() {
                gates::clear_limits(&queue, &actor, &gate).await?
            } else {
                gates::set_limits(&queue, &actor, &gate, limits).await?
            };
            ("gate.is_limited", changed.unnoted)
        }
        _ => return Err(Problem::not_found("no gate has such an action")),
    };
    let text = frame.fill(what, &[("gate", gate.as_str()), ("queue", &name)]);
    let message = Done::new(text).unnoted(&frame, unnoted).message();
    Ok(lead_to(&Link::to(&["gates"]).with("queue", &name), &message))
}

impl Order {
    /// The limits that the form names, with the breaker that was there.
    fn limits(&self, now: Limits) -> Result<Limits, Problem> {
        let some = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let concurrency = some(&self.concurrency).map(|text| match text.parse::<u32>() {
            Ok(jobs) if jobs > 0 => Ok(jobs),
            Ok(_) | Err(_) => Err(Problem::field("body.concurrency", "expected a number of at least 1")),
        });
        let rate = some(&self.rate).map(|text| text.parse::<Rate>());
        let rate = rate.transpose().map_err(|error| Problem::field("body.rate", error.to_string()))?;
        Ok(now.concurrency(concurrency.transpose()?).rate(rate))
    }
}

/// The limits in effect.
async fn current(queue: &Queue, gate: &str) -> Result<Limits, Problem> {
    let gate: GateName =
        gate.trim().parse().map_err(|error| Problem::field("query.gate", format!("{error}")))?;
    Ok(gates::limits_in_effect(queue, &gate).await?)
}
