//! Deliberate bugs, all known from real job queues. A process that is started with the name of one in
//! `STREAMFLEET_SABOTAGE` carries that bug, so that tests and audits can show that they would notice it.
//!
//! Only a debug build with the feature `sabotage` has them. In every other build `is` is false at compile time, scripts
//! stay unchanged, and nothing reads that variable. For a bug in Rust, the engine asks `is` at the place of the bug. For a
//! bug in a script, a line of the script is replaced when it is loaded.

#[cfg(all(feature = "sabotage", debug_assertions))]
mod armed;

#[cfg(all(feature = "sabotage", debug_assertions))]
pub use armed::bugs;
#[cfg(all(feature = "sabotage", debug_assertions))]
pub use armed::{is, sabotaged};

/// Declares the enum of bugs, and the list of their names and descriptions.
macro_rules! bugs {
    ($($(#[doc = $about:literal])+ $bug:ident,)+) => {
        /// A deliberate bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Sabotage {
            $($(#[doc = $about])+ $bug,)+
        }

        /// All bugs, each with its name and description.
        #[cfg(all(feature = "sabotage", debug_assertions))]
        const BUGS: &[(Sabotage, &str, &str)] =
            &[$((Sabotage::$bug, stringify!($bug), concat!($($about),+))),+];
    };
}

bugs! {
    /// An entry is settled when its attempt starts, so a worker that dies loses its job.
    AckBeforeRun,
    /// A settling script does not check whether the entry is still pending.
    FenceIgnored,
    /// The success of an attempt whose entry was taken over is reported as an additional success.
    FencedSuccessCounted,
    /// A stopping worker settles the attempts that it interrupted as if they had succeeded.
    DrainAcksRunning,
    /// A consumer is deleted together with its pending entries, and nothing makes them pending again.
    PendingForgotten,
    /// Leases are not renewed while handlers run.
    LeaseNotRenewed,
    /// Entries are taken over after a sixth of the lease.
    ClaimedEarly,
    /// Only the first pending entry is checked for an expired lease.
    ClaimedFromHeadOnly,
    /// The server's wall clock is trusted even when it steps.
    ClockTrusted,
    /// An entry is deleted before its job has been written to its next place.
    DeletedFirst,
    /// An entry is acknowledged but stays in its stream, and nothing makes it pending again.
    AckedNotDeleted,
    /// An entry is deleted, but its dead letter is not written.
    BuriedWithoutLetter,
    /// A dead letter is written, but the entry stays pending.
    BuriedAndKept,
    /// A replayed dead letter is not deleted.
    LetterKeptByReplay,
    /// A retry does not count the failures before it.
    RetryNotCounted,
    /// A snooze counts as a failed attempt.
    SnoozeCounted,
    /// Delayed jobs are promoted 1.5 seconds early.
    PromotedEarly,
    /// One unreadable delayed job prevents all others from being promoted.
    BatchAbortedByOne,
    /// A retry overwrites the waiting retry of another generation with the same id.
    RetryOverwritten,
    /// A generation that ends deletes a record that belongs to another generation.
    RecordOfAnotherDeleted,
    /// The ledger of steps is deleted as soon as one generation ends.
    LedgerOfAnotherDeleted,
    /// A request to cancel one generation cancels every generation with its id.
    CancelledById,
    /// A step is written to the ledger only after its handler was called.
    LedgerAfterCall,
    /// A known id is accepted again.
    IdAcceptedAgain,
    /// A dead job keeps its unique key.
    LockKeptByDead,
    /// A job's follow-ups are submitted each time it dies.
    CallbackEachTime,
    /// Every process submits every tick of a recurring job.
    TickUnguarded,
    /// A command whose reply was lost is treated as refused.
    UnknownIsRefused,
    /// A payload is truncated at 64 KiB.
    PayloadCut,
}

/// Returns true if this process carries this bug.
#[cfg(not(all(feature = "sabotage", debug_assertions)))]
pub const fn is(_bug: Sabotage) -> bool {
    false
}

/// Returns a script's source, changed by this process's bug.
#[cfg(not(all(feature = "sabotage", debug_assertions)))]
pub const fn sabotaged(_script: &str, source: &'static str) -> std::borrow::Cow<'static, str> {
    std::borrow::Cow::Borrowed(source)
}
