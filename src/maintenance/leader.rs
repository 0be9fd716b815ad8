//! Which process leads a queue, and so maintains it: the holder of a short lease in Redis. Candidates ask for the lease at a rate
//! that does not depend on how many there are.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::cron::UnhandledTick;
use super::leader_view::LeaderView;
use super::{
    Context, claimer, gauge, letters, orphans, promoter, reaper, sampler, sweeper, task_runner, trimmer,
    unserved, waitlists, waker,
};
use crate::event::QueueEvent;
use crate::job::{Pacing, Timestamp, jittered};
use crate::leadership::{Leadership, Term};

/// All candidates of a queue together ask about this often …
const ASK_EVERY: Duration = Duration::from_millis(300);

/// … or this often, if there are many.
const MANY_ASK_EVERY: Duration = Duration::from_millis(500);

/// A candidate that has just started asks again after this long, and then after three and nine times as long: only by
/// asking does it learn how many candidates there are.
const FRESH: Duration = Duration::from_secs(1);

/// A clock that goes back by less than this has only been corrected.
const CORRECTION_BELOW: Duration = Duration::from_secs(1);

/// A clock that goes back by more than this is worth a warning.
const REPORTED_FROM: Duration = Duration::from_secs(60);

/// However many candidates there are, each one asks within this time.
const LONGEST: Duration = Duration::from_secs(600);

/// Returns how long the leader's lease lasts without renewal: short enough that there is a new leader before the
/// entries of a killed one are stale.
fn tenure(lease: Duration) -> Duration {
    (lease / 2).clamp(Duration::from_millis(500), Duration::from_secs(5))
}

/// Returns the longest time that each of this many candidates waits before it asks again. Consumers that are long dead
/// count until they are reaped, so a small number of them must not leave the queue without a leader for longer than a
/// third of the lease. If there are many candidates, each one asks so rarely that together they cost an idle queue
/// little. Yet they ask often enough that those who are alive, if they are more than a few, take over a free lease
/// within a fraction of the entries' lease.
fn pace(candidates: u64, lease: Duration) -> Duration {
    let candidates = u32::try_from(candidates.max(1)).unwrap_or(u32::MAX);
    let few = ASK_EVERY.saturating_mul(candidates).min(lease / 3);
    let many = MANY_ASK_EVERY.min(lease / 30).saturating_mul(candidates).min(LONGEST);
    few.max(many)
}

/// Returns how long a candidate waits after this many requests without success. Candidates that started together drift
/// apart after a while.
fn candidate_pause(asked_in_vain: u32, pace: Duration, roll: f64) -> Duration {
    let regular = jittered(pace, 0.75..1.0, roll);
    match asked_in_vain {
        0..=2 => regular.min(FRESH * 3u32.pow(asked_in_vain)),
        3 => jittered(pace, 0.0..1.0, roll),
        4.. => regular,
    }
}

/// Leads when it can, until stopped; then releases the lease. `unhandled` is what it reports about the recurring jobs.
pub(super) async fn run(context: Context, view: watch::Sender<LeaderView>, unhandled: Arc<UnhandledTick>) {
    let tenure = tenure(context.lease);
    let (mut leadership, mut asked_in_vain) = (Leadership::new(tenure, &context.stop), 0_u32);
    let monitor = context.liveness.monitor("the leader election", Some(context.queue.name()));
    let report = |leading| context.events.of_queue(context.queue.name(), QueueEvent::Leading { leading });
    let (mut chore, mut clock) = (context.chore(tenure / 3).jitter(1.0..1.0), ClockSeen::default());
    while chore.tick().await {
        let asked = Instant::now();
        let answer = monitor.ask(Duration::ZERO, context.queue.lead(&context.consumer, tenure)).await;
        if let Ok(answer) = &answer {
            let (revision, leads, pacing) = (answer.revision, answer.leading, Pacing::of(answer.consumers));
            (context.consumers)(answer.consumers);
            let back = clock.set_back([asked, Instant::now()], answer.now);
            if back > REPORTED_FROM && (leads || leadership.is_held()) {
                context.events.of_queue(context.queue.name(), QueueEvent::ClockSetBack { by: back });
            }
            let news = LeaderView { revision, leads, pacing, steps: clock.steps };
            view.send_if_modified(|known| std::mem::replace(known, news) != news);
        }
        let has_ended = match chore.note(answer) {
            Some(answer) if answer.leading => {
                if let Some(term) = leadership.granted(asked) {
                    report(true);
                    begin(&context, term, (&view, &unhandled));
                }
                false
            }
            Some(answer) => {
                let pace = pace(answer.consumers, context.lease);
                chore.next_in(candidate_pause(asked_in_vain, pace, rand::random()));
                asked_in_vain = asked_in_vain.saturating_add(1);
                leadership.end().await
            }
            None => leadership.unanswered().await,
        };
        if has_ended {
            report(false);
        }
    }
    if leadership.end().await {
        report(false);
        if let Err(error) = context.queue.lead(&context.consumer, Duration::ZERO).await {
            tracing::debug!(%error, "failed to release the leader's lease; it will expire");
        }
    }
}

/// Starts the tasks of a term.
fn begin(
    context: &Context,
    term: &mut Term,
    (view, unhandled): (&watch::Sender<LeaderView>, &Arc<UnhandledTick>),
) {
    let context = Context { stop: term.stop(), ..context.clone() };
    let (last_survey, survey) = watch::channel(None);
    let mut start = |what: &str, task: BoxFuture<'static, ()>| {
        term.spawn(context.liveness.watch(format!("the {what} of {}", context.queue.name()), task));
    };
    let own = || context.clone();
    start("promoter", Box::pin(promoter::run(own())));
    start("claimer", Box::pin(claimer::run(own())));
    start("search for orphans", Box::pin(orphans::run(own())));
    start("reaper", Box::pin(reaper::run(own(), view.subscribe())));
    start("waker", Box::pin(waker::run(own(), view.subscribe())));
    start("sweeper", Box::pin(sweeper::run(own())));
    start("task runner", Box::pin(task_runner::run(own())));
    start("trimmer", Box::pin(trimmer::run(own())));
    start("search for deleted dead letters", Box::pin(letters::run(own())));
    start("waiting lists", Box::pin(waitlists::run(own())));
    start("watch over unserved types", Box::pin(unserved::run(own())));
    start("gauge", Box::pin(gauge::run(own(), (Arc::clone(unhandled), last_survey))));
    start("sampler", Box::pin(sampler::run(own(), survey)));
}

/// What a candidate has seen of the server's clock.
#[derive(Default)]
struct ClockSeen {
    /// What the clock last showed, and when the answer arrived.
    last: Option<(Instant, Timestamp)>,
    /// How often the clock has been set back.
    steps: u64,
}

impl ClockSeen {
    /// Notes what the clock showed at some time between these two instants. Returns by how much, at least, it has been
    /// set back since the last time.
    fn set_back(&mut self, [sent, received]: [Instant; 2], now: Timestamp) -> Duration {
        let Some((before, shown)) = self.last.replace((received, now)) else { return Duration::ZERO };
        let back = shown.after(sent.saturating_duration_since(before)).since(now);
        if back < CORRECTION_BELOW {
            return Duration::ZERO;
        }
        self.steps += 1;
        back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_set_back_is_noticed_and_a_slow_answer_is_not() {
        let (start, at) = (Instant::now(), |ms: u64| Timestamp::from_ms(1_800_000_000_000 + ms).unwrap());
        let mut clock = ClockSeen::default();
        let mut look = |sent, received, shown| {
            let [sent, received] = [sent, received].map(|ms| start + Duration::from_millis(ms));
            clock.set_back([sent, received], at(shown)).as_secs()
        };
        assert_eq!(look(0, 10, 3_600_000), 0);
        assert_eq!(look(2_000, 9_000, 3_602_000), 0);
        assert_eq!(look(10_000, 10_010, 3_609_500), 0, "by less than a second");
        assert_eq!(look(12_000, 12_010, 12_000), 3_599);
        assert_eq!(look(14_000, 14_010, 14_000), 0);
        assert_eq!(look(16_000, 16_010, 3_616_000), 0, "ahead");
        assert_eq!(clock.steps, 1);
    }

    #[test]
    fn a_new_leader_leads_before_the_old_ones_entries_are_stale() {
        for lease in [1, 2, 15, 3600].map(Duration::from_secs) {
            for candidates in 1..=15 {
                let latest = tenure(lease) + pace(candidates, lease);
                assert!(latest <= lease, "{lease:?} {candidates}");
            }
        }
    }

    /// If there are many candidates, somebody asks within what is left of the lease, unless nine tenths of them died with the leader.
    #[test]
    fn many_candidates_ask_rarely_each_and_often_together() {
        for (lease, candidates) in [(1, 64), (15, 16), (15, 200), (60, 600)] {
            let (lease, pace) = (Duration::from_secs(lease), pace(candidates, Duration::from_secs(lease)));
            let asked = candidates as f64 * (lease - tenure(lease)).as_secs_f64() / pace.as_secs_f64();
            assert!(asked >= 15.0, "{lease:?} {candidates}: {asked} times within the lease");
        }
        let per_second = 200.0 / pace(200, Duration::from_secs(15)).as_secs_f64();
        assert!(per_second <= 2.0, "{per_second}");
    }
}
