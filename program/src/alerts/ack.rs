//! `alerts ack`: a person knows of an incident, and wants no reminders for a time. Noted in the audit of the alerts.

use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::job::Timestamp;
use streamfleet_engine::admin::{Action, IncidentId, Incidents, Noted};

use crate::Context;
use crate::actor::{ActorArgs, told};
use crate::exit::Exit;
use crate::output;
use crate::times::{duration, rfc3339};

/// How `alerts ack` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet alerts ack 0b5ff109 --for 2h --reason 'the mail server is being repaired'
  streamfleet alerts ack 0b5ff109 --for 0s --reason 'remind us again'";

/// The arguments of `alerts ack`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The incident, as `alerts list` shows it.
    incident: IncidentId,
    /// For how long no reminder is sent, at most 30d; 0s: reminders are sent again.
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    time: Duration,
    /// Why, for the list of incidents and the audit.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Who does this. Default: the user of this machine, such as ann@ops-1.
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
}

/// What became of it, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = IncidentAck)]
pub(crate) struct Report {
    incident: String,
    /// Until when no reminder is sent.
    until: String,
    until_ms: u64,
    #[serde(skip)]
    time: Timestamp,
    #[serde(skip)]
    is_over: bool,
}

/// Acknowledges the incident.
pub(super) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let action = ActorArgs::of(args.name, args.reason).action("alerts ack");
    let incidents = context.broker().await?.incidents();
    let Some(done) = acknowledge(&incidents, &args.incident, args.time, &action).await? else {
        output::print_stderr(&format!("there is no open incident {}", args.incident));
        return Ok(Exit::NotFound);
    };
    let report = Report::of(&args.incident, told(done), args.time);
    context.output.print(&report, |report| match report.is_over {
        true => format!("reminders of the incident {} are sent again", report.incident),
        false => {
            let until = context.clock.time(report.time);
            format!("no reminders of the incident {} until {until}", report.incident)
        }
    })?;
    Ok(Exit::Done)
}

/// Acknowledges an incident for this long, and notes it in the audit. Returns until when; `None` if there is no such
/// incident, or it is over.
pub(crate) async fn acknowledge(
    incidents: &Incidents,
    id: &IncidentId,
    time: Duration,
    action: &Action,
) -> anyhow::Result<Option<Noted<Timestamp>>> {
    incidents.acknowledge(id, time, action).await.context("failed to acknowledge the incident")
}

impl Report {
    /// Describes an acknowledgment for this long.
    pub(crate) fn of(id: &IncidentId, until: Timestamp, time: Duration) -> Self {
        Self {
            incident: id.to_string(),
            until: rfc3339(until),
            until_ms: until.as_ms(),
            time: until,
            is_over: time.is_zero(),
        }
    }
}
