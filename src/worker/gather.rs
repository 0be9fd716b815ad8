//! Lets many slots share calls of scripts: what has gathered while the calls before were under way goes together. So a quiet
//! queue waits for nothing, and a busy one sends few scripts.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::broker::MAX_JOBS;

/// While this many calls are under way, the next ones gather.
const UNDER_WAY: usize = 2;

/// But for no longer than this: if the process dies, Redis learns only what has been sent.
const PATIENCE: Duration = Duration::from_millis(2);

/// Makes calls of what is asked, until everybody who might ask is gone.
pub(super) async fn gather<Q, C>(questions: mpsc::Receiver<Q>, calls: impl Fn(Vec<Q>) -> C)
where
    C: IntoIterator<Item: Future<Output = ()>>,
{
    gather_for(PATIENCE, questions, calls).await;
}

async fn gather_for<Q, C>(patience: Duration, mut questions: mpsc::Receiver<Q>, calls: impl Fn(Vec<Q>) -> C)
where
    C: IntoIterator<Item: Future<Output = ()>>,
{
    let (mut asked, mut under_way) = (Vec::new(), FuturesUnordered::new());
    let (mut open, mut called) = (true, Instant::now());
    while open || !under_way.is_empty() {
        let gathers = under_way.len() >= UNDER_WAY && called.elapsed() < patience;
        tokio::select! {
            biased;
            Some(()) = under_way.next() => {}
            count = questions.recv_many(&mut asked, MAX_JOBS), if open && !gathers => {
                open = count > 0;
                called = Instant::now();
                if open {
                    under_way.extend(calls(std::mem::take(&mut asked)));
                }
            }
            () = sleep_until(called + patience), if open && gathers => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::sync::Semaphore;

    use super::*;

    /// Asks 1 and 2, then the others at once, before any call ends. Returns the calls when there are this many of them.
    async fn calls_of_nine(patience: Duration, most: usize) -> Vec<Vec<usize>> {
        let (questions, asked) = mpsc::channel(100);
        let (calls, answers) = (Mutex::new(Vec::new()), Semaphore::new(0));
        let gathering = gather_for(patience, asked, |questions: Vec<usize>| {
            calls.lock().unwrap().push(questions);
            [async { answers.acquire().await.unwrap().forget() }]
        });
        let until = async |count| {
            while calls.lock().unwrap().len() < count {
                tokio::task::yield_now().await;
            }
        };
        let asking = async {
            for question in 1..=UNDER_WAY {
                questions.send(question).await.unwrap();
                until(question).await;
            }
            for question in 3..=9 {
                questions.send(question).await.unwrap();
                tokio::task::yield_now().await;
            }
            until(most).await;
            drop(questions);
            answers.add_permits(9);
        };
        tokio::join!(gathering, asking);
        calls.into_inner().unwrap()
    }

    #[tokio::test]
    async fn the_first_go_alone_and_what_comes_meanwhile_goes_together() {
        let calls = calls_of_nine(Duration::from_secs(3600), UNDER_WAY).await;
        assert_eq!(calls, [vec![1], vec![2], (3..=9).collect()]);
    }

    #[tokio::test]
    async fn nothing_waits_long_for_the_end_of_another_call() {
        let calls = calls_of_nine(PATIENCE, UNDER_WAY + 1).await;
        assert_eq!(calls.concat(), (1..=9).collect::<Vec<_>>());
    }
}
