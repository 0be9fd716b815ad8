//! Receipts: where a settling script keeps its answers in case the reply is lost. The answers about a group are kept
//! together, by the name of its call. If that call was not answered, each of its attempts is sent again alone, with its place
//! in the group. See `settle_each` in `prelude.lua`.

use std::sync::Arc;

use crate::job::{EntryId, Lane};

/// A call about a group, shared by its attempts that Redis has not answered.
#[derive(Debug, Clone)]
pub(crate) struct GroupCall(Arc<str>);

/// The place of an attempt in the call about its group.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) call: GroupCall,
    /// Counted from 0.
    pub(crate) nth: usize,
}

/// What is asked about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asked<'a> {
    /// Attempts whose answers are kept one by one.
    Each,
    /// A group.
    Group(&'a GroupCall),
    /// One attempt, which was in a group before.
    Again(&'a Place),
}

/// Something that a script keeps until its answers have arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Receipt {
    /// The answer about an entry.
    Entry(Lane, EntryId),
    /// The answers about a group, by the name of its call.
    Group(Arc<str>),
}

impl GroupCall {
    /// Draws a name for a new call.
    pub(crate) fn new() -> Self {
        Self(format!("{:032x}", rand::random::<u128>()).into())
    }
}

impl Place {
    /// Ends the wait of this attempt. Returns the receipt of its group if it was the last one: then nobody asks for it again.
    /// One task must own all attempts of a group.
    pub(crate) fn answered(self) -> Option<Receipt> {
        let is_last = Arc::strong_count(&self.call.0) == 1;
        is_last.then_some(Receipt::Group(self.call.0))
    }
}

impl Asked<'_> {
    /// The name of the call, as the scripts read it.
    pub(in crate::broker) fn name(self) -> String {
        match self {
            Self::Each => String::new(),
            Self::Group(call) => call.0.to_string(),
            Self::Again(Place { call, nth }) => format!("{} {}", call.0, nth + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_attempt_of_a_group_that_is_answered_ends_its_receipt() {
        let call = GroupCall::new();
        let [first, second] = [0, 1].map(|nth| Place { call: call.clone(), nth });
        let name = Asked::Group(&call).name();
        assert_eq!(Asked::Again(&second).name(), format!("{name} 2"));
        assert_eq!(Asked::Each.name(), "");
        drop(call);
        assert_eq!(first.answered(), None);
        assert_eq!(second.answered(), Some(Receipt::Group(name.into())));
    }
}
