//! `alerts ack`: a person knows of an incident, and wants no reminders for a time. Noted in the audit of the alerts.

use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::admin::IncidentId;
use streamfleet::job::Timestamp;

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
#[derive(Serialize)]
struct Report {
    incident: String,
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
    let done = incidents.acknowledge(&args.incident, args.time, &action).await;
    let Some(done) = done.context("failed to acknowledge the incident")? else {
        output::print_stderr(&format!("there is no open incident {}", args.incident));
        return Ok(Exit::NotFound);
    };
    let until = told(done);
    let report = Report {
        incident: args.incident.to_string(),
        until: rfc3339(until),
        until_ms: until.as_ms(),
        time: until,
        is_over: args.time.is_zero(),
    };
    context.output.print(&report, |report| match report.is_over {
        true => format!("reminders of the incident {} are sent again", report.incident),
        false => {
            let until = context.clock.time(report.time);
            format!("no reminders of the incident {} until {until}", report.incident)
        }
    })?;
    Ok(Exit::Done)
}
