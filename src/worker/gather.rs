//! Lets many slots share calls of scripts: what has gathered while the calls before were under way goes together. So a quiet
//! queue waits for nothing, and a busy one sends few scripts.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;

use crate::broker::MAX_JOBS;

/// While this many calls are under way, the next ones gather.
const UNDER_WAY: usize = 2;

/// Makes calls of what is asked, until everybody who might ask is gone.
pub(super) async fn gather<Q, C>(mut questions: mpsc::Receiver<Q>, calls: impl Fn(Vec<Q>) -> C)
where
    C: IntoIterator<Item: Future<Output = ()>>,
{
    let (mut asked, mut under_way) = (Vec::new(), FuturesUnordered::new());
    let mut open = true;
    while open || !under_way.is_empty() {
        tokio::select! {
            biased;
            Some(()) = under_way.next() => {}
            count = questions.recv_many(&mut asked, MAX_JOBS), if open && under_way.len() < UNDER_WAY => {
                open = count > 0;
                if open {
                    under_way.extend(calls(std::mem::take(&mut asked)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn the_first_go_alone_and_what_comes_meanwhile_goes_together() {
        let (questions, asked) = mpsc::channel(100);
        let (calls, answers) = (Mutex::new(Vec::new()), Semaphore::new(0));
        let gathering = gather(asked, |questions: Vec<usize>| {
            calls.lock().unwrap().push(questions);
            [async { answers.acquire().await.unwrap().forget() }]
        });
        let asking = async {
            for question in 1..=UNDER_WAY {
                questions.send(question).await.unwrap();
                while calls.lock().unwrap().len() < question {
                    tokio::task::yield_now().await;
                }
            }
            for question in 3..=9 {
                questions.send(question).await.unwrap();
                tokio::task::yield_now().await;
            }
            assert_eq!(*calls.lock().unwrap(), [[1], [2]]);
            answers.add_permits(3);
            drop(questions);
        };
        tokio::join!(gathering, asking);
        assert_eq!(calls.into_inner().unwrap(), [vec![1], vec![2], (3..=9).collect()]);
    }
}
