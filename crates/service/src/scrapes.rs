//! Answers to scrapes. Writing all metrics takes a while, so one text is written at a time, not on a thread that answers probes,
//! and those who ask meanwhile share the next one. No text is older than the question.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use streamfleet_engine::mutex::lock;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// The texts that scrapes get. Clones share them.
#[derive(Clone)]
pub(super) struct Scrapes {
    turn: Arc<Semaphore>,
    written: Arc<Mutex<Written>>,
}

#[derive(Default)]
struct Written {
    /// How many texts were begun.
    begun: u64,
    /// The last one that is complete, …
    last: Bytes,
    /// … and the number that it has.
    nth: u64,
}

impl Scrapes {
    /// No texts yet.
    pub(super) fn new() -> Self {
        Self { turn: Arc::new(Semaphore::new(1)), written: Arc::default() }
    }

    /// A text that was begun after this call.
    pub(super) async fn text(self, write: impl FnOnce() -> String + Send + 'static) -> Bytes {
        let seen = lock(&self.written).begun;
        let turn = Arc::clone(&self.turn).acquire_owned().await.expect("the semaphore is never closed");
        {
            let mut written = lock(&self.written);
            if written.nth > seen {
                return written.last.clone();
            }
            written.begun += 1;
        }
        let writing = spawn_blocking(move || {
            // Given back when the text is complete, even if nobody waits for it any more.
            let _turn = turn;
            let text = Bytes::from(write());
            let mut written = lock(&self.written);
            (written.nth, written.last) = (written.begun, text.clone());
            text
        });
        match writing.await {
            Ok(text) => text,
            // Without an answer, the scrape counts as failed. An empty one would end all series.
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // A runtime that is stopping may not have started it.
            Err(_) => Bytes::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn those_who_ask_meanwhile_share_the_next_text() {
        let (scrapes, count) = (Scrapes::new(), Arc::new(AtomicUsize::new(0)));
        let (open, gate) = mpsc::channel();
        let mut first = Box::pin(scrapes.clone().text(move || {
            gate.recv().unwrap();
            "first".to_owned()
        }));
        assert!(futures_util::poll!(&mut first).is_pending());
        let mut others = Vec::new();
        for _ in 0..20 {
            let count = Arc::clone(&count);
            let write = move || format!("{}", count.fetch_add(1, Ordering::Relaxed));
            let mut other = Box::pin(scrapes.clone().text(write));
            assert!(futures_util::poll!(&mut other).is_pending());
            others.push(other);
        }
        open.send(()).unwrap();
        assert_eq!(first.await, "first");
        for other in others {
            assert_eq!(other.await, "0", "none gets what was begun before it asked");
        }
        assert_eq!(scrapes.text(|| "later".to_owned()).await, "later");
    }

    #[tokio::test]
    async fn a_text_that_cannot_be_written_fails_its_scrape_and_no_other() {
        let scrapes = Scrapes::new();
        let mut failing = tokio::task::JoinSet::new();
        failing.spawn(scrapes.clone().text(|| panic!("no text")));
        assert!(failing.join_next().await.unwrap().is_err_and(|error| error.is_panic()));
        assert_eq!(scrapes.text(|| "next".to_owned()).await, "next");
    }
}
