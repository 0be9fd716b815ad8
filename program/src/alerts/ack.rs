//! `alerts ack`: a person knows of an incident, and wants no reminders for a time. Noted in the audit of the alerts.

use std::time::Duration;

use streamfleet_engine::admin::IncidentId;
use streamfleet_operations::alerts;

use crate::Context;
use crate::actor::{ActorArgs, told};
use crate::exit::Exit;
use crate::times::duration;

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
    #[command(flatten)]
    actor: ActorArgs,
}

/// Acknowledges the incident.
pub(super) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let Args { incident, time, actor } = args;
    let incidents = context.broker().await?.incidents();
    let ack = told(alerts::acknowledge(&incidents, &actor.actor(), &incident, time).await?);
    context.output.print(&ack, |ack| {
        if time.is_zero() {
            return format!("reminders of the incident {} are sent again", ack.incident);
        }
        format!("no reminders of the incident {} until {}", ack.incident, context.clock.time(ack.until_ms))
    })?;
    Ok(Exit::Done)
}
