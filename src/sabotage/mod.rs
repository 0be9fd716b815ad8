//! Known bugs, built in on purpose: what real job queues got wrong. A process started with one of their names in
//! `STREAMFLEET_SABOTAGE` carries that bug, so that tests and audits can show that they would notice it.
//!
//! Only a debug build with the feature `sabotage` has them. In every other build `is` is false at compile time, scripts
//! stay as they are written, and nothing reads that variable. For a bug in Rust, the engine asks `is` at that point.
//! For a bug in a script, a line of the script is replaced when it is loaded.

#[cfg(all(feature = "sabotage", debug_assertions))]
mod armed;

#[cfg(all(feature = "sabotage", debug_assertions))]
pub use armed::bugs;
#[cfg(all(feature = "sabotage", debug_assertions))]
pub(crate) use armed::{is, spoiled};

/// Declares the enum of bugs, and the list of their names and descriptions.
macro_rules! bugs {
    ($($(#[doc = $about:literal])+ $bug:ident,)+) => {
        /// One bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(not(all(feature = "sabotage", debug_assertions)), expect(dead_code, reason = "some are only in scripts"))]
        pub(crate) enum Sabotage {
            $($(#[doc = $about])+ $bug,)+
        }

        /// All bugs, each with its name and description.
        #[cfg(all(feature = "sabotage", debug_assertions))]
        const BUGS: &[(Sabotage, &str, &str)] =
            &[$((Sabotage::$bug, stringify!($bug), concat!($($about),+))),+];
    };
}

bugs! {
    /// An entry is settled when its attempt starts, so a worker that dies takes its job along.
    AckBeforeRun,
    /// A settling script does not look whether the entry is still pending.
    FenceIgnored,
    /// The success of an attempt whose entry was taken over meanwhile is told as one more success.
    FencedSuccessCounted,
    /// A worker that stops settles what it interrupted as if it were done.
    DrainAcksRunning,
    /// A consumer is deleted with the entries that are pending for it.
    PendingForgotten,
    /// Leases are not renewed while handlers run.
    LeaseNotRenewed,
    /// Entries are taken over after a quarter of the lease.
    ClaimedEarly,
    /// Silent entries are looked for at the head of what is pending alone.
    ClaimedFromHeadOnly,
    /// The server's wall clock is trusted when it steps.
    ClockTrusted,
    /// An entry is deleted before its job is where it goes next.
    DeletedFirst,
    /// An entry is acknowledged and stays in its stream.
    AckedNotDeleted,
    /// An entry is deleted without the dead letter that takes its place.
    BuriedWithoutLetter,
    /// A dead letter is written and the entry stays pending.
    BuriedAndKept,
    /// A replayed letter stays.
    LetterKeptByReplay,
    /// Failures are not counted in what is tried again.
    RetryNotCounted,
    /// A snoozed job counts as one that failed.
    SnoozeCounted,
    /// Delayed jobs are promoted a second and a half early.
    PromotedEarly,
    /// A delayed job that cannot be read keeps all others from being promoted.
    BatchAbortedByOne,
    /// A retry is parked over that of another life of its id.
    RetryOverwritten,
    /// A life that ends deletes the record that is another life's.
    RecordOfAnotherDeleted,
    /// The ledger of steps goes with the first life that ends.
    LedgerOfAnotherDeleted,
    /// A wish to cancel one life meets each life of its id.
    CancelledById,
    /// A step is written into the ledger after its handler was called.
    LedgerAfterCall,
    /// An id that is known is accepted again.
    IdAcceptedAgain,
    /// A unique key stays with a job that died.
    LockKeptByDead,
    /// What follows a job's death follows it each time it dies.
    CallbackEachTime,
    /// Each process submits each tick of a recurring job.
    TickUnguarded,
    /// A command whose reply was lost counts as refused.
    UnknownIsRefused,
    /// A payload is cut at 64 KiB.
    PayloadCut,
}

/// Returns true if this process carries this bug.
#[cfg(not(all(feature = "sabotage", debug_assertions)))]
pub(crate) const fn is(_bug: Sabotage) -> bool {
    false
}

/// Returns a script's source, changed by this process's bug.
#[cfg(not(all(feature = "sabotage", debug_assertions)))]
pub(crate) const fn spoiled(_script: &str, source: &'static str) -> std::borrow::Cow<'static, str> {
    std::borrow::Cow::Borrowed(source)
}
