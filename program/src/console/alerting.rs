//! The console looks for incidents and sends messages about them, as any process with the section `[alerts]` does.

use streamfleet::event::Events;
use streamfleet_service::telemetry::logs;

use crate::Context;
use crate::output::print_stderr;

/// Looks and sends until the console is asked to stop. A console without the section does nothing.
///
/// The console may share its configuration with workers, but not their secrets. It then serves all the same: somebody may need
/// it to find out what is wrong.
pub(super) async fn run(context: &Context) {
    let alerts = match context.effective.alerts() {
        Ok(Some(alerts)) => alerts,
        Ok(None) => return,
        Err(invalid) => {
            print_stderr(&format!("the console sends no messages about incidents: {invalid}"));
            return;
        }
    };
    let running = alerts.start(Events::new(vec![logs::listener()]));
    context.shutdown.requested().await;
    running.stop().await;
}
