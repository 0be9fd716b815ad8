//! Settling plain successes: jobs without a record, which leave nothing behind. Many are settled at once. If their
//! leases certainly still hold, plain commands do it, which costs Redis a tenth less per job than a script: `XACKDEL` if
//! the server has it, otherwise `XDEL` and `XACK`. If not, a script does it.

use bytes::Bytes;
use fred::bytes_utils::Str;
use fred::clients::Client;
use fred::interfaces::{ClientLike, HashesInterface, KeysInterface, StreamsInterface};
use fred::types::{ClusterHash, CustomCommand, Key, Value};

use crate::client::decode;
use crate::client::error::Error;
use crate::client::link::Link;
use crate::client::script::scripts;
use crate::job::{ConsumerName, EntryId, Lane};
use crate::{GROUP, Queue};

scripts! { ACKNOWLEDGE "acknowledge" }

/// What plain commands did to entries that should all have been pending.
#[derive(Debug, PartialEq, Eq)]
pub enum Acknowledged {
    /// All were pending, and are gone now.
    All,
    /// All but those at these positions, in order. They were not pending, and were not touched.
    AllBut(Vec<usize>),
    /// All were deleted, but it is not certain that all were pending, or that none still is.
    Deleted,
    /// Not all were deleted. Nothing shows which.
    Partly {
        /// Whether some may have been deleted or acknowledged.
        changed: bool,
    },
}

impl Queue {
    /// Deletes and acknowledges up to 500 entries of one lane that no other process can have settled.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses. In any case, [`Queue::acknowledge`] settles what this call did
    /// not.
    #[doc(hidden)]
    pub async fn acknowledge_held(
        &self,
        link: &Link,
        consumer: &ConsumerName,
        lane: Lane,
        ids: &[EntryId],
    ) -> Result<Acknowledged, Error> {
        let Some(client) = link.client_with_xackdel() else {
            return self.xdel_and_xack(link, consumer, lane, ids).await;
        };
        match self.xackdel(link, &client, lane, ids).await {
            Err(error) if is_unavailable(&error) => {
                tracing::info!(%error, "redis refuses XACKDEL; ending jobs by XDEL and XACK instead");
                link.note_no_xackdel(&client);
                self.xdel_and_xack(link, consumer, lane, ids).await
            }
            settled => settled,
        }
    }

    /// Does it by one command, which does all of it or nothing. Like `XDEL`, it leaves other groups alone (`KEEPREF`).
    async fn xackdel(
        &self,
        link: &Link,
        client: &Client,
        lane: Lane,
        ids: &[EntryId],
    ) -> Result<Acknowledged, Error> {
        let count = Value::Integer(ids.len() as i64);
        let mut args: Vec<Value> = vec![self.keys.stream(lane).clone().into(), GROUP.into()];
        args.extend(["KEEPREF".into(), "IDS".into(), count]);
        args.extend(texts(ids).into_iter().map(Value::String));
        let command = CustomCommand::new_static("XACKDEL", ClusterHash::FirstKey, false);
        let reply = link.ask("acknowledge", client.custom::<Value, Value>(command, args)).await?;
        by_each(&reply, ids.len())
    }

    /// Returns true if Redis refuses `XACKDEL`. Asks about an entry that does not exist, and changes nothing.
    #[doc(hidden)]
    pub async fn is_refused_xackdel(&self) -> bool {
        let (link, nobody) = (self.link(), [EntryId::new(0, 1)]);
        let answer = self.xackdel(link, &link.client(), Lane::Normal, &nobody).await;
        answer.is_err_and(|error| is_unavailable(&error))
    }

    /// Does it by two commands, one right after the other. The entries are deleted first: a process that dies in between
    /// leaves entries that are pending but deleted, which a claim clears up.
    async fn xdel_and_xack(
        &self,
        link: &Link,
        consumer: &ConsumerName,
        lane: Lane,
        ids: &[EntryId],
    ) -> Result<Acknowledged, Error> {
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
            Ok((deleted, acknowledged)) => Ok(by_both(deleted, acknowledged, ids.len())),
            Err(error) => {
                // Redis accepted only the acknowledgement. The leader finds entries that are neither pending nor deleted,
                // but much later, and lets their jobs run again.
                self.reclaim(link, consumer, stream, ids).await;
                Err(Error::from_client("acknowledge", &error))
            }
        }
    }

    /// Makes entries pending again that were acknowledged but not deleted. If that fails too, they become orphans only if
    /// this process dies before it settles them.
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
    #[doc(hidden)]
    pub async fn acknowledge(&self, link: &Link, lane: Lane, ids: &[EntryId]) -> Result<Vec<usize>, Error> {
        let args = texts(ids).into_iter().map(Value::String).collect();
        let answer = link.run(&ACKNOWLEDGE, vec![self.keys.stream(lane).clone()], args).await?;
        let place = |value| decode::number(value).and_then(|nth| usize::try_from(nth).ok()?.checked_sub(1));
        let settled: Option<Vec<usize>> = answer.rest.iter().map(place).collect();
        let all = |settled: &Vec<usize>| usize::try_from(answer.status) == Ok(ids.len() - settled.len());
        let settled = settled.filter(|settled| settled.len() <= ids.len() && all(settled));
        settled.ok_or_else(|| Error::contract("acknowledge", answer))
    }

    /// Deletes the receipts of these entries, or all receipts of a consumer, because their answers have arrived.
    #[doc(hidden)]
    pub async fn forget_receipts(
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

/// What `XACKDEL` answered about `count` entries: 1 if it acknowledged and deleted the entry, or found it pending but
/// deleted before; -1 if it is not pending.
fn by_each(reply: &Value, count: usize) -> Result<Acknowledged, Error> {
    let contract = || Error::contract("acknowledge", reply);
    let Value::Array(answers) = reply else { return Err(contract()) };
    let mut others = Vec::new();
    for (place, answer) in answers.iter().enumerate() {
        let answer = if let Value::Integer(answer) = answer { Some(*answer) } else { None };
        match answer {
            Some(1) => {}
            Some(-1) => others.push(place),
            Some(_) | None => return Err(contract()),
        }
    }
    if answers.len() != count {
        return Err(contract());
    }
    Ok(if others.is_empty() { Acknowledged::All } else { Acknowledged::AllBut(others) })
}

/// What `XDEL` and `XACK` answered about `count` entries: how many they deleted, and how many they acknowledged, if the
/// second was answered.
fn by_both(deleted: usize, acknowledged: Option<usize>, count: usize) -> Acknowledged {
    match (deleted == count, acknowledged) {
        (true, Some(acknowledged)) if acknowledged == count => Acknowledged::All,
        (true, _) => Acknowledged::Deleted,
        (false, acknowledged) => Acknowledged::Partly { changed: deleted > 0 || acknowledged != Some(0) },
    }
}

/// True if Redis refused a command because it does not know it, or because this login may not run it.
fn is_unavailable(error: &Error) -> bool {
    match error {
        Error::Refused { detail, .. } => {
            detail.starts_with("NOPERM") || detail.starts_with("ERR unknown command")
        }
        Error::Unknown { .. } | Error::Contract { .. } | Error::Unreachable(_) | Error::Address(_) => false,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(answers: &[i64]) -> Value {
        Value::Array(answers.iter().copied().map(Value::Integer).collect())
    }

    #[test]
    fn each_entry_has_an_answer_of_its_own() {
        assert_eq!(by_each(&answered(&[1, 1, 1]), 3).unwrap(), Acknowledged::All);
        assert_eq!(by_each(&answered(&[-1, 1, -1]), 3).unwrap(), Acknowledged::AllBut(vec![0, 2]));
        assert_eq!(by_each(&answered(&[-1]), 1).unwrap(), Acknowledged::AllBut(vec![0]));
    }

    #[test]
    fn other_answers_break_the_contract() {
        // 2 means acknowledged but not deleted, which only another mode answers.
        let nested = Value::Array(vec![answered(&[1])]);
        for wrong in [answered(&[1]), answered(&[1, 1, 1]), answered(&[1, 2]), nested, Value::Integer(1)] {
            let error = by_each(&wrong, 2).unwrap_err();
            assert!(matches!(error, Error::Contract { command: "acknowledge", .. }), "{error}");
        }
    }

    #[test]
    fn two_counts_tell_only_whether_all_were_settled() {
        assert_eq!(by_both(3, Some(3), 3), Acknowledged::All);
        assert_eq!(by_both(3, Some(2), 3), Acknowledged::Deleted);
        assert_eq!(by_both(3, None, 3), Acknowledged::Deleted);
        assert_eq!(by_both(2, Some(2), 3), Acknowledged::Partly { changed: true });
        assert_eq!(by_both(0, None, 3), Acknowledged::Partly { changed: true });
        assert_eq!(by_both(0, Some(0), 3), Acknowledged::Partly { changed: false });
    }

    #[test]
    fn only_a_command_that_did_nothing_is_replaced_by_others() {
        let refused = |detail: &str| Error::refused("acknowledge", detail.to_owned());
        assert!(is_unavailable(&refused("ERR unknown command 'XACKDEL', with args beginning with: ")));
        assert!(is_unavailable(&refused("NOPERM User w has no permissions to run the 'xackdel' command")));
        for detail in ["WRONGTYPE Operation against a key", "READONLY You can't write", "ERR syntax error"] {
            assert!(!is_unavailable(&refused(detail)), "{detail}");
        }
        let lost = Error::Unknown { command: "acknowledge", detail: "NOPERM".to_owned() };
        assert!(!is_unavailable(&lost));
    }
}
