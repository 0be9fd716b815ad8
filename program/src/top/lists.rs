//! What `top` prints if stdout is not a terminal: the queues and the jobs that run longest, one look below the other.

use super::Args;
use crate::exit::Exit;
use crate::output::{Listing, Repeat};
use crate::{Context, jobs, queues};

/// Prints the lists until it is interrupted.
pub(super) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let broker = context.broker().await?;
    let repeat = Repeat::every(args.every);
    let queues = queues::Watched::new(args.names);
    let running = jobs::Running::new(args.limit, repeat);
    let look = async || {
        let listed: Listing = queues.list(&broker, context).await?;
        if !listed.has_text() {
            return Ok(listed);
        }
        let jobs = running.list(queues.names(), &broker, context).await?;
        anyhow::Ok(listed.above(jobs))
    };
    repeat.run(context.output, look).await
}
