//! Settling plain successes: jobs without a record, which leave nothing behind. Many are settled at once. If their
//! leases certainly still hold, two plain commands do it, which costs Redis a tenth less per job than a script.
//! Otherwise a script does it.

use bytes::Bytes;
use fred::bytes_utils::Str;
use fred::interfaces::{HashesInterface, KeysInterface, StreamsInterface};
use fred::types::{Key, Value};

use crate::broker::client::decode;
use crate::broker::client::error::Error;
use crate::broker::client::link::Link;
use crate::broker::client::script::scripts;
use crate::broker::{GROUP, Queue};
use crate::job::{ConsumerName, EntryId, Lane};

scripts! { ACKNOWLEDGE "acknowledge" }

impl Queue {
    /// Deletes and acknowledges up to 500 entries of one lane that no other process can have settled.
    ///
    /// Returns how many were deleted, and how many acknowledged; the second is `None` if only the first was answered.
    /// The entries are deleted first: a process that dies in between leaves entries that are pending but deleted, which
    /// a claim clears up.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses. In any case, [`Queue::acknowledge`] settles what this call did
    /// not.
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
                // Redis accepted only the acknowledgement. Nobody would look for entries that are neither pending nor
                // deleted.
                self.reclaim(link, consumer, stream, ids).await;
                Err(Error::from_client("acknowledge", &error))
            }
        }
    }

    /// Makes entries pending again that were acknowledged but not deleted. If that fails too, they are left behind only
    /// if this process dies before it settles them.
    async fn reclaim(&self, link: &Link, consumer: &ConsumerName, stream: Key, ids: &[EntryId]) {
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
            tracing::debug!(%error, "entries that were not deleted could not be made pending again");
        }
    }

    /// Deletes and acknowledges up to 500 entries of one lane, even if their leases may be lost.
    ///
    /// All of them are settled, or none if Redis refuses. Returns the positions in `ids` of those that another process
    /// had settled. See `acknowledge.lua`.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses. If it is resent after a lost answer, it finds all entries
    /// settled, and cannot tell by which process.
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

    /// Deletes the receipts of these entries, or all receipts of a consumer, because their answers have arrived.
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

/// Formats ids as text in one shared buffer, because separate strings would cost several allocations each.
fn texts(ids: &[EntryId]) -> Vec<Str> {
    use std::fmt::Write as _;
    let mut all = String::with_capacity(ids.len() * 20);
    let ends = ids.iter().map(|id| {
        write!(all, "{id}").expect("writing to a String cannot fail");
        all.len()
    });
    let ends: Vec<usize> = ends.collect();
    let all = Bytes::from(all);
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let slices = starts.zip(&ends).map(|(start, end)| Str::from_inner(all.slice(start..*end)));
    slices.map(|text| text.expect("digits are UTF-8")).collect()
}
