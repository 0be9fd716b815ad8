//! Whether the rows of the outbox become jobs.

use std::time::Duration;

use crate::broker::{Broker, Error, OutboxState};
use crate::job::incident::decide::Checked;
use crate::job::incident::{IncidentKind, Observation};
use crate::job::{Timestamp, format_duration};

/// How long a row may wait, or the outbox may not be relayed.
const WAIT: Duration = Duration::from_secs(300);

/// Checks what the process that relays it has noted last. A fleet without an outbox has noted nothing.
pub(super) async fn check(broker: &Broker, now: Timestamp) -> Result<Checked, Error> {
    let state = broker.outbox_state().await?.unwrap_or_default();
    let mut checked = Checked::default();
    checked.covered.insert((IncidentKind::OutboxStuck, None));
    checked.observations.extend(stuck(&state, now));
    Ok(checked)
}

fn stuck(state: &OutboxState, now: Timestamp) -> Option<Observation> {
    let time = |ms: Option<u64>| ms.and_then(Timestamp::from_ms).filter(|since| now.since(*since) > WAIT);
    let (late, failing) = (time(state.oldest_ms), time(state.failing_since_ms));
    let waited = |since: Timestamp| format_duration(Duration::from_secs(now.since(since).as_secs()));
    let mut what: Vec<String> = late
        .map(|since| format!("the oldest row has waited for {}", waited(since)))
        .or(failing.map(|since| format!("no row could become a job for {}", waited(since))))
        .into_iter()
        .collect();
    match state.refused {
        0 => {}
        1 => what.push("1 row was refused and needs a repair".to_owned()),
        refused => what.push(format!("{refused} rows were refused and need a repair")),
    }
    if what.is_empty() {
        return None;
    }
    let seen = Observation::new(IncidentKind::OutboxStuck, None, late.or(failing).unwrap_or(now));
    let (what, error) = (what.join("; "), &state.error);
    let error = if error.is_empty() { String::new() } else { format!(". Last error: {error}") };
    Some(seen.count(state.rows + state.refused).detail(&format!("{what}{error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000_000;

    fn seen(state: OutboxState) -> Option<Observation> {
        stuck(&state, Timestamp::from_ms(NOW).unwrap())
    }

    #[test]
    fn an_outbox_is_stuck_if_a_row_waits_too_long_or_was_refused() {
        let (ago, state) = (|seconds: u64| Some(NOW - seconds * 1000), OutboxState::default());
        assert_eq!(seen(state.clone()), None);
        assert_eq!(seen(OutboxState { rows: 9, oldest_ms: ago(299), ..state.clone() }), None);
        assert_eq!(seen(OutboxState { failing_since_ms: ago(60), error: "no".to_owned(), ..state }), None);
        let late = seen(OutboxState { rows: 9, oldest_ms: ago(600), refused: 2, ..state.clone() }).unwrap();
        let want = "the oldest row has waited for 10m; 2 rows were refused and need a repair";
        assert_eq!((&*late.detail, late.count, late.queue), (want, 11, None));
        let failing = OutboxState { failing_since_ms: ago(600), error: "no way".to_owned(), ..state };
        let failing = seen(failing).unwrap();
        assert_eq!(failing.detail, "no row could become a job for 10m. Last error: no way");
    }
}
