//! Recovery: how soon the jobs of a killed worker start again.

use std::collections::HashMap;
use std::time::Duration;

use super::checker::{Case, Offence, Recovery};
use super::history::{JobHistory, Span};
use super::invariants::offence;
use super::ledger::How;
use super::weather::Event;

/// A run that was cut short by a kill.
struct Orphan<'a> {
    job: &'a str,
    history: &'a JobHistory,
    span: &'a Span,
    kill: &'a Event,
}

/// After each kill, the jobs that ran in the killed worker start again within the bound. Each further fault in the meantime
/// may restart the wait: it may have hit the worker that should have taken over the jobs, or the one that just had.
pub(super) fn recovery(case: &Case) -> (Vec<Offence>, Recovery) {
    let mut found = Vec::new();
    let mut latencies = Vec::new();
    for orphan in orphans(case) {
        match next_start(&orphan) {
            Some(again) if again <= orphan.kill.until => {} // taken over before, while the worker was frozen
            Some(again) => {
                let took = Duration::from_nanos(again - orphan.kill.until);
                latencies.push(took);
                let excuse = case.weather.common_within(orphan.kill.from, again);
                let restarts = 1 + case.weather.others_within(orphan.kill, again);
                if took > case.rules.recovered_within * restarts + excuse {
                    let what = format!("started again {took:.3?} after its worker was killed");
                    found.push(offence(orphan.job, what));
                }
            }
            None if case.facts.dead.contains_key(orphan.job) => {} // it was the last loss allowed
            None if case.facts.cancelled.contains(orphan.job) => {}
            None if has_succeeded_since(&orphan) => {} // a frozen worker came back with an earlier attempt's success
            None => found.push(offence(orphan.job, "never started again after its worker was killed".into())),
        }
    }
    (found, summary(latencies))
}

fn orphans<'a>(case: &'a Case) -> Vec<Orphan<'a>> {
    let kills: HashMap<u32, &Event> = case.weather.kills().collect();
    let mut orphans = Vec::new();
    for (job, history) in case.jobs() {
        for span in &history.spans {
            let Some(kill) = kills.get(&span.run.pid) else { continue };
            if span.from <= kill.until && span.end.is_none_or(|(t, _how)| t > kill.until) {
                orphans.push(Orphan { job, history, span, kill });
            }
        }
    }
    orphans
}

fn has_succeeded_since(orphan: &Orphan) -> bool {
    let ends = orphan.history.spans.iter().filter_map(|span| span.end);
    ends.into_iter().any(|(t, how)| how == How::Ok && t > orphan.span.from)
}

fn next_start(orphan: &Orphan) -> Option<u64> {
    let later = orphan.history.spans.iter().filter(|other| other.run.fence > orphan.span.run.fence);
    later.map(|other| other.from).min()
}

fn summary(mut latencies: Vec<Duration>) -> Recovery {
    latencies.sort_unstable();
    let Some(last) = latencies.len().checked_sub(1) else { return Recovery::default() };
    let percentile = |percent: usize| latencies[(last * percent).div_ceil(100)];
    Recovery { orphans: latencies.len(), p50: percentile(50), p99: percentile(99), max: latencies[last] }
}
