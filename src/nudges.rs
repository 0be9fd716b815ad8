//! Wake-ups that others leave in Redis for a chore, so that it need not look often.

use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::broker::{Broker, Error, Link, Queue, Role};
use crate::job::{EntryId, jittered};

/// How long one wait lasts.
const BLOCK: Duration = Duration::from_secs(2);

/// The pause after an error, on average.
const PAUSE: Duration = Duration::from_millis(500);

/// Who is woken.
pub enum Nudges {
    /// The promoter of a queue: a job was delayed that is due before all others.
    Promoter(Queue),
    /// The relay of the outbox: rows were committed, after this entry of the stream that tells of them.
    Outbox(Broker, EntryId),
}

impl Nudges {
    /// Passes on wake-ups until stopped. A wake-up carries nothing, so this may be dropped at any time.
    pub async fn listen(mut self, nudged: &Notify, stop: &CancellationToken) {
        let mut link: Option<Link> = None;
        while !stop.is_cancelled() {
            let waited = match &link {
                Some(link) => tokio::time::timeout(2 * BLOCK, self.wait(link)).await,
                None => match self.open().await {
                    Ok(open) => {
                        link = Some(open);
                        continue;
                    }
                    Err(error) => Ok(Err(error)),
                },
            };
            match waited {
                Ok(Ok(true)) => nudged.notify_one(),
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    tracing::debug!(%error, "failed to wait for a wake-up");
                    tokio::time::sleep(jittered(PAUSE, 0.5..1.5, rand::random())).await;
                }
                // The connection is half open, so open another one.
                Err(_) => link = None,
            }
        }
    }

    async fn open(&self) -> Result<Link, Error> {
        match self {
            Self::Promoter(queue) => queue.open(Role::Blocking).await,
            Self::Outbox(broker, _) => broker.open_outbox().await,
        }
    }

    async fn wait(&mut self, link: &Link) -> Result<bool, Error> {
        match self {
            Self::Promoter(queue) => queue.await_nudge(link, BLOCK).await,
            Self::Outbox(broker, last) => {
                let told = broker.await_outbox(link, *last, BLOCK).await?;
                *last = told.unwrap_or(*last);
                Ok(told.is_some())
            }
        }
    }
}
