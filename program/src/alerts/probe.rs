//! `alerts test`: one message to one sink, to see that it arrives.

use serde::Serialize;
use streamfleet::job::SinkName;
use streamfleet_service::alerts::TestError;
use streamfleet_service::config::Effective;

use crate::exit::Exit;
use crate::output::{self, harmless};
use crate::{Context, Wrong};

/// How `alerts test` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet alerts test ops
  streamfleet alerts test ops --json";

/// The arguments of `alerts test`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The name of the sink, as in [alerts.sinks.<name>].
    sink: SinkName,
}

/// What became of the message, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = AlertTest)]
pub(crate) struct SinkTest {
    sink: String,
    /// Whether the sink has taken the message.
    pub(crate) accepted: bool,
    /// What the sink answered, or why it has not taken the message. The text has no secret.
    pub(crate) answer: String,
}

/// Sends the message.
pub(super) async fn run(args: &Args, context: &Context) -> anyhow::Result<Exit> {
    let Some(report) = send(&context.effective, &args.sink).await? else {
        output::print_stderr(&format!("there is no sink {} in the configuration", args.sink));
        return Ok(Exit::NotFound);
    };
    context.output.print(&report, SinkTest::line)?;
    Ok(if report.accepted { Exit::Done } else { Exit::Failed })
}

/// Sends the message to a configured sink. Returns what it answered; `None` if there is no such sink.
pub(crate) async fn send(effective: &Effective, sink: &SinkName) -> anyhow::Result<Option<SinkTest>> {
    let alerts = effective.alerts().map_err(|invalid| Wrong(invalid.to_string()))?;
    let Some(alerts) = alerts else {
        let why =
            "there is no section [alerts]: add [alerts.sinks.<name>] with its kind to the configuration";
        return Err(Wrong(why.to_owned()).into());
    };
    let (accepted, answer) = match alerts.test(sink).await {
        Ok(answer) => (true, answer),
        Err(TestError::Unknown(_)) => return Ok(None),
        Err(TestError::Failed { why, .. }) => (false, why),
        Err(error) => return Err(Wrong(error.to_string()).into()),
    };
    Ok(Some(SinkTest { sink: sink.to_string(), accepted, answer }))
}

impl SinkTest {
    fn line(&self) -> String {
        let answer = harmless(&self.answer);
        match (self.accepted, answer.is_empty()) {
            (true, true) => format!("the sink {} has taken the message", self.sink),
            (true, false) => format!("the sink {} has taken the message: {answer}", self.sink),
            (false, _) => format!("the sink {} has not taken the message: {answer}", self.sink),
        }
    }
}
