//! The alerts of this console's configuration: where messages go, and what counts as an incident. Addresses and secrets are
//! never shown.

use std::time::Duration;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use streamfleet::job::format_duration;
use streamfleet_service::alerts::Config;

use super::action::Done;
use super::frame::{Frame, lead_to};
use super::incident;
use super::job::Fact;
use super::section::Section;
use super::target;
use crate::console::access::{Person, Role};
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;
use crate::{Wrong, alerts};

/// The least that a configuration needs.
const EXAMPLE: &str = "\
[alerts.sinks.ops]
kind = \"slack\"
url_file = \"/run/secrets/slack-url\"";

#[derive(Template)]
#[template(path = "alerts.html")]
struct AlertsPage<'a> {
    frame: &'a Frame,
    settings: Option<Settings>,
    example: &'static str,
    /// Why a sink cannot be used.
    wrong: Option<String>,
}

/// What is configured.
struct Settings {
    sinks: Vec<Sink>,
    facts: Vec<Fact>,
}

/// A place where messages go: its name and kind, and nothing else of it.
struct Sink {
    name: String,
    kind: &'static str,
    /// Where a test message is asked for, for those who may.
    test: Option<String>,
}

/// Shows the page.
pub(super) async fn show(State(site): State<Site>, frame: Frame) -> Result<Response, Problem> {
    let settings = site.effective().config.alerts.as_ref().map(|config| Settings::of(&frame, config));
    let page = AlertsPage { frame: &frame, settings, example: EXAMPLE, wrong: wrong(&site) };
    Ok(frame.page(frame.t("nav.alerts"), Some(Section::Alerts), &page))
}

fn wrong(site: &Site) -> Option<String> {
    site.effective().alerts().err().map(|invalid| invalid.to_string())
}

impl Settings {
    fn of(frame: &Frame, config: &Config) -> Self {
        // A message concerns everybody who reads the sink, not one queue.
        let may = frame.may_about(Role::Operator, None);
        let sinks = config.sinks.iter().map(|(name, sink)| Sink {
            name: name.to_string(),
            kind: sink.kind.as_str(),
            test: may.then(|| Link::to(&["alerts", name.as_str(), "test"]).to_string()),
        });
        Self { sinks: sinks.collect(), facts: facts(frame, config) }
    }
}

fn facts(frame: &Frame, config: &Config) -> Vec<Fact> {
    let fact = |key, text| Fact { key, text, link: None };
    let time = |key, time: Duration| fact(key, format_duration(time));
    let mut off: Vec<String> = config.off.iter().map(|kind| incident::kind(frame, *kind)).collect();
    off.sort();
    off.dedup();
    let off = if off.is_empty() { "–".to_owned() } else { off.join(", ") };
    vec![
        time("alerts.every", config.every),
        time("alerts.remind_after", config.remind_after),
        time("alerts.remind_most", config.remind_most),
        time("alerts.resolve_after", config.resolve_after),
        time("alerts.quiet_after", config.quiet_after),
        fact("alerts.dead_per_minute", config.dead_per_minute.to_string()),
        time("alerts.dead_window", config.dead_window),
        time("alerts.no_worker_for", config.no_worker_for),
        time("alerts.unserved_for", config.unserved_for),
        time("alerts.paused_for", config.paused_for),
        fact("alerts.redis_memory", format!("{:.0} %", config.redis_memory * 100.0)),
        fact("alerts.off", off),
    ]
}

/// Sends a test message to a sink, and says what it answered.
pub(super) async fn test(
    State(site): State<Site>,
    frame: Frame,
    person: Person,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    person.check_about(Role::Operator, None)?;
    let sink = target::part("sink", &name)?;
    let sent = alerts::send(site.effective(), &sink).await;
    let done = match sent {
        Ok(Some(report)) => {
            let values = [("sink", &*name), ("answer", &*report.answer)];
            match (report.accepted, report.answer.is_empty()) {
                (true, true) => Done::new(frame.fill("alerts.taken", &values)),
                (true, false) => Done::new(frame.fill("alerts.taken_with", &values)),
                (false, _) => Done::not(frame.fill("alerts.refused", &values)),
            }
        }
        Ok(None) => return Err(Problem::not_found(format!("there is no sink {name} in the configuration"))),
        Err(error) => match error.downcast_ref::<Wrong>() {
            Some(Wrong(why)) => Done::not(why),
            None => return Err(incident::failed(&error)),
        },
    };
    Ok(lead_to(&Link::to(&["alerts"]), &done.message()))
}
