//! Plain successes: jobs without a record, of which nothing remains. Many are settled by one script.

use bytes::Bytes;
use fred::bytes_utils::Str;
use fred::types::Value;

use super::error::Error;
use super::link::Link;
use super::{Queue, decode, script};
use crate::job::{EntryId, Lane};

impl Queue {
    /// Deletes and acknowledges entries of one lane, at most 500: all of them, or none where Redis refuses. Returns the
    /// places in `ids` of those that somebody else had settled. See `scripts/acknowledge.lua`.
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
        let answer = link.run(&script::ACKNOWLEDGE, vec![self.keys.stream(lane).clone()], args).await?;
        let place = |value| decode::number(value).and_then(|nth| usize::try_from(nth).ok()?.checked_sub(1));
        let settled: Option<Vec<usize>> = answer.rest.iter().map(place).collect();
        let all = |settled: &Vec<usize>| usize::try_from(answer.status) == Ok(ids.len() - settled.len());
        let settled = settled.filter(|settled| settled.len() <= ids.len() && all(settled));
        settled.ok_or_else(|| Error::contract("acknowledge", answer))
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
