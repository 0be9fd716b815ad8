//! Which process does a queue's chores: the holder of a short lease in Redis. Candidates ask for it at a rate that does
//! not depend on how many they are.

use std::pin::Pin;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Duty, claimer, gauge, promoter, reaper};
use crate::event::Event;

/// Together, all candidates of a queue ask about so often.
const ASK_EVERY: Duration = Duration::from_millis(300);

/// How long the leader's lease lasts without renewal: short enough that a new leader is there before the entries of a
/// killed one are stale.
fn tenure(lease: Duration) -> Duration {
    (lease / 2).clamp(Duration::from_millis(500), Duration::from_secs(5))
}

/// How often one of so many candidates asks, at the least. Consumers that are long dead count too until they are reaped,
/// so their number must not keep the queue without a leader for longer than a third of the lease.
fn pace(candidates: u64, lease: Duration) -> Duration {
    let candidates = u32::try_from(candidates.max(1)).unwrap_or(u32::MAX);
    ASK_EVERY.saturating_mul(candidates).min(lease / 3)
}

/// Leads when it can, until stopped; then gives the lease up. Each answer also brings the revision of the recurring jobs.
pub(super) async fn run(duty: Duty, revision: watch::Sender<u64>) {
    let tenure = tenure(duty.lease);
    let mut term: Option<Term> = None;
    let line = duty.vitals.line(format!("the candidate for the chores of {}", duty.queue.name()));
    loop {
        let asked = Instant::now();
        let answer = line.ask(Duration::ZERO, duty.queue.lead(&duty.consumer, tenure)).await;
        let mut pause = tenure / 3;
        if let Ok(answer) = &answer {
            revision.send_if_modified(|known| std::mem::replace(known, answer.revision) != answer.revision);
        }
        match answer {
            Ok(answer) if answer.leading => {
                (duty.consumers)(answer.consumers);
                if term.is_none() {
                    duty.events.tell(&Event::Leading { queue: duty.queue.name(), leading: true });
                }
                term.get_or_insert_with(|| Term::begin(&duty)).until = asked + tenure;
            }
            Ok(answer) => {
                (duty.consumers)(answer.consumers);
                Term::end(&mut term, &duty).await;
                pause = pace(answer.consumers, duty.lease).mul_f64(0.5 + rand::random::<f64>() / 2.0);
            }
            Err(error) => {
                duty.events.redis_error(error.kind(), &error);
                if term.as_ref().is_some_and(|term| Instant::now() > term.until) {
                    Term::end(&mut term, &duty).await;
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = duty.stop.cancelled() => break,
        }
    }
    let led = term.is_some();
    Term::end(&mut term, &duty).await;
    if led && let Err(error) = duty.queue.lead(&duty.consumer, Duration::ZERO).await {
        tracing::debug!(%error, "the leader's lease was not given up; it expires");
    }
}

/// One of the chores.
type Chore = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The time during which this process does the chores.
struct Term {
    until: Instant,
    stop: CancellationToken,
    chores: JoinSet<()>,
}

impl Term {
    fn begin(duty: &Duty) -> Self {
        let stop = duty.stop.child_token();
        let mut chores = JoinSet::new();
        let watch =
            |what, chore: Chore| duty.vitals.watch(format!("the {what} of {}", duty.queue.name()), chore);
        chores.spawn(watch("promoter", Box::pin(promoter::run(duty.clone(), stop.clone()))));
        chores.spawn(watch("claimer", Box::pin(claimer::run(duty.clone(), stop.clone()))));
        chores.spawn(watch("reaper", Box::pin(reaper::run(duty.clone(), stop.clone()))));
        chores.spawn(watch("gauge", Box::pin(gauge::run(duty.clone(), stop.clone()))));
        Self { until: Instant::now(), stop, chores }
    }

    async fn end(term: &mut Option<Self>, duty: &Duty) {
        if let Some(mut term) = term.take() {
            term.stop.cancel();
            while term.chores.join_next().await.is_some() {}
            duty.events.tell(&Event::Leading { queue: duty.queue.name(), leading: false });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_leader_is_there_before_the_old_ones_entries_are_stale() {
        for lease in [1, 2, 15, 3600].map(Duration::from_secs) {
            let latest = tenure(lease) + pace(u64::MAX, lease);
            assert!(latest <= lease, "{lease:?}");
        }
    }
}
