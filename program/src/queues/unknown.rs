//! Names of queues that do not exist, which are probably misspelled.

use serde::Serialize;
use streamfleet::job::QueueName;
use streamfleet::{Broker, Queue};
use streamfleet_engine::admin::Listed;
use streamfleet_operations::gates;
use streamfleet_service::config::nearest;

use crate::output::{List, Listing, View};
use crate::{Context, confirm, output};

/// Reports that a queue does not exist, and returns true, if that is so. If the login may not list queues, nobody knows.
pub(crate) async fn report_unknown(broker: &Broker, name: &QueueName, context: &Context) -> bool {
    let listed = broker.queues().await;
    listed.is_ok_and(|listed| report_unless_known(broker, name, &listed, context))
}

/// Shows a list. One that is empty may be about a queue that does not exist.
pub(crate) async fn listing<T: Serialize, F: Serialize, N: Serialize>(
    (page, is_empty): (&List<T, F, N>, bool),
    (broker, queue): (&Broker, &Queue),
    context: &Context,
    (names, show): (impl FnOnce(&List<T, F, N>) -> Vec<String>, impl FnOnce(&List<T, F, N>) -> View),
) -> anyhow::Result<Listing> {
    if is_empty && report_unknown(broker, queue.name(), context).await {
        return Ok(Listing::not_found());
    }
    Ok(Listing::new(context.output.rendered(page, names, show)?))
}

/// Reports a queue that does not exist and whose gates are about to change. If `asks`, somebody must confirm that.
///
/// # Errors
///
/// Those of [`confirm::doubt`].
pub(crate) async fn check_before_change(
    broker: &Broker,
    queue: &Queue,
    asks: bool,
    context: &Context,
) -> anyhow::Result<()> {
    let configured: Vec<QueueName> = context.effective.config.queues.keys().cloned().collect();
    match gates::unknown_queue((broker, &configured[..]), queue, |_| true).await {
        Some(doubt) if asks => confirm::doubt(&doubt)?,
        Some(doubt) => output::print_stderr(&doubt),
        None => {}
    }
    Ok(())
}

/// Reports a queue that is not among those that have been listed. It exists if Redis has a key of it, or if the configuration
/// names it.
pub(super) fn report_unless_known(
    broker: &Broker,
    name: &QueueName,
    listed: &Listed<QueueName>,
    context: &Context,
) -> bool {
    let Listed { found: known, missing } = listed;
    // An unknown queue may be on a server that could not be asked.
    let may_exist = !missing.is_empty() || context.effective.config.queues.contains_key(name);
    if may_exist || known.contains(name) {
        return false;
    }
    let near = nearest(name.as_str(), known.iter().map(QueueName::as_str));
    let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
    let known = if known.is_empty() { "none".to_owned() } else { output::listed(known) };
    let (namespace, address) = (broker.namespace(), broker.shown());
    output::print_stderr(&format!(
        "the namespace {namespace} at {address} has no queue {name}; it has: {known}{hint}"
    ));
    true
}
