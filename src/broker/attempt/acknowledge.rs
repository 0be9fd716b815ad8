//! Plain successes: jobs without a record, of which nothing remains. Many are settled at once: by two plain commands where
//! their leases are surely held, which costs Redis a tenth less per job than a script, and by a script in every other case.

use crate::broker::client::script::scripts;
use bytes::Bytes;
use fred::bytes_utils::Str;
use fred::interfaces::{HashesInterface, KeysInterface, StreamsInterface};
use fred::types::{Key, Value};

use crate::broker::client::decode;
use crate::broker::client::error::Error;
use crate::broker::client::link::Link;
use crate::broker::{GROUP, Queue};
use crate::job::{ConsumerName, EntryId, Lane};

scripts! { ACKNOWLEDGE "acknowledge" }

impl Queue {
    /// Deletes and acknowledges entries of one lane that nobody else can have settled, at most 500. Returns how many were
    /// deleted, and how many acknowledged; of the second, `None` where only the first was answered.
    ///
    /// They are deleted first: who dies in between leaves entries that are pending but deleted, which a claim clears up.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses. [`Queue::acknowledge`] settles what this did not, whatever it did.
    pub(crate) async fn acknowledge_held(
        &self,
        link: &Link,
        consumer: &ConsumerName,
        lane: Lane,
        ids: &[EntryId],
    ) -> Result<(usize, Option<usize>), Error> {
        let (stream, pipeline) = (self.keys.stream(lane).clone(), link.client().pipeline());
        let (key, own) = (stream.clone(), texts(ids));
        let both = async move {
            let _queued: () = Box::pin(pipeline.xdel(key.clone(), own.clone())).await?;
            let _queued: () = Box::pin(pipeline.xack(key, GROUP, own)).await?;
            let mut replies = Box::pin(pipeline.try_all::<usize>()).await.into_iter();
            let mut reply = || replies.next().unwrap_or_else(|| Err(fred::error::Error::new_canceled()));
            match (reply(), reply()) {
                (Ok(deleted), acknowledged) => Ok(Ok((deleted, acknowledged.ok()))),
                (Err(error), Ok(_acknowledged)) => Ok(Err(error)),
                (Err(error), Err(_)) => Err(error),
            }
        };
        match link.ask("acknowledge", both).await? {
            Ok(settled) => Ok(settled),
            Err(error) => {
                // Redis changed its mind between the two. Nobody would look for entries that are neither pending nor deleted.
                self.hold_again(link, consumer, stream, ids).await;
                Err(Error::from_client("acknowledge", &error))
            }
        }
    }

    /// Makes entries pending again that were acknowledged and not deleted. Where that fails too, only the death of this process
    /// before it settles them leaves them behind.
    async fn hold_again(&self, link: &Link, consumer: &ConsumerName, stream: Key, ids: &[EntryId]) {
        let client = link.client();
        let claim = client.xclaim::<Value, _, _, _, _>(
            stream,
            GROUP,
            consumer.as_str(),
            0,
            texts(ids),
            None,
            None,
            None,
            true,
            true,
        );
        if let Err(error) = link.ask("acknowledge", claim).await {
            tracing::debug!(%error, "entries that are not deleted could not be made pending again");
        }
    }

    /// Deletes and acknowledges entries of one lane, at most 500, also where the lease may be lost: all of them, or none where Redis refuses. Returns the
    /// places in `ids` of those that somebody else had settled. See `acknowledge.lua`.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses. Sent again after a lost answer, it finds that all of them are
    /// settled, and cannot say by whom.
    pub(crate) async fn acknowledge(
        &self,
        link: &Link,
        lane: Lane,
        ids: &[EntryId],
    ) -> Result<Vec<usize>, Error> {
        let args = texts(ids).into_iter().map(Value::String).collect();
        let answer = link.run(&ACKNOWLEDGE, vec![self.keys.stream(lane).clone()], args).await?;
        let place = |value| decode::number(value).and_then(|nth| usize::try_from(nth).ok()?.checked_sub(1));
        let settled: Option<Vec<usize>> = answer.rest.iter().map(place).collect();
        let all = |settled: &Vec<usize>| usize::try_from(answer.status) == Ok(ids.len() - settled.len());
        let settled = settled.filter(|settled| settled.len() <= ids.len() && all(settled));
        settled.ok_or_else(|| Error::contract("acknowledge", answer))
    }

    /// Forgets what became of these entries, or of all that a consumer has settled: their answers have been heard.
    pub(crate) async fn forget_receipts(
        &self,
        link: &Link,
        consumer: &ConsumerName,
        settled: &[(Lane, EntryId)],
    ) -> Result<(), Error> {
        let (client, key) = (link.client(), self.keys.receipts(consumer.as_str()));
        if settled.is_empty() {
            return link.ask("del", client.del(key)).await;
        }
        let field =
            |(lane, entry): &(Lane, EntryId)| format!("{} {entry}", self.keys.stream(*lane).as_str_lossy());
        let fields: Vec<String> = settled.iter().map(field).collect();
        link.ask("hdel", client.hdel(key, fields)).await
    }
}

/// Ids as text, all in one buffer: one by one each would cost several allocations.
fn texts(ids: &[EntryId]) -> Vec<Str> {
    use std::fmt::Write as _;
    let mut all = String::with_capacity(ids.len() * 20);
    let ends = ids.iter().map(|id| {
        write!(all, "{id}").expect("a String takes every write");
        all.len()
    });
    let ends: Vec<usize> = ends.collect();
    let all = Bytes::from(all);
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let slices = starts.zip(&ends).map(|(start, end)| Str::from_inner(all.slice(start..*end)));
    slices.map(|text| text.expect("digits are UTF-8")).collect()
}
